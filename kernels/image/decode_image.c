/*
 * Ops that decode an image file: DecodeJpeg, DecodePng, DecodeGif, DecodeBmp, DecodeWebP,
 * DecodeImage, DecodeAndCropJpeg and ExtractJpegShape. The format is detected from the first bytes
 * of the file, so most ops decode most formats, as in TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/image/codec.h"

enum kind { JPEG, CROP, PNG, GIF, BMP, WEBP, IMAGE };

enum { CONVERTED = 1 << 16 }; /* number of samples converted between two calls of rt_run_spend */

/* The caller of a decoder. It allocates the output, or a buffer whose samples are then converted to
 * the output's type. */
struct sink {
    /* must be the first member, because the decoder passes a pointer to it */
    struct kn_codec codec;
    struct rt_run *r;
    enum kind kind;
    enum kn_image_format format;
    enum rt_dtype dtype; /* of the output */
    bool expands;        /* whether frames are a dimension of their own */
    int64_t left;
    size_t charged;
    void *samples; /* the decoder's samples if they must be converted, or else NULL */
};

static enum rt_dtype samples_dtype(const struct sink *s)
{
    return s->format == KN_IMAGE_PNG && s->dtype != RT_U8 ? RT_U16 : RT_U8;
}

/* Refuses a valid file that the op does not decode. */
static enum rt_status op_check(const struct sink *s, int64_t frames)
{
    const char *const op = s->r->node->op->name;

    if (s->format == KN_IMAGE_PNG && s->kind == BMP)
        return rt_fail(s->codec.err, RT_INVALID_ARGUMENT,
                       "Trying to decode PNG format using DecodeBmp op. Use `decode_png` or "
                       "`decode_image` instead.");
    if (s->format != KN_IMAGE_GIF || s->kind == GIF || s->kind == IMAGE)
        return RT_OK;
    if (s->kind == WEBP)
        return rt_fail(s->codec.err, RT_INVALID_ARGUMENT, "Bad op type %s", op);
    if (frames != 1)
        return rt_fail(s->codec.err, RT_INVALID_ARGUMENT,
                       "Got %lld frames, but animated gifs can only be decoded by "
                       "tf.io.decode_gif or tf.io.decode_image",
                       (long long)frames);
    return RT_OK;
}

static void *sink_pixels(struct kn_codec *c, int64_t frames, int64_t height, int64_t width,
                         int64_t channels)
{
    struct sink *s = (struct sink *)c;
    const int64_t dim[] = {frames, height, width, channels};
    bool has_frames = s->kind == GIF;
    void *y;

    if (op_check(s, frames))
        return NULL;
    if (s->format == KN_IMAGE_WEBP || (s->format == KN_IMAGE_GIF && s->kind == IMAGE))
        has_frames = s->expands;
    y = rt_out(s->r, 0, has_frames ? 4 : 3, has_frames ? dim : dim + 1);
    if (!y || samples_dtype(s) == s->dtype)
        return y;
    s->samples = rt_scratch(s->r, (size_t)rt_count(4, dim) * rt_dtype_size(samples_dtype(s)));
    return s->samples;
}

static void *sink_memory(struct kn_codec *c, size_t bytes)
{
    return rt_run_alloc(((struct sink *)c)->r, bytes);
}

static void sink_release(struct kn_codec *c, void *memory)
{
    (void)c;
    rt_pool_free(memory);
}

static enum rt_status sink_spend(struct kn_codec *c, int64_t work)
{
    struct sink *s = (struct sink *)c;
    return rt_run_spend(s->r, &s->left, work);
}

static enum rt_status sink_charge(struct kn_codec *c, size_t bytes)
{
    struct sink *s = (struct sink *)c;
    const enum rt_status st =
        rt_pool_charge(rt_run_pool(s->r), bytes, "an image that is decoded", c->err);

    s->charged += st ? 0 : bytes;
    return st;
}

/* Converts samples to the output's type. 8-bit samples become 16-bit samples by a factor of 256.
 * PNG files need no such factor, because their decoder makes 16-bit samples itself. */
static enum rt_status convert(struct sink *s)
{
    const int64_t n = rt_tensor_count(&s->r->out[0]);
    const uint8_t *x8 = s->samples;
    const uint16_t *x16 = s->samples;
    uint16_t *y16 = s->r->out[0].data;
    float *y = s->r->out[0].data;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i += CONVERTED) {
        const int64_t end = n - i < CONVERTED ? n : i + CONVERTED;
        if (s->dtype == RT_U16)
            for (int64_t k = i; k < end; k++)
                y16[k] = (uint16_t)(x8[k] << 8);
        else if (samples_dtype(s) == RT_U16)
            for (int64_t k = i; k < end; k++)
                y[k] = (float)x16[k] * (1.0f / 65535);
        else
            for (int64_t k = i; k < end; k++)
                y[k] = (float)x8[k] * (1.0f / 255);
        st = rt_run_spend(s->r, &s->left, end - i);
    }
    return st;
}

/* ---- one function for each format: what the op is refused, then the decoder ---- */

