/*
 * Turns the element-wise steps after a matmul or a convolution into the epilogue of its node
 * (rt_op.epilogue in op.h). An epilogue scales, shifts, adds to and activates the output while it
 * is in the cache, which saves writing and reading the output again.
 *
 * Steps are fused only if no other node reads the values between them. Multiplications and
 * additions of constant vectors along the last axis, including batch normalisation, become one
 * scale and one shift, accumulated in double. One addition of another tensor (the residual) may
 * follow, and then an activation. If the addition broadcasts one of its operands, the kernels still
 * compute the same result.
 *
 * Frameworks write a dense layer on a three-dimensional tensor as Reshape, MatMul, Reshape,
 * addition. Therefore, a Reshape between the steps moves after the steps if it is known to keep
 * rows together: its last dimensions must be constants whose product is the length of a row.
 */
#include "runtime/fusion/fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fusion/epilogue.h"
#include "runtime/fusion/last_axes.h"

struct epilogue {
    int64_t channels;
    int rank;
    double *scale, *shift; /* arrays with one number per channel */
    bool has_scale, has_shift;
    struct pl_edge residual; /* edge of the residual; its node is -1 if there is no residual */
    bool residual_first;
    struct pl_activation act; /* the fused activation; act.n is 0 if there is none */
    int last;                 /* The last node fused so far. The epilogue computes its value. */
    /* Node of a Reshape that moves after the epilogue, or -1 if none moves. If one moves, `rank` is
     * 0. */
    int reshape;
    int n_row; /* number of dimensions into which the Reshape splits each row */
    int64_t row[RT_MAX_RANK];
};

struct pass {
    struct pl_graph *g;
    struct pl_uses uses;
    struct pl_readers *readers;
    struct rt_error *err;
};

static bool is_float_op(const struct pl_node *n)
{
    return n->kind == PL_OP && n->def && n->def->op && !n->call && n->n_ctrl == 0 &&
           n->effect == RT_PURE && n->def->n_out >= 1 && n->def->out_dtype[0] == RT_F32;
}

/* If a node can have an epilogue, returns the number of channels of its output and sets *rank.
 * Otherwise returns 0. */
static int64_t head_channels(const struct pl_graph *g, const struct pl_node *n, int *rank)
{
    struct rt_info in[8];

    if (!is_float_op(n) || !n->def->op->epilogue || n->n_in != n->def->schema->n_in || n->n_in > 8)
        return 0;
    /* The node may already have an epilogue that consists only of an activation and adds no
     * input. */
    for (int k = 0; k < n->def->n_extra; k++)
        if (strcmp(n->def->extra[k].name, RT_EPILOGUE) == 0)
            return 0;
    for (int k = 0; k < n->n_in; k++) {
        in[k] = (struct rt_info){.dtype = (enum rt_dtype)n->def->in_dtype[k], .shape.rank = -1};
        const struct rt_tensor *t = pl_constant(g, n->in[k]);
        if (!t)
            continue;
        if (rt_tensor_count(t) == 0)
            /* A node with an empty filter cannot have an epilogue. Memory is allocated for each
             * channel, and the size of an empty tensor does not bound its number of channels. */
            return 0;
        in[k].value = t;
        in[k].shape.rank = t->rank;
        memcpy(in[k].shape.dim, t->dim, sizeof in[k].shape.dim);
    }
    return n->def->op->epilogue(n->def, in, rank);
}

/* Returns whether e is a scalar float constant, or a constant float vector along the last axis of
 * an output of rank `rank`. */
static bool is_vector(const struct pl_graph *g, struct pl_edge e, int64_t channels, int rank)
{
    const struct rt_tensor *t = pl_constant(g, e);
    if (!t || t->dtype != RT_F32 || t->rank > rank)
        return false;
    return t->rank == 0 ||
           (pl_row_constant(g, e) && (t->dim[t->rank - 1] == channels || t->dim[t->rank - 1] == 1));
}

