/*
 * Views tensors as [outer, channels, inner] for ops that process each channel, and divides them
 * into chunks. A run's deadline is checked between two chunks.
 */
#ifndef KN_NN_CHANNELS_H
#define KN_NN_CHANNELS_H

#include "kernels/math/elementwise.h"

/* The shape of a tensor viewed as [outer, channels, inner]. */
struct kn_channels {
    int64_t outer, n, inner;
};

static inline struct kn_channels kn_channels_of(const struct rt_shape *s, int axis)
{
    struct kn_channels c = {1, s->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        c.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        c.inner *= s->dim[i];
    return c;
}

/* A contiguous part of a tensor: its shape, the index of its first element, and the channel of that
 * element. */
struct kn_channel_chunk {
    struct kn_channels c;
    int64_t at, channel;
};

/*
 * Sets *p to the chunk that begins at element `at` and has at most KN_CHUNK elements. The chunk
 * consists of complete rows, complete channels of one row, or part of one channel. Returns false if
 * no elements are left.
 */
static inline bool kn_next_chunk(const struct kn_channels *c, int64_t at,
                                 struct kn_channel_chunk *p)
{
    const int64_t row = c->n * c->inner;

    if (at >= c->outer * row)
        return false;
    const int64_t rest = at % row, i = rest / c->inner, j = rest % c->inner;
    p->at = at;
    p->channel = i;
    if (rest == 0 && row <= KN_CHUNK) {
        const int64_t left = c->outer - at / row, most = KN_CHUNK / row;
        p->c = (struct kn_channels){left < most ? left : most, c->n, c->inner};
    } else if (j == 0 && c->inner <= KN_CHUNK) {
        const int64_t left = c->n - i, most = KN_CHUNK / c->inner;
        p->c = (struct kn_channels){1, left < most ? left : most, c->inner};
    } else {
        const int64_t left = c->inner - j;
        p->c = (struct kn_channels){1, 1, left < KN_CHUNK ? left : KN_CHUNK};
    }
    return true;
}

/* Cost per element in units of rt_run_spend. The slowest elements, those of half-precision types,
 * take a few nanoseconds. */
enum { KN_CHANNEL_COST = 4 };

/* Advances p to the next chunk. Sets *st to an error if the run was cancelled or is past its
 * deadline, otherwise to RT_OK. Returns false if no chunk is left or *st is an error. */
static inline bool kn_chunks_go_on(struct rt_run *r, const struct kn_channels *c, int64_t *left,
                                   struct kn_channel_chunk *p, enum rt_status *st)
{
    const int64_t done = p->c.outer * p->c.n * p->c.inner;

    *st = rt_run_spend(r, left, KN_CHANNEL_COST * done);
    return !*st && kn_next_chunk(c, p->at + done, p);
}

/*
 * A range [from, to) of at most KN_CHUNK of n channels. first_range sets the first range, and
 * next_range the following one. Both return false if no channels are left. next_range also returns
 * false, with the reason in *st, if the run has been cancelled or its deadline has passed.
 */
struct kn_channel_range {
    int64_t from, to, n;
};

static inline bool kn_first_range(struct kn_channel_range *g, int64_t n)
{
    *g = (struct kn_channel_range){0, n < KN_CHUNK ? n : KN_CHUNK, n};
    return n > 0;
}

static inline bool kn_next_range(struct rt_run *r, int64_t *left, struct kn_channel_range *g,
                                 enum rt_status *st)
{
    *st = rt_run_spend(r, left, KN_CHANNEL_COST * (g->to - g->from));
    g->from = g->to;
    g->to = g->n - g->from < KN_CHUNK ? g->n : g->from + KN_CHUNK;
    return !*st && g->from < g->n;
}

#endif
