#include "kernels/matmul/gemm.h"

#include <cblas.h>
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "runtime/base/machine.h"
#include "runtime/base/checked.h"

/* ---- OpenBLAS's instruction set ---- */

#if defined(__x86_64__)
/*
 * OpenBLAS chooses its kernels in a constructor, by the processor's model. On an unknown model, it
 * falls back to kernels for much older processors. (OpenBLAS 0.3.21, for example, uses 128-bit
 * vectors on family 6, model 207.) choose_core runs before this constructor and chooses the kernels
 * by the processor's instruction sets. The environment variable OPENBLAS_CORETYPE overrides the
 * choice.
 */
__attribute__((constructor(101))) static void choose_core(void)
{
    __builtin_cpu_init();
    if (rt_machine_vectors() == RT_VECTORS_AVX512)
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (rt_machine_vectors() >= RT_VECTORS_AVX2)
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}
#endif

/* ---- reference loops ---- */

static inline float mul_add_RT_F32(float s, float x, float y)
{
    return s + x * y;
}
static inline double mul_add_RT_F64(double s, double x, double y)
{
    return s + x * y;
}
/* Integer arithmetic is unsigned, so that overflow wraps around. */
static inline int16_t mul_add_RT_I16(int16_t s, int16_t x, int16_t y)
{
    return (int16_t)((uint32_t)s + (uint32_t)x * (uint32_t)y);
}
static inline int32_t mul_add_RT_I32(int32_t s, int32_t x, int32_t y)
{
    return (int32_t)((uint32_t)s + (uint32_t)x * (uint32_t)y);
}
static inline int64_t mul_add_RT_I64(int64_t s, int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)s + (uint64_t)x * (uint64_t)y);
}
static inline float _Complex mul_add_RT_C64(float _Complex s, float _Complex x, float _Complex y)
{
    return s + x * y;
}
static inline double _Complex mul_add_RT_C128(double _Complex s, double _Complex x,
                                              double _Complex y)
{
    return s + x * y;
}

#define KEEP(x) (x)
#define PLAIN(dt, T, CONJ)                                                                         \
    KN_CLONES static void plain_##dt(const struct kn_gemm *g, const T *a, const T *b, T *c)        \
    {                                                                                              \
        const int64_t as = g->ta ? 1 : g->lda, ak = g->ta ? g->lda : 1;                            \
        for (int64_t i = 0; i < g->m; i++) {                                                       \
            T *restrict row = c + i * g->ldc;                                                      \
            for (int64_t j = 0; j < g->n; j++)                                                     \
                row[j] = 0;                                                                        \
            if (g->tb) {                                                                           \
                for (int64_t j = 0; j < g->n; j++)                                                 \
                    for (int64_t k = 0; k < g->k; k++) {                                           \
                        const T x = a[i * as + k * ak], y = b[j * g->ldb + k];                     \
                        row[j] = mul_add_##dt(row[j], g->ta == KN_ADJOINT ? CONJ(x) : x,           \
                                              g->tb == KN_ADJOINT ? CONJ(y) : y);                  \
                    }                                                                              \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t k = 0; k < g->k; k++) {                                                   \
                const T x = a[i * as + k * ak], *restrict y = b + k * g->ldb;                      \
                const T f = g->ta == KN_ADJOINT ? CONJ(x) : x;                                     \
                for (int64_t j = 0; j < g->n; j++)                                                 \
                    row[j] = mul_add_##dt(row[j], f, y[j]);                                        \
            }                                                                                      \
        }                                                                                          \
    }
PLAIN(RT_F32, float, KEEP)
PLAIN(RT_F64, double, KEEP)
PLAIN(RT_I16, int16_t, KEEP)
PLAIN(RT_I32, int32_t, KEEP)
PLAIN(RT_I64, int64_t, KEEP)
PLAIN(RT_C64, float _Complex, conjf)
PLAIN(RT_C128, double _Complex, conj)
#undef PLAIN

