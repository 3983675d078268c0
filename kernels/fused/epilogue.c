#include "kernels/fused/epilogue.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "kernels/math/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec_math.h"

static enum rt_status read_epilogue(struct kn_epilogue *t, const struct rt_node *n,
                                    struct rt_error *err)
{
    struct rt_epilogue e;
    const enum rt_status st = rt_epilogue_read(n, &e, err);

    *t = (struct kn_epilogue){.scale = e.in[RT_EPILOGUE_MUL],
                              .shift = e.in[RT_EPILOGUE_ADD],
                              .residual = e.in[RT_EPILOGUE_RESIDUAL],
                              .residual_is_lhs = e.residual_first,
                              .act = e.act,
                              .alpha = e.alpha};
    return st;
}

/* ---- shapes ---- */

static enum rt_status widen(const struct kn_epilogue *t, const struct rt_shape *unfused,
                            const struct rt_shape *residual, struct rt_shape *out,
                            struct rt_error *err)
{
    if (unfused->rank < 0 || residual->rank < 0) {
        out->rank = -1;
        return RT_OK;
    }
    const struct rt_shape mine = *unfused;
    return t->residual_is_lhs ? kn_broadcast(out, residual, &mine, err)
                              : kn_broadcast(out, &mine, residual, err);
}

enum rt_status kn_epilogue_infer(struct rt_infer *x)
{
    struct kn_epilogue t;
    const enum rt_status st = read_epilogue(&t, x->node, x->err);

    if (st || !t.residual)
        return st;
    const struct rt_shape unfused = x->out[0].shape;
    return widen(&t, &unfused, &x->in[t.residual].shape, &x->out[0].shape, x->err);
}

void kn_epilogue_infer_in_place(struct rt_infer *x, const struct rt_shape *unfused)
{
    struct rt_error ignored = {.arena = NULL};
    struct kn_epilogue t;

    if (!read_epilogue(&t, x->node, &ignored) && t.residual && x->n_in <= KN_EPILOGUE_MAX_INPUTS &&
        unfused->rank >= 0 && rt_count(unfused->rank, unfused->dim) >= 0 &&
        x->in[t.residual].dtype == x->out[0].dtype &&
        kn_shape_eq(unfused, &x->in[t.residual].shape) && kn_shape_eq(unfused, &x->out[0].shape))
        x->alias[0] = (int8_t)t.residual;
}

/* Returns the size in bytes of the output before the residual is added. The result is never 0,
 * because scratch memory of 0 bytes would be NULL. */
static size_t unfused_bytes(const struct kn_epilogue *t)
{
    return kn_padded((size_t)kn_shape_count(&t->unfused) * sizeof(float) + 64);
}

size_t kn_epilogue_residual_bytes(const struct kn_epilogue *t)
{
    return t->residual ? unfused_bytes(t) : 0;
}

struct rt_run *kn_epilogue_copy_residual(const struct kn_epilogue *t, struct rt_run *r,
                                         void *workspace, struct kn_epilogue_residual_copy *kept)
{
    const size_t bytes = rt_tensor_bytes(&r->out[0]);

    if (!kn_epilogue_is_out_of_place(t) || !bytes || r->in[t->residual].data != r->out[0].data)
        return r;
    kept->run = *r;
    kept->run.in = kept->in;
    memcpy(kept->in, r->in, (size_t)r->n_in * sizeof *r->in);
    kept->in[t->residual].data = workspace;
    memcpy(workspace, r->out[0].data, bytes);
    return &kept->run;
}

/* Returns the shape that the output would have without the epilogue. If the shape is unknown, its
 * rank is -1. */
static struct rt_shape unfused_shape(const struct rt_node *n, const struct rt_info *in)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_node bare = *n;
    struct rt_info out = {.dtype = (enum rt_dtype)n->out_dtype[0], .shape.rank = -1};
    int8_t alias = -1;

    bare.n_extra = 0;
    bare.n_in = n->schema->n_in;
    struct rt_infer x = {.node = &bare,
                         .n_in = bare.n_in,
                         .n_out = 1,
                         .in = in,
                         .out = &out,
                         .alias = &alias,
                         .err = &ignored};
    if (n->op->infer(&x))
        out.shape.rank = -1;
    return out.shape;
}

