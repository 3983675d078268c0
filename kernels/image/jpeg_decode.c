/* Decodes JPEG files with libjpeg-turbo. libjpeg reports an error by longjmp. Its functions are
 * therefore called only inside `guarded`, and all state is in struct decoder. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "kernels/image/codec.h"
#include "kernels/image/jpeg.h"
#include "runtime/base/checked.h"

enum {
    PIXEL_WORK = 8, /* work per sample, in units of rt_run_spend */
    BLOCK_WORK = 64,
    CMYK = 4,
};

struct decoder {
    struct jpeg_decompress_struct lib;
    struct kn_jpeg_error error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct kn_codec *codec;
    const struct kn_jpeg_options *options;
    struct rt_span file;
    unsigned char *pixels;
    int channels;
    int64_t height, width; /* of the output */
    int64_t n_lines;       /* number of output lines that have been decoded */
    /* columns that libjpeg decodes; the output's columns are among them */
    JDIMENSION lib_x, lib_width;
};

/* ---- the source: a file in memory ---- */

static void source_begin(j_decompress_ptr lib)
{
    (void)lib;
}

/* libjpeg calls this function when the file ends too early. If the function provides no data,
 * libjpeg suspends. If the function provides an end-of-image marker, libjpeg completes the image
 * from the data read so far. */
static boolean source_fill(j_decompress_ptr lib)
{
    static const JOCTET end_of_image[] = {0xff, JPEG_EOI};
    struct decoder *d = (struct decoder *)lib;

    if (!d->options->try_recover_truncated)
        return FALSE;
    d->source.next_input_byte = end_of_image;
    d->source.bytes_in_buffer = sizeof end_of_image;
    return TRUE;
}

static void source_skip(j_decompress_ptr lib, long n)
{
    struct jpeg_source_mgr *s = lib->src;

    if (n <= 0)
        return;
    if ((size_t)n > s->bytes_in_buffer) {
        s->bytes_in_buffer = 0;
        return;
    }
    s->next_input_byte += n;
    s->bytes_in_buffer -= (size_t)n;
}

static void source_open(struct decoder *d)
{
    d->source = (struct jpeg_source_mgr){
        .next_input_byte = d->file.p,
        .bytes_in_buffer = d->file.n,
        .init_source = source_begin,
        .fill_input_buffer = source_fill,
        .skip_input_data = source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_begin,
    };
    d->lib.src = &d->source;
}

/* ---- errors, deadlines ---- */

void kn_jpeg_stop(struct kn_jpeg_error *e)
{
    longjmp(e->jump, 1);
}

static void error_exit(j_common_ptr lib)
{
    kn_jpeg_stop((struct kn_jpeg_error *)lib->err);
}

static void message_drop(j_common_ptr lib)
{
    (void)lib;
}

static void message_count(j_common_ptr lib, int level)
{
    if (level < 0)
        lib->err->num_warnings++;
}

struct jpeg_error_mgr *kn_jpeg_error_open(struct kn_jpeg_error *e)
{
    jpeg_std_error(&e->lib);
    e->lib.error_exit = error_exit;
    e->lib.output_message = message_drop;
    e->lib.emit_message = message_count;
    return &e->lib;
}

/* Runs a function that calls libjpeg. Returns false if libjpeg or the function has called
 * kn_jpeg_stop. */
static bool guarded(struct decoder *d, void (*step)(struct decoder *))
{
    if (setjmp(d->error.jump))
        return false;
    step(d);
    return true;
}

static void spend(struct decoder *d, int64_t work)
{
    if (d->codec->spend(d->codec, work))
        kn_jpeg_stop(&d->error);
}

/* libjpeg calls this function for each row of blocks, even while a single call reads all scans of a
 * progressive file. */
static void progress_made(j_common_ptr lib)
{
    struct decoder *d = (struct decoder *)lib;

    spend(d, (int64_t)d->lib.image_width * d->lib.num_components * BLOCK_WORK / DCTSIZE);
}

