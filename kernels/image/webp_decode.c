/* Decodes WebP files with libwebp. A single image is decoded in parts, so that the work can be
 * stopped. A frame of an animation cannot be interrupted. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "kernels/image/codec.h"
#include "runtime/base/checked.h"

enum {
    RGBA = 4,
    PIXEL_WORK = 32, /* work per pixel, in units of rt_run_spend */
    LEAST_CHUNK = 64 << 10,
    MOST_CHUNKS = 32, /* for each chunk, libwebp parses the beginning of a lossless image again */
    /* number of canvases that libwebp allocates for an animation; one of them holds the frame */
    CANVASES = 3,
};

static enum rt_status fail(struct kn_codec *c, const char *text)
{
    return c->err->code ? c->err->code : rt_fail(c->err, RT_INVALID_ARGUMENT, "%s", text);
}

/* Returns whether the file is at least as long as its header announces. TensorFlow refuses a
 * shorter file, even if only bytes after the last pixel are missing. */
static bool is_whole(struct rt_span file)
{
    uint32_t n = 0;

    for (int i = 7; i >= 4; i--)
        n = n << 8 | file.p[i];
    return n <= file.n - 8;
}

/* Decodes a file in parts. Returns false if the file is invalid, the run has been cancelled, or its
 * deadline has passed. */
static bool pieces_decode(struct kn_codec *c, struct rt_span file, WebPIDecoder *idec,
                          int64_t pixels)
{
    const size_t part = file.n / MOST_CHUNKS, chunk = part < LEAST_CHUNK ? LEAST_CHUNK : part;
    VP8StatusCode status = VP8_STATUS_SUSPENDED;

    for (size_t n = 0; status == VP8_STATUS_SUSPENDED && n < file.n;) {
        n = file.n - n < chunk ? file.n : n + chunk;
        status = WebPIUpdate(idec, file.p, n);
        if (c->spend(c, pixels / (int64_t)(file.n / chunk + 1) * PIXEL_WORK))
            return false;
    }
    return status == VP8_STATUS_OK;
}

static enum rt_status image_decode(struct kn_codec *c, struct rt_span file,
                                   const WebPBitstreamFeatures *f, int channels)
{
    enum { LOSSLESS = 2 };
    const int64_t pixels = (int64_t)f->width * f->height;
    unsigned char *y;
    WebPIDecoder *idec;
    bool is_read;

    if (f->has_alpha || f->format == LOSSLESS) {
        const enum rt_status st = c->charge(c, (size_t)pixels * RGBA);
        if (st)
            return st;
    }
    y = c->pixels(c, 1, f->height, f->width, channels);
    if (!y)
        return c->err->code;
    idec = WebPINewRGB(channels == RGBA ? MODE_RGBA : MODE_RGB, y, (size_t)(pixels * channels),
                       f->width * channels);
    if (!idec)
        return rt_fail_memory(c->err, "a WebP decoder", 0);
    is_read = is_whole(file) && pieces_decode(c, file, idec, pixels);
    WebPIDelete(idec);
    return is_read ? RT_OK : fail(c, "Failed to decode WebP image.");
}

static enum rt_status frames_decode(struct kn_codec *c, WebPAnimDecoder *dec, bool expands)
{
    static const char text[] = "Failed to decode WebP Animation: failed to decode WebP Animation";
    WebPAnimInfo info;
    int64_t n, bytes, total;
    unsigned char *y;

    if (!WebPAnimDecoderGetInfo(dec, &info) || info.frame_count == 0)
        return fail(c, text);
    n = expands ? info.frame_count : 1;
    bytes = (int64_t)info.canvas_width * info.canvas_height * RGBA;
    if (!rt_mul(bytes, n, &total) || total >= KN_IMAGE_LIMIT)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "WebP size too large for int: %u by %u",
                       info.canvas_width, info.canvas_height);
    y = c->pixels(c, n, info.canvas_height, info.canvas_width, RGBA);
    for (int64_t k = 0; y && k < n && !c->err->code; k++, y += bytes) {
        uint8_t *frame;
        int milliseconds;
        if (!WebPAnimDecoderGetNext(dec, &frame, &milliseconds))
            return rt_fail(c->err, RT_INVALID_ARGUMENT,
                           "Failed to decode WebP Animation: failed to decode frame: %lld",
                           (long long)k);
        memcpy(y, frame, (size_t)bytes);
        (void)c->spend(c, bytes / RGBA * PIXEL_WORK);
    }
    return c->err->code;
}

static enum rt_status animation_decode(struct kn_codec *c, struct rt_span file,
                                       const WebPBitstreamFeatures *f, bool expands)
{
    const WebPData data = {file.p, file.n};
    enum rt_status st = c->charge(c, (size_t)f->width * (size_t)f->height * RGBA * CANVASES);
    WebPAnimDecoderOptions options;
    WebPAnimDecoder *dec;

    if (st)
        return st;
    if (!WebPAnimDecoderOptionsInit(&options))
        return rt_fail(c->err, RT_INTERNAL, "libwebpdemux has another version than its header");
    options.color_mode = MODE_RGBA;
    options.use_threads = 0;
    dec = WebPAnimDecoderNew(&data, &options);
    if (!dec)
        return fail(c, "Failed to decode WebP Animation: failed to decode WebP Animation");
    st = frames_decode(c, dec, expands);
    WebPAnimDecoderDelete(dec);
    return st;
}

enum rt_status kn_webp_decode(struct kn_codec *c, struct rt_span file, int channels, bool expands)
{
    WebPBitstreamFeatures f;
    int inherent;

    if (WebPGetFeatures(file.p, file.n, &f) != VP8_STATUS_OK)
        return fail(c, "Failed to decode WebP header.");
    inherent = f.has_alpha || f.has_animation ? RGBA : 3;
    if (channels && channels != inherent)
        return fail(c, "Number of channels requested does not match input");
    if ((int64_t)f.width * f.height >= KN_IMAGE_LIMIT / inherent)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "WebP size too large for int: %d by %d",
                       f.width, f.height);
    return f.has_animation ? animation_decode(c, file, &f, expands)
                           : image_decode(c, file, &f, inherent);
}
