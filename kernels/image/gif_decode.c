/*
 * Decodes GIF files with giflib. DGifSlurp, which TensorFlow calls, allocates the pixels of every
 * frame that the file announces. This file reads one record at a time instead, so that the memory
 * of a frame is counted before it is allocated. As in DGifSlurp, a frame that lacks pixels is
 * dropped with all later frames, and only the earlier frames are returned.
 */
#include <limits.h>
#include <string.h>

#include <gif_lib.h>

#include "kernels/image/codec.h"
#include "runtime/base/checked.h"

enum {
    COLORS = 3,
    PIXEL_WORK = 8, /* work per pixel, in units of rt_run_spend */
    RECORD_WORK = 256,
    FRAME_BYTES = 512, /* memory that giflib allocates for a frame besides its pixels and colours */
};

struct frame {
    int64_t left, top, width, height;
    unsigned char *pixels; /* indices into the colours; NULL if the frame is not needed */
    int transparent;       /* the index of transparent pixels, or -1 */
};

struct decoder {
    struct kn_codec *codec;
    struct rt_span file, rest;
    GifFileType *gif;
    struct frame *frames;
    int n_frames, capacity;
    bool has_control; /* whether a graphic control extension precedes the next frame */
    int transparent;  /* the next frame's */
    /* is_broken is set if the size of a frame is 0 or too large */
    bool expands, is_broken;
};

static int file_read(GifFileType *gif, GifByteType *to, int n)
{
    struct decoder *d = gif->UserData;
    const size_t want = n < 0 ? 0 : (size_t)n, got = want < d->rest.n ? want : d->rest.n;

    if (got)
        memcpy(to, d->rest.p, got);
    d->rest = rt_span_of(d->rest.p + got, d->rest.n - got);
    return (int)got;
}

static enum rt_status fail(const struct decoder *d, const char *what, int code)
{
    const char *reason = code ? GifErrorString(code) : NULL;

    return rt_fail(d->codec->err, RT_INVALID_ARGUMENT, "Invalid GIF data (size %zu), %s%s",
                   d->file.n, what, reason ? reason : "Unknown error");
}

/* Appends a frame without pixels. Returns NULL and sets the error if memory runs out. */
static struct frame *frame_add(struct decoder *d)
{
    enum { FIRST = 4 };

    if (d->n_frames == d->capacity) {
        const int n = d->capacity ? 2 * d->capacity : FIRST;
        struct frame *more;
        if (d->codec->charge(d->codec, (size_t)(n - d->capacity) * FRAME_BYTES))
            return NULL;
        more = d->codec->memory(d->codec, (size_t)n * sizeof *more);
        if (!more)
            return NULL;
        if (d->n_frames)
            memcpy(more, d->frames, (size_t)d->n_frames * sizeof *more);
        d->codec->release(d->codec, d->frames);
        d->frames = more;
        d->capacity = n;
    }
    d->frames[d->n_frames] = (struct frame){0};
    return &d->frames[d->n_frames];
}

/* Reads the lines of a frame. `to` has space for all lines if `is_kept` is set, and otherwise for
 * one line. */
static bool lines_read(struct decoder *d, unsigned char *to, bool is_kept)
{
    static const struct {
        int first, step;
    } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, whole = {0, 1};
    const GifImageDesc *image = &d->gif->Image;
    const int n_passes = image->Interlace ? 4 : 1;

    for (int p = 0; p < n_passes; p++) {
        const int first = image->Interlace ? passes[p].first : whole.first;
        const int step = image->Interlace ? passes[p].step : whole.step;
        for (int i = first; i < image->Height; i += step) {
            unsigned char *line = is_kept ? to + (size_t)i * (size_t)image->Width : to;
            if (DGifGetLine(d->gif, line, image->Width) == GIF_ERROR ||
                d->codec->spend(d->codec, (int64_t)image->Width * PIXEL_WORK))
                return false;
        }
    }
    return true;
}

static bool image_read(struct decoder *d)
{
    struct frame *f = frame_add(d);
    const GifImageDesc *image = &d->gif->Image;
    const bool is_kept = d->expands || d->n_frames == 0;
    unsigned char *pixels;
    size_t bytes;

    if (!f || DGifGetImageDesc(d->gif) == GIF_ERROR)
        return false;
    if (image->Width <= 0 || image->Height <= 0 || image->Width > INT_MAX / image->Height) {
        d->is_broken = true;
        return false;
    }
    bytes = (size_t)image->Width * (is_kept ? (size_t)image->Height : 1);
    pixels = d->codec->memory(d->codec, bytes);
    if (!pixels)
        return false;
    *f = (struct frame){image->Left,   image->Top, image->Width,
                        image->Height, pixels,     d->transparent};
    d->has_control = false;
    d->transparent = NO_TRANSPARENT_COLOR;
    d->n_frames++;
    if (lines_read(d, pixels, is_kept)) {
        if (!is_kept) {
            d->codec->release(d->codec, pixels);
            f->pixels = NULL;
        }
        return true;
    }
    d->n_frames--;
    d->codec->release(d->codec, pixels);
    return false;
}

