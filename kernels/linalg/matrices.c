/*
 * Shapes of batches of matrices, transposition, and the layout of scratch memory.
 */
#include <complex.h>
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/linalg/linalg.h"

enum rt_status kn_matrices(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;
    if (s->rank >= 0 && s->rank < 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input tensor 0 must have rank >= 2, got %d",
                       s->rank);
    return RT_OK;
}

enum rt_status kn_square_matrices(struct rt_infer *x, const char *words)
{
    const struct rt_shape *s = &x->in[0].shape;
    const enum rt_status st = kn_matrices(x);
    if (st)
        return st;
    if (s->rank >= 2 && s->dim[s->rank - 1] >= 0 && s->dim[s->rank - 2] >= 0 &&
        s->dim[s->rank - 1] != s->dim[s->rank - 2])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s", words);
    return RT_OK;
}

enum rt_status kn_same_batch(struct rt_infer *x, int n)
{
    const struct rt_shape *a = &x->in[0].shape;

    if (a->rank < 0)
        return RT_OK;
    const enum rt_status st = kn_matrices(x);
    if (st)
        return st;
    for (int k = 1; k < n; k++) {
        const struct rt_shape *b = &x->in[k].shape;
        if (b->rank >= 0 && a->rank != b->rank)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "All input tensors must have the same rank.");
        for (int i = 0; i < b->rank - 2; i++)
            if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i])
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "All input tensors must have the same outer dimensions.");
    }
    return RT_OK;
}

void kn_rows_batch(struct rt_rows *r)
{
    const struct rt_dep in = r->in_dep[0];
    const int rank = r->in[0].shape.rank;

    if (in.kind != RT_DEP_NONE && (in.kind != RT_DEP_ROWS || in.axis >= rank - 2))
        return;
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = r->out[k].shape.rank < rank - 2 || (rank > 2 && !r->out[k].shape.rank)
                            ? (struct rt_dep){RT_DEP_NONE, 0}
                            : in;
}

int64_t kn_matrix_count(const struct rt_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank - 2; i++)
        n *= t->dim[i];
    return n;
}

enum {
    LINE = 16,       /* number of rows that are transposed together: a cache line of floats */
    COST = 4,        /* cost of writing an element */
    FRESH = 1 << 20, /* number of bytes from which on memory may be new to the process */
};

#define AS_IS(v) (v)
#define TURN(dt, T, CONJ)                                                                          \
    void kn_turn_##dt(struct kn_ask *q, const T *a, int64_t m, int64_t n, T *out, bool conjugate)  \
    {                                                                                              \
        const size_t bytes = (size_t)m * (size_t)n * sizeof(T);                                    \
        /* The first rows are written to all pages. If the pages are new, the kernel clears them,  \
         * which takes long and is therefore done in chunks. */                                    \
        if (bytes >= FRESH && !q->ended && kn_zero_chunks(q->r, out, bytes))                       \
            q->ended = true;                                                                       \
        for (int64_t i = 0; i < m && !kn_ends(q, COST * LINE * n); i += LINE) {                    \
            const int64_t end = i + LINE < m ? i + LINE : m;                                       \
            for (int64_t j = 0; j < n; j++)                                                        \
                for (int64_t k = i; k < end; k++)                                                  \
                    out[j * m + k] = conjugate ? CONJ(a[k * n + j]) : a[k * n + j];                \
        }                                                                                          \
    }
TURN(RT_F32, float, AS_IS)
TURN(RT_F64, double, AS_IS)
TURN(RT_C64, float _Complex, conjf)
TURN(RT_C128, double _Complex, conj)

#define FINITE(dt, T, TEST)                                                                        \
    bool kn_finite_##dt(struct kn_ask *q, const T *a, int64_t n)                                   \
    {                                                                                              \
        enum { PART = 1 << 16 };                                                                   \
        bool fine = true;                                                                          \
        for (int64_t i = 0; i < n && !kn_ends(q, PART); i += PART)                                 \
            for (int64_t k = i; k < n && k < i + PART; k++)                                        \
                fine = fine && TEST(a[k]);                                                         \
        return fine;                                                                               \
    }
#define BOTH_FINITE(v) (isfinite(creal(v)) && isfinite(cimag(v)))
FINITE(RT_F32, float, isfinite)
FINITE(RT_F64, double, isfinite)
FINITE(RT_C64, float _Complex, BOTH_FINITE)
FINITE(RT_C128, double _Complex, BOTH_FINITE)

void *kn_space_take(struct kn_space *s, int64_t n, size_t size)
{
    const size_t most = SIZE_MAX / 4;
    const size_t bytes = n < 0 || (size_t)n > most / size ? most : (size_t)n * size;
    const size_t at = s->used;

    s->used = at > most || bytes == most ? SIZE_MAX : at + (bytes + 63) / 64 * 64;
    return s->base ? s->base + at : NULL;
}
