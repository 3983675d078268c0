/*
 * "_Chain" (runtime/fusion/elementwise.h) runs element-wise steps over tiles of a few thousand
 * bytes. Each step calls the loop of its op's own kernel on the tile that the previous step left in
 * the cache, so results are bitwise equal to those of the separate kernels.
 *
 * Steps whose result has the output's shape form one loop nest. Steps on a smaller tensor that is
 * broadcast to the output's shape (a gate per channel, for example) form their own loop nests.
 * These run first and leave their results in scratch memory.
 *
 * A loop nest merges neighbouring axes if each of its operands is broadcast along both axes or
 * along neither. The innermost merged axis is divided into tiles. An operand that repeats along
 * short rows is expanded once, to the length of a tile.
 *
 * The first operand may be a concatenation that never exists as a tensor: its inputs are
 * concatenated tile by tile.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/fused/fused_elementwise_rows.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/op_rows.h"
#include "kernels/cpu/parallel.h"
#include "runtime/fusion/elementwise.h"

static const struct kn_map *const maps[RT_ELEMENTWISE_OPS] = {
#define X(op, kernel) [RT_ELEMENTWISE_##op] = &kn_map_##kernel,
    RT_ELEMENTWISE_UNARY(X)
#undef X
};
static const struct kn_binary *const binaries[RT_ELEMENTWISE_OPS] = {
#define X(op, kernel) [RT_ELEMENTWISE_##op] = &kn_binary_##kernel,
    RT_ELEMENTWISE_BINARY(X)
#undef X
        [RT_ELEMENTWISE_BiasAdd] = &kn_binary_add_v2,
};

enum {
    MOST_IN = RT_ELEMENTWISE_MOST_IN,
    MOST_VALUES = MOST_IN + RT_ELEMENTWISE_MOST,
    TILE = 1024, /* number of floats in a tile */
    /* The number of floats on a thread's stack for intermediate results and expanded operands. */
    STACK_FLOATS = 12 << 10,
};

/* ---- shapes ---- */

/* Computes the shapes of the node's inputs, followed by the shapes of the steps' results. If the
 * first inputs are concatenated, shape[0] is the shape of their concatenation. */
static enum rt_status set_shapes(const struct rt_elementwise *elementwise, const struct rt_info *in,
                                 int n_in, struct rt_shape *shape, struct rt_error *err)
{
    int n_steps;
    const struct rt_elementwise_step *s = rt_elementwise_steps(elementwise, &n_steps);
    enum rt_status st = RT_OK;

    for (int k = 0; k < n_in; k++)
        shape[k] = in[k].shape;
    if (elementwise->pieces)
        st = kn_concat_shape(in, (int)elementwise->pieces, elementwise->axis, &shape[0], err);
    for (int j = 0; j < n_steps && !st; j++, s++) {
        struct rt_shape *out = &shape[n_in + j], both;
        if (s->b < 0) {
            *out = shape[s->a];
        } else if (s->op == RT_ELEMENTWISE_BiasAdd) {
            st = kn_bias_shapes(&shape[s->a], &shape[s->b], -1, err);
            *out = shape[s->a];
        } else if (s->c < 0) {
            st = kn_broadcast(out, &shape[s->a], &shape[s->b], err);
        } else {
            st = kn_broadcast(&both, &shape[s->b], &shape[s->c], err);
            if (!st)
                st = kn_broadcast(out, &shape[s->a], &both, err);
        }
    }
    return st;
}

static enum rt_status elementwise_infer(struct rt_infer *x)
{
    struct rt_shape shape[MOST_VALUES];
    struct rt_elementwise elementwise;
    int n_steps;