static void jpeg_options(const struct rt_node *n, enum kind kind, struct kn_jpeg_options *o)
{
    o->ratio = 1;
    o->fancy_upscaling = true;
    o->acceptable_fraction = 1;
    if (kind != JPEG && kind != CROP)
        return;
    o->ratio = (int)rt_attr_int(n, "ratio");
    o->fancy_upscaling = rt_attr_bool(n, "fancy_upscaling");
    o->try_recover_truncated = rt_attr_bool(n, "try_recover_truncated");
    o->acceptable_fraction = rt_attr_float(n, "acceptable_fraction");
    o->is_accurate = rt_span_is(rt_attr_str(n, "dct_method"), "INTEGER_ACCURATE");
}

static enum rt_status crop_window(const struct rt_tensor *t, struct kn_jpeg_options *o,
                                  struct rt_error *err)
{
    if (t->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "crop_window must be 1-D, got shape %s",
                       KN_TEXT(t));
    if (t->dim[0] != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "crop_size must have four elements %s",
                       KN_TEXT(t));
    o->crops = true;
    o->crop_y = (int)kn_int_at(t, 0);
    o->crop_x = (int)kn_int_at(t, 1);
    o->crop_height = (int)kn_int_at(t, 2);
    o->crop_width = (int)kn_int_at(t, 3);
    return RT_OK;
}

static enum rt_status decode_jpeg(struct sink *s, struct rt_span file, int channels)
{
    struct kn_jpeg_options o = {.channels = channels};
    struct rt_error *err = s->codec.err;

    if (channels == 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "JPEG does not support 4 channels");
    if (s->kind == BMP)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Trying to decode JPEG format using DecodeBmp op. Use `decode_jpeg` or "
                       "`decode_image` instead.");
    jpeg_options(s->r->node, s->kind, &o);
    if (s->kind == CROP && crop_window(&s->r->in[1], &o, err))
        return err->code;
    return kn_jpeg_decode(&s->codec, file, &o);
}

static enum rt_status decode_gif(struct sink *s, struct rt_span file, int channels)
{
    struct rt_error *err = s->codec.err;

    if (channels != 0 && channels != 3)
        return rt_fail(err, RT_INVALID_ARGUMENT, "channels must be 0 or 3 for GIF, got %d",
                       channels);
    if (s->kind == BMP)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Trying to decode GIF format using DecodeBmp op. Use `decode_gif` or "
                       "`decode_image` instead.");
    return kn_gif_decode(&s->codec, file, s->expands);
}

static enum rt_status decode_bmp(struct sink *s, struct rt_span file, int channels)
{
    struct rt_error *err = s->codec.err;

    if (channels == 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "`channels` must be 0, 3 or 4 for BMP, but got 1");
    if (s->kind != BMP && s->kind != IMAGE)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Trying to decode BMP format using a wrong op. Use `decode_bmp` or "
                       "`decode_image` instead. Op used: %s",
                       s->r->node->op->name);
    return kn_bmp_decode(&s->codec, file, channels);
}

static enum rt_status decode_webp(struct sink *s, struct rt_span file, int channels)
{
    struct rt_error *err = s->codec.err;

    if (channels == 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "WebP only supports 3 or 4 channels");
    if (s->dtype != RT_U8)
        return rt_fail(err, RT_INVALID_ARGUMENT, "WebP only supports uint8 for dtype");
    return kn_webp_decode(&s->codec, file, channels, s->expands);
}

static enum rt_status decode_as(struct sink *s, struct rt_span file)
{
    static const char *const names[] = {"UNKNOWN", "JPEG", "JPEG XL", "PNG", "GIF", "BMP", "WebP"};
    const int channels = s->kind == GIF ? 3 : (int)rt_attr_int(s->r->node, "channels");
    struct rt_error *err = s->codec.err;

    s->format = kn_image_format(file);
    if (s->format == KN_IMAGE_UNKNOWN)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP "
                       "required.");
    if (s->kind == CROP && s->format != KN_IMAGE_JPEG && s->format != KN_IMAGE_WEBP)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "DecodeAndCropJpeg operation can run on JPEG only, but detected %s.",
                       names[s->format]);
    switch (s->format) {
    case KN_IMAGE_JPEG:
        return decode_jpeg(s, file, channels);
    case KN_IMAGE_PNG:
        return kn_png_decode(&s->codec, file, channels, s->dtype != RT_U8);
    case KN_IMAGE_GIF:
        return decode_gif(s, file, channels);
    case KN_IMAGE_BMP:
        return decode_bmp(s, file, channels);
    case KN_IMAGE_WEBP:
        return decode_webp(s, file, channels);
    default:
        return rt_fail(err, RT_UNIMPLEMENTED, "JPEG XL images are not supported");
    }
}

