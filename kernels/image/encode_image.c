/* EncodeJpeg, EncodeJpegVariableQuality and EncodePng. The settings of libjpeg-turbo and libpng are
 * those of TensorFlow, so that the files are equal byte by byte. */
#include <setjmp.h>
#include <stdlib.h>

#include <png.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/image/jpeg.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

enum {
    SAMPLE_WORK = 16,     /* work per sample, in units of rt_run_spend */
    PNG_BYTES = 512 << 10 /* memory of libpng and zlib, without the row buffers */
};

/* ---- JPEG ---- */

struct jpeg_options {
    int quality;
    bool progressive, optimizes, downsamples_chroma;
    int density_unit, x_density, y_density;
    struct rt_span xmp;
};

struct jpeg {
    struct jpeg_compress_struct lib;
    struct kn_jpeg_error error;
    struct jpeg_destination_mgr to;
    struct jpeg_progress_mgr progress;
    struct rt_run *r;
    const struct jpeg_options *options;
    struct rt_bytes file;
    int64_t left;
};

static void file_begin(j_compress_ptr lib)
{
    enum { FIRST = 4096 };
    struct jpeg *j = (struct jpeg *)lib;

    if (!rt_bytes_reserve(&j->file, FIRST))
        kn_jpeg_stop(&j->error);
    j->to.next_output_byte = (JOCTET *)j->file.p + j->file.n;
    j->to.free_in_buffer = j->file.capacity - j->file.n;
}

/* libjpeg calls this function when the buffer is full. */
static boolean file_grow(j_compress_ptr lib)
{
    struct jpeg *j = (struct jpeg *)lib;

    j->file.n = j->file.capacity;
    if (!rt_bytes_reserve(&j->file, j->file.capacity))
        kn_jpeg_stop(&j->error);
    j->to.next_output_byte = (JOCTET *)j->file.p + j->file.n;
    j->to.free_in_buffer = j->file.capacity - j->file.n;
    return TRUE;
}

static void file_end(j_compress_ptr lib)
{
    struct jpeg *j = (struct jpeg *)lib;
    j->file.n = j->file.capacity - j->to.free_in_buffer;
}

static void jpeg_spend(struct jpeg *j, int64_t work)
{
    if (rt_run_spend(j->r, &j->left, work))
        kn_jpeg_stop(&j->error);
}

static void progress_made(j_common_ptr lib)
{
    struct jpeg *j = (struct jpeg *)lib;
    jpeg_spend(j, (int64_t)j->lib.image_width * j->lib.num_components * SAMPLE_WORK);
}

static void xmp_write(struct jpeg *j)
{
    static const char start[] = "http://ns.adobe.com/xap/1.0/"; /* followed by NUL */
    const struct rt_span xmp = j->options->xmp;
    const size_t n = sizeof start + xmp.n;
    JOCTET *marker;

    if (xmp.n == 0)
        return;
    marker = j->lib.mem->alloc_large((j_common_ptr)&j->lib, JPOOL_IMAGE, n);
    memcpy(marker, start, sizeof start);
    memcpy(marker + sizeof start, xmp.p, xmp.n);
    jpeg_write_marker(&j->lib, JPEG_APP0 + 1, marker, (unsigned)n);
}

static void jpeg_configure(struct jpeg *j)
{
    const struct jpeg_options *o = j->options;
    const struct rt_tensor *x = &j->r->in[0];

    jpeg_create_compress(&j->lib);
    j->to = (struct jpeg_destination_mgr){.init_destination = file_begin,
                                          .empty_output_buffer = file_grow,
                                          .term_destination = file_end};
    j->lib.dest = &j->to;
    j->progress.progress_monitor = progress_made;
    j->lib.progress = &j->progress;
    j->lib.image_height = (JDIMENSION)x->dim[0];
    j->lib.image_width = (JDIMENSION)x->dim[1];
    j->lib.input_components = (int)x->dim[2];
    j->lib.in_color_space = x->dim[2] == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&j->lib);
    j->lib.optimize_coding = o->optimizes;
    j->lib.density_unit = (UINT8)o->density_unit;
    j->lib.X_density = (UINT16)o->x_density;
    j->lib.Y_density = (UINT16)o->y_density;
    jpeg_set_quality(&j->lib, o->quality, TRUE);
    if (o->progressive)
        jpeg_simple_progression(&j->lib);
    for (int k = 0; !o->downsamples_chroma && k < j->lib.num_components; k++)
        j->lib.comp_info[k].h_samp_factor = j->lib.comp_info[k].v_samp_factor = 1;
}