    rt_elementwise_read(x->node, &elementwise);
    rt_elementwise_steps(&elementwise, &n_steps);
    const enum rt_status st = set_shapes(&elementwise, x->in, x->n_in, shape, x->err);
    if (st)
        return st;
    x->out[0].shape = shape[x->n_in + n_steps - 1];
    /* The output may be written over an input of the same shape. When a loop nest writes a tile of
     * the output, this loop nest or an earlier one has already read the input elements that the
     * tile overwrites. */
    for (int k = x->n_in - 1; k >= elementwise.pieces; k--)
        if (!x->in[k].value && x->in[k].dtype == RT_F32 &&
            kn_shape_eq(&x->in[k].shape, &x->out[0].shape))
            x->alias[0] = (int8_t)k;
    return RT_OK;
}

/* Returns the row dependence of the concatenation. It is row-wise if all concatenated inputs have
 * their rows along the same axis, and this axis is not the concatenation axis. */
static struct rt_dep rows_of_concat(const struct rt_rows *r,
                                    const struct rt_elementwise *elementwise, int rank)
{
    const struct rt_dep first = r->in_dep[0];
    const int64_t axis = elementwise->axis;
    for (int k = 0; k < elementwise->pieces; k++)
        if (r->in_dep[k].kind != RT_DEP_ROWS || r->in_dep[k].axis != first.axis)
            return (struct rt_dep){RT_DEP_MIXED, 0};
    return first.axis == (axis < 0 ? axis + rank : axis) ? (struct rt_dep){RT_DEP_MIXED, 0} : first;
}

/* Sets the row dependence of the output by applying the row rule of each step in turn. */
static void rows(struct rt_rows *r)
{
    struct rt_shape shape[MOST_VALUES];
    struct rt_dep dep[MOST_VALUES];
    struct rt_error err = {0};
    struct rt_elementwise elementwise;
    int n_steps;

    rt_elementwise_read(r->node, &elementwise);
    const struct rt_elementwise_step *s = rt_elementwise_steps(&elementwise, &n_steps);
    for (int k = 0; k < r->n_in; k++)
        dep[k] = r->in_dep[k];
    if (set_shapes(&elementwise, r->in, r->n_in, shape, &err))
        return;
    if (elementwise.pieces)
        dep[0] = rows_of_concat(r, &elementwise, shape[0].rank);
    for (int j = 0; j < n_steps; j++, s++) {
        const int64_t from[3] = {s->a, s->b < 0 ? s->a : s->b, s->c < 0 ? s->a : s->c};
        const struct rt_info in[3] = {
            {.shape = shape[from[0]]}, {.shape = shape[from[1]]}, {.shape = shape[from[2]]}};
        const struct rt_info out = {.shape = shape[r->n_in + j]};
        const struct rt_dep in_dep[3] = {dep[from[0]], dep[from[1]], dep[from[2]]};
        struct rt_dep *out_dep = &dep[r->n_in + j];
        struct rt_rows one = {.node = r->node,
                              .n_rows = r->n_rows,
                              .n_in = s->b < 0   ? 1
                                      : s->c < 0 ? 2
                                                 : 3,
                              .n_out = 1,
                              .in = in,
                              .out = &out,
                              .in_dep = in_dep,
                              .out_dep = out_dep};
        bool is_fixed = true, is_size = true;
        for (int k = 0; k < 3; k++) {
            is_fixed = is_fixed && in_dep[k].kind == RT_DEP_NONE;
            is_size = is_size && in_dep[k].kind <= RT_DEP_SIZE;
        }
        *out_dep = (struct rt_dep){is_fixed ? RT_DEP_NONE : RT_DEP_MIXED, 0};
        if (is_fixed)
            continue;
        if (s->b < 0)
            rt_rows_same(&one);
        else
            rt_rows_each(&one);
        if (out_dep->kind == RT_DEP_MIXED && is_size)
            out_dep->kind = RT_DEP_SIZE;
    }
    r->out_dep[0] = dep[r->n_in + n_steps - 1];
}

/* ---- prepared state ---- */

