/*
 * Functions of a square matrix: MatrixSquareRoot, MatrixLogarithm, MatrixExponential. All types are
 * computed in complex double. The algorithms are those of N. Higham, Functions of Matrices, 2008.
 * The root and the logarithm are computed from the triangular factor of the Schur decomposition
 * (sections 6.2 and 11.5). The exponential is computed by scaling and squaring with a Pade
 * approximant (section 10.3). As in TensorFlow, all elements of the result are NaN if the matrix
 * has no such function.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/lapack.h"
#include "kernels/math/incomplete.h"
#include "kernels/matmul/gemm.h"

enum { MATRICES = 6 };

struct work {
    struct kn_ask *ask;
    int n, lwork, info;
    double _Complex *m[MATRICES]; /* n x n matrices */
    double _Complex *values, *lapack, *product;
    double *rwork;
    int64_t *swap;
};

static struct kn_gemm product_of(int64_t n)
{
    return (struct kn_gemm){RT_C128, KN_AS_IS, KN_AS_IS, n, n, n, n, n, n};
}

static size_t layout(struct work *w, int64_t n, void *base)
{
    struct kn_space space = {.base = base};
    const struct kn_gemm g = product_of(n);

    w->n = (int)n;
    w->lwork = (int)(2 * n + KN_LAPACK_BLOCK * n);
    for (int k = 0; k < MATRICES; k++)
        w->m[k] = kn_space_take(&space, n * n, sizeof(double _Complex));
    w->values = kn_space_take(&space, n, sizeof(double _Complex));
    w->lapack = kn_space_take(&space, w->lwork, sizeof(double _Complex));
    w->rwork = kn_space_take(&space, n, sizeof(double));
    w->swap = kn_space_take(&space, n, sizeof(int64_t));
    w->product = kn_space_take(&space, kn_gemm_scratch(&g), 1);
    return space.used;
}

static enum rt_status function_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *a = &p->in[0].shape;
    struct work w;
    (void)state;
    if (!rt_shape_elements(a))
        return RT_OK;
    const int64_t n = a->dim[a->rank - 1];
    const enum rt_status st = kn_lapack_size(n, n, p->err);
    if (!st)
        p->scratch_bytes = layout(&w, n, NULL);
    return st;
}

static enum rt_status function_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return kn_square_matrices(x, "Input matrix must be square.");
}

/* ---- steps ---- */

static void multiply(struct work *w, const double _Complex *a, const double _Complex *b,
                     bool adjoint, double _Complex *out)
{
    struct kn_gemm g = product_of(w->n);

    g.tb = adjoint ? KN_ADJOINT : KN_AS_IS;
    if (!w->ask->ended)
        w->ask->ended = kn_gemm_blocks(&g, false, a, b, out, w->product, w->ask->r) != RT_OK;
}

/* Sets `to` to keep * to + by * from. If `keep` is 0, `to` is not read. */
static void add(struct work *w, double keep, double _Complex *to, double by,
                const double _Complex *from)
{
    const int64_t n = w->n;

    for (int64_t i = 0; i < n && !kn_ends(w->ask, 8 * n); i++)
        for (int64_t k = i * n; k < (i + 1) * n; k++)
            to[k] = (keep == 0 ? 0 : keep * to[k]) + by * from[k];
}

static void schur_call(void *arg)
{
    struct work *w = arg;
    int sorted, unused;
    zgees_("V", "N", NULL, &w->n, w->m[0], &w->n, &sorted, w->values, w->m[1], &w->n, w->lapack,
           &w->lwork, w->rwork, &unused, &w->info, 1, 1);
}

/* Replaces the column-major triangular matrix m[0] by its square root. Each column is computed from
 * the diagonal upwards. A finished element, times its column, is subtracted from the elements above
 * it. */
static void root(struct work *w)
{
    const int64_t n = w->n;
    double _Complex *const t = w->m[0];

    for (int64_t j = 0; j < n; j++) {
        double _Complex *const col = t + j * n;
        col[j] = csqrt(col[j]);
        for (int64_t k = j - 1; k >= 0 && !kn_ends(w->ask, 4 * k); k--) {
            const double _Complex *const left = t + k * n;
            col[k] /= left[k] + col[j];
            const double re = creal(col[k]), im = cimag(col[k]);
            for (int64_t i = 0; i < k; i++) {
                const double a = creal(left[i]), b = cimag(left[i]);
                col[i] -= CMPLX(a * re - b * im, a * im + b * re);
            }
        }
    }
}

/* Replaces the upper triangular matrix x by (I + s N)^-1 x, where N is the upper triangular matrix
 * in m[2], by back substitution for each column. x and N are column-major. */
static void solve_upper(struct work *w, double s, double _Complex *x)
{
    const int64_t n = w->n;
    const double _Complex *const t = w->m[2];

    for (int64_t j = 0; j < n; j++) {
        double _Complex *const col = x + j * n;
        for (int64_t k = j; k >= 0 && !kn_ends(w->ask, 4 * k); k--) {
            const double _Complex *const left = t + k * n;
            col[k] /= 1 + s * left[k];
            const double re = s * creal(col[k]), im = s * cimag(col[k]);
            for (int64_t i = 0; i < k; i++) {
                const double a = creal(left[i]), b = cimag(left[i]);
                col[i] -= CMPLX(a * re - b * im, a * im + b * re);
            }
        }
    }
}

