/*
 * Arithmetic ops of two broadcast inputs. Integers wrap around; integer division by zero is an
 * error.
 */
#include "kernels/array/array.h"
#include "kernels/list/list.h"
#include "kernels/math/elementwise.h"
#include "kernels/string/text.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

static const struct kn_refusal by_zero = {RT_INVALID_ARGUMENT, "Integer division by zero"};
/* TruncateDiv and TruncateMod report division by zero with the message that TensorFlow uses for an
 * unexpected error. */
static const struct kn_refusal truncate_by_zero = {
    RT_INTERNAL,
    "Unexpected error in binary operator (only integer div and mod should have errors)",
};
static const struct kn_refusal negative_power = {
    RT_INVALID_ARGUMENT,
    "Integers to negative integer powers are not allowed",
};

/* ---- sums and products ---- */

#define ADD(dt, x, y) ((KN_U(dt))(x) + (KN_U(dt))(y))
#define SUB(dt, x, y) ((KN_U(dt))(x) - (KN_U(dt))(y))
#define MUL(dt, x, y) ((KN_U(dt))(x) * (KN_U(dt))(y))
KN_BINARY(add_v2, "AddV2", NUMBERS, ADD)
KN_BINARY(sub, "Sub", NUMBERS, SUB)
KN_BINARY(mul, "Mul", NUMBERS, MUL)

#define MUL_NO_NAN(dt, x, y) ((y) == 0 ? 0 : (x) * (y))
KN_BINARY(mul_no_nan, "MulNoNan", FLOATS_COMPLEX, MUL_NO_NAN)

#define SQUARED_DIFFERENCE(dt, x, y)                                                               \
    ((KN_U(dt))KN_ROUND(dt, SUB(dt, x, y)) * (KN_U(dt))KN_ROUND(dt, SUB(dt, x, y)))
#define SQUARED_MODULUS(dt, x, y) ((x) - (y)) * conj((x) - (y))
KN_FOR_REALS(KN_BINARY_SAME, squared_difference, SQUARED_DIFFERENCE)
KN_FOR_COMPLEX(KN_BINARY_SAME, squared_difference, SQUARED_MODULUS)
KN_BINARY_OP(squared_difference, "SquaredDifference", NUMBERS, NULL)

/* Implements Add of strings, which concatenates the strings of each pair. */
static enum rt_status add_strings_run(struct rt_run *r)
{
    struct kn_pairs at;
    enum rt_status st = kn_outputs(r, kn_infer_broadcast);
    int64_t left = RT_WORK;

    if (st)
        return st;
    const int64_t n = rt_tensor_count(&r->out[0]);
    kn_pairs_begin(&at, &r->out[0], &r->in[0], &r->in[1]);
    for (int64_t i = 0; i < n; i++, kn_pairs_next(&at)) {
        const struct rt_str *x = &rt_strs(&r->in[0])[at.a], *y = &rt_strs(&r->in[1])[at.b];
        struct rt_str joined = {.n = 0}, *d = (struct rt_str *)r->out[0].data + i;
        char *to = rt_str_resize(&joined, rt_run_pool(r), x->n + y->n, r->err);
        if (!to)
            return r->err->code;
        st = kn_copy_text(r, &left, to, rt_str_data(x), x->n);
        st = st ? st : kn_copy_text(r, &left, to + x->n, rt_str_data(y), y->n);
        st = st ? st : rt_run_spend(r, &left, KN_STRING_WORK);
        rt_str_clear(st ? &joined : d);
        if (st)
            return st;
        *d = joined;
    }
    return RT_OK;
}

static enum rt_status add_infer(struct rt_infer *x)
{
    const enum rt_status st = kn_infer_broadcast(x);
    if (x->out[0].dtype == RT_STRING)
        x->alias[0] = -1;
    return st;
}

const struct kn_entry kn_add = {
    .op = {.name = "Add", .infer = add_infer, .rows = rt_rows_each},
    .kernels = KN_KERNELS({.op = "Add",
                           .device = "CPU",
                           .name = "add",
                           .types = KN_SET(KN_NUMBERS),
                           .prepare = add_v2_prepare,
                           .run = kn_binary_run},
                          {.op = "Add",
                           .device = "CPU",
                           .name = "add.strings",
                           .types = RT_T(RT_STRING),
                           .run = add_strings_run}),
};

/* ---- division ---- */

