/* Element-wise ops with one input. */
#include "kernels/math/elementwise.h"
#include "kernels/cpu/vec_math.h"

#include <math.h>
#include <tgmath.h>

/* ---- arithmetic; integers wrap around ---- */

#define NEG(dt, x)        (-(KN_U(dt))(x))
#define SQUARE(dt, x)     ((KN_U(dt))(x) * (KN_U(dt))(x))
#define ABS_INT(dt, x)    ((x) < 0 ? 0 - (KN_U(dt))(x) : (KN_U(dt))(x))
#define ABS(dt, x)        fabs(x)
#define RECIPROCAL(dt, x) (1 / (x))
KN_MAP(neg, "Neg", NUMBERS, NEG)
KN_MAP(square, "Square", NUMBERS, SQUARE)
KN_FOR_SIGNED(KN_MAP_SAME, abs, ABS_INT)
KN_FOR_FLOATS(KN_MAP_SAME, abs, ABS)
#define KN_FOR_SIGNED_FLOATS(M, ...) KN_FOR_SIGNED(M, __VA_ARGS__) KN_FOR_FLOATS(M, __VA_ARGS__)
KN_MAP_OP(abs, "Abs", SIGNED_FLOATS)
KN_MAP(reciprocal, "Reciprocal", FLOATS_COMPLEX, RECIPROCAL)
KN_MAP_ALIAS(inv, "Inv", reciprocal, FLOATS_COMPLEX)

#define SIGN_INT(dt, x)     (((x) > 0) - ((x) < 0))
#define SIGN_FLOAT(dt, x)   ((x) != (x) ? (x) : (KN_C(dt))(((x) > 0) - ((x) < 0)))
#define SIGN_COMPLEX(dt, x) ((x) == 0 ? 0 : (x) / fabs(x))
#define KN_FOR_SIGNED_FLOATS_COMPLEX(M, ...)                                                       \
    KN_FOR_SIGNED_FLOATS(M, __VA_ARGS__) KN_FOR_COMPLEX(M, __VA_ARGS__)
KN_FOR_SIGNED(KN_MAP_SAME, sign, SIGN_INT)
KN_FOR_FLOATS(KN_MAP_SAME, sign, SIGN_FLOAT)
KN_FOR_COMPLEX(KN_MAP_SAME, sign, SIGN_COMPLEX)
KN_MAP_OP(sign, "Sign", SIGNED_FLOATS_COMPLEX)

/* ---- to integers ---- */

#define FLOOR(dt, x) floor(x)
#define CEIL(dt, x)  ceil(x)
#define RINT(dt, x)  rint(x) /* rint rounds ties to even */
#define SAME(dt, x)  (x)
KN_MAP(floor, "Floor", FLOATS, FLOOR)
KN_MAP(ceil, "Ceil", FLOATS, CEIL)
KN_MAP(rint, "Rint", FLOATS, RINT)
#define KN_FOR_ROUND(M, ...) KN_FOR_INTS(M, __VA_ARGS__) KN_FOR_FLOATS(M, __VA_ARGS__)
KN_FOR_INTS(KN_MAP_SAME, round, SAME)
KN_FOR_FLOATS(KN_MAP_SAME, round, RINT)
KN_MAP_OP(round, "Round", ROUND)

/* ---- roots, powers, logarithms ---- */

/* Float and half-precision types use Slipway's functions, and double and complex types use the C
 * library's. */
#define KN_FOR_F32_HALFS(M, ...)   M(RT_F32, float, __VA_ARGS__) KN_FOR_HALFS(M, __VA_ARGS__)
#define KN_FOR_F64_COMPLEX(M, ...) M(RT_F64, double, __VA_ARGS__) KN_FOR_COMPLEX(M, __VA_ARGS__)
#define VEC_OR_LIBRARY(NAME, TF, VEC, LIBRARY)                                                     \
    KN_FOR_F32_HALFS(KN_MAP_SAME, NAME, VEC)                                                       \
    KN_FOR_F64_COMPLEX(KN_MAP_SAME, NAME, LIBRARY)                                                 \
    KN_MAP_OP(NAME, TF, FLOATS_COMPLEX)

#define SQRT(dt, x)  sqrt(x)
#define RSQRT(dt, x) (1 / KN_ROUND(dt, sqrt(x)))
KN_MAP(sqrt, "Sqrt", FLOATS_COMPLEX, SQRT)
KN_MAP(rsqrt, "Rsqrt", FLOATS_COMPLEX, RSQRT)

#define EXP(dt, x)           exp(x)
#define VEC_EXP(dt, x)       kn_exp_f32(x)
#define VEC_EXPM1(dt, x)     kn_expm1_f32(x)
#define EXPM1(dt, x)         expm1(x)
#define EXPM1_COMPLEX(dt, x) expm1_complex(x)
#define LOG(dt, x)           log(KN_FLUSH(x))
#define LOG_COMPLEX(dt, x)   log(x)
#define VEC_LOG(dt, x)       kn_log_f32(x)
#define VEC_LOG1P(dt, x)     kn_log1p_f32(x)
#define LOG1P(dt, x)         log1p(x)
#define LOG1P_COMPLEX(dt, x) log1p_complex(x)

/* Computes exp(a + bi) - 1 as `expm1(a) cos b - 2 sin(b/2)^2 + i exp(a) sin b`, which loses no
 * digits near 0. */
static inline double _Complex expm1_complex(double _Complex x)
{
    const double a = creal(x), b = cimag(x), s = sin(b / 2);
    return CMPLX(expm1(a) * cos(b) - 2 * s * s, exp(a) * sin(b));
}

/* For small z, the modulus of 1 + z is near 1, so the logarithm of the modulus is computed from
 * `|1 + z|^2 - 1`. */