enum kind {
    ALONG,     /* the operand has one value per element of the tile */
    ONE,       /* the operand has one value for the complete tile */
    REPEAT,    /* the operand is a short row that repeats for all rows of the tile */
    BROADCAST, /* the operand has one value for each row of a tile of short rows */
    CONCAT,    /* like ALONG, but the operand is concatenated from several inputs */
};

struct operand {
    enum kind kind;
    /* an operand of any type other than RT_F32 is converted and stored in a buffer */
    enum rt_dtype dtype;
    /* index of the input, or -1 if the operand is the result of another loop nest */
    int input;
    int64_t offset; /* if `input` is -1, the offset of the result in scratch memory, in floats */
    int64_t stride[RT_MAX_RANK];
    /* index of the buffer for the operand's values, or -1 if an RT_F32 operand of kind ALONG or ONE
     * is read in place */
    int buffer;
};

struct step {
    /* One of map, binary and select is set, except for LeakyRelu, which uses none of them. */
    kn_map_row *map;
    kn_binary_row *binary;
    kn_select_row *select;
    float alpha; /* the parameter of LeakyRelu */
    /* Indexes into an array of the loop nest's operands, buffers and result, in that order.
     * `from` contains the indices of the step's operands, and d is the index of the result. */
    int16_t from[3], d;
    int8_t stride[3]; /* for each entry of `from`, 0 if it is a single value, otherwise 1 */
};

struct nest {
    int n_operands, n_steps, n_buffers;
    struct operand *operand;
    struct step *step;
    /* offset of the loop nest's result in scratch memory, or -1 if the result is the output */
    int64_t result;
    int rank;
    int64_t dim[RT_MAX_RANK]; /* lengths of the merged dimensions, innermost first */
    int outer;                /* index of the first dimension that is not divided into tiles */
    /* number of elements in the dimensions that are divided into tiles, and number of elements per
     * tile */
    int64_t length, tile;
    int64_t per_length, n_tiles;
};

struct elementwise {
    int n_nests;
    struct nest *nest;
    int n_concat;
    /* for each concatenated input, the number of elements that it contributes to a row */
    int64_t *piece;
    /* The concatenation has n_rows rows of `row` elements. */
    int64_t row, n_rows;
    /* If not negative, the offset in scratch memory of the complete concatenation, which is written
     * before the loop nests run. */
    int64_t whole;
};

/* ---- prepare ---- */

struct planner {
    const struct rt_elementwise_step *step;
    const struct rt_info *in;
    int n_in, n_steps, n_concat;
    bool needs_whole; /* set if the concatenation is broadcast to a larger shape */
    struct rt_shape shape[MOST_VALUES];
    int8_t nest[RT_ELEMENTWISE_MOST]; /* for each step, the last step of its loop nest */
    /* for each step that ends a loop nest, the offset in scratch memory at which the nest's result
     * begins */
    int64_t offset[RT_ELEMENTWISE_MOST];
};

/* Divides the steps into loop nests. A step joins the loop nest of its readers if all readers are
 * in the same nest and the nest has the step's shape. Every other step ends a loop nest of its
 * own. */
static void set_nests(struct planner *p)
{
    enum { NONE = -1, MANY = -2 };
    int8_t readers[RT_ELEMENTWISE_MOST];

    memset(readers, NONE, sizeof readers);
    for (int j = p->n_steps - 1; j >= 0; j--) {
        const int to = readers[j];
        p->nest[j] =
            (int8_t)(to >= 0 && kn_shape_eq(&p->shape[p->n_in + j], &p->shape[p->n_in + to]) ? to
                                                                                             : j);
        const int64_t from[3] = {p->step[j].a - p->n_in, p->step[j].b - p->n_in,
                                 p->step[j].c - p->n_in};
        for (int k = 0; k < 3; k++)
            if (from[k] >= 0)
                readers[from[k]] =
                    readers[from[k]] == NONE || readers[from[k]] == p->nest[j] ? p->nest[j] : MANY;
    }
}

