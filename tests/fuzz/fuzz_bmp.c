/* Decodes a BMP file three times: with the file's own number of channels, with three, and with
 * four. */
#include "tests/support/image_codec.h"

const struct fuzz_cost fuzz_cost = FUZZ_IMAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    static const int channels[] = {0, 3, 4};

    for (int i = 0; i < 3; i++) {
        struct fuzz_codec f;
        fuzz_codec_init(&f, 1);
        fuzz_codec_end(&f, kn_bmp_decode(&f.codec, rt_span_of(data, size), channels[i]));
    }
}