/* ---- decoding ---- */

static void header_read(struct decoder *d)
{
    jpeg_create_decompress(&d->lib);
    source_open(d);
    if (jpeg_read_header(&d->lib, TRUE) != JPEG_HEADER_OK)
        kn_jpeg_stop(&d->error);
}

/* Counts the memory for the coefficients of the whole image. libjpeg stores the coefficients if the
 * file has several scans. */
static void memory_charge(struct decoder *d)
{
    int64_t blocks = 0;

    if (!jpeg_has_multiple_scans(&d->lib))
        return;
    for (int k = 0; k < d->lib.num_components; k++) {
        const jpeg_component_info *i = &d->lib.comp_info[k];
        /* Interleaved scans are padded to whole MCUs. */
        blocks += ((int64_t)i->width_in_blocks + i->h_samp_factor) *
                  ((int64_t)i->height_in_blocks + i->v_samp_factor);
    }
    if (d->codec->charge(d->codec, (size_t)blocks * sizeof(JBLOCK)))
        kn_jpeg_stop(&d->error);
}

static void output_configure(struct decoder *d)
{
    const struct kn_jpeg_options *o = d->options;
    const bool is_cmyk = d->lib.jpeg_color_space == JCS_CMYK || d->lib.jpeg_color_space == JCS_YCCK;

    d->channels = o->channels ? o->channels : d->lib.num_components < 3 ? d->lib.num_components : 3;
    if (d->channels == 1)
        d->lib.out_color_space = JCS_GRAYSCALE;
    else if (d->channels == 3)
        d->lib.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    else
        kn_jpeg_stop(&d->error);
    d->lib.do_fancy_upsampling = o->fancy_upscaling;
    d->lib.scale_num = 1;
    d->lib.scale_denom = (unsigned)o->ratio;
    d->lib.dct_method = o->is_accurate ? JDCT_ISLOW : JDCT_IFAST;
    jpeg_calc_output_dimensions(&d->lib);
    d->height = d->lib.output_height;
    d->width = d->lib.output_width;
    /* height and width are at most JPEG_MAX_DIMENSION, and there are at most ten components */
    if (d->height <= 0 || d->width <= 0 ||
        d->height * d->width * d->lib.num_components >= KN_IMAGE_LIMIT)
        kn_jpeg_stop(&d->error);
}

/* Restricts the output to the crop window. libjpeg can crop columns only at
 * boundaries of MCUs. */
static void crop(struct decoder *d)
{
    const struct kn_jpeg_options *o = d->options;

    if (o->crop_height <= 0 || o->crop_width <= 0 || o->crop_y < 0 || o->crop_x < 0 ||
        (int64_t)o->crop_y + o->crop_height > d->height ||
        (int64_t)o->crop_x + o->crop_width > d->width)
        kn_jpeg_stop(&d->error);
    d->height = o->crop_height;
    d->width = o->crop_width;
}

static void crop_begin(struct decoder *d)
{
    d->lib_x = (JDIMENSION)d->options->crop_x;
    d->lib_width = (JDIMENSION)d->options->crop_width;
    jpeg_crop_scanline(&d->lib, &d->lib_x, &d->lib_width);
    jpeg_skip_scanlines(&d->lib, (JDIMENSION)d->options->crop_y);
}

/* Adobe's programs store inverted CMYK. */
static void cmyk_to_rgb(unsigned char *y, const unsigned char *x, int64_t n, bool is_inverted)
{
    for (int64_t i = 0; i < n; i++, x += CMYK, y += 3)
        for (int k = 0; k < 3; k++)
            y[k] = is_inverted ? (unsigned char)(x[3] * x[k] / 255)
                               : (unsigned char)((255 - x[3]) * (255 - x[k]) / 255);
}

