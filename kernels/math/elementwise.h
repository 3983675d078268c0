/*
 * Element-wise ops with one and two inputs. The ops share shape inference, broadcasting and the
 * loops over memory. Each op is an expression, from which the macros below make loops for many
 * types.
 *
 *     #define SUB(dt, x, y) ((KN_U(dt))(x) - (KN_U(dt))(y))
 *     KN_BINARY(sub, "Sub", NUMBERS, SUB)
 *
 * unary.c contains the elementary functions (including tanh and the logistic function). special.c,
 * bessel.c and integrals.c contain special functions, such as erf and gamma, and
 * kernels/nn/activations.c contains the activations. A new op also needs a row in kernels/table.inc
 * and, if it is to be fused, a row in runtime/fusion/elementwise_steps.h.
 *
 * Threads: all functions are pure, except that run functions write their outputs.
 */
#ifndef KN_MATH_ELEMENTWISE_H
#define KN_MATH_ELEMENTWISE_H

#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* ---- shapes ---- */

/* Gives every output the shape of input 0. Lets output 0 be written over input 0 if their types are
 * equal. */
enum rt_status kn_infer_same(struct rt_infer *x);
/* Gives output 0 the broadcast shape of inputs 0 and 1. */
enum rt_status kn_infer_broadcast(struct rt_infer *x);
/* Computes the broadcast of two shapes. Unknown dimensions stay unknown. Errors have TensorFlow's
 * messages. */
enum rt_status kn_broadcast(struct rt_shape *out, const struct rt_shape *a,
                            const struct rt_shape *b, struct rt_error *err);
/* Checks the shapes of value and bias as BiasAdd does. The bias lies along `axis` of the value,
 * where axis -1 is the last one. */
enum rt_status kn_bias_shapes(const struct rt_shape *value, const struct rt_shape *bias, int axis,
                              struct rt_error *err);
bool kn_shape_eq(const struct rt_shape *a, const struct rt_shape *b);
bool kn_shape_known(const struct rt_shape *s);
/* Returns the number of elements of a known shape. */
int64_t kn_shape_count(const struct rt_shape *s);

/* ---- one input ---- */

/* Computes d[i] from s[i] for i < n. d may be s. */
typedef void kn_map_row(void *d, const void *s, int64_t n);

struct kn_map {
    kn_map_row *row[RT_N_DTYPES]; /* the row function for each type of input 0 */
};
enum rt_status kn_map_prepare(struct rt_prep *p, const struct kn_map *op, void **state);
enum rt_status kn_map_run(struct rt_run *r);

/* ---- two inputs ---- */

/* Computes d[i] from a[i * sa] and b[i * sb] for i < n. sa and sb are 0 or 1. Returns false if the
 * op refuses a value. */
typedef bool kn_binary_row(void *d, const void *a, const void *b, int64_t n, int64_t sa,
                           int64_t sb);

struct kn_refusal { /* the error to report if a row function returns false */
    enum rt_status code;
    const char *text;
};
struct kn_binary {
    kn_binary_row *row[RT_N_DTYPES]; /* the row function for each type of input 0 */
    const struct kn_refusal *refusal;
    /* The cost per element, in units of rt_run_spend, of an op that takes microseconds per element.
     * It is 0 for all other ops. */
    int64_t work;
};
enum rt_status kn_binary_prepare(struct rt_prep *p, const struct kn_binary *op, void **state);
enum rt_status kn_binary_run(struct rt_run *r);
/* Runs the loops, and sets *good to whether all row functions returned true. A refused value is not
 * reported as an error. */
enum rt_status kn_binary_walk(struct rt_run *r, bool *good);
/* The maximum number of elements that a kernel may process between two deadline checks. The slowest
 * ops, special functions in double precision, take a few hundred nanoseconds per element. */
enum { KN_CHUNK = 1 << 15 };

/* ---- loops from expressions ---- */

/* Defines a loop over a row of type T that writes a row of type R. For each element, the loop
 * computes EXPR(dt, x), where x = GET(element), and stores the result by PUT. */
#define KN_MAP_LOOP(FAST, FN, T, C, GET, R, PUT, EXPR, dt)                                         \
    FAST static void FN(void *dst, const void *src, int64_t n)                                     \
    {                                                                                              \
        R *d = dst;                                                                                \
        const T *s = src;                                                                          \
        KN_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const C x = GET(s[i]);                                                                 \
            d[i] = PUT(EXPR(dt, x));                                                               \
        }                                                                                          \
    }
