/* Decodes a JPEG file. The last byte of the file also selects the decoder's options. */
#include "tests/support/image_codec.h"

const struct fuzz_cost fuzz_cost = FUZZ_IMAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    const int how = size ? data[size - 1] : 0;
    const struct rt_span file = rt_span_of(data, size);
    const struct kn_jpeg_options o = {
        .channels = how & 1   ? 0
                    : how & 2 ? 1
                              : 3,
        .ratio = 1 << (how >> 2 & 3),
        .fancy_upscaling = how & 16,
        .try_recover_truncated = how & 32,
        .acceptable_fraction = 0.25f * (float)(how >> 6),
        .is_accurate = how & 1,
        .crops = how & 64,
        .crop_y = 3,
        .crop_x = how >> 4,
        .crop_height = 2,
        .crop_width = 5,
    };
    struct fuzz_codec f;
    int shape[3];

    fuzz_codec_init(&f, 1);
    fuzz_codec_end(&f, kn_jpeg_decode(&f.codec, file, &o));
    if (kn_jpeg_shape(file, shape) && (shape[0] <= 0 || shape[1] <= 0 || shape[2] <= 0))
        abort();
}
