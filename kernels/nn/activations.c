/*
 * Activation functions.
 */
#include "kernels/math/elementwise.h"
#include "kernels/cpu/vec_math.h"

#include <float.h>
#include <math.h>
#include <tgmath.h>

#define RELU_U(dt, x)  (x)
#define RELU(dt, x)    ((x) < 0 ? 0 : (x)) /* returns NaN and -0.0 unchanged */
#define RELU6_U(dt, x) ((x) > 6 ? 6 : (x))
#define RELU6(dt, x)   ((x) < 0 ? 0 : (x) > 6 ? 6 : (x))
KN_FOR_SIGNED(KN_MAP_SAME, relu, RELU)
KN_FOR_UNSIGNED(KN_MAP_SAME, relu, RELU_U)
KN_FOR_FLOATS(KN_MAP_SAME, relu, RELU)
KN_MAP_OP(relu, "Relu", REALS)
KN_FOR_SIGNED(KN_MAP_SAME, relu6, RELU6)
KN_FOR_UNSIGNED(KN_MAP_SAME, relu6, RELU6_U)
KN_FOR_FLOATS(KN_MAP_SAME, relu6, RELU6)
KN_MAP_OP(relu6, "Relu6", REALS)

#define KN_FOR_F32_HALFS(M, ...) M(RT_F32, float, __VA_ARGS__) KN_FOR_HALFS(M, __VA_ARGS__)

/* ELU is exp(x) - 1 for x < 0, and x otherwise. */
#define ELU_VEC(dt, x) kn_select((x) < 0, kn_expm1_f32(x), x)
#define ELU(dt, x)     ((x) < 0 ? expm1(x) : (x))
KN_FOR_F32_HALFS(KN_MAP_SAME, elu, ELU_VEC)
KN_MAP_SAME(RT_F64, double, elu, ELU)
KN_MAP_OP(elu, "Elu", FLOATS)

#define SELU_SCALE       1.0507009873554804934193349852946
#define SELU_SCALE_ALPHA 1.7580993408473768599402175208123
#define SELU_VEC(dt, x)                                                                            \
    kn_select((x) < 0, (float)SELU_SCALE_ALPHA * kn_expm1_f32(x), (float)SELU_SCALE * (x))
#define SELU(dt, x) ((x) < 0 ? SELU_SCALE_ALPHA * expm1(x) : SELU_SCALE * (x))
KN_FOR_F32_HALFS(KN_MAP_SAME, selu, SELU_VEC)
KN_MAP_SAME(RT_F64, double, selu, SELU)
KN_MAP_OP(selu, "Selu", FLOATS)

/* Softplus is log(1 + exp(x)). For large x, where exp(x) would overflow, it is x. */
#define SOFTPLUS_VEC(dt, x) kn_select((x) > 20.0f, x, kn_log1p_f32(kn_exp_f32(x)))
#define SOFTPLUS(dt, x)     ((x) > 40 ? (x) : log1p(exp(x)))
KN_FOR_F32_HALFS(KN_MAP_SAME, softplus, SOFTPLUS_VEC)
KN_MAP_SAME(RT_F64, double, softplus, SOFTPLUS)
KN_MAP_OP(softplus, "Softplus", FLOATS)

#define SOFTSIGN(dt, x) ((x) / KN_ROUND(dt, 1 + fabs(x)))
KN_MAP(softsign, "Softsign", FLOATS, SOFTSIGN)

/* ---- an activation with an attribute ---- */

#define LEAKY_ROW(dt, T, NAME)                                                                     \
    KN_FAST(dt) static void NAME##_##dt(void *dst, const void *src, int64_t n, float alpha_)       \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        const T rounded = KN_PUT(dt, alpha_);                                                      \
        const KN_C(dt) alpha = KN_GET(dt, rounded);                                                \
        KN_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) x = KN_GET(dt, s[i]), y = alpha * x;                                    \
            d[i] = KN_PUT(dt, x > 0 ? x : y);                                                      \
        }                                                                                          \
    }
KN_FOR_FLOATS(LEAKY_ROW, leaky_relu)

static enum rt_status leaky_relu_prepare(struct rt_prep *p, void **state)
{
    float *alpha = rt_prep_alloc(p, sizeof *alpha);
    if (!alpha)
        return p->err->code;
    *alpha = rt_attr_float(p->node, "alpha");
    *state = alpha;
    return RT_OK;
}

static enum rt_status leaky_relu_run(struct rt_run *r)
{
    const float alpha = *(const float *)r->state;
    int64_t left = RT_WORK;
    const int64_t n = rt_tensor_count(&r->in[0]);
    switch (r->in[0].dtype) {
#define X(dt, T, NAME)                                                                             \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i += KN_CHUNK) {                                                \
            const int64_t some = n - i < KN_CHUNK ? n - i : KN_CHUNK;                              \
            NAME##_##dt((T *)r->out[0].data + i, (const T *)r->in[0].data + i, some, alpha);       \
            if (rt_run_spend(r, &left, 4 * some))                                                  \
                return r->err->code;                                                               \
        }                                                                                          \
        break;
        KN_FOR_FLOATS(X, leaky_relu)
#undef X
    }
    return RT_OK;
}

const struct kn_entry kn_leaky_relu = {
    .op = {.name = "LeakyRelu", .infer = kn_infer_same, .rows = rt_rows_same},
    .kernels = KN_CPU("LeakyRelu", "leaky_relu", KN_SET(KN_FLOATS) | KN_SET(KN_HALFS),
                      leaky_relu_prepare, leaky_relu_run),
};