static void jpeg_write(struct jpeg *j)
{
    const struct rt_tensor *x = &j->r->in[0];
    const int64_t size = x->dim[1] * x->dim[2];

    jpeg_configure(j);
    jpeg_start_compress(&j->lib, TRUE);
    xmp_write(j);
    while (j->lib.next_scanline < j->lib.image_height) {
        JSAMPROW line = kn_at_mut(x, (int64_t)j->lib.next_scanline * size);
        jpeg_write_scanlines(&j->lib, &line, 1);
        jpeg_spend(j, size * SAMPLE_WORK);
    }
    jpeg_finish_compress(&j->lib);
}

static void jpeg_close(struct jpeg *j)
{
    jpeg_destroy_compress(&j->lib);
}

/* Runs a function that calls libjpeg. Returns false if libjpeg or the function has called
 * kn_jpeg_stop. */
static bool guarded(struct jpeg *j, void (*step)(struct jpeg *))
{
    if (setjmp(j->error.jump))
        return false;
    step(j);
    return true;
}

/* Returns the size in bytes of the coefficients of the whole image. libjpeg stores them for several
 * scans and for optimised codes. Returns 0 if libjpeg does not store them. */
static size_t jpeg_memory(const struct jpeg *j)
{
    const int64_t *dim = j->r->in[0].dim;
    enum { MCU = 32 };

    if (!j->options->progressive && !j->options->optimizes)
        return 0;
    return (size_t)((dim[0] + MCU) * (dim[1] + MCU) * dim[2]) * sizeof(JCOEF);
}

static enum rt_status jpeg_encode(struct jpeg *j)
{
    struct rt_run *r = j->r;
    const int64_t *dim = r->in[0].dim;
    const bool fits =
        dim[0] > 0 && dim[1] > 0 && dim[0] <= JPEG_MAX_DIMENSION && dim[1] <= JPEG_MAX_DIMENSION;
    bool is_written = false;
    size_t bytes = 0;

    if (fits) {
        bytes = jpeg_memory(j);
        if (rt_pool_charge(rt_run_pool(r), bytes, "an image that is encoded", r->err))
            return r->err->code;
        j->lib.err = kn_jpeg_error_open(&j->error);
        is_written = guarded(j, jpeg_write);
        guarded(j, jpeg_close);
        rt_pool_discharge(rt_run_pool(r), bytes);
    }
    if (r->err->code)
        return r->err->code;
    if (j->file.failed)
        return kn_text_failed(&j->file);
    if (!is_written)
        return rt_fail(r->err, RT_INTERNAL, "JPEG encoding failed");
    return RT_OK;
}

static enum rt_status jpeg_output(struct rt_run *r, const struct jpeg_options *o)
{
    struct jpeg j = {.r = r, .options = o, .left = RT_WORK};
    struct rt_str *y;
    enum rt_status st;

    kn_text_begin(&j.file, r);
    st = jpeg_encode(&j);
    if (!st) {
        y = kn_out(r, 0, 0, NULL);
        st = y ? kn_set_text(r, &j.left, y, j.file.p, j.file.n) : r->err->code;
    }
    kn_text_end(&j.file);
    return st;
}

static enum rt_status check_image(const struct rt_tensor *x, struct rt_error *err)
{
    if (x->rank != 3)
        return rt_fail(err, RT_INVALID_ARGUMENT, "image must be 3-dimensional%s", KN_TEXT(x));
    return RT_OK;
}

static enum rt_status check_one_or_three(const struct rt_tensor *x, struct rt_error *err)
{
    if (x->dim[2] != 1 && x->dim[2] != 3)
        return rt_fail(err, RT_INVALID_ARGUMENT, "image must have 1 or 3 channels, got %s",
                       KN_TEXT(x));
    return RT_OK;
}

static enum rt_status check_quality(int64_t quality, struct rt_error *err)
{
    if (quality < 0 || quality > 100)
        return rt_fail(err, RT_INVALID_ARGUMENT, "quality must be in [0,100], got %lld",
                       (long long)quality);
    return RT_OK;
}

