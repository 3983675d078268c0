#include "kernels/linalg/lapack.h"

#include <setjmp.h>
#include <string.h>

struct guard {
    struct kn_ask *ask;
    jmp_buf leave;
};
static _Thread_local struct guard *current;

void kn_lapack_call(struct kn_ask *q, void (*body)(void *), void *arg)
{
    struct guard g = {.ask = q};

    if (q->ended)
        return;
    current = &g;
    if (!setjmp(g.leave))
        body(arg);
    current = NULL;
}

enum rt_status kn_lapack_size(int64_t m, int64_t n, struct rt_error *err)
{
    if (m <= KN_LAPACK_MOST && n <= KN_LAPACK_MOST)
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "A matrix of %lld x %lld is too large to be decomposed: at most %d rows and "
                   "columns are possible.",
                   (long long)m, (long long)n, KN_LAPACK_MOST);
}

/* ---- functions before LAPACK's own ---- */

static void spend(int64_t work)
{
    if (current && kn_ends(current->ask, work))
        longjmp(current->leave, 1);
}

/* Most functions of LAPACK begin by comparing option letters. Between two comparisons, there are at
 * most a few operations on vectors and matrix-vector products. */
int __real_lsame_(const char *a, const char *b, size_t la, size_t lb);
int __wrap_lsame_(const char *a, const char *b, size_t la, size_t lb);
int __wrap_lsame_(const char *a, const char *b, size_t la, size_t lb)
{
    spend(RT_WORK / 64);
    return __real_lsame_(a, b, la, lb);
}

/* A reduction generates one reflector for each column, and then multiplies the matrix by it. */
#define REFLECTOR(p, T)                                                                            \
    void __real_##p##larfg_(const int *n, T *alpha, T *x, const int *incx, T *tau);                \
    void __wrap_##p##larfg_(const int *n, T *alpha, T *x, const int *incx, T *tau);                \
    void __wrap_##p##larfg_(const int *n, T *alpha, T *x, const int *incx, T *tau)                 \
    {                                                                                              \
        spend(*n > 1000 ? RT_WORK : RT_WORK / 16);                                                 \
        __real_##p##larfg_(n, alpha, x, incx, tau);                                                \
    }
REFLECTOR(s, float)
REFLECTOR(d, double)
REFLECTOR(c, float _Complex)
REFLECTOR(z, double _Complex)

/* Balancing computes the norm of each row and column of a matrix several times. */
#define NORM(name, R, T)                                                                           \
    R __real_##name##_(const int *n, const T *x, const int *incx);                                 \
    R __wrap_##name##_(const int *n, const T *x, const int *incx);                                 \
    R __wrap_##name##_(const int *n, const T *x, const int *incx)                                  \
    {                                                                                              \
        spend(INT64_C(32) * *n);                                                                   \
        return __real_##name##_(n, x, incx);                                                       \
    }
NORM(snrm2, float, float)
NORM(dnrm2, double, double)
NORM(scnrm2, float, float _Complex)
NORM(dznrm2, double, double _Complex)

/* Multiplies matrices in blocks of columns, and checks the deadline before each block. A block of b
 * columns takes m * k * b multiplications, and has at least 16 columns. */
#define PRODUCT(p, T)                                                                              \
    void __real_##p##gemm_(const char *ta, const char *tb, const int *m, const int *n,             \
                           const int *k, const T *alpha, const T *a, const int *lda, const T *b,   \
                           const int *ldb, const T *beta, T *c, const int *ldc, size_t la,         \
                           size_t lb);                                                             \
    void __wrap_##p##gemm_(const char *ta, const char *tb, const int *m, const int *n,             \
                           const int *k, const T *alpha, const T *a, const int *lda, const T *b,   \
                           const int *ldb, const T *beta, T *c, const int *ldc, size_t la,         \
                           size_t lb);                                                             \
    void __wrap_##p##gemm_(const char *ta, const char *tb, const int *m, const int *n,             \
                           const int *k, const T *alpha, const T *a, const int *lda, const T *b,   \
                           const int *ldb, const T *beta, T *c, const int *ldc, size_t la,         \
                           size_t lb)                                                              \
    {                                                                                              \
        const int64_t plane = (int64_t)*m * *k, block = (INT64_C(1) << 24) / (plane + 1) + 16;     \
        const int64_t step = *tb == 'N' || *tb == 'n' ? *ldb : 1;                                  \
        if (*n <= block) {                                                                         \
            spend(plane **n / 16);                                                                 \
            __real_##p##gemm_(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb);       \
            return;                                                                                \
        }                                                                                          \
        for (int64_t j = 0; j < *n; j += block) {                                                  \
            const int some = (int)(*n - j < block ? *n - j : block);                               \
            spend(RT_WORK);                                                                        \
            __real_##p##gemm_(ta, tb, m, &some, k, alpha, a, lda, b + j * step, ldb, beta,         \
                              c + j * *ldc, ldc, la, lb);                                          \
        }                                                                                          \
    }
PRODUCT(s, float)
PRODUCT(d, double)
PRODUCT(c, float _Complex)
PRODUCT(z, double _Complex)

/* The only function of gfortran's library that LAPACK needs. It joins two strings, which are padded
 * with blanks and not terminated. */
void _gfortran_concat_string(size_t n, char *to, size_t n_a, const char *a, size_t n_b,
                             const char *b);
void _gfortran_concat_string(size_t n, char *to, size_t n_a, const char *a, size_t n_b,
                             const char *b)
{
    const size_t first = n_a < n ? n_a : n, second = n_b < n - first ? n_b : n - first;

    memcpy(to, a, first);
    memcpy(to + first, b, second);
    memset(to + first + second, ' ', n - first - second);
}