/* Returns the index of a value among the loop nest's operands, and adds the value if it is new. */
static int add_operand(const struct planner *p, struct nest *n, int16_t *seen, int value)
{
    if (seen[value] < 0) {
        struct operand *o = &n->operand[n->n_operands];
        o->input = value < p->n_in ? value : -1;
        o->offset = value < p->n_in ? 0 : p->offset[value - p->n_in];
        o->dtype = value < p->n_in ? p->in[value].dtype : RT_F32;
        o->buffer = -1;
        seen[value] = (int16_t)n->n_operands++;
    }
    return seen[value];
}

static void set_row(struct step *s, const struct rt_elementwise_step *step)
{
    if (step->op == RT_ELEMENTWISE_LeakyRelu)
        s->alpha = rt_elementwise_number_of(step->c);
    else if (step->op == RT_ELEMENTWISE_Cast)
        s->map = kn_fused_copy;
    else if (step->op == RT_ELEMENTWISE_LogicalNot)
        s->map = kn_fused_not;
    else if (step->op == RT_ELEMENTWISE_SelectV2)
        s->select = kn_fused_select;
    else if (kn_fused_logical(step->op))
        s->binary = kn_fused_logical(step->op);
    else if (step->b < 0)
        s->map = maps[step->op]->row[RT_F32];
    else
        s->binary = binaries[step->op]->row[RT_F32];
}

/* Sets the steps of a loop nest. Buffers contain intermediate results, and a buffer is reused after
 * the last step that reads it. */
static void set_steps(const struct planner *p, struct nest *n, int end, int16_t *seen)
{
    int last_read[RT_ELEMENTWISE_MOST], busy[RT_ELEMENTWISE_MOST + 1];
    int16_t buffer[RT_ELEMENTWISE_MOST];

    for (int j = 0; j <= end; j++) {
        const int64_t from[3] = {p->step[j].a, p->step[j].b, p->step[j].c};
        for (int k = 0; k < 3 && p->nest[j] == end; k++)
            if (from[k] >= p->n_in)
                last_read[from[k] - p->n_in] = j;
    }
    for (int j = 0; j <= end; j++) {
        if (p->nest[j] != end)
            continue;
        struct step *s = &n->step[n->n_steps++];
        const int64_t from[3] = {p->step[j].a, p->step[j].b, p->step[j].c};
        for (int k = 0; k < 3; k++) {
            const int64_t of = from[k] - p->n_in;
            s->from[k] = -1;
            if (from[k] < 0)
                continue;
            if (of >= 0 && p->nest[of] == end) {
                s->from[k] = (int16_t)(n->n_operands + buffer[of]);
                if (last_read[of] == j)
                    busy[buffer[of]] = false;
            } else {
                s->from[k] = seen[from[k]];
            }
        }
        set_row(s, &p->step[j]);
        s->d = -1;
        if (j == end)
            break;
        int b = 0;
        while (b < n->n_buffers && busy[b])
            b++;
        if (b == n->n_buffers)
            n->n_buffers++;
        busy[b] = true;
        buffer[j] = (int16_t)b;
        s->d = (int16_t)(n->n_operands + b);
    }
}

static const struct rt_shape *shape_of(const struct planner *p, const int16_t *seen, int operand)
{
    for (int v = 0; v < p->n_in + p->n_steps; v++)
        if (seen[v] == operand)
            return &p->shape[v];
    return NULL;
}

