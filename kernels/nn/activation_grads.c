/*
 * Gradients of activations and of elementary functions. One input is the gradient of the function's
 * output. The other one is the function's input or output. Both have the same number of elements,
 * and are not broadcast.
 */
#include <math.h>
#include <tgmath.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/math/elementwise.h"

/* ---- shapes ---- */

/* Refuses inputs of different shapes, as TensorFlow's gradients of activations do. */
static enum rt_status infer_equal(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;

    if (kn_shape_known(a) && kn_shape_known(b) && !kn_shape_eq(a, b))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Inputs to operation %s of type %s must have the same size and shape.  "
                       "Input 0: %s != input 1: %s",
                       x->node->name, x->node->schema->name, KN_TEXT(a), KN_TEXT(b));
    return kn_infer_same(x);
}

/* Refuses inputs of different numbers of elements, as TensorFlow's gradients of elementary
 * functions do. */
static enum rt_status infer_count(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;

    if (kn_shape_known(a) && kn_shape_known(b) && kn_shape_total(a) != kn_shape_total(b))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "The two arguments to a cwise op must have same number of elements, got "
                       "%lld and %lld",
                       (long long)kn_shape_total(a), (long long)kn_shape_total(b));
    return kn_infer_same(x);
}

/* ---- walking ---- */

/* Computes d[i] from a[i] and b[i] for i < n. d may be a. */
typedef void grad_row(void *d, const void *a, const void *b, int64_t n, float alpha);

struct state {
    grad_row *row;
    float alpha; /* of LeakyReluGrad */
};

enum {
    COST = 16, /* work per element, in units of rt_run_spend */
    STEP = 64, /* Shards begin at multiples of this many elements. */
};

static enum rt_status prepare(struct rt_prep *p, grad_row *const *rows, float alpha, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);

    if (!s)
        return p->err->code;
    *s = (struct state){rows[p->in[0].dtype], alpha};
    *state = s;
    return RT_OK;
}

static enum rt_status run_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct state *s = r->state;
    int64_t left = RT_WORK;

    (void)arg;
    for (int64_t i = from; i < to; i += KN_CHUNK) {
        const int64_t n = kn_min_i64(to - i, KN_CHUNK);
        s->row(kn_at_mut(&r->out[0], i), kn_at(&r->in[0], i), kn_at(&r->in[1], i), n, s->alpha);
        if (rt_run_spend(r, &left, COST * n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    return kn_parallel_rows(r, rt_tensor_count(&r->in[0]), COST, STEP, run_shard, NULL);
}

#define ROW(dt, T, NAME, EXPR)                                                                     \
    KN_FAST(dt)                                                                                    \
    static void NAME##_##dt(void *dst, const void *src_a, const void *src_b, int64_t n,            \
                            float alpha_)                                                          \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *a = src_a, *b = src_b;                                                            \
        const T rounded = KN_PUT(dt, alpha_);                                                      \
        const KN_C(dt) alpha = KN_GET(dt, rounded);                                                \
        (void)alpha;                                                                               \
        KN_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) x = KN_GET(dt, a[i]), y = KN_GET(dt, b[i]);                             \
            d[i] = KN_PUT(dt, EXPR(dt, x, y, alpha));                                              \
        }                                                                                          \
    }
#define ENTRY(NAME, TF, LIST, INFER, ALPHA)                                                        \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        static grad_row *const rows[RT_N_DTYPES] = {KN_FOR_##LIST(KN_ROW_OF, NAME)};               \
        return prepare(p, rows, ALPHA, state);                                                     \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = INFER, .rows = rt_rows_each},                                  \
        .kernels = KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, NAME), NAME##_prepare, run),      \
    };

/* ---- activations: x is the gradient, y the activation's input or output ---- */

/* The gradient is multiplied by 0 or 1, so that NaN stays NaN and an infinity may become NaN. */
#define RELU(dt, x, y, alpha)  ((x) * (KN_C(dt))((y) > 0))
#define RELU6(dt, x, y, alpha) ((x) * (KN_C(dt))((y) > 0 && (y) < 6))
#define LEAKY(dt, x, y, alpha) ((y) > 0 ? (x) : (x) * (alpha))
KN_FOR_REALS(ROW, relu_grad, RELU)
ENTRY(relu_grad, "ReluGrad", REALS, infer_equal, 0)
KN_FOR_REALS(ROW, relu6_grad, RELU6)
ENTRY(relu6_grad, "Relu6Grad", REALS, infer_equal, 0)
KN_FOR_FLOATS(ROW, leaky_relu_grad, LEAKY)
ENTRY(leaky_relu_grad, "LeakyReluGrad", FLOATS, infer_equal, rt_attr_float(p->node, "alpha"))

/* The constants of SELU: Klambauer et al., "Self-normalizing neural networks", equation 14. */
#define SELU_SCALE                1.0507009873554804934193349852946
#define SELU_SCALE_ALPHA          1.7580993408473768599402175208123
#define CONSTANT(dt, v)           KN_ROUND(dt, (KN_C(dt))(v))
#define ELU_GRAD(dt, x, y, alpha) ((y) < 0 ? KN_ROUND(dt, (y) + 1) * (x) : (x))
#define SELU_GRAD(dt, x, y, alpha)                                                                 \
    ((y) < 0 ? (x)*KN_ROUND(dt, (y) + CONSTANT(dt, SELU_SCALE_ALPHA))                              \
             : (x)*CONSTANT(dt, SELU_SCALE))