#define PLAIN_HALF(dt, T, FROM, TO)                                                                \
    static void plain_##dt(const struct kn_gemm *g, const T *a, const T *b, T *c)                  \
    {                                                                                              \
        const int64_t as = g->ta ? 1 : g->lda, ak = g->ta ? g->lda : 1;                            \
        const int64_t bs = g->tb ? g->ldb : 1, bk = g->tb ? 1 : g->ldb;                            \
        for (int64_t i = 0; i < g->m; i++)                                                         \
            for (int64_t j = 0; j < g->n; j++) {                                                   \
                float s = 0;                                                                       \
                for (int64_t k = 0; k < g->k; k++)                                                 \
                    s += FROM(a[i * as + k * ak]) * FROM(b[j * bs + k * bk]);                      \
                c[i * g->ldc + j] = TO(s);                                                         \
            }                                                                                      \
    }
PLAIN_HALF(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
PLAIN_HALF(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)
#undef PLAIN_HALF

void kn_gemm_plain(const struct kn_gemm *g, const void *a, const void *b, void *c)
{
    switch (g->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        plain_##dt(g, a, b, c);                                                                    \
        break;
        KN_FLOATS(X)
        KN_HALFS(X)
        KN_COMPLEX(X)
        X(RT_I16, int16_t)
        X(RT_I32, int32_t)
        X(RT_I64, int64_t)
#undef X
    default:
        break;
    }
}

/* ---- conversion of arrays between float and other types ---- */

KN_CLONES static void from_f16(const struct kn_half *src, float *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = kn_from_f16(src[i]);
}
KN_CLONES static void from_bf16(const struct kn_bfloat *src, float *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = kn_from_bf16(src[i]);
}
KN_CLONES static void to_f16(const float *src, struct kn_half *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = kn_to_f16(src[i]);
}
KN_CLONES static void to_bf16(const float *src, struct kn_bfloat *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = kn_to_bf16(src[i]);
}

#define TO_FLOAT(dt, T)                                                                            \
    KN_CLONES static void to_float_##dt(const T *src, float *dst, int64_t n)                       \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = (float)src[i];                                                                \
    }
KN_INTS(TO_FLOAT)
TO_FLOAT(RT_F64, double)

void kn_to_float(enum rt_dtype from, const void *src, float *dst, int64_t n)
{
    if (n <= 0)
        return;
    switch (from) {
    case RT_F16:
        from_f16(src, dst, n);
        break;
    case RT_BF16:
        from_bf16(src, dst, n);
        break;
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        to_float_##dt(src, dst, n);                                                                \
        break;
        KN_INTS(X)
        X(RT_F64, double)
#undef X
    default:
        memcpy(dst, src, (size_t)n * sizeof *dst);
    }
}

/* The number of elements that are converted between two deadline checks. Their conversion takes a
 * few milliseconds. */
enum { CHUNK = 1 << 20 };

enum rt_status kn_to_float_rows(struct rt_run *r, enum rt_dtype from, const void *src,
                                int64_t stride, float *dst, int64_t rows, int64_t cols)
{
    const size_t size = rt_dtype_size(from);

    if (stride == cols) { /* a dense matrix is converted as one row */
        cols *= rows;
        rows = rows > 0;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += CHUNK) {
            const int64_t n = kn_min_i64(cols - j, CHUNK);
            kn_to_float(from, (const char *)src + (size_t)(i * stride + j) * size,
                        dst + i * cols + j, n);
            if (r && rt_run_spend(r, &r->left, 2 * n + 8))
                return r->err->code;
        }
    return RT_OK;
}

void kn_from_float(enum rt_dtype to, const float *src, void *dst, int64_t n)
{
    if (to == RT_F16)
        to_f16(src, dst, n);
    else if (to == RT_BF16)
        to_bf16(src, dst, n);
    else if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *src);
}