/* Merges the axes of `out` where possible, and sets the strides of the operands accordingly. */
static void set_dims(const struct planner *p, struct nest *n, const struct rt_shape *out,
                     const int16_t *seen)
{
    int64_t count[MOST_VALUES];
    const struct rt_shape *shape[MOST_VALUES];

    for (int k = 0; k < n->n_operands; k++) {
        count[k] = 1;
        shape[k] = shape_of(p, seen, k);
    }
    for (int i = out->rank - 1; i >= 0; i--) {
        bool joins = n->rank > 0;
        if (out->dim[i] == 1)
            continue;
        for (int k = 0; k < n->n_operands; k++) {
            const int at = i - (out->rank - shape[k]->rank);
            const int64_t d = at < 0 ? 1 : shape[k]->dim[at];
            n->operand[k].stride[n->rank] = d == 1 ? 0 : count[k];
            count[k] *= d;
            joins = joins && !n->operand[k].stride[n->rank] == !n->operand[k].stride[n->rank - 1];
        }
        if (joins)
            n->dim[n->rank - 1] *= out->dim[i];
        else
            n->dim[n->rank++] = out->dim[i];
    }
    if (n->rank == 0)
        n->dim[n->rank++] = 1; /* all strides are 0 */
}

/* Returns whether the loop nest reads the concatenation, which is operand o, in order and without
 * broadcasting. */
static bool can_concat(const struct nest *n, const struct operand *o)
{
    for (int i = 0; i < n->rank; i++)
        if (n->dim[i] != 1 && !o->stride[i])
            return false;
    return true;
}

static void set_tiles(struct planner *p, struct nest *n, int64_t count)
{
    if (!count)
        return;
    int n_buffers = n->n_buffers + n->n_operands;
    int64_t tile = STACK_FLOATS / (n_buffers + 1) & ~INT64_C(15);
    tile = tile < TILE ? tile : TILE;
    const bool is_short = n->rank > 1 && n->dim[0] <= tile / 2;

    n->length = is_short ? n->dim[0] * n->dim[1] : n->dim[0];
    n->outer = is_short ? 2 : 1;
    n->tile = is_short ? tile / n->dim[0] * n->dim[0] : tile;
    for (int k = 0; k < n->n_operands; k++) {
        struct operand *o = &n->operand[k];
        if (!is_short)
            o->kind = o->stride[0] ? ALONG : ONE;
        else if (o->stride[0])
            o->kind = o->stride[1] ? ALONG : REPEAT;
        else
            o->kind = o->stride[1] ? BROADCAST : ONE;
        if (p->n_concat && o->input == 0) {
            if (can_concat(n, o))
                o->kind = CONCAT;
            else
                p->needs_whole = true;
        }
        if (o->kind == REPEAT || o->kind == BROADCAST || o->kind == CONCAT || o->dtype != RT_F32)
            o->buffer = n->n_buffers++;
    }
    for (int i = 0; i < n->n_steps; i++) {
        struct step *s = &n->step[i];
        for (int k = 0; k < 3; k++)
            s->stride[k] =
                s->from[k] < 0 || s->from[k] >= n->n_operands || n->operand[s->from[k]].kind != ONE;
        if (s->d < 0)
            s->d = (int16_t)(n->n_operands + n->n_buffers);
    }
    n->per_length = (n->length + n->tile - 1) / n->tile;
    n->n_tiles = count / n->length * n->per_length;
}

/* Builds the loop nest that ends with step `end`. */
static enum rt_status plan_nest(struct rt_prep *prep, struct planner *p, struct nest *n, int end,
                                int64_t count)
{
    int16_t seen[MOST_VALUES];
    int n_steps = 0;

    memset(seen, -1, sizeof seen);
    for (int j = 0; j <= end; j++)
        n_steps += p->nest[j] == end;
    n->operand = rt_prep_alloc(prep, 3 * (size_t)n_steps * sizeof *n->operand);
    n->step = rt_prep_alloc(prep, (size_t)n_steps * sizeof *n->step);
    if (!n->operand || !n->step)
        return prep->err->code;
    for (int j = 0; j <= end; j++) {
        const int64_t from[3] = {p->step[j].a, p->step[j].b, p->step[j].c};
        for (int k = 0; k < 3 && p->nest[j] == end; k++)
            if (from[k] >= 0 && (from[k] < p->n_in || p->nest[from[k] - p->n_in] != end))
                add_operand(p, n, seen, (int)from[k]);
    }
    set_steps(p, n, end, seen);
    set_dims(p, n, &p->shape[p->n_in + end], seen);
    set_tiles(p, n, count);
    return RT_OK;
}

