/* Decodes PNG files with libpng. libpng reports an error by longjmp. Its functions are therefore
 * called only inside `guarded`, and all state is in struct decoder. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "kernels/image/codec.h"

enum {
    SAMPLE_WORK = 8, /* work per sample, in units of rt_run_spend */
    WIDEN = 257,     /* 0xff * 257 is 0xffff */
};

struct decoder {
    png_structp png;
    png_infop info;
    jmp_buf jump;
    struct kn_codec *codec;
    struct rt_span rest; /* the part of the file that has not been read */
    int channels;        /* of the output */
    bool is_wide, widens, has_header;
    int n_passes;
    int64_t height, width;
    unsigned char *pixels;
};

/* Text and colour profiles do not change the pixels, but libpng would store up to 8 MB of inflated
 * data for each chunk. */
static const png_byte dropped_chunks[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0eXIf\0hIST\0pCAL\0sCAL";
enum { N_DROPPED = 9 };

static void stop(struct decoder *d)
{
    longjmp(d->jump, 1);
}

static bool guarded(struct decoder *d, void (*step)(struct decoder *))
{
    if (setjmp(d->jump))
        return false;
    step(d);
    return true;
}

static void error_stop(png_structp png, png_const_charp text)
{
    (void)text;
    stop(png_get_error_ptr(png));
}

static void warning_drop(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void file_read(png_structp png, png_bytep to, size_t n)
{
    struct decoder *d = png_get_io_ptr(png);

    if (n > d->rest.n)
        png_error(png, "the file ends too early");
    memcpy(to, d->rest.p, n);
    d->rest = rt_span_of(d->rest.p + n, d->rest.n - n);
}

/* Adds or removes the alpha channel. Outputs with an even number of channels have one. */
static void alpha_configure(struct decoder *d, int color, int depth)
{
    const bool has_alpha = color & PNG_COLOR_MASK_ALPHA;
    const bool has_transparency = png_get_valid(d->png, d->info, PNG_INFO_tRNS) != 0;

    if (d->channels % 2 == 1) {
        if (has_alpha || has_transparency)
            png_set_strip_alpha(d->png);
        return;
    }
    if (has_alpha)
        return;
    if (has_transparency)
        png_set_tRNS_to_alpha(d->png);
    else
        png_set_add_alpha(d->png, (1u << depth) - 1, PNG_FILLER_AFTER);
}

/* Sets the transformations from the file's format to the output's. The weights of red and green in
 * a gray sample are those of TensorFlow. A missing alpha channel is set to the same value as in
 * TensorFlow. */
static void transforms_configure(struct decoder *d)
{
    const int color = png_get_color_type(d->png, d->info);
    const int depth = png_get_bit_depth(d->png, d->info);
    const bool is_gray = !(color & PNG_COLOR_MASK_COLOR);
    const int endian = 1;

    if (d->channels == 0)
        d->channels = color != PNG_COLOR_TYPE_PALETTE ? png_get_channels(d->png, d->info)
                      : png_get_valid(d->png, d->info, PNG_INFO_tRNS) ? 4
                                                                      : 3;
    alpha_configure(d, color, depth);
    if (depth > 8 && !d->is_wide)
        png_set_strip_16(d->png);
    d->widens = depth <= 8 && d->is_wide;
    png_set_packing(d->png);
    d->n_passes = png_set_interlace_handling(d->png);
    if (d->is_wide && *(const char *)&endian)
        png_set_swap(d->png);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(d->png);
    if (is_gray && depth < 8)
        png_set_expand_gray_1_2_4_to_8(d->png);
    if (d->channels < 3 && !is_gray)
        png_set_rgb_to_gray(d->png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    if (d->channels >= 3 && is_gray)
        png_set_gray_to_rgb(d->png);
    png_read_update_info(d->png, d->info);
}

static void header_read(struct decoder *d)
{
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, error_stop, warning_drop);
    if (!d->png)
        stop(d);
    d->info = png_create_info_struct(d->png);
    if (!d->info)
        stop(d);
    png_set_read_fn(d->png, d, file_read);
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, dropped_chunks, N_DROPPED);
    png_read_info(d->png, d->info);
    d->height = png_get_image_height(d->png, d->info);
    d->width = png_get_image_width(d->png, d->info);
    transforms_configure(d);
    d->has_header = true;
}

/* Widens 8-bit samples to 16 bits in place. The 8-bit samples are at the beginning of the output's
 * line. */
static void line_widen(unsigned char *line, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        const uint16_t v = (uint16_t)(line[i] * WIDEN);
        memcpy(line + 2 * i, &v, sizeof v);
    }
}

static void lines_read(struct decoder *d)
{
    const int64_t samples = d->width * d->channels;
    const size_t size = (size_t)samples * (d->is_wide ? 2 : 1);

    /* A transformed line must have exactly the size of an output line. */
    if (png_get_rowbytes(d->png, d->info) != (d->widens ? size / 2 : size))
        stop(d);
    for (int pass = 0; pass < d->n_passes; pass++)
        for (int64_t i = 0; i < d->height; i++) {
            png_read_row(d->png, d->pixels + (size_t)i * size, NULL);
            if (d->codec->spend(d->codec, samples * SAMPLE_WORK))
                stop(d);
        }
    png_read_end(d->png, d->info);
    for (int64_t i = 0; d->widens && i < d->height; i++) {
        line_widen(d->pixels + (size_t)i * size, samples);
        if (d->codec->spend(d->codec, samples))
            stop(d);
    }
}

static enum rt_status decode(struct decoder *d, size_t size)
{
    struct kn_codec *c = d->codec;

    if (!guarded(d, header_read))
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "Invalid PNG. Failed to initialize decoder.");
    /* height and width are below 2^31 */
    if (d->height * d->width >= KN_IMAGE_LIMIT)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "PNG size too large for int: %lld by %lld",
                       (long long)d->width, (long long)d->height);
    d->pixels = c->pixels(c, 1, d->height, d->width, d->channels);
    if (!d->pixels || guarded(d, lines_read))
        return c->err->code;
    return c->err->code ? c->err->code
                        : rt_fail(c->err, RT_INVALID_ARGUMENT, "Invalid PNG data, size %zu", size);
}

enum rt_status kn_png_decode(struct kn_codec *c, struct rt_span file, int channels, bool is_wide)
{
    struct decoder d = {.codec = c, .rest = file, .channels = channels, .is_wide = is_wide};
    const enum rt_status st = decode(&d, file.n);

    png_destroy_read_struct(&d.png, &d.info, NULL);
    return st;
}
