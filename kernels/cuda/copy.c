/*
 * Ops that move elements on a GPU: each op is one or more strided copies. Pad first fills the
 * output with the padding value, by a copy whose source strides are 0.
 */
#include <string.h>

#include "kernels/array/slice.h"
#include "kernels/cuda/device/copy.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

_Static_assert((int)KC_COPY_MOST_RANK == (int)KN_WALK_RANK, "every kn_walk fits");

struct move {
    int in, out;           /* index of the input, or -1 to write 0, and index of the output */
    int64_t in_at, out_at; /* offsets in elements */
    struct kn_walk walk;
};

struct moves {
    int n;
    struct move *move;
};

/* Describes the copies that a node performs, and returns their number. `m` has room for as many
 * copies as the node has inputs and outputs together. The inputs whose values `infer` reads are
 * constants. */
typedef int make_moves(const struct rt_prep *p, struct move *m);

/* Sets `outer` to the product of the dimensions before `axis`, and `inner` to the product of the
 * dimensions from `axis` on. */
static void sizes_around(const struct rt_shape *s, int axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < s->rank; i++)
        *(i < axis ? outer : inner) *= s->dim[i];
}

/* Describes a copy of `rows` rows of `length` elements. `dst` and `src` are the distances between
 * rows, in elements. */
static struct kn_walk rows_of(int64_t rows, int64_t length, int64_t dst, int64_t src)
{
    return (struct kn_walk){.rank = 2, .dim = {rows, length}, .dst = {dst, 1}, .src = {src, 1}};
}

static int concat(const struct rt_prep *p, struct move *m)
{
    const struct rt_tensor *axis = p->in[p->n_in - 1].value;
    const struct rt_shape *o = &p->out[0].shape;
    int64_t outer, inner, at = 0;
    const int a = rt_axis_of(kn_int_at(axis, 0), o->rank);
    sizes_around(o, a, &outer, &inner);
    for (int k = 0; k < p->n_in - 1; k++) {
        const int64_t length = o->dim[a] ? inner / o->dim[a] * p->in[k].shape.dim[a] : 0;
        m[k] = (struct move){.in = k, .out_at = at, .walk = rows_of(outer, length, inner, length)};
        at += length;
    }
    return p->n_in - 1;
}

static int pack(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *o = &p->out[0].shape;
    const int axis = rt_axis_of(rt_attr_int(p->node, "axis"), o->rank);
    int64_t outer, inner;
    sizes_around(o, axis, &outer, &inner);
    for (int k = 0; k < p->n_in; k++) {
        const int64_t length = inner / p->n_in;
        m[k] = (struct move){
            .in = k, .out_at = k * length, .walk = rows_of(outer, length, inner, length)};
    }
    return p->n_in;
}

/* For Split, input 0 is the axis, and input 1 is the tensor to split. For SplitV, input 0 is the
 * tensor to split, and input 2 is the axis. */
static int split(const struct rt_prep *p, struct move *m)
{
    const bool is_v = strcmp(p->node->op->name, "SplitV") == 0;
    const struct rt_tensor *axis = p->in[is_v ? 2 : 0].value;
    const struct rt_shape *in = &p->in[is_v ? 0 : 1].shape;
    int64_t outer, inner, at = 0;
    const int a = rt_axis_of(kn_int_at(axis, 0), in->rank);
    sizes_around(in, a, &outer, &inner);
    for (int k = 0; k < p->n_out; k++) {
        const int64_t length = in->dim[a] ? inner / in->dim[a] * p->out[k].shape.dim[a] : 0;
        m[k] = (struct move){.in = is_v ? 0 : 1,
                             .out = k,
                             .in_at = at,
                             .walk = rows_of(outer, length, length, inner)};
        at += length;
    }
    return p->n_out;
}

static int transpose(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape, *o = &p->out[0].shape;
    const struct rt_tensor *perm = p->in[1].value;
    int64_t stride[RT_MAX_RANK];
    *m = (struct move){.walk.rank = in->rank};
    kn_strides(in->rank, in->dim, stride);
    kn_strides(o->rank, o->dim, m->walk.dst);
    for (int i = 0; i < in->rank; i++) {
        m->walk.dim[i] = o->dim[i];
        m->walk.src[i] = stride[rt_axis_of(kn_int_at(perm, i), in->rank)];
    }
    return 1;
}

static int pad(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape, *o = &p->out[0].shape;
    const struct rt_tensor *pads = p->in[1].value;
    m[0] = (struct move){.in = p->n_in > 2 ? 2 : -1,
                         .walk = {.rank = 1, .dim = {kn_shape_count(o)}, .dst = {1}}};
    m[1] = (struct move){.walk.rank = in->rank};
    kn_strides(in->rank, in->dim, m[1].walk.src);
    kn_strides(o->rank, o->dim, m[1].walk.dst);
    for (int i = 0; i < in->rank; i++) {
        m[1].walk.dim[i] = in->dim[i];
        m[1].out_at += m[1].walk.dst[i] * kn_int_at(pads, 2 * i);
    }
    return 2;
}