/* Sets the row length of the concatenation. A row spans the concatenation axis and the axes after
 * it. */
static enum rt_status set_concat(struct rt_prep *prep, const struct planner *p, int64_t axis,
                                 struct elementwise *c)
{
    const struct rt_shape *whole = &p->shape[0];
    int64_t unit = 1;

    c->whole = -1;
    c->n_concat = p->n_concat;
    if (!c->n_concat)
        return RT_OK;
    c->piece = rt_prep_alloc(prep, (size_t)c->n_concat * sizeof *c->piece);
    if (!c->piece)
        return prep->err->code;
    if (rt_count(whole->rank, whole->dim) <= 0)
        return RT_OK;
    axis = axis < 0 ? axis + whole->rank : axis;
    c->n_rows = 1;
    for (int i = 0; i < whole->rank; i++)
        *(i < axis ? &c->n_rows : &unit) *= i == axis ? 1 : whole->dim[i];
    for (int k = 0; k < c->n_concat; k++)
        c->row += c->piece[k] = unit * prep->in[k].shape.dim[axis];
    return RT_OK;
}

static enum rt_status elementwise_prepare(struct rt_prep *prep, void **state)
{
    struct elementwise *c = rt_prep_alloc(prep, sizeof *c);
    struct planner p = {.in = prep->in, .n_in = prep->n_in};
    struct rt_elementwise elementwise;
    int64_t scratch = 0; /* size of the scratch memory, in floats */

    rt_elementwise_read(prep->node, &elementwise);
    p.n_concat = (int)elementwise.pieces;
    p.step = rt_elementwise_steps(&elementwise, &p.n_steps);
    enum rt_status st = set_shapes(&elementwise, prep->in, prep->n_in, p.shape, prep->err);
    if (st || !c || set_concat(prep, &p, elementwise.axis, c))
        return prep->err->code;
    set_nests(&p);
    for (int j = 0; j < p.n_steps; j++)
        c->n_nests += p.nest[j] == j;
    c->nest = rt_prep_alloc(prep, (size_t)c->n_nests * sizeof *c->nest);
    if (!c->nest)
        return prep->err->code;
    c->n_nests = 0;
    for (int j = 0; j < p.n_steps && !st; j++) {
        if (p.nest[j] != j)
            continue;
        struct nest *n = &c->nest[c->n_nests++];
        const struct rt_shape *out = &p.shape[p.n_in + j];
        const int64_t count = rt_count(out->rank, out->dim);
        if (count < 0 || count > INT64_MAX / 64 || scratch > INT64_MAX / 64)
            return rt_fail(prep->err, RT_RESOURCE_EXHAUSTED, "a tensor of too many elements");
        n->result = -1;
        if (j < p.n_steps - 1) {
            n->result = p.offset[j] = scratch;
            scratch += (count + 15) & ~INT64_C(15);
        }
        st = plan_nest(prep, &p, n, j, count);
    }
    if (p.needs_whole) {
        c->whole = scratch;
        scratch += c->row * c->n_rows;
    }
    prep->scratch_bytes = (size_t)scratch * sizeof(float);
    *state = c;
    return st;
}

/* ---- run ---- */

struct job {
    const struct rt_run *r;
    const struct nest *n;
    float *result;
    int64_t work; /* cost per tile, in units of rt_run_spend */
};

/* Returns the address of operand o's values for index `at` of the outer dimensions. */
static char *base_of(const struct job *j, const struct operand *o, int64_t at)
{
    const struct elementwise *c = j->r->state;
    void *from = o->input >= 0 ? j->r->in[o->input].data : (float *)j->r->scratch + o->offset;
    int64_t offset = 0;
    if (o->input == 0 && c->n_concat) {
        if (o->kind == CONCAT)
            return NULL;
        from = (float *)j->r->scratch + c->whole;
    }
    for (int d = j->n->outer; d < j->n->rank; d++) {
        offset += at % j->n->dim[d] * o->stride[d];
        at /= j->n->dim[d];
    }
    return (char *)from + offset * (int64_t)rt_dtype_size(o->dtype);
}