enum rt_status kn_from_float_rows(struct rt_run *r, enum rt_dtype to, const float *src, void *dst,
                                  int64_t stride, int64_t rows, int64_t cols)
{
    const size_t size = rt_dtype_size(to);

    if (stride == cols) { /* a dense matrix is converted as one row */
        cols *= rows;
        rows = rows > 0;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += CHUNK) {
            const int64_t n = kn_min_i64(cols - j, CHUNK);
            kn_from_float(to, src + i * cols + j, (char *)dst + (size_t)(i * stride + j) * size, n);
            if (r && rt_run_spend(r, &r->left, n + 8))
                return r->err->code;
        }
    return RT_OK;
}

/* ---- choosing the loops ---- */

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

/* Returns whether the GEMM is so small that a library call costs more than the multiplication. */
static bool is_tiny(const struct kn_gemm *g)
{
    return g->m * g->n <= 1024 && g->m * g->n * g->k <= 2048;
}

static bool fits_blas(const struct kn_gemm *g)
{
    return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX && g->lda <= INT32_MAX &&
           g->ldb <= INT32_MAX && g->ldc <= INT32_MAX;
}

int64_t kn_gemm_scratch(const struct kn_gemm *g)
{
    const int64_t shard[] = {g->m, g->k, g->k, g->n, g->m, g->n};
    int64_t sum = 0;

    if (!is_half(g->dtype))
        return 0;
    for (int i = 0; i < 3; i++) {
        int64_t n;
        if (!rt_mul(shard[2 * i], shard[2 * i + 1], &n) || !rt_add(sum, n, &sum))
            return -1;
    }
    return sum > INT64_MAX / 8 ? -1 : sum * (int64_t)sizeof(float);
}

static CBLAS_TRANSPOSE blas(enum kn_trans t)
{
    return t == KN_AS_IS ? CblasNoTrans : t == KN_TRANS ? CblasTrans : CblasConjTrans;
}

/* Adds to y the product of x, which has 8 elements, and 8 rows of b. The rows are read side by
 * side. */
KN_CLONES static void add_rows(const float *restrict x, const float *restrict b, int64_t ldb,
                               float *restrict y, int64_t n)
{
    const float *b1 = b + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb, *b4 = b3 + ldb;
    const float *b5 = b4 + ldb, *b6 = b5 + ldb, *b7 = b6 + ldb;

    for (int64_t j = 0; j < n; j++)
        y[j] += ((x[0] * b[j] + x[1] * b1[j]) + (x[2] * b2[j] + x[3] * b3[j])) +
                ((x[4] * b4[j] + x[5] * b5[j]) + (x[6] * b6[j] + x[7] * b7[j]));
}

KN_CLONES static void add_row(float x, const float *restrict b, float *restrict y, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        y[j] += x * b[j];
}

/*
 * stream() is used for at most FEW_ROWS rows and a matrix of at least LARGE elements, which does
 * not fit in the cache. stream() reads the matrix only once, at the speed of memory. OpenBLAS is as
 * fast for one row, but copies the matrix first if there are more rows.
 */
enum { FEW_ROWS = 8, LARGE = 1 << 18 };

static bool is_stream(const struct kn_gemm *g)
{
    return !g->ta && !g->tb && g->n >= 16 &&
           (g->m == 1 || (g->m <= FEW_ROWS && g->n >= LARGE / g->k));
}

static void stream(const struct kn_gemm *g, const float *a, const float *b, float *c)
{
    int64_t l = 0;

    for (int64_t i = 0; i < g->m; i++)
        memset(c + i * g->ldc, 0, (size_t)g->n * sizeof *c);
    for (; l + 8 <= g->k; l += 8)
        for (int64_t i = 0; i < g->m; i++)
            add_rows(a + i * g->lda + l, b + l * g->ldb, g->ldb, c + i * g->ldc, g->n);
    for (; l < g->k; l++)
        for (int64_t i = 0; i < g->m; i++)
            add_row(a[i * g->lda + l], b + l * g->ldb, c + i * g->ldc, g->n);
}

/* Returns whether B has one column, so that each output is a dot product, computed in vector
 * lanes. */