/* Loads the constant into *t. Its bytes are valid until *t is cleared. */
static enum rt_status vector_of(const struct pl_graph *g, struct pl_edge e, struct rt_tensor *t,
                                struct rt_error *err)
{
    *t = (struct rt_tensor){0};
    rt_tensor_ref(t, &g->node[e.node].value);
    const enum rt_status st = rt_session_load_tensor(g->session, t, err);
    if (st)
        rt_tensor_clear(t);
    return st;
}

/* Returns whether e is a float constant that the epilogue can apply. If a Reshape moves after the
 * epilogue, e must be a scalar or have the shape that the Reshape gives to a row. Otherwise,
 * is_vector decides. */
static bool fits_rows(const struct pl_graph *g, struct pl_edge e, const struct epilogue *t)
{
    if (t->reshape < 0)
        return is_vector(g, e, t->channels, t->rank);
    const struct rt_tensor *v = pl_constant(g, e);
    return v && v->dtype == RT_F32 &&
           (v->rank == 0 ||
            (v->rank == t->n_row && memcmp(v->dim, t->row, (size_t)v->rank * sizeof *v->dim) == 0));
}

/* ---- scale and shift ---- */

/* Returns whether the factors can be multiplied into the weights: their products with weights of
 * typical magnitude must be normal numbers. */
static bool is_fit(const struct epilogue *t)
{
    for (int64_t c = 0; c < t->channels; c++) {
        const double s = fabs(t->scale[c]);
        if (!(s == 0 || (s > 0x1p-60 && s < 0x1p60)) || !(fabs(t->shift[c]) < 0x1p120))
            return false;
    }
    return true;
}

/* Appends `y = x * mul + sign * add` to the epilogue. If `mul` is NULL, the factor is 1; if `add`
 * is NULL, nothing is added. Returns false and leaves the epilogue unchanged if is_fit would refuse
 * the result. */
static bool add_vectors(struct epilogue *t, const struct rt_tensor *mul,
                        const struct rt_tensor *add, double sign)
{
    const size_t bytes = (size_t)t->channels * sizeof(double);
    double *old = malloc(2 * bytes);

    if (!old)
        return false;
    memcpy(old, t->scale, bytes);
    memcpy(old + t->channels, t->shift, bytes);
    for (int64_t c = 0; c < t->channels; c++) {
        const int64_t km = mul && rt_tensor_count(mul) > 1 ? c : 0;
        const int64_t ka = add && rt_tensor_count(add) > 1 ? c : 0;
        if (mul) {
            t->scale[c] *= (double)((const float *)mul->data)[km];
            t->shift[c] *= (double)((const float *)mul->data)[km];
        }
        if (add)
            t->shift[c] += sign * (double)((const float *)add->data)[ka];
    }
    const bool fit = is_fit(t);
    if (fit) {
        t->has_scale = t->has_scale || mul;
        t->has_shift = t->has_shift || add;
    } else {
        memcpy(t->scale, old, bytes);
        memcpy(t->shift, old + t->channels, bytes);
    }
    free(old);
    return fit;
}

/* ---- batch normalisation by constants ---- */

/* Returns whether node i is a batch normalisation along the last axis with constant parameters.
 * Only output 0 of the node may be read. */
