/* Decodes the first frame and then all frames of a GIF file. */
#include "tests/support/image_codec.h"

const struct fuzz_cost fuzz_cost = FUZZ_IMAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    for (int expands = 0; expands < 2; expands++) {
        struct fuzz_codec f;
        fuzz_codec_init(&f, 1);
        fuzz_codec_end(&f, kn_gif_decode(&f.codec, rt_span_of(data, size), expands));
    }
}