#define SOFTSIGN_GRAD(dt, x, y, alpha)                                                             \
    ((x) / KN_ROUND(dt, KN_ROUND(dt, fabs(y) + 1) * KN_ROUND(dt, fabs(y) + 1)))
KN_FOR_FLOATS(ROW, elu_grad, ELU_GRAD)
ENTRY(elu_grad, "EluGrad", FLOATS, infer_equal, 0)
KN_FOR_FLOATS(ROW, selu_grad, SELU_GRAD)
ENTRY(selu_grad, "SeluGrad", FLOATS, infer_equal, 0)
KN_FOR_FLOATS(ROW, softsign_grad, SOFTSIGN_GRAD)
ENTRY(softsign_grad, "SoftsignGrad", FLOATS, infer_equal, 0)

#define SOFTPLUS_OF(dt, x, e)         ((x) / KN_ROUND(dt, KN_ROUND(dt, e) + 1))
#define SOFTPLUS_VEC(dt, x, y, alpha) SOFTPLUS_OF(dt, x, kn_exp_f32(-(y)))
#define SOFTPLUS(dt, x, y, alpha)     SOFTPLUS_OF(dt, x, exp(-(y)))
ROW(RT_F32, float, softplus_grad, SOFTPLUS_VEC)
ROW(RT_F64, double, softplus_grad, SOFTPLUS)
KN_FOR_HALFS(ROW, softplus_grad, SOFTPLUS_VEC)
ENTRY(softplus_grad, "SoftplusGrad", FLOATS, infer_equal, 0)

/* ---- elementary functions: x is the function's output, y the gradient ---- */

#define HALF(dt)                ((KN_C(dt))0.5)
#define RECIPROCAL_OF(dt, x, y) (-(y)*KN_ROUND(dt, (x) * (x)))
#define SQRT_OF(dt, x, y)       ((y)*KN_ROUND(dt, HALF(dt) / (x)))
#define RSQRT_OF(dt, x, y)                                                                         \
    ((0 - KN_ROUND(dt, HALF(dt) * KN_ROUND(dt, (y) * (x)))) * KN_ROUND(dt, (x) * (x)))
/* As in TensorFlow, these three functions are 0 where the gradient is 0, even where their value is
 * infinite. For complex numbers, their derivatives are conjugated. */
#define RECIPROCAL_REAL(dt, x, y, alpha)    ((y) == 0 ? 0 : RECIPROCAL_OF(dt, x, y))
#define RECIPROCAL_COMPLEX(dt, x, y, alpha) ((y) == 0 ? 0 : RECIPROCAL_OF(dt, conj(x), y))
#define SQRT_REAL(dt, x, y, alpha)          ((y) == 0 ? 0 : SQRT_OF(dt, x, y))
#define SQRT_COMPLEX(dt, x, y, alpha)       ((y) == 0 ? 0 : SQRT_OF(dt, conj(x), y))
#define RSQRT_REAL(dt, x, y, alpha)         ((y) == 0 ? 0 : RSQRT_OF(dt, x, y))
#define RSQRT_COMPLEX(dt, x, y, alpha)      ((y) == 0 ? 0 : RSQRT_OF(dt, conj(x), y))
#define SIGMOID_REAL(dt, x, y, alpha)       ((y)*KN_ROUND(dt, (x)*KN_ROUND(dt, 1 - (x))))
#define SIGMOID_COMPLEX                     SIGMOID_REAL
#define TANH_REAL(dt, x, y, alpha)          ((y)*KN_ROUND(dt, 1 - KN_ROUND(dt, (x) * (x))))
#define TANH_COMPLEX                        TANH_REAL
#define FUNCTION(NAME, TF, OF)                                                                     \
    KN_FOR_FLOATS(ROW, NAME, OF##_REAL)                                                            \
    KN_FOR_COMPLEX(ROW, NAME, OF##_COMPLEX)                                                        \
    ENTRY(NAME, TF, FLOATS_COMPLEX, infer_count, 0)
FUNCTION(reciprocal_grad, "ReciprocalGrad", RECIPROCAL)
FUNCTION(sqrt_grad, "SqrtGrad", SQRT)
FUNCTION(rsqrt_grad, "RsqrtGrad", RSQRT)
FUNCTION(sigmoid_grad, "SigmoidGrad", SIGMOID)
FUNCTION(tanh_grad, "TanhGrad", TANH)
const struct kn_entry kn_inv_grad = {
    .op = {.name = "InvGrad", .infer = infer_count, .rows = rt_rows_each},
    .kernels = KN_CPU("InvGrad", "reciprocal_grad", 0 KN_FOR_FLOATS_COMPLEX(KN_TYPE_OF, ),
                      reciprocal_grad_prepare, run),
};