/* Returns the largest sum of magnitudes of a column of m[0] - I, counting the real and imaginary
 * parts. */
static double distance_from_one(struct work *w)
{
    const int64_t n = w->n;
    double most = 0;

    for (int64_t j = 0; j < n && !kn_ends(w->ask, 4 * j); j++) {
        double sum = 0;
        for (int64_t i = 0; i <= j; i++) {
            const double _Complex v = w->m[0][j * n + i] - (i == j);
            sum += fabs(creal(v)) + fabs(cimag(v));
        }
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

/*
 * Replaces m[0] by its logarithm. Repeated square roots bring m[0] near the identity. Then log(I +
 * N) is N times the integral of (I + s N)^-1 over s from 0 to 1, which Gauss-Legendre quadrature
 * approximates. The diagonal is computed directly.
 */
static void logarithm(struct work *w)
{
    const int64_t n = w->n;
    int roots = 0;

    for (int64_t i = 0; i < n; i++)
        w->values[i] = clog(w->m[0][i * n + i]);
    for (; distance_from_one(w) > 0.5 && roots < 100 && !w->ask->ended; roots++)
        root(w);
    for (int64_t i = 0; i < n; i++)
        w->m[0][i * n + i] -= 1;
    add(w, 0, w->m[2], 1, w->m[0]);
    add(w, 0, w->m[3], 0, w->m[0]);
    for (int k = 0; k < 2 * KN_GAUSS && !w->ask->ended; k++) {
        const double node = kn_gauss_node[k / 2] * (k % 2 ? 1 : -1);
        add(w, 0, w->m[0], 1, w->m[2]);
        solve_upper(w, (1 + node) / 2, w->m[0]);
        add(w, 1, w->m[3], ldexp(kn_gauss_weight[k / 2] / 2, roots), w->m[0]);
    }
    add(w, 0, w->m[0], 1, w->m[3]);
    for (int64_t i = 0; i < n; i++)
        w->m[0][i * n + i] = w->values[i];
}

/* Computes the function of the column-major matrix m[0] and writes the row-major result to m[0].
 * Returns false if the function does not exist. */
static bool by_schur(struct work *w, bool is_root, bool real)
{
    const int64_t n = w->n;
    bool fine = true;

    w->info = 0;
    /* The pages of w->m[1] are written before LAPACK runs, because LAPACK would write to new memory
     * without checking the deadline. */
    add(w, 0, w->m[1], 0, w->m[0]);
    kn_lapack_call(w->ask, schur_call, w);
    if (w->ask->ended || w->info)
        return false;
    for (int64_t i = 0; i < n && !kn_ends(w->ask, n); i++) {
        const double _Complex v = w->m[0][i * n + i];
        /* A real matrix with a negative eigenvalue has no real root. */
        if (is_root && real && creal(v) < 0 && fabs(cimag(v)) <= 1e-10 * fabs(creal(v)))
            fine = false;
        if (!is_root && v == 0)
            fine = false;
        for (int64_t k = i + 1; k < n; k++)
            w->m[0][i * n + k] = 0;
    }
    if (!fine)
        return false;
    if (is_root)
        root(w);
    else
        logarithm(w);
    kn_turn_RT_C128(w->ask, w->m[0], n, n, w->m[2], false);
    kn_turn_RT_C128(w->ask, w->m[1], n, n, w->m[3], false);
    multiply(w, w->m[3], w->m[2], false, w->m[4]);
    multiply(w, w->m[4], w->m[3], true, w->m[0]);
    return true;
}

/* Writes to `out` a linear combination of the identity and the even powers in m[1], m[2] and
 * m[3]. */
static void combine(struct work *w, double _Complex *out, double c0, double c2, double c4,
                    double c6)
{
    const int64_t n = w->n;

    for (int64_t i = 0; i < n && !kn_ends(w->ask, 8 * n); i++)
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = i * n + k;
            out[at] = c2 * w->m[1][at] + c4 * w->m[2][at] + c6 * w->m[3][at] + (i == k ? c0 : 0);
        }
}

/* Replaces the row-major m[0] by its exponential. The coefficients are those of the approximant of
 * degree 13. Up to the norm 5.37, this approximant is exact in double (Higham, table 10.2). */
static bool exponential(struct work *w)
{
    const int64_t n = w->n;
    double _Complex *const a = w->m[0], *const u = w->m[4], *const v = w->m[5];
    double norm = 0;
    bool even;

    for (int64_t i = 0; i < n && !kn_ends(w->ask, 16 * n); i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += cabs(a[i * n + k]);
        norm = sum > norm ? sum : norm;
    }
    int squares = 0;
    if (norm > 5.37)
        frexp(norm / 5.37, &squares);
    add(w, 0, w->m[1], ldexp(1, -squares / 2), a); /* two scalings, so that no factor underflows */
    add(w, 0, a, ldexp(1, squares / 2 - squares), w->m[1]);
    multiply(w, a, a, false, w->m[1]);
    multiply(w, w->m[1], w->m[1], false, w->m[2]);
    multiply(w, w->m[1], w->m[2], false, w->m[3]);
    combine(w, u, 0, 40840800, 16380, 1);
    multiply(w, w->m[3], u, false, v);
    combine(w, u, 32382376266240000, 1187353796428800, 10559470521600, 33522128640);
    add(w, 1, u, 1, v);
    multiply(w, a, u, false, v); /* the odd part */
    add(w, 0, a, 1, v);
    combine(w, u, 0, 1323241920, 960960, 182);
    multiply(w, w->m[3], u, false, v);
    combine(w, u, 64764752532480000, 7771770303897600, 129060195264000, 670442572800);
    add(w, 1, u, 1, v); /* the even part */
    add(w, 0, w->m[1], 1, u);
    add(w, 1, w->m[1], -1, a);
    add(w, 0, w->m[2], 1, u);
    add(w, 1, w->m[2], 1, a);
    if (w->ask->ended || kn_lu_RT_C128(w->ask, w->m[1], n, w->swap, &even) == KN_LU_SINGULAR)
        return false;
    kn_solve_RT_C128(w->ask, w->m[1], n, w->swap, w->m[2], n);
    for (int k = 0; k < squares && !w->ask->ended; k++) {
        multiply(w, w->m[2], w->m[2], false, w->m[3]);
        add(w, 0, w->m[2], 1, w->m[3]);
    }
    add(w, 0, a, 1, w->m[2]);
    return true;
}

/* ---- the ops ---- */

enum function { ROOT, LOGARITHM, EXPONENTIAL };

#define FUNCTION(dt, T, REAL_TYPE, PART)                                                           \
    static void function_##dt(struct work *w, enum function f, const T *a, T *out)                 \
    {                                                                                              \
        const int64_t n = w->n;                                                                    \
        bool fine = kn_finite_##dt(w->ask, a, n * n);                                              \
        for (int64_t i = 0; i < n && !kn_ends(w->ask, 32 * n); i++)                                \
            for (int64_t k = 0; k < n; k++)                                                        \
                w->m[0][i * n + k] = a[f == EXPONENTIAL ? i * n + k : k * n + i];                  \
        if (fine)                                                                                  \
            fine = f == EXPONENTIAL ? exponential(w) : by_schur(w, f == ROOT, REAL_TYPE);          \
        for (int64_t i = 0; i < n * n && !kn_ends(w->ask, 2); i++)                                 \
            out[i] = fine ? (T)PART(w->m[0][i]) : (T)FILL_##dt;                                    \
    }
#define FILL_RT_F32  NAN
#define FILL_RT_F64  NAN
#define FILL_RT_C64  CMPLX(NAN, NAN)
#define FILL_RT_C128 CMPLX(NAN, NAN)
FUNCTION(RT_F32, float, true, creal)
FUNCTION(RT_F64, double, true, creal)
FUNCTION(RT_C64, float _Complex, false, )
FUNCTION(RT_C128, double _Complex, false, )

static enum rt_status function_run(struct rt_run *r, enum function f)
{
    const struct rt_tensor *a = &r->in[0];
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    struct work w = {.ask = &ask};

    if (!rt_tensor_count(a))
        return RT_OK;
    const int64_t n = a->dim[a->rank - 1], count = kn_matrix_count(a);
    layout(&w, n, r->scratch);
    w.ask = &ask;
    for (int64_t i = 0; i < count && !kn_ends(&ask, 64); i++) {
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        function_##dt(&w, f, (const T *)a->data + i * n * n, (T *)r->out[0].data + i * n * n);     \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
    }
    return ask.ended ? r->err->code : RT_OK;
}

static enum rt_status root_run(struct rt_run *r)
{
    return function_run(r, ROOT);
}
static enum rt_status logarithm_run(struct rt_run *r)
{
    return function_run(r, LOGARITHM);
}
static enum rt_status exponential_run(struct rt_run *r)
{
    return function_run(r, EXPONENTIAL);
}

const struct kn_entry kn_matrix_square_root = {
    .op = {.name = "MatrixSquareRoot", .infer = function_infer, .rows = kn_rows_batch},
    .kernels =
        KN_CPU("MatrixSquareRoot", "matrix_root", KN_LINALG_TYPES, function_prepare, root_run),
};
const struct kn_entry kn_matrix_logarithm = {
    .op = {.name = "MatrixLogarithm", .infer = function_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("MatrixLogarithm", "matrix_log", KN_SET(KN_COMPLEX), function_prepare,
                      logarithm_run),
};
const struct kn_entry kn_matrix_exponential = {
    .op = {.name = "MatrixExponential", .infer = function_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("MatrixExponential", "matrix_exp", KN_LINALG_TYPES, function_prepare,
                      exponential_run),
};