void kn_epilogue_rows(struct rt_rows *r, void (*unfused)(struct rt_rows *r))
{
    struct rt_error ignored = {.arena = NULL};
    struct kn_epilogue t;

    if (read_epilogue(&t, r->node, &ignored))
        return;
    struct rt_rows bare = *r;
    /* Hides the residual from `unfused`, the op's own row rule. The scale and the shift need not be
     * hidden, because they are constant. */
    bare.n_in = t.residual ? t.residual : r->n_in;
    unfused(&bare);
    if (!t.residual || r->out_dep[0].kind == RT_DEP_MIXED)
        return;
    const struct rt_dep mine = r->out_dep[0], *other = &r->in_dep[t.residual];
    const struct rt_shape *s = &r->in[t.residual].shape, shape = unfused_shape(r->node, r->in);
    r->out_dep[0] = (struct rt_dep){RT_DEP_MIXED, 0};
    if (!kn_shape_eq(s, &r->out[0].shape) || !kn_shape_eq(s, &shape))
        return;
    if (mine.kind == RT_DEP_NONE && other->kind == RT_DEP_NONE)
        r->out_dep[0].kind = RT_DEP_NONE;
    else if (mine.kind == RT_DEP_ROWS && other->kind == RT_DEP_ROWS && mine.axis == other->axis)
        r->out_dep[0] = mine;
}

enum rt_status kn_epilogue_prepare(struct kn_epilogue *t, const struct rt_prep *p,
                                   size_t *broadcast_bytes)
{
    const enum rt_status st = read_epilogue(t, p->node, p->err);

    *broadcast_bytes = 0;
    if (st || !t->residual)
        return st;
    t->unfused = unfused_shape(p->node, p->in);
    t->broadcast_residual = !kn_shape_eq(&t->unfused, &p->in[t->residual].shape) ||
                            !kn_shape_eq(&t->unfused, &p->out[0].shape);
    if (t->broadcast_residual)
        *broadcast_bytes = unfused_bytes(t);
    return RT_OK;
}

float *kn_epilogue_output(const struct kn_epilogue *t, const struct rt_run *r, void *scratch)
{
    return t->broadcast_residual ? scratch : r->out[0].data;
}

const float *kn_epilogue_constant(const struct rt_prep *p, int input)
{
    return input && p->in[input].value ? p->in[input].value->data : NULL;
}

enum rt_status kn_epilogue_pack(struct rt_prep *p, int input, const void *format, size_t size,
                                const float *scale, int64_t n, size_t bytes,
                                enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                       const void *format, struct rt_error *err),
                                const struct rt_pack **out)
{
    const size_t more = scale ? (size_t)n * sizeof *scale : 0;
    char *key = malloc(size + more);

    if (!key)
        return rt_fail_memory(p->err, p->node->name, size + more);
    memcpy(key, format, size);
    if (scale)
        memcpy(key + size, scale, more);
    const enum rt_status st = rt_prep_pack(p, input, key, size + more, bytes, fill, out);
    free(key);
    return st;
}

/* ---- loops ---- */

KN_CLONES static void scale_row(float *restrict y, const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= v[i];
}
KN_CLONES static void add_row(float *restrict y, const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += v[i];
}
KN_CLONES static void scale_add_row(float *restrict y, const float *restrict s,
                                    const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] * s[i] + v[i];
}

/* Computes y = r + y. */
KN_CLONES static void act_plain_sum(float *restrict y, const float *restrict r, int64_t n, float a)
{
    (void)a;
    for (int64_t i = 0; i < n; i++)
        y[i] += r[i];
}
static inline float relu6(float x) /* returns NaN for NaN */
{
    const float v = x < 0 ? 0 : x;
    return v > 6 ? 6 : v;
}
/* gelu_tanh(x) is `x (1 + tanh(y)) / 2` with `y = sqrt(2 / pi) (x + c x^3)`, where c is `cubed`.
 * The factor `(1 + tanh(y)) / 2` is the sigmoid of 2 y. */
static inline float gelu_tanh(float x)
{
    const float twice_root = 2 * 0.7978845608f, cubed = 0.044715f;
    return x / (1.0f + kn_exp_f32(x * (-twice_root - twice_root * cubed * (x * x))));
}
/* X(name, expression) names an activation of runtime/fusion/activation.h and gives its value at x
 * as an expression. `a` is the activation's parameter. */