#define KN_MAP_SAME(dt, T, NAME, EXPR)                                                             \
    KN_MAP_LOOP(KN_FAST(dt), NAME##_##dt, T, KN_C(dt), KN_GET_##dt, T, KN_PUT_##dt, EXPR, dt)
#define KN_MAP_BOOL(dt, T, NAME, EXPR)                                                             \
    KN_MAP_LOOP(KN_FAST(dt), NAME##_##dt, T, KN_C(dt), KN_GET_##dt, bool, KN_PUT_RT_BOOL, EXPR, dt)

#define KN_BINARY_LOOP(FAST, FN, T, C, GET, R, PUT, EXPR, dt)                                      \
    FAST static bool FN(void *dst, const void *src_a, const void *src_b, int64_t n, int64_t sa,    \
                        int64_t sb)                                                                \
    {                                                                                              \
        R *d = dst;                                                                                \
        const T *a = src_a, *b = src_b;                                                            \
        if (sa && sb) {                                                                            \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const C x = GET(a[i]), y = GET(b[i]);                                              \
                d[i] = PUT(EXPR(dt, x, y));                                                        \
            }                                                                                      \
        } else if (sa) {                                                                           \
            const C y = GET(b[0]);                                                                 \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const C x = GET(a[i]);                                                             \
                d[i] = PUT(EXPR(dt, x, y));                                                        \
            }                                                                                      \
        } else {                                                                                   \
            const C x = GET(a[0]);                                                                 \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const C y = GET(b[i * sb]);                                                        \
                d[i] = PUT(EXPR(dt, x, y));                                                        \
            }                                                                                      \
        }                                                                                          \
        return true;                                                                               \
    }
#define KN_BINARY_SAME(dt, T, NAME, EXPR)                                                          \
    KN_BINARY_LOOP(KN_FAST(dt), NAME##_##dt, T, KN_C(dt), KN_GET_##dt, T, KN_PUT_##dt, EXPR, dt)
#define KN_BINARY_BOOL(dt, T, NAME, EXPR)                                                          \
    KN_BINARY_LOOP(KN_FAST(dt), NAME##_##dt, T, KN_C(dt), KN_GET_##dt, bool, KN_PUT_RT_BOOL, EXPR, \
                   dt)
/* Defines loops that may refuse values. EXPR(dt, T, x, y, bad) sets *bad to true to refuse x and
 * y. */
#define KN_BINARY_CHECKED(dt, T, NAME, EXPR)                                                       \
    static bool NAME##_##dt(void *dst, const void *src_a, const void *src_b, int64_t n,            \
                            int64_t sa, int64_t sb)                                                \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *a = src_a, *b = src_b;                                                            \
        bool bad = false;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T x = a[i * sa], y = b[i * sb];                                                  \
            d[i] = (T)EXPR(dt, T, x, y, &bad);                                                     \
        }                                                                                          \
        return !bad;                                                                               \
    }

/* ---- an op from its rows: tables, prepare, entry ---- */

/* The tables (kn_map_relu and kn_binary_mul, for example) have external linkage, because
 * fused_elementwise.c runs the same loops. */

#define KN_ROW_OF(dt, T, NAME)  [dt] = NAME##_##dt,
#define KN_TYPE_OF(dt, T, NAME) | RT_T(dt)

#define KN_MAP_OP(NAME, TF, LIST)                                                                  \
    const struct kn_map kn_map_##NAME = {.row = {KN_FOR_##LIST(KN_ROW_OF, NAME)}};                 \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        return kn_map_prepare(p, &kn_map_##NAME, state);                                           \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_same, .rows = rt_rows_same},                          \
        .kernels =                                                                                 \
            KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, NAME), NAME##_prepare, kn_map_run),      \
    };
/* Registers the op TF, which uses the loops of the op OF. */
#define KN_MAP_ALIAS(NAME, TF, OF, LIST)                                                           \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_same, .rows = rt_rows_same},                          \
        .kernels = KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, OF), OF##_prepare, kn_map_run),   \
    };
#define KN_MAP(NAME, TF, LIST, EXPR)                                                               \
    KN_FOR_##LIST(KN_MAP_SAME, NAME, EXPR) KN_MAP_OP(NAME, TF, LIST)

#define KN_BINARY_OP(NAME, TF, LIST, REFUSAL) KN_BINARY_SLOW(NAME, TF, LIST, REFUSAL, 0)
#define KN_BINARY_SLOW(NAME, TF, LIST, REFUSAL, WORK)                                              \
    const struct kn_binary kn_binary_##NAME = {                                                    \
        .row = {KN_FOR_##LIST(KN_ROW_OF, NAME)},                                                   \
        .refusal = (REFUSAL),                                                                      \
        .work = (WORK),                                                                            \
    };                                                                                             \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        return kn_binary_prepare(p, &kn_binary_##NAME, state);                                     \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_broadcast, .rows = rt_rows_each},                     \
        .kernels =                                                                                 \
            KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, NAME), NAME##_prepare, kn_binary_run),   \
    };
#define KN_BINARY_ALIAS(NAME, TF, OF, LIST)                                                        \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_broadcast, .rows = rt_rows_each},                     \
        .kernels =                                                                                 \
            KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, OF), OF##_prepare, kn_binary_run),       \
    };
#define KN_BINARY(NAME, TF, LIST, EXPR)                                                            \
    KN_FOR_##LIST(KN_BINARY_SAME, NAME, EXPR) KN_BINARY_OP(NAME, TF, LIST, NULL)

#endif