/* Returns x / y. The minimum integer divided by -1 wraps around instead of trapping. */
static inline int64_t div_int(int64_t x, int64_t y, bool *bad)
{
    if (y == 0)
        *bad = true;
    return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static inline int64_t mod_int(int64_t x, int64_t y, bool *bad)
{
    if (y == 0)
        *bad = true;
    return y == 0 || y == -1 ? 0 : x % y;
}

/* Returns x / y rounded down. This is the truncated quotient, less one if there is a remainder and
 * the signs of x and y differ. */
static inline int64_t floor_div_int(int64_t x, int64_t y, bool *bad)
{
    return div_int(x, y, bad) - (mod_int(x, y, bad) != 0 && (x < 0) != (y < 0));
}

static inline int64_t floor_mod_int(int64_t x, int64_t y, bool *bad)
{
    const int64_t m = mod_int(x, y, bad);
    return m != 0 && (x < 0) != (y < 0) ? m + y : m;
}

#define S_DIV(dt, T, x, y, bad)       div_int(x, y, bad)
#define S_MOD(dt, T, x, y, bad)       mod_int(x, y, bad)
#define S_FLOOR_DIV(dt, T, x, y, bad) floor_div_int(x, y, bad)
#define S_FLOOR_MOD(dt, T, x, y, bad) floor_mod_int(x, y, bad)
#define U_DIV(dt, T, x, y, bad)       ((y) == 0 ? (*(bad) = true, (T)0) : (T)((x) / (y)))
#define U_MOD(dt, T, x, y, bad)       ((y) == 0 ? (*(bad) = true, (T)0) : (T)((x) % (y)))

#define DIV(dt, x, y) ((x) / (y))
KN_FOR_SIGNED(KN_BINARY_CHECKED, div, S_DIV)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, div, U_DIV)
KN_FOR_FLOATS_COMPLEX(KN_BINARY_SAME, div, DIV)
KN_BINARY_OP(div, "Div", NUMBERS, &by_zero)
KN_BINARY_ALIAS(real_div, "RealDiv", div, FLOATS_COMPLEX)

#define DIV_NO_NAN(dt, x, y) ((y) == 0 ? 0 : (x) / (y))
KN_BINARY(div_no_nan, "DivNoNan", FLOATS_COMPLEX, DIV_NO_NAN)

#define TRUNCATE_DIV(dt, x, y) trunc(KN_ROUND(dt, (x) / (y)))
KN_FOR_SIGNED(KN_BINARY_CHECKED, truncate_div, S_DIV)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, truncate_div, U_DIV)
KN_FOR_FLOATS(KN_BINARY_SAME, truncate_div, TRUNCATE_DIV)
KN_BINARY_OP(truncate_div, "TruncateDiv", REALS, &truncate_by_zero)

#define FLOOR_DIV(dt, x, y) floor(KN_ROUND(dt, (x) / (y)))
KN_FOR_SIGNED(KN_BINARY_CHECKED, floor_div, S_FLOOR_DIV)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, floor_div, U_DIV)
KN_FOR_FLOATS(KN_BINARY_SAME, floor_div, FLOOR_DIV)
KN_BINARY_OP(floor_div, "FloorDiv", REALS, &by_zero)

#define TRUNCATE_MOD(dt, x, y) fmod(x, y)
KN_FOR_SIGNED(KN_BINARY_CHECKED, truncate_mod, S_MOD)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, truncate_mod, U_MOD)
KN_FOR_FLOATS(KN_BINARY_SAME, truncate_mod, TRUNCATE_MOD)
KN_BINARY_OP(truncate_mod, "TruncateMod", REALS, &truncate_by_zero)
static enum rt_status mod_prepare(struct rt_prep *p, void **state)
{
    static const struct kn_binary op = {.row = {KN_FOR_REALS(KN_ROW_OF, truncate_mod)},
                                        .refusal = &by_zero};
    return kn_binary_prepare(p, &op, state);
}
KN_BINARY_ALIAS(mod, "Mod", mod, REALS)

