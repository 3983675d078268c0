/* Decodes a PNG file. The last byte of the file also selects the number of channels and the
 * depth. */
#include "tests/support/image_codec.h"

const struct fuzz_cost fuzz_cost = FUZZ_IMAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    const int how = size ? data[size - 1] : 0;
    const struct rt_span file = rt_span_of(data, size);
    const bool is_wide = how & 8;
    struct fuzz_codec f;

    fuzz_codec_init(&f, is_wide ? 2 : 1);
    fuzz_codec_end(&f, kn_png_decode(&f.codec, file, (how & 7) % 5, is_wide));
}