static bool is_dots(const struct kn_gemm *g)
{
    return g->dtype == RT_F32 && g->n == 1 && !g->ta && (g->tb || g->ldb == 1);
}

KN_CLONES static void dots(const struct kn_gemm *g, const float *a, const float *b, float *c)
{
    enum { LANES = 32 };

    for (int64_t i = 0; i < g->m; i++, a += g->lda) {
        float sum[LANES] = {0};
        int64_t l = 0;
        for (; l + LANES <= g->k; l += LANES)
            for (int j = 0; j < LANES; j++)
                sum[j] += a[l + j] * b[l + j];
        for (int j = 0; l < g->k; l++, j++)
            sum[j] += a[l] * b[l];
        for (int step = LANES / 2; step; step /= 2)
            for (int j = 0; j < step; j++)
                sum[j] += sum[j + step];
        c[i * g->ldc] = sum[0];
    }
}

static void run_float(const struct kn_gemm *g, const float *a, const float *b, float *c)
{
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;

    /* For one row or one column, GEMV is used, which does not pack the matrix. */
    if (is_stream(g))
        stream(g, a, b, c);
    else if (m == 1 && !g->ta)
        cblas_sgemv(CblasRowMajor, g->tb ? CblasNoTrans : CblasTrans, g->tb ? n : k, g->tb ? k : n,
                    1, b, (int)g->ldb, a, 1, 0, c, 1);
    else if (n == 1 && (g->tb || g->ldb == 1))
        cblas_sgemv(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->ta ? k : m, g->ta ? m : k,
                    1, a, (int)g->lda, b, 1, 0, c, (int)g->ldc);
    else
        cblas_sgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, 1, a, (int)g->lda, b,
                    (int)g->ldb, 0, c, (int)g->ldc);
}

/* Multiplies half-precision matrices in float. r is the run whose deadline is checked, or NULL for
 * no checks. */
static enum rt_status run_half(const struct kn_gemm *g, const void *a, const void *b, void *c,
                               float *workspace, struct rt_run *r)
{
    struct kn_gemm f = *g;
    const int64_t rows_a = g->ta ? g->k : g->m, cols_a = g->ta ? g->m : g->k;
    const int64_t rows_b = g->tb ? g->n : g->k, cols_b = g->tb ? g->k : g->n;
    float *fa = workspace, *fb = fa + g->m * g->k, *fc = fb + g->k * g->n;
    enum rt_status st = RT_OK;

    f.dtype = RT_F32;
    f.lda = cols_a;
    f.ldb = cols_b;
    f.ldc = g->n;
    st = kn_to_float_rows(r, g->dtype, a, g->lda, fa, rows_a, cols_a);
    if (!st)
        st = kn_to_float_rows(r, g->dtype, b, g->ldb, fb, rows_b, cols_b);
    if (r && !st)
        st = kn_gemm_blocks(&f, false, fa, fb, fc, NULL, r);
    else if (!st)
        kn_gemm_run(&f, fa, fb, fc, NULL);
    return st ? st : kn_from_float_rows(r, g->dtype, fc, c, g->ldc, g->m, g->n);
}

void kn_gemm_add(const struct kn_gemm *g, const void *a, const void *b, void *c)
{
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    const int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;

    if (g->dtype == RT_F64)
        cblas_dgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, 1, a, lda, b, ldb, 1, c, ldc);
    else
        cblas_sgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, 1, a, lda, b, ldb, 1, c, ldc);
}