static inline double floor_mod(double x, double y)
{
    const double m = (fmod)(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
static inline float floor_mod_f(float x, float y)
{
    const float m = fmodf(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
#define FLOOR_MOD(dt, x, y) _Generic((x), float : floor_mod_f, double : floor_mod)(x, y)
KN_FOR_SIGNED(KN_BINARY_CHECKED, floor_mod, S_FLOOR_MOD)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, floor_mod, U_MOD)
KN_FOR_FLOATS(KN_BINARY_SAME, floor_mod, FLOOR_MOD)
KN_BINARY_OP(floor_mod, "FloorMod", REALS, &by_zero)

/* ---- powers ---- */

static uint64_t int_pow(uint64_t x, uint64_t y)
{
    uint64_t p = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1)
            p *= x;
    return p;
}

#define POW(dt, x, y) pow(x, y)
/* Computes squares and cubes as the shortcuts of POW_OR_SQUARE do, so that a result does not depend
 * on whether the elements of a row share one exponent. */
#define POW_REAL(dt, x, y) ((y) == 2 ? (x) * (x) : (y) == 3 ? CUBE(dt, x) : (KN_C(dt))pow(x, y))
#define CUBE(dt, x)                                                                                \
    (sizeof(x) == sizeof(float) ? (KN_C(dt))((double)(x) * (double)(x) * (double)(x))              \
                                : (KN_C(dt))pow(x, 3))
#define S_POW(dt, T, x, y, bad)                                                                    \
    ((y) < 0 ? (*(bad) = true, (T)0) : (T)int_pow((uint64_t)(x), (uint64_t)(y)))
#define U_POW(dt, T, x, y, bad) ((T)int_pow(x, y))
KN_FOR_SIGNED(KN_BINARY_CHECKED, pow, S_POW)
KN_FOR_UNSIGNED(KN_BINARY_CHECKED, pow, U_POW)
KN_FOR_FLOATS(KN_BINARY_SAME, pow_any, POW_REAL)
KN_FOR_COMPLEX(KN_BINARY_SAME, pow_any, POW)
KN_FOR_FLOATS(KN_MAP_SAME, cube, CUBE)

/* x * x equals the correctly rounded power, and is about a hundred times as fast. Squares are
 * frequent in models. The cube of x, computed in double and rounded to float, also equals the
 * power. The tanh approximation of GELU uses a cube. */
#define POW_OR_SQUARE(dt, T, unused)                                                               \
    static bool pow_##dt(void *dst, const void *a, const void *b, int64_t n, int64_t sa,           \
                         int64_t sb)                                                               \
    {                                                                                              \
        if (!sb && KN_GET(dt, *(const T *)b) == 2)                                                 \
            return mul_##dt(dst, a, a, n, sa, sa);                                                 \
        if (!sb && sa && KN_GET(dt, *(const T *)b) == 3) {                                         \
            cube_##dt(dst, a, n);                                                                  \
            return true;                                                                           \
        }                                                                                          \
        return pow_any_##dt(dst, a, b, n, sa, sb);                                                 \
    }
KN_FOR_FLOATS(POW_OR_SQUARE, 0)
#define pow_RT_C64  pow_any_RT_C64
#define pow_RT_C128 pow_any_RT_C128
KN_BINARY_OP(pow, "Pow", NUMBERS, &negative_power)

/* ---- extremes; NaN wins, and of two zeros the first ---- */

#define MAXIMUM(dt, x, y) ((x) >= (y) || (x) != (x) ? (x) : (y))
#define MINIMUM(dt, x, y) ((x) <= (y) || (x) != (x) ? (x) : (y))
KN_BINARY(maximum, "Maximum", REALS, MAXIMUM)
KN_BINARY(minimum, "Minimum", REALS, MINIMUM)

/* ---- the rest ---- */

#define ATAN2(dt, x, y) atan2(x, y)
KN_BINARY(atan2, "Atan2", FLOATS, ATAN2)

#define XDIVY(dt, x, y) ((x) == 0 ? 0 : (x) / (y))
KN_BINARY(xdivy, "Xdivy", FLOATS_COMPLEX, XDIVY)

#define XLOGY(dt, x, y)         ((x) == 0 ? 0 : (x)*KN_ROUND(dt, log(KN_FLUSH(y))))
#define XLOGY_COMPLEX(dt, x, y) ((x) == 0 ? 0 : (x)*log(y))
KN_FOR_FLOATS(KN_BINARY_SAME, xlogy, XLOGY)
KN_FOR_COMPLEX(KN_BINARY_SAME, xlogy, XLOGY_COMPLEX)
KN_BINARY_OP(xlogy, "Xlogy", FLOATS_COMPLEX, NULL)

#define XLOG1PY(dt, x, y)         ((x) == 0 ? 0 : (x)*KN_ROUND(dt, log1p(y)))
#define XLOG1PY_COMPLEX(dt, x, y) ((x) == 0 ? 0 : (x)*log(1 + (y)))
KN_FOR_FLOATS(KN_BINARY_SAME, xlog1py, XLOG1PY)
KN_FOR_COMPLEX(KN_BINARY_SAME, xlog1py, XLOG1PY_COMPLEX)
KN_BINARY_OP(xlog1py, "Xlog1py", FLOATS_COMPLEX, NULL)

#define NEXT_AFTER(dt, x, y) nextafter(x, y)
KN_BINARY(next_after, "NextAfter", WIDE, NEXT_AFTER)

/* Complex combines two real inputs into complex numbers. */
#undef complex
#define COMPLEX_F(dt, x, y) CMPLXF(x, y)
#define COMPLEX_D(dt, x, y) CMPLX(x, y)
KN_BINARY_LOOP(, complex_RT_F32, float, float, , float _Complex, , COMPLEX_F, 0)
KN_BINARY_LOOP(, complex_RT_F64, double, double, , double _Complex, , COMPLEX_D, 0)
static const struct kn_binary complex_binary = {
    .row = {[RT_F32] = complex_RT_F32, [RT_F64] = complex_RT_F64}};
static enum rt_status complex_prepare(struct rt_prep *p, void **state)
{
    return kn_binary_prepare(p, &complex_binary, state);
}
const struct kn_entry kn_complex = {
    .op = {.name = "Complex", .infer = kn_infer_broadcast, .rows = rt_rows_each},
    .kernels = KN_KERNELS(KN_CPU_PAIR("Complex", "complex.64", RT_F32, "Tout", RT_C64,
                                      complex_prepare, kn_binary_run),
                          KN_CPU_PAIR("Complex", "complex.128", RT_F64, "Tout", RT_C128,
                                      complex_prepare, kn_binary_run)),
};

/* ---- many inputs ---- */

static enum rt_status add_n_infer(struct rt_infer *x)
{
    char first[160], other[160];
    for (int k = 0; k < x->n_in; k++) {
        const struct rt_shape *a = &x->in[0].shape, *b = &x->in[k].shape;
        if (!kn_shape_known(a) || !kn_shape_known(b))
            return RT_OK;
        if (!kn_shape_eq(a, b))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Inputs to operation %s of type %s must have the same size and shape.  "
                           "Input 0: %s != input %d: %s",
                           x->node->name, x->node->schema->name,
                           rt_shape_text(first, sizeof first, a->rank, a->dim), k,
                           rt_shape_text(other, sizeof other, b->rank, b->dim));
    }
    x->out[0].shape = x->in[0].shape;
    x->alias[0] = 0;
    return RT_OK;
}