static bool extension_read(struct decoder *d)
{
    GifByteType *block;
    int kind;

    if (DGifGetExtension(d->gif, &kind, &block) == GIF_ERROR)
        return false;
    /* giflib reads only the first of a frame's graphic control extensions. */
    if (block && kind == GRAPHICS_EXT_FUNC_CODE && !d->has_control) {
        GraphicsControlBlock control;
        d->has_control = true;
        if (DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
            d->transparent = control.TransparentColor;
    }
    while (block) {
        if (d->codec->spend(d->codec, RECORD_WORK) ||
            DGifGetExtensionNext(d->gif, &block) == GIF_ERROR)
            return false;
    }
    return true;
}

/* Reads all records. Returns false if the file does not end with a terminator. */
static bool records_read(struct decoder *d)
{
    GifRecordType type;

    for (;;) {
        if (d->codec->spend(d->codec, RECORD_WORK) || DGifGetRecordType(d->gif, &type) == GIF_ERROR)
            return false;
        if (type == TERMINATE_RECORD_TYPE)
            return true;
        if (type == IMAGE_DESC_RECORD_TYPE && !image_read(d))
            return false;
        if (type == EXTENSION_RECORD_TYPE && !extension_read(d))
            return false;
    }
}

/* ---- from indices to colours ---- */

/* Draws frame k on a canvas that already contains the picture behind the frame. */
static enum rt_status frame_draw(struct decoder *d, int k, unsigned char *to, int64_t height,
                                 int64_t width)
{
    const struct frame *f = &d->frames[k];
    const ColorMapObject *map = d->gif->SavedImages[k].ImageDesc.ColorMap;
    const int64_t right = f->left + f->width < width ? f->left + f->width : width;
    const int64_t bottom = f->top + f->height < height ? f->top + f->height : height;

    if (!map)
        map = d->gif->SColorMap;
    if (!map)
        return rt_fail(d->codec->err, RT_INVALID_ARGUMENT,
                       "Invalid GIF data (size %zu), missing color map for frame %d", d->file.n, k);
    for (int64_t i = f->top; i < bottom; i++) {
        const unsigned char *x = f->pixels + (i - f->top) * f->width;
        unsigned char *y = to + (i * width + f->left) * COLORS;
        for (int64_t j = f->left; j < right; j++, x++, y += COLORS) {
            if (*x >= map->ColorCount)
                return rt_fail(d->codec->err, RT_INVALID_ARGUMENT,
                               "Invalid GIF data (size %zu), found color index %d outside of color "
                               "map range %d",
                               d->file.n, *x, map->ColorCount);
            if (*x == f->transparent)
                continue;
            y[0] = map->Colors[*x].Red;
            y[1] = map->Colors[*x].Green;
            y[2] = map->Colors[*x].Blue;
        }
        if (d->codec->spend(d->codec, width * PIXEL_WORK))
            return d->codec->err->code;
    }
    return RT_OK;
}

/* The canvas is as large as the largest frame. A frame that does not fill it or has transparent
 * pixels is drawn over the previous frame, or over black. */
static enum rt_status frames_draw(struct decoder *d)
{
    const int n = d->expands ? d->n_frames : 1;
    int64_t height = 0, width = 0, bytes, total;
    unsigned char *to;
    enum rt_status st = RT_OK;

    for (int k = 0; k < d->n_frames; k++) {
        height = d->frames[k].height > height ? d->frames[k].height : height;
        width = d->frames[k].width > width ? d->frames[k].width : width;
    }
    bytes = height * width * COLORS;
    if (!rt_mul(bytes, n, &total) || total >= KN_IMAGE_LIMIT)
        return rt_fail(d->codec->err, RT_INVALID_ARGUMENT,
                       "GIF size too large for int: %d frames of %lld by %lld", n, (long long)width,
                       (long long)height);
    to = d->codec->pixels(d->codec, n, height, width, COLORS);
    if (!to)
        return d->codec->err->code;
    for (int k = 0; k < n && !st; k++, to += bytes) {
        const struct frame *f = &d->frames[k];
        if (f->left || f->top || f->width != width || f->height != height ||
            f->transparent != NO_TRANSPARENT_COLOR) {
            if (k)
                memcpy(to, to - bytes, (size_t)bytes);
            else
                memset(to, 0, (size_t)bytes);
            st = d->codec->spend(d->codec, bytes);
        }
        if (!st)
            st = frame_draw(d, k, to, height, width);
    }
    return st;
}

static enum rt_status decode(struct decoder *d)
{
    int code = 0;

    d->gif = DGifOpen(d, file_read, &code);
    if (!d->gif)
        return d->codec->err->code ? d->codec->err->code
                                   : fail(d, "failed to open gif file: ", code);
    const bool is_complete = records_read(d);
    if (d->codec->err->code)
        return d->codec->err->code;
    if (d->is_broken || d->n_frames == 0)
        return fail(d, "failed to slurp gif file: ",
                    d->is_broken  ? 0
                    : is_complete ? D_GIF_ERR_NO_IMAG_DSCR
                                  : d->gif->Error);
    return frames_draw(d);
}

enum rt_status kn_gif_decode(struct kn_codec *c, struct rt_span file, bool expands)
{
    struct decoder d = {.codec = c,
                        .file = file,
                        .rest = file,
                        .expands = expands,
                        .transparent = NO_TRANSPARENT_COLOR};
    const enum rt_status st = decode(&d);

    for (int k = 0; k < d.n_frames; k++)
        c->release(c, d.frames[k].pixels);
    c->release(c, d.frames);
    if (d.gif)
        DGifCloseFile(d.gif, NULL);
    return st;
}