#define ACTIVATIONS(X)                                                                             \
    X(RELU, x < 0 ? 0 : x)                                                                         \
    X(RELU6, relu6(x))                                                                             \
    X(SIGMOID, kn_sigmoid_f32(x))                                                                  \
    X(TANH, kn_tanh_f32(x))                                                                        \
    X(ELU, kn_select(x < 0, kn_expm1_f32(x), x))                                                   \
    X(LEAKY_RELU, x > 0 ? x : a * x)                                                               \
    X(SWISH, x *kn_sigmoid_f32(a *x))                                                              \
    X(HARD_SIGMOID, relu6(x + 3) * (1.0f / 6))                                                     \
    X(HARD_SWISH, x *(relu6(x + 3) * (1.0f / 6)))                                                  \
    X(GELU, kn_gelu_f32(x))                                                                        \
    X(GELU_TANH, gelu_tanh(x))

/* act_NAME applies the activation to `rows` rows of n elements, whose starts are `ld` elements
 * apart. act_sum_NAME applies it to y + r. */
#define LOOPS(NAME, EXPR)                                                                          \
    KN_CLONES static void act_##NAME(float *y, int64_t rows, int64_t n, int64_t ld, float a)       \
    {                                                                                              \
        (void)a;                                                                                   \
        for (int64_t row = 0; row < rows; row++)                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const float x = y[row * ld + i];                                                   \
                y[row * ld + i] = EXPR;                                                            \
            }                                                                                      \
    }                                                                                              \
    KN_CLONES static void act_sum_##NAME(float *restrict y, const float *restrict r, int64_t n,    \
                                         float a)                                                  \
    {                                                                                              \
        (void)a;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const float x = y[i] + r[i];                                                           \
            y[i] = EXPR;                                                                           \
        }                                                                                          \
    }
ACTIVATIONS(LOOPS)
#undef LOOPS

static void (*const act[RT_N_ACTS])(float *y, int64_t rows, int64_t n, int64_t ld, float a) = {
#define X(NAME, EXPR) [RT_ACT_##NAME] = act_##NAME,
    ACTIVATIONS(X)
#undef X
};
static void (*const act_sum[RT_N_ACTS])(float *restrict y, const float *restrict r, int64_t n,
                                        float a) = {[RT_ACT_NONE] = act_plain_sum,
#define X(NAME, EXPR) [RT_ACT_##NAME] = act_sum_##NAME,
                                                    ACTIVATIONS(X)
#undef X
};
#define X(NAME, EXPR) +1
_Static_assert(RT_N_ACTS == 1 ACTIVATIONS(X), "each activation has its loops");
#undef X

KN_CLONES static void scaled_row(float *restrict d, const float *restrict s,
                                 const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        d[i] = s[i] * v[i];
}

void kn_epilogue_scale(float *d, const float *s, const float *v, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        scaled_row(d + i * cols, s + i * cols, v, cols);
}

static void vectors(const struct kn_epilogue *t, const struct rt_run *r, float *y, int64_t rows,
                    int64_t cols)
{
    const float *s = t->scale ? r->in[t->scale].data : NULL;
    const float *v = t->shift ? r->in[t->shift].data : NULL;

    for (int64_t i = 0; i < rows && (s || v); i++, y += cols)
        if (s && v)
            scale_add_row(y, s, v, cols);
        else if (s)
            scale_row(y, s, cols);
        else
            add_row(y, v, cols);
}

/* The number of elements that pass through all steps of an epilogue before the next elements are
 * read. They are few enough to stay in the L1 cache. */
enum { CHUNK = 4096 };

void kn_epilogue_apply(const struct kn_epilogue *t, const struct rt_run *r, int parts, float *y,
                       int64_t at, int64_t rows, int64_t cols)
{
    const bool rest =
        (parts & KN_EPILOGUE_RESIDUAL_ACT) && !t->broadcast_residual && (t->residual || t->act);
    const float *other = rest && t->residual ? (const float *)r->in[t->residual].data + at : NULL;
    const bool two = (parts & KN_EPILOGUE_SCALE_SHIFT) && (t->scale || t->shift);
    const int64_t near = cols > 0 && cols < CHUNK ? CHUNK / cols : 1;
    const int64_t block = rest && two ? near : rows;

    for (int64_t i = 0; i < rows; i += block) {
        const int64_t n = rows - i < block ? rows - i : block;
        float *p = y + i * cols;
        if (two)
            vectors(t, r, p, n, cols);
        if (other)
            act_sum[t->act](p, other + i * cols, n * cols, t->alpha);
        else if (rest)
            act[t->act](p, 1, n * cols, 0, t->alpha);
    }
}

