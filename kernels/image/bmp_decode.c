/* Decodes BMP files. As in TensorFlow, the bytes of a pixel are used as its colours, and the
 * palette and the type of compression are ignored. */
#include <string.h>

#include "kernels/image/codec.h"

enum {
    HEADER_BYTES = 32, /* TensorFlow refuses smaller files, although it reads only 30 bytes */
    LINE_ALIGN = 4,
    ALPHA = 255,
};
#define MOST_BYTES (INT64_C(1) << 30)

struct header {
    /* a negative height means that the lines are stored from top to bottom */
    int64_t offset, width, height;
    int channels;
};

static int64_t little_endian(const unsigned char *p, int n)
{
    uint32_t v = 0;

    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return n == 4 ? (int32_t)v : (int64_t)v;
}

static enum rt_status header_read(struct kn_codec *c, struct rt_span file, struct header *h)
{
    if (file.n < HEADER_BYTES)
        return rt_fail(c->err, RT_INVALID_ARGUMENT,
                       "Incomplete bmp content, requires at least 32 bytes to find the header "
                       "size, width, height, and bpp, got %zu bytes",
                       file.n);
    h->offset = little_endian(file.p + 10, 4);
    h->width = little_endian(file.p + 18, 4);
    h->height = little_endian(file.p + 22, 4);
    h->channels = (int16_t)little_endian(file.p + 28, 2) / 8;
    if (h->channels != 1 && h->channels != 3 && h->channels != 4)
        return rt_fail(c->err, RT_INVALID_ARGUMENT,
                       "Number of channels inherent in the image must be 1, 3 or 4, was %d",
                       h->channels);
    if (h->width <= 0)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "Width must be positive");
    if (h->height == 0)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "Height must be nonzero");
    if (h->offset < 0)
        return rt_fail(c->err, RT_INVALID_ARGUMENT, "header size must be nonnegative");
    return RT_OK;
}

static void line_copy(unsigned char *y, const unsigned char *x, int64_t n, int from, int to)
{
    for (int64_t i = 0; i < n; i++, x += from, y += to) {
        if (to == 1) {
            y[0] = x[0];
            continue;
        }
        y[0] = x[from == 1 ? 0 : 2];
        y[1] = x[from == 1 ? 0 : 1];
        y[2] = x[0];
        if (to == 4)
            y[3] = from == 4 ? x[3] : ALPHA;
    }
}

enum rt_status kn_bmp_decode(struct kn_codec *c, struct rt_span file, int channels)
{
    struct header h = {0};
    enum rt_status st = header_read(c, file, &h);
    const int to = channels ? channels : h.channels;
    const int64_t height = h.height < 0 ? -h.height : h.height;
    int64_t line, difference;
    unsigned char *y;

    if (st)
        return st;
    /* neither factor is larger than 2^31 */
    if (h.width * height >= MOST_BYTES / h.channels || h.width * height >= KN_IMAGE_LIMIT / to)
        return rt_fail(c->err, RT_INVALID_ARGUMENT,
                       "Total possible pixel bytes must be less than 2^30");
    line = (h.width * h.channels + LINE_ALIGN - 1) / LINE_ALIGN * LINE_ALIGN;
    difference = (int64_t)file.n - h.offset - line * height;
    if (difference != 0)
        return rt_fail(c->err, RT_INVALID_ARGUMENT,
                       "Input size should match (header_size + row_size * abs_height) but they "
                       "differ by %lld",
                       (long long)difference);
    y = c->pixels(c, 1, height, h.width, to);
    for (int64_t i = 0; y && i < height && !c->err->code; i++) {
        const int64_t from = h.height < 0 ? i : height - 1 - i;
        line_copy(y + i * h.width * to, file.p + h.offset + from * line, h.width, h.channels, to);
        (void)c->spend(c, line);
    }
    return c->err->code;
}