static enum rt_status check_attributes(const struct rt_node *n, enum kind kind,
                                       struct rt_error *err)
{
    const int64_t channels = kind == GIF ? 0 : rt_attr_int(n, "channels");
    const bool is_jpeg = kind == JPEG || kind == CROP;
    const int64_t ratio = is_jpeg ? rt_attr_int(n, "ratio") : 1;
    const struct rt_span dct = is_jpeg ? rt_attr_str(n, "dct_method") : rt_span_str("");

    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "`channels` must be 0, 1, 3 or 4 but got %lld",
                       (long long)channels);
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
        return rt_fail(err, RT_INVALID_ARGUMENT, "ratio must be 1, 2, 4, or 8, got %lld",
                       (long long)ratio);
    if (dct.n && !rt_span_is(dct, "INTEGER_FAST") && !rt_span_is(dct, "INTEGER_ACCURATE"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
    return RT_OK;
}

static enum rt_status contents_of(struct rt_run *r, struct rt_span *file)
{
    const struct rt_tensor *t = &r->in[0];

    if (t->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "`contents` must be scalar but got shape%s",
                       KN_TEXT(t));
    *file = rt_span_of(rt_str_data(rt_strs(t)), rt_strs(t)->n);
    if (file->n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input is empty.");
    if (file->n > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input contents are too large for int: %zu",
                       file->n);
    return RT_OK;
}

static enum rt_status decode_run(struct rt_run *r, enum kind kind)
{
    struct sink s = {
        .codec = {.err = r->err,
                  .pixels = sink_pixels,
                  .memory = sink_memory,
                  .release = sink_release,
                  .spend = sink_spend,
                  .charge = sink_charge},
        .r = r,
        .kind = kind,
        .dtype = kind == PNG || kind == IMAGE ? rt_attr_dtype(r->node, "dtype") : RT_U8,
        .expands = kind != IMAGE || rt_attr_bool(r->node, "expand_animations"),
        .left = RT_WORK,
    };
    struct rt_span file = {0};
    enum rt_status st = check_attributes(r->node, kind, r->err);

    if (!st)
        st = contents_of(r, &file);

    if (!st)
        st = decode_as(&s, file);
    rt_pool_discharge(rt_run_pool(r), s.charged);
    if (!st && s.samples)
        st = convert(&s);
    return st;
}

enum kn_image_format kn_image_format(struct rt_span file)
{
    static const struct {
        const char *start;
        size_t n;
        enum kn_image_format format;
    } table[] = {
        {"\xff\xd8\xff", 3, KN_IMAGE_JPEG},
        {"\xff\x0a", 2, KN_IMAGE_JPEG_XL},
        {"\0\0\0\x0cJXL \r\n\x87\n", 12, KN_IMAGE_JPEG_XL},
        {"\x89PNG\r\n\x1a\n", 8, KN_IMAGE_PNG},
        {"GIF8", 4, KN_IMAGE_GIF},
        {"BM", 2, KN_IMAGE_BMP},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (file.n >= table[i].n && memcmp(file.p, table[i].start, table[i].n) == 0)
            return table[i].format;
    /* TensorFlow requires one byte more than the RIFF header has. */
    if (file.n > 12 && memcmp(file.p, "RIFF", 4) == 0 && memcmp(file.p + 8, "WEBP", 4) == 0)
        return KN_IMAGE_WEBP;
    return KN_IMAGE_UNKNOWN;
}

/* ---- ExtractJpegShape ---- */

static enum rt_status infer_jpeg_shape(struct rt_infer *x)
{
    kn_set_vector(&x->out[0], 3);
    return RT_OK;
}

static enum rt_status jpeg_shape_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int shape[3];

    if (t->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "contents must be scalar, got shape %s",
                       KN_TEXT(t));
    if (!kn_jpeg_shape(rt_span_of(rt_str_data(rt_strs(t)), rt_strs(t)->n), shape))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid JPEG data, size %zu",
                       (size_t)rt_strs(t)->n);
    for (int k = 0; k < 3; k++)
        kn_put_int(&r->out[0], k, shape[k]);
    return RT_OK;
}

const struct kn_entry kn_extract_jpeg_shape = {
    .op = {.name = "ExtractJpegShape", .infer = infer_jpeg_shape},
    .kernels = KN_KERNELS({.op = "ExtractJpegShape",
                           .device = "CPU",
                           .name = "extract_jpeg_shape",
                           .run = jpeg_shape_run}),
};

/* ---- entries ---- */

/* There is no `infer`, because the rank of the output depends on the file. */
#define DECODES(symbol, op_, kind_)                                                                \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return decode_run(r, kind_);                                                               \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels =                                                                                 \
            KN_KERNELS({.op = (op_), .device = "CPU", .name = #symbol, .run = symbol##_run}),      \
    };
DECODES(decode_jpeg, "DecodeJpeg", JPEG)
DECODES(decode_and_crop_jpeg, "DecodeAndCropJpeg", CROP)
DECODES(decode_png, "DecodePng", PNG)
DECODES(decode_gif, "DecodeGif", GIF)
DECODES(decode_bmp, "DecodeBmp", BMP)
DECODES(decode_webp, "DecodeWebP", WEBP)
DECODES(decode_image, "DecodeImage", IMAGE)