static enum rt_status encode_jpeg_run(struct rt_run *r)
{
    const struct rt_node *n = r->node;
    const struct rt_tensor *x = &r->in[0];
    const struct rt_span format = rt_attr_str(n, "format");
    const int64_t wanted = rt_span_is(format, "rgb") ? 3 : rt_span_is(format, "grayscale") ? 1 : 0;
    const struct jpeg_options o = {
        .quality = (int)rt_attr_int(n, "quality"),
        .progressive = rt_attr_bool(n, "progressive"),
        .optimizes = rt_attr_bool(n, "optimize_size"),
        .downsamples_chroma = rt_attr_bool(n, "chroma_downsampling"),
        .density_unit = rt_span_is(rt_attr_str(n, "density_unit"), "cm") ? 2 : 1,
        .x_density = (int)rt_attr_int(n, "x_density"),
        .y_density = (int)rt_attr_int(n, "y_density"),
        .xmp = rt_attr_str(n, "xmp_metadata"),
    };

    if (check_quality(rt_attr_int(n, "quality"), r->err) || check_image(x, r->err) ||
        (!wanted && check_one_or_three(x, r->err)))
        return r->err->code;
    if (wanted && x->dim[2] != wanted)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "format %s expects %lld channels, got %s",
                       wanted == 1 ? "grayscale" : "rgb", (long long)wanted, KN_TEXT(x));
    return jpeg_output(r, &o);
}

static enum rt_status encode_variable_run(struct rt_run *r)
{
    struct jpeg_options o = {.downsamples_chroma = true, .density_unit = 1, 300, 300};
    int64_t quality;

    if (check_image(&r->in[0], r->err))
        return r->err->code;
    if (r->in[1].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "quality must be scalar: %s",
                       KN_TEXT(&r->in[1]));
    quality = kn_int_at(&r->in[1], 0);
    if (check_quality(quality, r->err) || check_one_or_three(&r->in[0], r->err))
        return r->err->code;
    o.quality = (int)quality;
    return jpeg_output(r, &o);
}

static enum rt_status infer_scalar(struct rt_infer *x)
{
    kn_set_shape(&x->out[0], 0, NULL);
    return RT_OK;
}

const struct kn_entry kn_encode_jpeg = {
    .op = {.name = "EncodeJpeg", .infer = infer_scalar},
    .kernels = KN_KERNELS(
        {.op = "EncodeJpeg", .device = "CPU", .name = "encode_jpeg", .run = encode_jpeg_run}),
};
const struct kn_entry kn_encode_jpeg_variable_quality = {
    .op = {.name = "EncodeJpegVariableQuality", .infer = infer_scalar},
    .kernels = KN_KERNELS({.op = "EncodeJpegVariableQuality",
                           .device = "CPU",
                           .name = "encode_jpeg_variable_quality",
                           .run = encode_variable_run}),
};

/* ---- PNG ---- */

struct png {
    png_structp lib;
    png_infop info;
    jmp_buf jump;
    struct rt_run *r;
    struct rt_bytes *file;
    const struct kn_png *image;
};

static void png_stop(png_structp lib, png_const_charp text)
{
    struct png *p = png_get_error_ptr(lib);

    (void)text;
    longjmp(p->jump, 1);
}

static void png_warning_drop(png_structp lib, png_const_charp text)
{
    (void)lib;
    (void)text;
}

static void png_append(png_structp lib, png_bytep bytes, size_t n)
{
    struct png *p = png_get_io_ptr(lib);

    rt_bytes_add(p->file, bytes, n);
    if (p->file->failed)
        png_error(lib, "the file is too long");
}

static void png_nothing(png_structp lib)
{
    (void)lib;
}