static bool is_normalisation(const struct pass *p, int i, const struct epilogue *t)
{
    const struct pl_graph *g = p->g;
    const struct pl_node *n = &g->node[i];

    if (!is_float_op(n) || n->n_in != 5 || t->rank < 4 || n->in[0].node != t->last ||
        n->in[0].out != 0 ||
        !(pl_is(n, "FusedBatchNormV3") || pl_is(n, "FusedBatchNormV2") ||
          pl_is(n, "FusedBatchNorm")) ||
        rt_attr_bool(n->def, "is_training") || rt_attr_str(n->def, "data_format").p[1] == 'C')
        return false;
    for (int k = 1; k < 5; k++)
        if (!is_vector(g, n->in[k], t->channels, 1) || pl_constant(g, n->in[k])->rank != 1 ||
            pl_constant(g, n->in[k])->dim[0] != t->channels)
            return false;
    for (int j = p->readers->first[i]; j < p->readers->first[i + 1]; j++) {
        const struct pl_reader by = p->readers->of[j];
        if (g->node[by.node].in[by.k].out != 0)
            return false;
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (g->fetch[k].node == i && g->fetch[k].out != 0)
            return false;
    return true;
}

/* Fuses `y = (x - mean) / sqrt(variance + epsilon) * scale + offset` as `y = x * factor +
 * shift`. */
static enum rt_status take_normalisation(struct pass *p, int i, struct epilogue *t, bool *taken)
{
    const struct pl_node *n = &p->g->node[i];
    struct rt_tensor in[5] = {{0}}, factor = {0}, shift = {0};
    enum rt_status st = RT_OK;

    *taken = false;
    if (t->residual.node >= 0 || !is_normalisation(p, i, t))
        return RT_OK;
    const double epsilon = (double)rt_attr_float(n->def, "epsilon");
    for (int k = 1; k < 5 && !st; k++)
        st = vector_of(p->g, n->in[k], &in[k], p->err);
    if (!st)
        st = rt_tensor_new(&factor, NULL, RT_F32, 1, &t->channels, p->err);
    if (!st)
        st = rt_tensor_new(&shift, NULL, RT_F32, 1, &t->channels, p->err);
    for (int64_t c = 0; c < t->channels && !st; c++) {
        const double f =
            (double)((float *)in[1].data)[c] / sqrt((double)((float *)in[4].data)[c] + epsilon);
        ((float *)factor.data)[c] = (float)f;
        ((float *)shift.data)[c] =
            (float)((double)((float *)in[2].data)[c] - (double)((float *)in[3].data)[c] * f);
    }
    if (!st)
        *taken = add_vectors(t, &factor, &shift, 1);
    for (int k = 1; k < 5; k++)
        rt_tensor_clear(&in[k]);
    rt_tensor_clear(&factor);
    rt_tensor_clear(&shift);
    return st;
}

/* ---- steps ---- */

/* Fuses node n, the only reader of the epilogue's value, if it applies a constant vector. */
static enum rt_status take_vector(struct pass *p, const struct pl_node *n, struct epilogue *t,
                                  bool *taken)
{
    *taken = false;
    if (!is_float_op(n) || n->n_in != 2 || t->residual.node >= 0)
        return RT_OK;
    const int other = n->in[0].node == t->last ? 1 : 0;
    if (n->in[1 - other].out != 0 || !fits_rows(p->g, n->in[other], t))
        return RT_OK;
    const bool mul = pl_is(n, "Mul"), add = pl_is_add(n);
    const bool sub = pl_is(n, "Sub") && other == 1;
    const bool bias = pl_is(n, "BiasAdd") && other == 1 &&
                      rt_span_is(rt_attr_str(n->def, "data_format"), "NHWC") &&
                      pl_constant(p->g, n->in[1])->rank == 1 &&
                      pl_constant(p->g, n->in[1])->dim[0] == t->channels;
    if (!mul && !add && !sub && !bias)
        return RT_OK;
    struct rt_tensor v;
    const enum rt_status st = vector_of(p->g, n->in[other], &v, p->err);
    if (st)
        return st;
    *taken = add_vectors(t, mul ? &v : NULL, mul ? NULL : &v, sub ? -1 : 1);
    rt_tensor_clear(&v);
    return RT_OK;
}

/* Fuses node n, the only reader of the epilogue's value, if it adds another tensor. */
static bool take_residual(const struct pl_graph *g, const struct pl_node *n, struct epilogue *t)
{
    if (!is_float_op(n) || n->n_in != 2 || t->residual.node >= 0 || t->reshape >= 0 ||
        !pl_is_add(n))
        return false;
    const int other = n->in[0].node == t->last ? 1 : 0;
    if (n->in[1 - other].out != 0 || n->in[other].node == t->last ||
        g->node[n->in[other].node].kind == PL_CONST)
        return false;
    t->residual = n->in[other];
    t->residual_first = other == 0;
    return true;
}

/* ---- a Reshape between the steps ---- */

/* Copies the integers of the constant `e` to `dim`, in front of the *n integers at its end. `dim`
 * has `capacity` elements. Returns false if `e` is not an integer constant. */
static bool last_integers(const struct pl_graph *g, struct pl_edge e, int64_t *dim, int *n,
                          int capacity)
{
    int64_t v[RT_MAX_RANK];
    const int count = pl_some_ints(g, e, v);
    for (int i = count - 1; i >= 0 && *n < capacity; i--)
        dim[capacity - ++*n] = v[i];
    return count > 0;
}

/* Fuses node n if it is a _LastAxes that splits the last axis into several axes. */
static bool take_axes(const struct pl_node *n, int i, struct epilogue *t)
{
    struct rt_last_axes axes;

    if (!is_float_op(n) || !pl_is(n, "_LastAxes") || n->in[0].node != t->last ||
        n->in[0].out != 0 || t->reshape >= 0 || t->residual.node >= 0)
        return false;
    rt_last_axes_read(n->def, &axes);
    if (axes.from.n != 1 || axes.from.v[0] != t->channels)
        return false;
    t->reshape = i;
    t->rank = 0;
    t->n_row = (int)axes.to.n;
    memcpy(t->row, axes.to.v, axes.to.n * sizeof *axes.to.v);
    return true;
}

/* Fuses node i, the only reader of the epilogue's value, if node i is a reshape whose last axes
 * contain the elements of one row. */
static bool take_reshape(const struct pl_graph *g, int i, struct epilogue *t)
{
    const struct pl_node *n = &g->node[i];
    int64_t dim[RT_MAX_RANK], product = 1, first;
    int known = 0, zero = 0;

    if (take_axes(n, i, t))
        return true;
    if (!is_float_op(n) || !pl_is(n, "Reshape") || n->n_in != 2 || n->in[0].node != t->last ||
        n->in[0].out != 0 || n->in[1].node == t->last || t->reshape >= 0 || t->residual.node >= 0)
        return false;
    const struct pl_node *shape = &g->node[n->in[1].node];
    if (pl_is(shape, "Pack") && shape->n_in > 0 && rt_attr_int(shape->def, "axis") == 0) {
        for (int k = shape->n_in - 1;
             k >= 0 && last_integers(g, shape->in[k], dim, &known, RT_MAX_RANK);)
            k--;
    } else if (pl_is(shape, "ConcatV2") && shape->n_in > 2 &&
               last_integers(g, shape->in[shape->n_in - 1], &first, &zero, 1) && zero == 1 &&
               first == 0) {
        for (int k = shape->n_in - 2;
             k >= 0 && last_integers(g, shape->in[k], dim, &known, RT_MAX_RANK);)
            k--;
    } else {
        last_integers(g, n->in[1], dim, &known, RT_MAX_RANK);
    }
    for (int k = 1; k <= known; k++) {
        const int64_t d = dim[RT_MAX_RANK - k];
        if (d < 1 || d > t->channels || __builtin_mul_overflow(product, d, &product) ||
            product > t->channels)
            return false;
        if (product == t->channels) {
            t->reshape = i;
            t->rank = 0;
            t->n_row = k;
            memcpy(t->row, dim + RT_MAX_RANK - k, (size_t)k * sizeof *dim);
            return true;
        }
    }
    return false;
}

/* ---- the result ---- */

static struct pl_edge add_constant(struct pl_graph *g, int like, const double *v, int64_t n,
                                   struct rt_error *err)
{
    struct rt_tensor t = {0};
    if (rt_tensor_new(&t, NULL, RT_F32, 1, &n, err))
        return pl_no_edge;
    for (int64_t i = 0; i < n; i++)
        ((float *)t.data)[i] = (float)v[i];
    return pl_add_constant(g, like, &t, err);
}

/* Replaces the last fused node with a Reshape that reads the new value of node `head`. */
static enum rt_status put_reshape(struct pass *p, int head, const struct epilogue *t)
{
    struct pl_graph *g = p->g;
    const struct pl_node r = g->node[t->reshape];
    struct pl_node *n = &g->node[t->last];
    struct pl_edge *in = rt_arena_array(g->arena, 2, sizeof *in);

    if (!in)
        return rt_fail_memory(p->err, "a plan", 0);
    in[0] = (struct pl_edge){head, 0};
    if (r.n_in == 2)
        in[1] = r.in[1];
    g->node[head].kind = PL_OP;
    n->kind = PL_OP;
    n->def = r.def;
    n->name = r.name;
    n->depth = r.depth;
    n->effect = r.effect;
    n->in = in;
    n->n_in = r.n_in;
    n->n_out = r.n_out;
    return RT_OK;
}

static enum rt_status add_operands(struct pass *p, int head, const struct epilogue *t,
                                   struct pl_edge operand[RT_EPILOGUE_N_IN])
{
    operand[RT_EPILOGUE_MUL] = operand[RT_EPILOGUE_ADD] = pl_no_edge;
    operand[RT_EPILOGUE_RESIDUAL] = t->residual;
    if (t->has_scale) {
        operand[RT_EPILOGUE_MUL] = add_constant(p->g, head, t->scale, t->channels, p->err);
        if (operand[RT_EPILOGUE_MUL].node < 0)
            return p->err->code;
    }
    if (t->has_shift) {
        operand[RT_EPILOGUE_ADD] = add_constant(p->g, head, t->shift, t->channels, p->err);
        if (operand[RT_EPILOGUE_ADD].node < 0)
            return p->err->code;
    }
    return RT_OK;
}

/* Replaces the last fused node with node `head` (the matmul or convolution) and its epilogue. If a
 * Reshape moves, the Reshape replaces the last fused node instead. */
static enum rt_status put(struct pass *p, int head, const struct epilogue *t)
{
    struct pl_graph *g = p->g;
    struct pl_edge operand[RT_EPILOGUE_N_IN];
    struct rt_epilogue e = {.residual_first = t->residual_first,
                            .act = t->act.n ? t->act.act : RT_ACT_NONE,
                            .has_alpha = t->act.has_number,
                            .alpha = t->act.number};
    enum rt_status st = add_operands(p, head, t, operand);

    if (st)
        return st;
    const int at = t->reshape < 0 ? t->last : head;
    const struct pl_node h = g->node[head];
    int n_in = h.n_in;
    struct rt_node *def = rt_arena_alloc(g->arena, sizeof *def);
    struct pl_edge *in = rt_arena_array(g->arena, (size_t)n_in + RT_EPILOGUE_N_IN, sizeof *in);
    uint8_t *dtype = rt_arena_array(g->arena, (size_t)n_in + RT_EPILOGUE_N_IN, 1);
    if (!def || !in || !dtype)
        return rt_fail_memory(p->err, "a plan", 0);
    memcpy(in, h.in, (size_t)n_in * sizeof *in);
    memcpy(dtype, h.def->in_dtype, (size_t)n_in);
    for (int k = 0; k < RT_EPILOGUE_N_IN; k++)
        if (operand[k].node >= 0) {
            e.in[k] = n_in;
            in[n_in] = operand[k];
            dtype[n_in++] = RT_F32;
        }
    const char *text = rt_epilogue_text(&e, g->arena);
    if (!text)
        return rt_fail_memory(p->err, "a plan", 0);
    *def = *h.def;
    def->n_in = n_in;
    def->in_dtype = dtype;
    struct pl_node *n = &g->node[at];
    n->def = def;
    n->name = h.name;
    n->depth = h.depth;
    n->in = in;
    n->n_in = n_in;
    n->n_out = h.n_out;
    st = pl_add_extra(g, at, RT_EPILOGUE,
                      (struct rt_attr){.type = RT_ATTR_STRING, .n = strlen(text), .v.s = text},
                      p->err);
    return st || t->reshape < 0 ? st : put_reshape(p, head, t);
}

static bool is_same_device(const struct pl_graph *g, int a, int b)
{
    return g->node[a].on_accelerator == g->node[b].on_accelerator;
}

/* Fuses nodes, beginning at node `head` and continuing with the only reader of each fused node. All
 * fused nodes except the last become PL_GONE. */
static enum rt_status follow(struct pass *p, int head, struct epilogue *t)
{
    struct pl_graph *g = p->g;

    for (t->last = head;;) {
        if (pl_find_activation(g, &p->uses, p->readers, t->last, &t->act) &&
            is_same_device(g, head, t->act.node[0])) {
            g->node[t->last].kind = PL_GONE;
            for (int k = 0; k < t->act.n - 1; k++)
                g->node[t->act.node[k]].kind = PL_GONE;
            t->last = t->act.node[t->act.n - 1];
            return RT_OK;
        }
        t->act.n = 0;
        const int next = p->uses.user[t->last];
        if (p->uses.n[t->last] != 1 || !is_same_device(g, head, next))
            return RT_OK;
        bool taken = false;
        enum rt_status st = take_normalisation(p, next, t, &taken);
        if (!st && !taken)
            st = take_vector(p, &g->node[next], t, &taken);
        if (st)
            return st;
        if (!taken && !take_residual(g, &g->node[next], t) && !take_reshape(g, next, t))
            return RT_OK;
        g->node[t->last].kind = PL_GONE;
        t->last = next;
    }
}

static enum rt_status fuse(struct pass *p, int head, int64_t channels, int rank)
{
    struct pl_graph *g = p->g;
    struct epilogue t = {.channels = channels, .rank = rank, .residual = {-1, 0}, .reshape = -1};

    t.scale = malloc((size_t)channels * 2 * sizeof *t.scale);
    if (!t.scale)
        return rt_fail_memory(p->err, "a plan", (size_t)channels * 2 * sizeof *t.scale);
    t.shift = t.scale + channels;
    for (int64_t c = 0; c < channels; c++) {
        t.scale[c] = 1;
        t.shift[c] = 0;
    }
    enum rt_status st = follow(p, head, &t);
    if (!st && (t.has_scale || t.has_shift || t.residual.node >= 0 || t.act.n))
        st = put(p, head, &t);
    else if (t.reshape >= 0) /* No step was fused, so the Reshape does not move. */
        g->node[head].kind = g->node[t.reshape].kind = PL_OP;
    free(t.scale);
    return st;
}

enum rt_status pl_fuse_epilogues(struct pl_graph *g, struct rt_error *err)
{
    const int n = g->n; /* New nodes are appended, so g->n grows. */
    struct pass p = {.g = g, .err = err};
    enum rt_status st = pl_uses_count(&p.uses, g, err);

    if (!st && !(p.readers = pl_readers_new(g, false, err)))
        st = RT_RESOURCE_EXHAUSTED;
    for (int i = 0; i < n && !st; i++) {
        int rank = 0;
        const int64_t channels = head_channels(g, &g->node[i], &rank);
        if (channels > 0)
            st = fuse(&p, i, channels, rank);
    }
    pl_readers_free(p.readers);
    pl_uses_free(&p.uses);
    return st;
}