static inline double _Complex log1p_complex(double _Complex x)
{
    const double a = creal(x), b = cimag(x);
    const double size = a * (2 + a) + b * b;
    return CMPLX(fabs(size) < 0.5 ? log1p(size) / 2 : log(hypot(1 + a, b)), atan2(b, 1 + a));
}

VEC_OR_LIBRARY(exp, "Exp", VEC_EXP, EXP)
KN_FOR_F32_HALFS(KN_MAP_SAME, log, VEC_LOG)
KN_MAP_SAME(RT_F64, double, log, LOG)
KN_FOR_COMPLEX(KN_MAP_SAME, log, LOG_COMPLEX)
KN_MAP_OP(log, "Log", FLOATS_COMPLEX)
KN_FOR_F32_HALFS(KN_MAP_SAME, expm1, VEC_EXPM1)
KN_MAP_SAME(RT_F64, double, expm1, EXPM1)
KN_FOR_COMPLEX(KN_MAP_SAME, expm1, EXPM1_COMPLEX)
KN_MAP_OP(expm1, "Expm1", FLOATS_COMPLEX)
KN_FOR_F32_HALFS(KN_MAP_SAME, log1p, VEC_LOG1P)
KN_MAP_SAME(RT_F64, double, log1p, LOG1P)
KN_FOR_COMPLEX(KN_MAP_SAME, log1p, LOG1P_COMPLEX)
KN_MAP_OP(log1p, "Log1p", FLOATS_COMPLEX)

/* ---- angles ---- */

#define SIN(dt, x)   sin(x)
#define COS(dt, x)   cos(x)
#define TAN(dt, x)   tan(x)
#define ASIN(dt, x)  asin(x)
#define ACOS(dt, x)  acos(x)
#define ATAN(dt, x)  atan(x)
#define SINH(dt, x)  sinh(x)
#define COSH(dt, x)  cosh(x)
#define ASINH(dt, x) asinh(x)
#define ACOSH(dt, x) acosh(x)
#define ATANH(dt, x) atanh(x)
KN_MAP(sin, "Sin", FLOATS_COMPLEX, SIN)
KN_MAP(cos, "Cos", FLOATS_COMPLEX, COS)
KN_MAP(tan, "Tan", FLOATS_COMPLEX, TAN)
KN_MAP(asin, "Asin", FLOATS_COMPLEX, ASIN)
KN_MAP(acos, "Acos", FLOATS_COMPLEX, ACOS)
KN_MAP(atan, "Atan", FLOATS_COMPLEX, ATAN)
KN_MAP(sinh, "Sinh", FLOATS_COMPLEX, SINH)
KN_MAP(cosh, "Cosh", FLOATS_COMPLEX, COSH)
KN_MAP(asinh, "Asinh", FLOATS_COMPLEX, ASINH)
KN_MAP(acosh, "Acosh", FLOATS_COMPLEX, ACOSH)
KN_MAP(atanh, "Atanh", FLOATS_COMPLEX, ATANH)

#define VEC_TANH(dt, x)    kn_tanh_f32(x)
#define TANH(dt, x)        tanh(x)
#define VEC_SIGMOID(dt, x) kn_sigmoid_f32(x)
#define SIGMOID(dt, x)     (1 / (1 + exp(-(x))))
VEC_OR_LIBRARY(tanh, "Tanh", VEC_TANH, TANH)
VEC_OR_LIBRARY(sigmoid, "Sigmoid", VEC_SIGMOID, SIGMOID)

/* ---- predicates ---- */

#define IS_NAN(dt, x)    ((x) != (x))
#define IS_INF(dt, x)    (fabs(x) == INFINITY)
#define IS_FINITE(dt, x) (fabs(x) < INFINITY)
KN_FOR_FLOATS(KN_MAP_BOOL, is_nan, IS_NAN)
KN_MAP_OP(is_nan, "IsNan", FLOATS)
KN_FOR_FLOATS(KN_MAP_BOOL, is_inf, IS_INF)
KN_MAP_OP(is_inf, "IsInf", FLOATS)
KN_FOR_FLOATS(KN_MAP_BOOL, is_finite, IS_FINITE)
KN_MAP_OP(is_finite, "IsFinite", FLOATS)

/* ---- complex numbers ---- */

#define CONJ(dt, x) conj(x)
KN_MAP(conj, "Conj", COMPLEX, CONJ)

#define REAL(dt, x)  creal(x)
#define IMAG(dt, x)  cimag(x)
#define ANGLE(dt, x) carg(x)
#define CABS(dt, x)  fabs(x)
#define PARTS(NAME, TF, EXPR)                                                                      \
    KN_MAP_LOOP(, NAME##_RT_C64, float _Complex, float _Complex, , float, , EXPR, 0)               \
    KN_MAP_LOOP(, NAME##_RT_C128, double _Complex, double _Complex, , double, , EXPR, 0)           \
    static const struct kn_map NAME##_map = {.row = {KN_FOR_COMPLEX(KN_ROW_OF, NAME)}};            \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        return kn_map_prepare(p, &NAME##_map, state);                                              \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_same, .rows = rt_rows_same},                          \
        .kernels = KN_KERNELS(                                                                     \
            KN_CPU_PAIR(TF, #NAME ".64", RT_C64, "Tout", RT_F32, NAME##_prepare, kn_map_run),      \
            KN_CPU_PAIR(TF, #NAME ".128", RT_C128, "Tout", RT_F64, NAME##_prepare, kn_map_run)),   \
    };
PARTS(real, "Real", REAL)
PARTS(imag, "Imag", IMAG)
PARTS(angle, "Angle", ANGLE)
PARTS(complex_abs, "ComplexAbs", CABS)