static bool png_image_write(struct png *p)
{
    static const int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
    const struct kn_png *image = p->image;
    const size_t depth = image->depth_bytes,
                 size = (size_t)(image->width * image->channels) * depth;
    const int endian = 1;

    if (setjmp(p->jump))
        return false;
    p->lib = png_create_write_struct(PNG_LIBPNG_VER_STRING, p, png_stop, png_warning_drop);
    if (!p->lib)
        return false;
    p->info = png_create_info_struct(p->lib);
    if (!p->info)
        return false;
    png_set_write_fn(p->lib, p, png_append, png_nothing);
    png_set_compression_level(p->lib, image->compression);
    png_set_IHDR(p->lib, p->info, (png_uint_32)image->width, (png_uint_32)image->height,
                 (int)depth * 8, colors[image->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(p->lib, p->info);
    if (depth > 1 && *(const char *)&endian)
        png_set_swap(p->lib);
    for (int64_t i = 0; i < image->height; i++) {
        png_write_row(p->lib, (png_const_bytep)image->pixels + (size_t)i * size);
        if (rt_run_spend(p->r, &p->r->left, (int64_t)size * SAMPLE_WORK))
            longjmp(p->jump, 1);
    }
    png_write_end(p->lib, NULL);
    return true;
}

/* Reports that no image can be encoded. TensorFlow encodes all images before it fails, and names
 * those that failed. All images have the same size, so if one fails, all fail. */
static enum rt_status fail_png(struct rt_run *r, int64_t n)
{
    char list[512] = "";
    size_t used = 0;

    for (int64_t i = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", i ? ", " : "",
                                 (long long)i);
    return rt_fail(r->err, RT_INTERNAL,
                   "PNG encoding failed at the following flattened batch indices: %s", list);
}

bool kn_png_write(struct rt_run *r, const struct kn_png *image, struct rt_bytes *file)
{
    struct png p = {.r = r, .file = file, .image = image};
    const int64_t height = image->height, width = image->width;
    bool is_written = false;

    if (height > 0 && width > 0 && height <= INT32_MAX && width <= INT32_MAX &&
        !rt_pool_charge(rt_run_pool(r), PNG_BYTES, "an image that is encoded", r->err)) {
        is_written = png_image_write(&p);
        png_destroy_write_struct(&p.lib, &p.info);
        rt_pool_discharge(rt_run_pool(r), PNG_BYTES);
    }
    if (file->failed && !r->err->code)
        kn_text_failed(file);
    return is_written;
}

static enum rt_status png_encode(struct rt_run *r, struct rt_bytes *file, int64_t i,
                                 struct rt_str *y)
{
    const struct rt_tensor *x = &r->in[0];
    const int64_t *dim = x->dim + x->rank - 3;
    const struct kn_png image = {
        .pixels = kn_at(x, i * dim[0] * dim[1] * dim[2]),
        .height = dim[0],
        .width = dim[1],
        .channels = (int)dim[2],
        .depth_bytes = rt_dtype_size(kn_dtype(x)),
        .compression = (int)rt_attr_int(r->node, "compression"),
    };

    file->n = 0;
    if (!kn_png_write(r, &image, file))
        return r->err->code ? r->err->code : fail_png(r, rt_tensor_count(&r->out[0]));
    return kn_set_text(r, &r->left, y, file->p, file->n);
}

static enum rt_status check_png(const struct rt_node *n, struct rt_error *err)
{
    const int64_t level = rt_attr_int(n, "compression");

    if (level < -1 || level > 9)
        return rt_fail(err, RT_INVALID_ARGUMENT, "compression should be in [-1,9], got %lld",
                       (long long)level);
    return RT_OK;
}

static enum rt_status encode_png_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    struct rt_bytes file;
    struct rt_str *y;
    enum rt_status st = RT_OK;
    int64_t n, channels;

    if (check_png(r->node, r->err))
        return r->err->code;
    if (x->rank < 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "images must be at least rank 3%s", KN_TEXT(x));
    channels = x->dim[x->rank - 1];
    if (channels < 1 || channels > 4)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "image must have 1, 2, 3, or 4 channels, got %lld", (long long)channels);
    y = kn_out(r, 0, x->rank - 3, x->dim);
    if (!y)
        return r->err->code;
    n = rt_tensor_count(&r->out[0]);
    kn_text_begin(&file, r);
    for (int64_t i = 0; i < n && !st; i++)
        st = png_encode(r, &file, i, &y[i]);
    kn_text_end(&file);
    return st;
}

static enum rt_status infer_png(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;

    if (s->rank >= 3)
        kn_set_shape(&x->out[0], s->rank - 3, s->dim);
    return RT_OK;
}

static void rows_png(struct rt_rows *r)
{
    kn_image_rows_outer(r, 3);
}

const struct kn_entry kn_encode_png = {
    .op = {.name = "EncodePng", .infer = infer_png, .rows = rows_png},
    .kernels = KN_CPU("EncodePng", "encode_png", RT_T(RT_U8) | RT_T(RT_U16), NULL, encode_png_run),
};