/* Copies n_rows rows of n elements each from one concatenated input to rows of the
 * concatenation. */
KN_CLONES static void concat_rows(float *restrict to, const float *restrict from, int64_t n_rows,
                                  int64_t row, int64_t n)
{
    for (int64_t i = 0; i < n_rows; i++, to += row, from += n)
        for (int64_t k = 0; k < n; k++)
            to[k] = from[k];
}

/* Writes elements [first, first + count) of the concatenation. */
static void concat(const struct rt_run *r, const struct elementwise *c, float *to, int64_t first,
                   int64_t count)
{
    while (count) {
        const int64_t at = first % c->row;
        /* n_rows is the number of complete rows to write, or 1 for one row or a part of it. */
        const int64_t n_rows = at || count < c->row ? 1 : count / c->row;
        const int64_t end = at + count < c->row ? at + count : c->row;
        int64_t begin = 0; /* offset of the current input in the row, in elements */
        for (int k = 0; k < c->n_concat; begin += c->piece[k++]) {
            const int64_t lo = begin > at ? begin : at;
            const int64_t hi = begin + c->piece[k] < end ? begin + c->piece[k] : end;
            const float *from = r->in[k].data;
            if (lo >= hi)
                continue;
            from += first / c->row * c->piece[k] + lo - begin;
            if (n_rows > 1)
                concat_rows(to + lo, from, n_rows, c->row, c->piece[k]);
            else
                concat_rows(to + lo - at, from, 1, c->row, hi - lo);
        }
        const int64_t done = n_rows > 1 ? n_rows * c->row : end - at;
        to += done;
        first += done;
        count -= done;
    }
}

/* Expands the values of an operand for a tile to one float per element. */
static void write_out(const struct nest *n, const struct operand *o, const void *from, float *to,
                      int64_t count)
{
    const int64_t row = n->dim[0];

    if (o->kind == ALONG || o->kind == ONE) {
        kn_fused_to_float(o->dtype, to, from, o->kind == ONE ? 1 : count);
        return;
    }
    if (o->kind == REPEAT) {
        kn_fused_to_float(o->dtype, to, from, row);
        for (int64_t done = row; done < count;) { /* each copy doubles `done`, up to `count` */
            const int64_t more = done < count - done ? done : count - done;
            memcpy(to + done, to, (size_t)more * sizeof *to);
            done += more;
        }
        return;
    }
    /* The converted values are first stored at the end of the tile, so that the loop reads each
     * value before overwriting it. */
    const int64_t n_rows = count / row;
    const float *one = to + count - n_rows;
    kn_fused_to_float(o->dtype, to + count - n_rows, from, n_rows);
    for (int64_t i = 0; i < count; i += row, one++) {
        const float v = *one;
        for (int64_t k = 0; k < row; k++)
            to[i + k] = v;
    }
}

/* maximum number of addresses that the steps use for one tile: those of the operands, the buffers
 * and the result */
enum { PLACES = MOST_VALUES + MOST_VALUES + RT_ELEMENTWISE_MOST + 1 };

static void run_steps(const struct nest *n, float *const *at, int64_t count)
{
    const struct step *const end = n->step + n->n_steps;
    for (const struct step *t = n->step; t < end; t++) {
        float *const d = at[t->d];
        const float *const a = at[t->from[0]];
        if (t->binary)
            t->binary(d, a, at[t->from[1]], count, t->stride[0], t->stride[1]);
        else if (t->map)
            t->map(d, a, count);
        else if (t->select)
            t->select(d, a, at[t->from[1]], at[t->from[2]], count, t->stride[0], t->stride[1],
                      t->stride[2]);
        else
            kn_fused_leaky_relu(d, a, count, t->alpha);
    }
}

