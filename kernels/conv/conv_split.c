#include "kernels/conv/conv_split.h"

#include "kernels/cpu/parallel.h"

/* Up to CACHED outputs of an execution stay in the cache until the epilogue has run. A filter of up
 * to FILTER_CACHED elements stays in the cache together with them. */
enum { CACHED = 65536, FILTER_CACHED = 131072 };

int64_t kn_conv_image_in(const struct kn_conv_shape *g)
{
    int64_t n = g->ci;
    for (int i = 0; i < g->n_spatial; i++)
        n *= g->axis[i].in;
    return n;
}

int64_t kn_conv_image_out(const struct kn_conv_shape *g)
{
    int64_t n = g->co;
    for (int i = 0; i < g->n_spatial; i++)
        n *= g->axis[i].out;
    return n;
}

static int64_t filter_size(const struct kn_conv_shape *g)
{
    int64_t n = g->ci / g->groups * g->co;
    for (int i = 0; i < g->n_spatial; i++)
        n *= g->axis[i].size;
    return n;
}

static double products_of_row(const struct kn_conv_shape *g)
{
    double row = (double)g->co * (double)g->ci / (double)g->groups * (double)g->axis[0].size;
    for (int i = 1; i < g->n_spatial; i++)
        row *= (double)g->axis[i].size * (double)(g->transposed ? g->axis[i].in : g->axis[i].out);
    return row;
}

/* The number of multiplications that take as long as reading or writing one element, in a core's
 * fastest loops. With few channels, an execution spends its time on moving elements, not on
 * multiplying. */
enum { ELEMENT = 32 };

/* Returns the cost of one row of outputs, in multiplications. */
static double cost_of_row(const struct kn_conv_shape *g)
{
    const double rows = (double)(g->transposed ? g->axis[0].in : g->axis[0].out);
    const double elements = (double)kn_conv_image_in(g) + (double)kn_conv_image_out(g);
    return products_of_row(g) + ELEMENT * elements / rows;
}

/* Calls kn_even_size for one core. `most` may exceed the range of int64_t. */
static int64_t even_blocks(int64_t n, double most)
{
    return kn_even_size(n, most < (double)n ? (int64_t)most : n, 1);
}

/* Returns the number of executions per image. */
static int64_t blocks_of(const struct kn_conv_shape *g, const struct kn_conv_split *split)
{
    return split->rows ? kn_div_up(g->axis[0].out, split->rows) : 1;
}

int64_t kn_conv_split_count(const struct kn_conv_shape *g, const struct kn_conv_split *split)
{
    return split->rows ? g->batch * blocks_of(g, split) : kn_div_up(g->batch, split->images);
}

/* Returns the shape of an execution that computes `rows` output rows, beginning with row `first`.
 * The shape includes the input rows that the execution reads, and their padding. */
static struct kn_conv_shape rows_shape(const struct kn_conv_shape *whole, int64_t first,
                                       int64_t rows)
{
    struct kn_conv_shape g = *whole;
    struct kn_axis *a = &g.axis[0];
    const int64_t from = first * a->stride - a->lo;
    const int64_t end = from + (rows - 1) * a->stride + (a->size - 1) * a->dilation + 1;

    a->lo = from < 0 ? -from : 0;
    a->hi = end > a->in ? end - a->in : 0;
    a->in = end - from - a->lo - a->hi;
    a->out = rows;
    g.batch = 1;
    return g;
}

bool kn_conv_split_shape(const struct kn_conv_shape *g, const struct kn_conv_split *split,
                         enum kn_conv_slice slice, struct kn_conv_shape *out)
{
    const int64_t blocks = blocks_of(g, split);

    if (split->rows) {
        const int64_t last = (blocks - 1) * split->rows;
        *out = slice == KN_CONV_LAST
                   ? rows_shape(g, last, g->axis[0].out - last)
                   : rows_shape(g, slice == KN_CONV_FIRST ? 0 : split->rows, split->rows);
        return slice != KN_CONV_MIDDLE || blocks > 2;
    }
    *out = *g;
    out->batch = slice == KN_CONV_FIRST ? split->images : g->batch % split->images;
    return slice != KN_CONV_MIDDLE && out->batch;
}

struct kn_conv_block kn_conv_split_block(const struct kn_conv_shape *g,
                                         const struct kn_conv_split *split, int64_t i)
{
    const struct kn_axis *a = &g->axis[0];
    const int64_t src_size = kn_conv_image_in(g), dst_size = kn_conv_image_out(g);

    if (split->rows) {
        const int64_t blocks = blocks_of(g, split), image = i / blocks, block = i % blocks;
        const int64_t first = block * split->rows, from = first * a->stride - a->lo;
        return (struct kn_conv_block){.slice = !block                ? KN_CONV_FIRST
                                               : block == blocks - 1 ? KN_CONV_LAST
                                                                     : KN_CONV_MIDDLE,
                                      .src_at = image * src_size +
                                                (from < 0 ? 0 : from) * (src_size / a->in),
                                      .dst_at = image * dst_size + first * (dst_size / a->out)};
    }
    const int64_t first = i * split->images;
    return (struct kn_conv_block){.slice = g->batch - first < split->images ? KN_CONV_LAST
                                                                            : KN_CONV_FIRST,
                                  .src_at = first * (g->transposed ? dst_size : src_size),
                                  .dst_at = first * (g->transposed ? src_size : dst_size)};
}