void kn_epilogue_apply_out_of_place(const struct kn_epilogue *t, const struct rt_run *r,
                                    float *sums, int64_t at, int64_t rows, int64_t cols)
{
    const float *other = (const float *)r->in[t->residual].data + at;
    float *y = (float *)r->out[0].data + at;
    const int64_t block = cols > 0 && cols < CHUNK ? CHUNK / cols : 1;

    for (int64_t i = 0; i < rows; i += block) {
        const int64_t n = rows - i < block ? rows - i : block, begin = i * cols;
        vectors(t, r, sums + begin, n, cols);
        if (other != y)
            memcpy(y + begin, other + begin, (size_t)(n * cols) * sizeof *y);
        act_sum[t->act](y + begin, sums + begin, n * cols, t->alpha);
    }
}

void kn_epilogue_activate(const struct kn_epilogue *t, float *y, int64_t rows, int64_t cols,
                          int64_t ld)
{
    if (t->act)
        act[t->act](y, rows, cols, ld, t->alpha);
}

enum rt_status kn_epilogue_broadcast(const struct kn_epilogue *t, struct rt_run *r, const float *y)
{
    const struct rt_tensor *out = &r->out[0], *other = &r->in[t->residual];
    const float *b = other->data;
    float *d = out->data;
    int64_t at[RT_MAX_RANK] = {0}, step_a[RT_MAX_RANK], step_b[RT_MAX_RANK], ia = 0, ib = 0;
    int64_t size_a = 1, size_b = 1;
    const int64_t n = rt_tensor_count(out);

    if (!t->broadcast_residual)
        return RT_OK;
    for (int i = out->rank - 1; i >= 0; i--) {
        const int ka = i - (out->rank - t->unfused.rank), kb = i - (out->rank - other->rank);
        const int64_t da = ka < 0 ? 1 : t->unfused.dim[ka], db = kb < 0 ? 1 : other->dim[kb];
        step_a[i] = da == 1 ? 0 : size_a;
        step_b[i] = db == 1 ? 0 : size_b;
        size_a *= da;
        size_b *= db;
    }
    for (int64_t i = 0; i < n; i++) {
        d[i] = y[ia] + b[ib];
        for (int k = out->rank - 1; k >= 0; k--) {
            ia += step_a[k];
            ib += step_b[k];
            if (++at[k] < out->dim[k])
                break;
            ia -= step_a[k] * out->dim[k];
            ib -= step_b[k] * out->dim[k];
            at[k] = 0;
        }
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (t->act)
        act[t->act](d, 1, n, 0, t->alpha);
    return RT_OK;
}

/* ---- oneDNN's post-ops ---- */

/* The activations that oneDNN supports as post-ops, and their parameters. */
static const struct {
    dnnl_alg_kind_t kind; /* 0 if oneDNN does not have the activation as a post-op */
    float alpha;
    bool takes_number; /* whether the activation's parameter is used instead of alpha */
} post_op[RT_N_ACTS] = {
    [RT_ACT_RELU] = {dnnl_eltwise_relu, 0, false},
    [RT_ACT_RELU6] = {dnnl_eltwise_bounded_relu, 6, false},
    [RT_ACT_SWISH] = {dnnl_eltwise_swish, 0, true},
    [RT_ACT_HARD_SWISH] = {dnnl_eltwise_hardswish, 0, false},
};

bool kn_epilogue_has_dnnl_post_op(const struct kn_epilogue *t)
{
#if defined(__SSE__)
    return !t->residual && post_op[t->act].kind;
#else
    (void)t;
    return false;
#endif
}

dnnl_status_t kn_epilogue_dnnl_post_op(const struct kn_epilogue *t, dnnl_primitive_attr_t attr)
{
    const float alpha = post_op[t->act].takes_number ? t->alpha : post_op[t->act].alpha;
    dnnl_post_ops_t ops = NULL;

    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (!s)
        s = dnnl_post_ops_append_eltwise(ops, 1, post_op[t->act].kind, alpha, 0);
    if (!s)
        s = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

#if defined(__SSE__)
void kn_epilogue_clear_nan_flag(void)
{
    _mm_setcsr(_mm_getcsr() & ~(unsigned)_MM_EXCEPT_INVALID);
}
bool kn_epilogue_nan_flag(void)
{
    return _mm_getcsr() & _MM_EXCEPT_INVALID;
}
#else
void kn_epilogue_clear_nan_flag(void)
{
}
bool kn_epilogue_nan_flag(void)
{
    return false;
}
#endif