/* Writes the values of operand o for one tile to the operand's buffer `to`. The tile begins at
 * element `start` of `base`. For an operand of kind REPEAT, the buffer is filled with copies of a
 * short row, and *written is the address of this row, or NULL if the buffer is not filled. */
static void bring(const struct job *j, const struct operand *o, const char *base, int64_t whole,
                  int64_t start, int64_t count, float *to, const char **written)
{
    const struct nest *n = j->n;
    const int64_t size = (int64_t)rt_dtype_size(o->dtype);

    if (o->kind == CONCAT) {
        concat(j->r, j->r->state, to, whole * n->length + start, count);
    } else if (o->kind == REPEAT) {
        if (*written != base)
            write_out(n, o, base, to, n->length > n->tile ? n->tile : count);
        *written = base;
    } else {
        write_out(n, o,
                  base + (o->kind == ALONG       ? start * size
                          : o->kind == BROADCAST ? start / n->dim[0] * size
                                                 : 0),
                  to, count);
    }
}

static enum rt_status run_tiles(struct rt_run *r, void *arg, int64_t first, int64_t end)
{
    const struct job *j = arg;
    const struct nest *n = j->n;
    _Alignas(64) float buffers[STACK_FLOATS];
    float *at[PLACES];
    char *base[MOST_VALUES];
    const char *written[MOST_VALUES] = {NULL};
    int64_t outer = first / n->per_length, piece = first % n->per_length, until = RT_WORK;
    bool moves = true;

    for (int b = 0; b < n->n_buffers; b++)
        at[n->n_operands + b] = buffers + b * n->tile;
    for (int64_t t = first; t < end; t++) {
        const int64_t start = piece * n->tile, left = n->length - start;
        const int64_t count = left < n->tile ? left : n->tile;
        for (int k = 0; k < n->n_operands; k++) {
            const struct operand *o = &n->operand[k];
            if (moves)
                base[k] = base_of(j, o, outer);
            at[k] = o->buffer < 0 ? (float *)(void *)base[k] + (o->kind == ALONG ? start : 0)
                                  : at[n->n_operands + o->buffer];
            if (o->buffer >= 0)
                bring(j, o, base[k], outer, start, count, at[k], &written[k]);
        }
        at[n->n_operands + n->n_buffers] = j->result + outer * n->length + start;
        run_steps(n, at, count);
        moves = ++piece == n->per_length;
        if (moves) {
            piece = 0;
            outer++;
        }
        if (rt_run_spend(r, &until, j->work))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_nest(struct rt_run *r, const struct nest *n)
{
    /* average number of elements per tile, at least 1 */
    const int64_t mean = n->length / n->per_length;
    struct job j = {.r = r,
                    .n = n,
                    .result = n->result < 0 ? r->out[0].data : (float *)r->scratch + n->result,
                    .work = mean * (n->n_steps + 1)};
    return kn_parallel_rows(r, n->n_tiles, j.work, 1, run_tiles, &j);
}

static enum rt_status elementwise_run(struct rt_run *r)
{
    const struct elementwise *c = r->state;
    enum rt_status st = RT_OK;

    if (c->whole >= 0)
        concat(r, c, (float *)r->scratch + c->whole, 0, c->row * c->n_rows);
    for (int i = 0; i < c->n_nests && !st; i++)
        if (c->nest[i].n_tiles)
            st = run_nest(r, &c->nest[i]);
    return st;
}

/* ---- the op ---- */

const struct kn_entry kn_fused_elementwise = {
    .op = {.name = "_Chain",
           .infer = elementwise_infer,
           .rows = rows,
           .internal_schema = &rt_elementwise_schema},
    .kernels = KN_CPU("_Chain", "chain", 0, elementwise_prepare, elementwise_run),
};
