/*
 * Calls image decoders for fuzz targets. Limits the memory and the work of an input, as a run does.
 * Allocates only the memory that a decoder requests, so that AddressSanitizer reports each access
 * beyond this memory.
 *
 * Threads: a fuzz target has only one thread.
 */
#ifndef TESTS_SUPPORT_IMAGE_CODEC_H
#define TESTS_SUPPORT_IMAGE_CODEC_H

#include <stdlib.h>

#include "kernels/image/codec.h"
#include "tests/fuzz/cost.h"

/* Cost limits. They include the pixels and the work that the functions below permit, and the memory
 * that the image libraries allocate for every input. */
#define FUZZ_IMAGE                                                                                 \
    {                                                                                              \
        .free_bytes = 32 << 20, .growth = 64, .free_s = 2, .us_per_byte = 500                      \
    }

struct fuzz_codec {
    /* must be the first member, because fuzz_pixels casts a pointer to codec to fuzz_codec */
    struct kn_codec codec;
    struct rt_error err;
    size_t sample_bytes;
    int64_t work;
    size_t charged;
    void *pixels;
};

static inline void *fuzz_pixels(struct kn_codec *c, int64_t frames, int64_t height, int64_t width,
                                int64_t channels)
{
    struct fuzz_codec *f = (struct fuzz_codec *)c;
    const int64_t n = frames * height * width * channels;

    if (f->pixels || frames <= 0 || height <= 0 || width <= 0 || channels <= 0 ||
        n >= KN_IMAGE_LIMIT)
        abort();
    if (n > 4 << 20)
        (void)rt_fail(c->err, RT_RESOURCE_EXHAUSTED, "too many pixels");
    else
        f->pixels = malloc((size_t)n * f->sample_bytes);
    return f->pixels;
}

static inline enum rt_status fuzz_spend(struct kn_codec *c, int64_t work)
{
    struct fuzz_codec *f = (struct fuzz_codec *)c;

    f->work += work;
    if (work < 0 || f->work < 0)
        abort();
    return f->work > 1 << 26 ? rt_fail(c->err, RT_DEADLINE_EXCEEDED, "too much work") : RT_OK;
}

static inline enum rt_status fuzz_charge(struct kn_codec *c, size_t bytes)
{
    struct fuzz_codec *f = (struct fuzz_codec *)c;

    if (bytes > (16 << 20) - f->charged)
        return rt_fail(c->err, RT_RESOURCE_EXHAUSTED, "too much memory");
    f->charged += bytes;
    return RT_OK;
}

static inline void *fuzz_memory(struct kn_codec *c, size_t bytes)
{
    return fuzz_charge(c, bytes) ? NULL : calloc(bytes ? bytes : 1, 1);
}

static inline void fuzz_release(struct kn_codec *c, void *memory)
{
    (void)c;
    free(memory);
}

static inline void fuzz_codec_init(struct fuzz_codec *f, size_t sample_bytes)
{
    *f = (struct fuzz_codec){
        .codec = {.pixels = fuzz_pixels,
                  .memory = fuzz_memory,
                  .release = fuzz_release,
                  .spend = fuzz_spend,
                  .charge = fuzz_charge},
        .sample_bytes = sample_bytes,
    };
    f->codec.err = &f->err;
}

/* Checks that a successful decoder has requested pixels. Then frees the pixels. */
static inline void fuzz_codec_end(struct fuzz_codec *f, enum rt_status st)
{
    if (st != f->err.code || (!st && !f->pixels))
        abort();
    free(f->pixels);
}

#endif