/* Returns whether an image can be split into blocks of split->rows output rows. No block may lie
 * entirely in the padding, and of three or more blocks, only the first and the last may have
 * padding. */
static bool can_split_rows(const struct kn_conv_shape *whole, const struct kn_conv_split *split)
{
    const int64_t blocks = blocks_of(whole, split);
    struct kn_conv_shape g;

    for (int i = 0; i < KN_CONV_SLICES; i++)
        if (kn_conv_split_shape(whole, split, (enum kn_conv_slice)i, &g) && g.axis[0].in < 1)
            return false;
    return blocks < 3 || (!rows_shape(whole, split->rows, split->rows).axis[0].lo &&
                          !rows_shape(whole, (blocks - 2) * split->rows, split->rows).axis[0].hi);
}

void kn_conv_split_serial(const struct kn_conv_shape *g, bool after, struct kn_conv_split *split)
{
    const int64_t out = g->transposed ? g->axis[0].in : g->axis[0].out;
    const double row = cost_of_row(g), image = row * (double)out;
    const double line =
        (double)(g->transposed ? kn_conv_image_in(g) : kn_conv_image_out(g)) / (double)out;

    split->rows = 0;
    split->images = image * (double)g->batch <= 2.0 * KN_CHECK_MACS
                        ? g->batch
                        : even_blocks(g->batch, KN_CHECK_MACS / image);
    if (after)
        split->images = even_blocks(split->images, 2 * CACHED / (line * (double)out));
    if (g->transposed || split->images > 1)
        return;
    double most = (double)out;
    if (image > 2.0 * KN_CHECK_MACS)
        most = KN_CHECK_MACS / row < 4 ? 4 : KN_CHECK_MACS / row;
    if (after && line * (double)out > 3 * CACHED && filter_size(g) <= FILTER_CACHED &&
        CACHED / line < most)
        most = CACHED / line;
    split->rows = even_blocks(out, most);
    if (split->rows == out || !can_split_rows(g, split))
        split->rows = 0;
}

/* oneDNN computes output channels in vectors of 16, and a partial vector takes as long as a full
 * one. */
enum { VECTOR_CHANNELS = 16 };

double kn_conv_split_cost(const struct kn_conv_shape *g, const struct kn_conv_split *split)
{
    const int64_t out = g->transposed ? g->axis[0].in : g->axis[0].out;
    const double rows = split->rows ? (double)split->rows : (double)out * (double)split->images;
    const int64_t channels = g->groups > 1 ? VECTOR_CHANNELS : g->transposed ? g->ci : g->co;
    const double padding =
        channels < VECTOR_CHANNELS ? (double)VECTOR_CHANNELS / (double)channels : 1;

    return cost_of_row(g) * rows * padding;
}

bool kn_conv_split_is_interruptible(const struct kn_conv_shape *g)
{
    /* a cost that corresponds to about half a second */
    static const double most = 64.0 * KN_CHECK_MACS;
    struct kn_conv_split split;

    kn_conv_split_serial(g, false, &split);
    return kn_conv_split_cost(g, &split) <= most;
}

bool kn_conv_split_sharded(const struct kn_conv_shape *g, bool after, int width,
                           struct kn_conv_split *split)
{
    const double all = products_of_row(g) * (double)g->batch *
                       (double)(g->transposed ? g->axis[0].in : g->axis[0].out);
    const int64_t most = all / KN_SHARD_MACS < width ? (int64_t)(all / KN_SHARD_MACS) : width;

    if (most < 2)
        return false;
    kn_conv_split_serial(g, after, split);
    const int64_t n = kn_conv_split_count(g, split), out = g->axis[0].out, rows = split->rows;
    if (n % most == 0 || n >= 4 * most)
        return true;
    split->rows = 0;
    if (g->batch % most == 0 || g->batch >= 4 * most || g->transposed) {
        const int64_t images = kn_div_up(g->batch, most);
        split->images =
            kn_even_size(g->batch, images < split->images ? images : split->images, most);
        return kn_conv_split_count(g, split) > 1;
    }
    const int64_t fair = kn_div_up(out * g->batch, most);
    split->images = 1;
    split->rows = kn_even_size(out, rows && rows < fair ? rows : fair, most);
    return split->rows < out ? can_split_rows(g, split) : g->batch > 1 && !(split->rows = 0);
}