/* Adds all inputs to one chunk of the output at a time, so that the chunk stays in the cache. */
static enum rt_status add_n_run(struct rt_run *r)
{
    enum { CHUNK = 4096, COST = 4 /* cost per element, in units of rt_run_spend */ };
    const enum rt_dtype dtype = (enum rt_dtype)r->in[0].dtype;
    const int64_t n = rt_tensor_count(&r->in[0]), size = (int64_t)rt_dtype_size(dtype);
    kn_binary_row *add = kn_binary_add_v2.row[dtype];
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t m = n - i < CHUNK ? n - i : CHUNK;
        char *d = (char *)r->out[0].data + i * size;
        const char *first = (const char *)r->in[0].data + i * size;
        if (r->n_in == 1 && d != first)
            memcpy(d, first, (size_t)(m * size));
        for (int k = 1; k < r->n_in; k++) {
            add(d, k == 1 ? first : d, (const char *)r->in[k].data + i * size, m, 1, 1);
            if (rt_run_spend(r, &left, COST * m))
                return r->err->code;
        }
        if (rt_run_spend(r, &left, m))
            return r->err->code;
    }
    return RT_OK;
}

/* Runs AddN and AccumulateNV2. For a single input, AddN returns the input without a copy, and
 * AccumulateNV2 copies it. */
static enum rt_status add_n_share(struct rt_run *r)
{
    return r->n_in == 1 && kn_hand_on(r, 0) ? RT_OK : add_n_run(r);
}

const struct kn_entry kn_add_n = {
    .op = {.name = "AddN", .infer = add_n_infer, .rows = rt_rows_each},
    .kernels = KN_KERNELS({.op = "AddN",
                           .device = "CPU",
                           .name = "add_n",
                           .types = KN_SET(KN_NUMBERS),
                           .run = add_n_share},
                          {.op = "AddN",
                           .device = "CPU",
                           .name = "add_n_variant",
                           .flags = RT_K_VIEWS,
                           .types = RT_T(RT_VARIANT),
                           .run = kn_variant_add_n}),
};
const struct kn_entry kn_accumulate_n_v2 = {
    .op = {.name = "AccumulateNV2", .infer = add_n_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("AccumulateNV2", "accumulate_n_v2", KN_SET(KN_NUMBERS), NULL, add_n_run),
};