static int strided_slice(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape;
    struct kn_slice s;
    if (kn_slice_of(p->node, in->rank, in->dim, p->in[1].value, p->in[2].value, p->in[3].value, &s,
                    p->err))
        return -1; /* unreachable, because `infer` has accepted the slice */
    *m = (struct move){0};
    kn_slice_walk(&s, in->dim, &m->walk, &m->in_at);
    return 1;
}

static int slice(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape, *o = &p->out[0].shape;
    const struct rt_tensor *begin = p->in[1].value;
    *m = (struct move){.walk.rank = in->rank};
    kn_strides(in->rank, in->dim, m->walk.src);
    kn_strides(o->rank, o->dim, m->walk.dst);
    for (int i = 0; i < in->rank; i++) {
        m->walk.dim[i] = o->dim[i];
        m->in_at += m->walk.src[i] * kn_int_at(begin, i);
    }
    return 1;
}

static int tile(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape, *o = &p->out[0].shape;
    int64_t from[RT_MAX_RANK], to[RT_MAX_RANK];
    *m = (struct move){.walk.rank = 2 * in->rank};
    kn_strides(in->rank, in->dim, from);
    kn_strides(o->rank, o->dim, to);
    for (int i = 0; i < in->rank; i++) {
        m->walk.dim[2 * i] = in->dim[i] ? o->dim[i] / in->dim[i] : 0;
        m->walk.dst[2 * i] = to[i] * in->dim[i];
        m->walk.dim[2 * i + 1] = in->dim[i];
        m->walk.dst[2 * i + 1] = to[i];
        m->walk.src[2 * i + 1] = from[i];
    }
    return 1;
}

static int broadcast(const struct rt_prep *p, struct move *m)
{
    const struct rt_shape *in = &p->in[0].shape, *o = &p->out[0].shape;
    int64_t stride[RT_MAX_RANK];
    *m = (struct move){.walk.rank = o->rank};
    kn_strides(in->rank, in->dim, stride);
    kn_strides(o->rank, o->dim, m->walk.dst);
    for (int i = 0; i < o->rank; i++) {
        const int at = i - (o->rank - in->rank);
        m->walk.dim[i] = o->dim[i];
        m->walk.src[i] = at < 0 || in->dim[at] == 1 ? 0 : stride[at];
    }
    return 1;
}

static make_moves *maker_of(const char *op)
{
    static const struct {
        const char *op;
        make_moves *make;
    } makers[] = {{"BroadcastTo", broadcast},
                  {"ConcatV2", concat},
                  {"Pack", pack},
                  {"Pad", pad},
                  {"PadV2", pad},
                  {"Slice", slice},
                  {"Split", split},
                  {"SplitV", split},
                  {"StridedSlice", strided_slice},
                  {"Tile", tile},
                  {"Transpose", transpose}};
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        if (strcmp(makers[k].op, op) == 0)
            return makers[k].make;
    return NULL;
}

int kc_copy_can(const struct rt_prep *p)
{
    for (int k = 0; k < p->n_in; k++)
        if (rt_op_reads_value(p->node->op, k, p->n_in) && !p->in[k].value)
            return 0;
    return 1;
}

/* Returns whether any output has elements. In tensors without elements, dimensions may be so large
 * that strides overflow. */
static bool has_elements(const struct rt_prep *p)
{
    for (int k = 0; k < p->n_out; k++)
        if (rt_count(p->out[k].shape.rank, p->out[k].shape.dim) > 0)
            return true;
    return false;
}

enum rt_status kc_copy_prepare(struct rt_prep *p, void **state)
{
    struct moves *m = rt_prep_alloc(p, sizeof *m);
    const size_t most = (size_t)(p->n_in + p->n_out);
    if (!m || !(m->move = rt_prep_alloc(p, most * sizeof *m->move)))
        return p->err->code;
    m->n = has_elements(p) ? maker_of(p->node->op->name)(p, m->move) : 0;
    *state = m;
    return m->n < 0 ? rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run this op") : RT_OK;
}

/* Launches one copy on the run's stream. */
static enum rt_status copy(struct rt_run *r, const struct move *m)
{
    struct kc_copy c = {.n = 1, .rank = m->walk.rank};
    for (int i = 0; i < c.rank; i++)
        c.n *= m->walk.dim[i];
    memcpy(c.dim, m->walk.dim, sizeof c.dim);
    memcpy(c.dst, m->walk.dst, sizeof c.dst);
    memcpy(c.src, m->walk.src, sizeof c.src);
    if (m->in >= 0)
        c.from = (const float *)r->in[m->in].data + m->in_at;
    c.to = (float *)r->out[m->out].data + m->out_at;
    return cuda_launch(r->stream, kc_copy_module, cuda_blocks(c.n), &c, r->err);
}

enum rt_status kc_copy_run(struct rt_run *r)
{
    const struct moves *m = r->state;
    enum rt_status st = RT_OK;
    for (int k = 0; k < m->n && !st; k++)
        st = copy(r, &m->move[k]);
    return st;
}