void kn_gemm_run(const struct kn_gemm *g, const void *a, const void *b, void *c, void *scratch)
{
    if (!g->m || !g->n)
        return;
    if (is_dots(g)) {
        dots(g, a, b, c);
        return;
    }
    if (!g->k || is_tiny(g) || !fits_blas(g)) {
        kn_gemm_plain(g, a, b, c);
        return;
    }
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    const int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    switch (g->dtype) {
    case RT_F32:
        run_float(g, a, b, c);
        break;
    case RT_F64:
        cblas_dgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
        break;
    case RT_C64: {
        const float _Complex one = 1, zero = 0;
        cblas_cgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, &one, a, lda, b, ldb, &zero,
                    c, ldc);
        break;
    }
    case RT_C128: {
        const double _Complex one = 1, zero = 0;
        cblas_zgemm(CblasRowMajor, blas(g->ta), blas(g->tb), m, n, k, &one, a, lda, b, ldb, &zero,
                    c, ldc);
        break;
    }
    case RT_F16:
    case RT_BF16:
        run_half(g, a, b, c, scratch, NULL);
        break;
    default:
        kn_gemm_plain(g, a, b, c);
    }
}

/* ---- blocks between checks of the deadline ---- */

/* Returns the number of multiply-adds between two deadline checks. */
static double block_work(const struct kn_gemm *g, bool plain)
{
    const bool library = !plain && (g->dtype == RT_F32 || g->dtype == RT_F64);
    return library ? KN_CHECK_MACS : 3e7;
}

int64_t kn_gemm_work(const struct kn_gemm *g)
{
    const double work = (double)g->m * (double)g->n * (double)g->k / 8 + 64;
    return work < RT_WORK ? (int64_t)work : RT_WORK;
}

/* OpenBLAS computes blocks of 16 columns and 12 rows. Slower loops compute the remaining columns
 * and rows. */
enum { ROUND = 48 };

/* Returns the number of rows or columns per block, for a matrix with `side` rows or columns. Blocks
 * have nearly equal sizes, and are large enough for OpenBLAS to be fast. */
static int64_t block_side(int64_t side, double share)
{
    enum { LEAST = 192 };
    int64_t n = (int64_t)((double)side * share) / ROUND * ROUND;
    n = n < LEAST ? LEAST : n;
    return kn_round_up(kn_even_size(side, n, 1), ROUND);
}

/* Returns `side` if it is at most `most`. Otherwise returns the largest multiple of `step` up to
 * `most`, but at least the smaller one of `side` and `step`. */
static int64_t small_side(int64_t side, double most, int64_t step)
{
    const int64_t n = most < (double)side ? (int64_t)most / step * step : side;
    return n > step ? n : kn_min_i64(side, step);
}

enum { LEAST_MACS = 256 };

static enum rt_status blocks_here(const struct kn_gemm *g, bool plain, const void *a, const void *b,
                                  void *c, void *scratch, struct rt_run *r)
{
    const double most = block_work(g, plain), side = (double)(g->m > g->n ? g->m : g->n);
    /* A row or column of fewer than LEAST_MACS multiply-adds takes about as long as one with
     * LEAST_MACS. */
    const double macs = (double)g->m * (double)g->n * (double)g->k, least = LEAST_MACS * side;
    const double work = macs < least ? least : macs;
    const size_t size = rt_dtype_size(g->dtype);
    const bool is_own = plain || g->dtype == RT_I16 || g->dtype == RT_I32 || g->dtype == RT_I64;

    if (is_half(g->dtype) && !plain && !is_tiny(g))
        return run_half(g, a, b, c, scratch, r);
    if (work <= 2 * most) {
        if (plain)
            kn_gemm_plain(g, a, b, c);
        else
            kn_gemm_run(g, a, b, c, scratch);
        return RT_OK;
    }
    /* Splits the rows first. If a block with the minimum number of rows still takes more than
     * `most` multiply-adds, splits the columns as well. For a large k, even the smallest block for
     * which OpenBLAS is fast may have more than `bound` elements. The number of its rows is then
     * reduced and, if that does not suffice, the number of its columns. */
    int64_t rows = block_side(g->m, most / work);
    int64_t cols = block_side(g->n, most / ((double)rows * (double)g->n * (double)g->k));
    const double bound = (is_own ? 1 : 4) * most / (double)g->k;
    if ((double)rows * (double)cols > bound) {
        rows = small_side(rows, bound / (double)cols, is_own ? 1 : ROUND);
        cols = small_side(cols, bound / (double)rows, ROUND);
    }
    for (int64_t i = 0; i < g->m; i += rows)
        for (int64_t j = 0; j < g->n; j += cols) {
            struct kn_gemm shard = *g;
            const char *pa = (const char *)a + (size_t)(g->ta ? i : i * g->lda) * size;
            const char *pb = (const char *)b + (size_t)(g->tb ? j * g->ldb : j) * size;
            char *pc = (char *)c + (size_t)(i * g->ldc + j) * size;
            shard.m = g->m - i < rows ? g->m - i : rows;
            shard.n = g->n - j < cols ? g->n - j : cols;
            if (plain)
                kn_gemm_plain(&shard, pa, pb, pc);
            else
                kn_gemm_run(&shard, pa, pb, pc, scratch);
            if (rt_run_check(r))
                return r->err->code;
        }
    return RT_OK;
}

