#include "kernels/linalg/lapack.h"

#include <math.h>
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

/* Computes a norm that is the largest of the norms of the columns, in blocks of columns: the
 * largest absolute value ("M") or the largest sum of a column ("1", "O"). Decompositions begin with
 * one of these norms, which reads the whole matrix. A NaN in any block is the result, as in LAPACK.
 */
enum { NORM_COST = 8, NORM_ELEMENTS = RT_WORK / NORM_COST };
static int norm_columns(int n, int rows)
{
    const int columns = NORM_ELEMENTS / (rows + 1) + 1;
    return columns < n ? columns : n;
}
#define LARGEST(most, v)                                                                           \
    do {                                                                                           \
        if ((v) > (most) || isnan(v))                                                              \
            (most) = (v);                                                                          \
    } while (0)
#define GENERAL_NORM(p, T, R)                                                                      \
    R __real_##p##lange_(const char *norm, const int *m, const int *n, const T *a, const int *lda, \
                         R *work, size_t l);                                                       \
    R __wrap_##p##lange_(const char *norm, const int *m, const int *n, const T *a, const int *lda, \
                         R *work, size_t l);                                                       \
    R __wrap_##p##lange_(const char *norm, const int *m, const int *n, const T *a, const int *lda, \
                         R *work, size_t l)                                                        \
    {                                                                                              \
        R most = 0;                                                                                \
        if (!strchr("Mm1Oo", *norm))                                                               \
            return __real_##p##lange_(norm, m, n, a, lda, work, l);                                \
        for (int j = 0, some; j < *n; j += some) {                                                 \
            some = norm_columns(*n - j, *m);                                                       \
            spend(INT64_C(1) * NORM_COST * some * *m);                                             \
            const R v = __real_##p##lange_(norm, m, &some, a + (int64_t)j * *lda, lda, work, l);   \
            LARGEST(most, v);                                                                      \
        }                                                                                          \
        return most;                                                                               \
    }
GENERAL_NORM(s, float, float)
GENERAL_NORM(d, double, double)
GENERAL_NORM(c, float _Complex, float)
GENERAL_NORM(z, double _Complex, double)

/* Does the same for the largest absolute value of a matrix of which only one triangle is stored.
 * Each block of columns consists of a triangle on the diagonal, and a rectangle beside it. */
#define SELF_ADJOINT_NORM(p, name, T, R)                                                           \
    R __real_##name##_(const char *norm, const char *uplo, const int *n, const T *a,               \
                       const int *lda, R *work, size_t ln, size_t lu);                             \
    R __wrap_##name##_(const char *norm, const char *uplo, const int *n, const T *a,               \
                       const int *lda, R *work, size_t ln, size_t lu);                             \
    R __wrap_##name##_(const char *norm, const char *uplo, const int *n, const T *a,               \
                       const int *lda, R *work, size_t ln, size_t lu)                              \
    {                                                                                              \
        const bool upper = *uplo == 'U' || *uplo == 'u';                                           \
        R most = 0;                                                                                \
        if (*norm != 'M' && *norm != 'm')                                                          \
            return __real_##name##_(norm, uplo, n, a, lda, work, ln, lu);                          \
        for (int j = 0, some; j < *n; j += some) {                                                 \
            some = norm_columns(*n - j, *n);                                                       \
            const int below = j + some, rows = upper ? j : *n - below;                             \
            const T *column = a + (int64_t)j * *lda, *beside = column + (upper ? 0 : below);       \
            spend(INT64_C(1) * NORM_COST * some * *n);                                             \
            const R inner = __real_##name##_(norm, uplo, &some, column + j, lda, work, ln, lu);    \
            const R outer = __real_##p##lange_(norm, &rows, &some, beside, lda, work, ln);         \
            LARGEST(most, inner);                                                                  \
            LARGEST(most, outer);                                                                  \
        }                                                                                          \
        return most;                                                                               \
    }
SELF_ADJOINT_NORM(s, slansy, float, float)
SELF_ADJOINT_NORM(d, dlansy, double, double)
SELF_ADJOINT_NORM(c, clanhe, float _Complex, float)
SELF_ADJOINT_NORM(z, zlanhe, double _Complex, double)

/* Does not balance the matrix, but makes the results that say so. LAPACK's search for a permutation
 * reads up to n^2 elements for each of up to n exchanges, and calls no function between two
 * exchanges. To scale a matrix that was not permuted makes eigenvectors of permuted triangular
 * matrices wrong. TensorFlow's decompositions do not balance either. */
#define BALANCE(p, T, R)                                                                           \
    void __real_##p##gebal_(const char *job, const int *n, T *a, const int *lda, int *ilo,         \
                            int *ihi, R *scale, int *info, size_t l);                              \
    void __wrap_##p##gebal_(const char *job, const int *n, T *a, const int *lda, int *ilo,         \
                            int *ihi, R *scale, int *info, size_t l);                              \
    void __wrap_##p##gebal_(const char *job, const int *n, T *a, const int *lda, int *ilo,         \
                            int *ihi, R *scale, int *info, size_t l)                               \
    {                                                                                              \
        (void)job;                                                                                 \
        __real_##p##gebal_("N", n, a, lda, ilo, ihi, scale, info, l);                              \
    }
BALANCE(s, float, float)
BALANCE(d, double, double)
BALANCE(c, float _Complex, float)
BALANCE(z, double _Complex, double)

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