/* Fills the lines after the last decoded one. */
static void lines_complete(struct decoder *d)
{
    const size_t size = (size_t)(d->width * d->channels);
    unsigned char *line = d->pixels + (size_t)d->n_lines * size;

    for (int64_t i = d->n_lines; i < d->height; i++, line += size)
        if (i && d->options->try_recover_truncated)
            memcpy(line, line - size, size);
        else
            memset(line, 0, size);
}

static void lines_read(struct decoder *d)
{
    struct jpeg_decompress_struct *lib = &d->lib;
    const size_t size = (size_t)(d->width * d->channels);
    const bool is_cmyk = lib->out_color_space == JCS_CMYK;
    const int64_t skip = d->options->crops ? d->options->crop_x - (int64_t)d->lib_x : 0;
    const bool is_direct = !is_cmyk && !skip && d->lib_width == d->width;
    unsigned char *buffer = NULL;

    if (!is_direct) {
        const size_t n = (size_t)d->lib_width * (size_t)lib->output_components;
        buffer = lib->mem->alloc_large((j_common_ptr)lib, JPOOL_IMAGE, n);
    }
    for (; d->n_lines < d->height; d->n_lines++) {
        unsigned char *line = d->pixels + (size_t)d->n_lines * size;
        JSAMPROW row = is_direct ? line : buffer;

        if (jpeg_read_scanlines(lib, &row, 1) != 1)
            break;
        if (is_cmyk)
            cmyk_to_rgb(line, buffer + skip * CMYK, d->width, lib->saw_Adobe_marker);
        else if (!is_direct)
            memcpy(line, buffer + skip * d->channels, size);
        spend(d, (int64_t)lib->output_width * lib->output_components * PIXEL_WORK);
    }
}

static void image_read(struct decoder *d)
{
    struct kn_codec *c = d->codec;

    header_read(d);
    output_configure(d);
    if (d->options->crops)
        crop(d);
    memory_charge(d);
    d->lib.progress = &d->progress;
    d->progress.progress_monitor = progress_made;
    if (!jpeg_start_decompress(&d->lib))
        kn_jpeg_stop(&d->error);
    d->lib_width = d->lib.output_width;
    if (d->options->crops)
        crop_begin(d);
    d->pixels = c->pixels(c, 1, d->height, d->width, d->channels);
    if (!d->pixels)
        kn_jpeg_stop(&d->error);
    lines_read(d);
    if (d->n_lines == d->height && d->lib.output_scanline == d->lib.output_height)
        (void)jpeg_finish_decompress(&d->lib);
}

static void decoder_close(struct decoder *d)
{
    jpeg_destroy_decompress(&d->lib);
}

enum rt_status kn_jpeg_decode(struct kn_codec *c, struct rt_span file,
                              const struct kn_jpeg_options *o)
{
    struct decoder d = {.codec = c, .options = o, .file = file};
    float wanted = o->acceptable_fraction;
    bool is_read;

    d.lib.err = kn_jpeg_error_open(&d.error);
    is_read = guarded(&d, image_read);
    guarded(&d, decoder_close);
    if (c->err->code)
        return c->err->code;
    if (o->try_recover_truncated || wanted > 1)
        wanted = o->try_recover_truncated ? 0 : 1;
    if (!is_read || (float)d.n_lines / (float)d.height < wanted)
        return rt_fail(c->err, RT_INVALID_ARGUMENT,
                       "jpeg::Uncompress failed. Invalid JPEG data or crop window.");
    lines_complete(&d);
    return RT_OK;
}

bool kn_jpeg_shape(struct rt_span file, int shape[3])
{
    static const struct kn_jpeg_options options = {.ratio = 1};
    struct decoder d = {.options = &options, .file = file};
    bool is_read;

    d.lib.err = kn_jpeg_error_open(&d.error);
    is_read = guarded(&d, header_read);
    if (is_read) {
        shape[0] = (int)d.lib.image_height;
        shape[1] = (int)d.lib.image_width;
        shape[2] = d.lib.num_components;
    }
    guarded(&d, decoder_close);
    return is_read;
}
