/*
 * Decoders from the bytes of an image file to pixels. A decoder does not know tensors or runs. Its
 * caller passes a struct kn_codec, whose functions allocate the pixels, count memory and stop the
 * work. The ops implement these functions with a run (decode_image.c), and the fuzz targets with
 * malloc.
 *
 * A decoder reads the header first, and allocates memory only if the announced size is within the
 * limits. It never writes outside the memory that it has allocated.
 *
 * Owner: the pixels belong to the caller, even on failure. Threads: any; a call has no state
 * besides its arguments.
 */
#ifndef KN_IMAGE_CODEC_H
#define KN_IMAGE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

/* TensorFlow refuses images of this many bytes or pixels. */
#define KN_IMAGE_LIMIT (INT64_C(1) << 29)

struct kn_codec {
    struct rt_error *err;
    /* Returns memory for frames * height * width * channels pixels, or NULL with the reason in
     * `err`. The product is below KN_IMAGE_LIMIT. A decoder calls the function at most once. */
    void *(*pixels)(struct kn_codec *c, int64_t frames, int64_t height, int64_t width,
                    int64_t channels);
    /* Returns zeroed memory for the decoder's own use, or NULL with the reason in `err`. The
     * decoder frees it by `release`, which accepts NULL. */
    void *(*memory)(struct kn_codec *c, size_t bytes);
    void (*release)(struct kn_codec *c, void *memory);
    /* Counts work in units of rt_run_spend. Fails if the decoder must stop. */
    enum rt_status (*spend)(struct kn_codec *c, int64_t work);
    /* Counts `bytes` bytes that a library is about to allocate. The decoder's caller releases them
     * after the decoder has returned. */
    enum rt_status (*charge)(struct kn_codec *c, size_t bytes);
};

enum kn_image_format {
    KN_IMAGE_UNKNOWN,
    KN_IMAGE_JPEG,
    KN_IMAGE_JPEG_XL,
    KN_IMAGE_PNG,
    KN_IMAGE_GIF,
    KN_IMAGE_BMP,
    KN_IMAGE_WEBP,
};
/* Returns the format of an image file, as determined by the first bytes of the file. */
enum kn_image_format kn_image_format(struct rt_span file);

struct kn_jpeg_options {
    int channels; /* 1 or 3, or 0 for the file's number of channels */
    int ratio;    /* 1, 2, 4 or 8: the image is reduced by this factor */
    bool fancy_upscaling, try_recover_truncated;
    float acceptable_fraction;
    bool is_accurate; /* whether the accurate DCT is used instead of the fast one */
    bool crops;
    int crop_y, crop_x, crop_height, crop_width;
};
enum rt_status kn_jpeg_decode(struct kn_codec *c, struct rt_span file,
                              const struct kn_jpeg_options *o);
/* Reads the height, the width and the number of channels from the header of a JPEG file. Returns
 * false if the header is invalid. */
bool kn_jpeg_shape(struct rt_span file, int shape[3]);

/* Decodes a PNG file to 16 bits in the machine's byte order if `is_wide` is set, and otherwise to
 * 8 bits. `channels` is 1 to 4, or 0 for the file's number of channels. */
enum rt_status kn_png_decode(struct kn_codec *c, struct rt_span file, int channels, bool is_wide);

/* Decodes all frames of a GIF file if `expands` is set, and otherwise the first one. If the file
 * ends within a frame after the first, the complete frames and the beginning of that frame are
 * decoded. */
enum rt_status kn_gif_decode(struct kn_codec *c, struct rt_span file, bool expands);

/* Decodes a BMP file without compression or palette. `channels` is 3 or 4, or 0 for the file's
 * number of channels. */
enum rt_status kn_bmp_decode(struct kn_codec *c, struct rt_span file, int channels);

/* Decodes a WebP file. If `expands` is set, decodes all frames of an animation. `channels` is 3 or
 * 4, or 0 for the file's number of channels. */
enum rt_status kn_webp_decode(struct kn_codec *c, struct rt_span file, int channels, bool expands);

#endif