/* ---- several cores ---- */

struct sharded {
    const struct kn_gemm *g;
    const char *a, *b;
    char *c;
    /* Each of the `shards` shards has `rows` rows, and the last shard has the remainder as well. */
    int64_t rows, shards;
};

enum { SHARD_COLUMNS = 64, PRODUCTS_OF_WORK = 16 };
/* The minimum work per shard. OpenBLAS multiplies smaller matrices with other loops, which add the
 * products in another order. Every shard has at least this work and begins at a multiple of ROUND
 * rows, so the bits of the result do not depend on the number of shards. */
static const double MIN_SHARD = 28.0 * 512 * 512;

static enum rt_status gemm_rows_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct sharded *x = arg;
    const int64_t size = (int64_t)rt_dtype_size(x->g->dtype), from = i * x->rows;
    struct kn_gemm shard = *x->g;
    (void)slot;

    shard.m = i == x->shards - 1 ? shard.m - from : x->rows;
    return blocks_here(&shard, false, x->a + (shard.ta ? from : from * shard.lda) * size, x->b,
                       x->c + from * shard.ldc * size, NULL, r);
}

static enum rt_status gemm_columns_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct sharded *x = arg;
    const int64_t size = (int64_t)rt_dtype_size(x->g->dtype);
    struct kn_gemm shard = *x->g;

    shard.n = to - from;
    return blocks_here(&shard, false, x->a, x->b + (shard.tb ? from * shard.ldb : from) * size,
                       x->c + from * size, NULL, r);
}

/* Returns the shard size that gives each core one shard. More shards would cost more: OpenBLAS
 * copies, for each shard, the matrix that is not divided. */
static int64_t shard_size(int64_t n, int width, int64_t step)
{
    return ((n + width - 1) / width + step - 1) / step * step;
}

enum rt_status kn_gemm_blocks(const struct kn_gemm *g, bool plain, const void *a, const void *b,
                              void *c, void *scratch, struct rt_run *r)
{
    struct sharded x = {.g = g, .a = a, .b = b, .c = c};
    const double least = MIN_SHARD / ((double)g->n * (double)g->k + 1);
    const int width = rt_run_width(r);

    if (width == 1 || plain || (g->dtype != RT_F32 && g->dtype != RT_F64) || !g->k || is_tiny(g))
        return blocks_here(g, plain, a, b, c, scratch, r);
    /* With a single row, each element of b is used only once, so the columns of b are divided among
     * the cores. */
    if (g->m == 1)
        return kn_parallel_rows(r, g->n, g->k / PRODUCTS_OF_WORK + 1,
                                shard_size(g->n, width, SHARD_COLUMNS), gemm_columns_shard, &x);
    x.shards = g->m / kn_round_up((int64_t)least + 1, ROUND);
    if (x.shards < 2)
        return blocks_here(g, plain, a, b, c, scratch, r);
    x.shards = x.shards < width ? x.shards : width;
    x.rows = g->m / x.shards / ROUND * ROUND;
    return kn_parallel_shards(r, x.shards, x.shards, gemm_rows_shard, &x);
}
