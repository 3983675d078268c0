#include "kernels/matmul/packed_gemm_internal.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/unroll.h"
#include "runtime/base/machine.h"
#include "runtime/base/sanitizer.h"

/* Keeps a vector in a register. Without this macro, the compiler would reload the vector at each
 * use. */
#if defined(__x86_64__)
#define KEEP(v) __asm__("" : "+v"(v))
#else
#define KEEP(v) ((void)(v))
#endif

enum {
    LINE = 16,             /* number of floats in a cache line */
    WIDE = 2,              /* number of vectors side by side in a panel */
    GEMV_PANELS = 4,       /* maximum number of panels that a GEMV computes together */
    PREFETCH_FLOATS = 256, /* prefetch distance of a GEMV within a panel, in floats */
    /* number of bytes that stay in a core's private cache if the core uses little other memory */
    L2_BYTES = 1 << 20,
    /* The number of terms of a sum that are computed together. The rows of a panel for these terms
     * stay in the cache while they are multiplied by all rows of a block. */
    KC = 768,
    /* Maximum number of floats of `a` in a block of rows. The block fits in a core's private
     * cache. */
    MC_KC = 1 << 17,
    MC = 336 /* maximum number of rows in a block */
};

/*
 * Sanitizers make the code of a micro-kernel about ten times as large, and compilers take minutes
 * for code of that size. Under sanitizers, one micro-kernel serves all sizes, and loops that only
 * prefetch are omitted.
 */
#define PREFETCHES (!RT_HAS_SANITIZER)

/* Arguments of the micro-kernels. They compute all rows of a block for one panel (several panels in
 * a GEMV) and one block of terms. */
struct kn_packed_gemm_block {
    const float *a, *b;
    float *c;
    /* initial values of the sums, or NULL if the sums start at 0 */
    const float *start, *bias;
    const float *next; /* address of the packed floats to prefetch */
    int64_t lda, ldc, ld_start;
    int64_t prefetch_step; /* number of floats by which `next` advances with each term */
    int64_t rows, k;
    int wide, last; /* number of vectors in the panel, and number of floats in the last vector */
    int panels;     /* number of complete panels computed together */
    int64_t step;   /* distance in packed floats between neighbouring panels */
    bool in_cache;  /* set if the packed floats are in the cache, so that nothing is prefetched */
    /* whether to prefetch the rows of `a`, which are contiguous and are read for the first time */
    bool prefetch_a;
    bool clips;
    float least, most;
};

/* The addresses of the data that one micro-kernel processes, and of the data that it prefetches for
 * the next micro-kernel. */
struct micro_kernel {
    const float *a;
    float *c;
    const float *start, *next, *next_start, *next_c;
};

#define KN_LOOPS      "kernels/matmul/packed_gemm_loops.h"
#define KN_LOOPS_TYPE struct kn_packed_gemm_loops
#define KN_LOOPS_OF   kn_packed_gemm_loops_of
#include "kernels/cpu/vector_sets.h"
#include "runtime/base/checked.h"

static bool init(struct kn_packed_gemm *p, const struct kn_packed_gemm_loops *loops)
{
    int64_t floats;

    if (p->k < 0 || p->n < 0 || p->n > INT64_MAX / 64)
        return false;
    p->loops = loops;
    p->panel = (int64_t)loops->lanes * WIDE;
    p->panels = kn_div_up(p->n, p->panel);
    if (!rt_mul(p->panels * p->panel, p->k, &floats) || floats >= INT64_MAX / 64)
        return false;
    p->in_cache = p->reuse && floats * (int64_t)sizeof(float) <= L2_BYTES;
    return true;
}

bool kn_packed_gemm_init(struct kn_packed_gemm *p)
{
    return init(p, loops_of(0));
}

bool kn_packed_gemm_init_with(struct kn_packed_gemm *p, const struct kn_packed_gemm_loops *loops)
{
    return init(p, loops);
}

bool kn_packed_gemm_is_fast(void)
{
    return rt_machine_vectors() >= RT_VECTORS_AVX2;
}

size_t kn_packed_gemm_pack_bytes(const struct kn_packed_gemm *p)
{
    return (size_t)(p->panels * p->panel * p->k) * sizeof(float);
}

/* Transposes `cols` columns of b, which begin ldb floats apart, into the rows of dst, which are
 * `width` floats apart. */
static void transpose_columns(const float *b, int64_t ldb, int64_t cols, int64_t k, float *dst,
                              int64_t width)
{
    for (int64_t i = 0; i < cols; i += 4) {
        int64_t l = 0;
#if defined(__SSE__)
        for (; i + 4 <= cols && l + 4 <= k; l += 4) {
            const float *from = b + i * ldb + l;
            float *to = dst + l * width + i;
            __m128 v0 = _mm_loadu_ps(from), v1 = _mm_loadu_ps(from + ldb);
            __m128 v2 = _mm_loadu_ps(from + 2 * ldb), v3 = _mm_loadu_ps(from + 3 * ldb);
            _MM_TRANSPOSE4_PS(v0, v1, v2, v3);
            _mm_storeu_ps(to, v0);
            _mm_storeu_ps(to + width, v1);
            _mm_storeu_ps(to + 2 * width, v2);
            _mm_storeu_ps(to + 3 * width, v3);
        }
#endif
        for (; l < k; l++)
            for (int64_t j = i; j < i + 4 && j < cols; j++)
                dst[l * width + j] = b[j * ldb + l];
    }
}

void kn_packed_gemm_pack(const struct kn_packed_gemm *p, const float *b, int64_t ldb,
                         bool transposed, const float *scale, float *dst)
{
    const int64_t width = p->panel;

    for (int64_t j = 0; j < p->n; j += width, dst += p->k * width) {
        const int64_t cols = kn_min_i64(p->n - j, width);
        if (cols < width)
            memset(dst, 0, (size_t)(p->k * width) * sizeof *dst);
        for (int64_t l = 0; l < p->k && !transposed; l++)
            memcpy(dst + l * width, b + l * ldb + j, (size_t)cols * sizeof *dst);
        if (transposed)
            transpose_columns(b + j * ldb, ldb, cols, p->k, dst, width);
        for (int64_t l = 0; l < p->k && scale; l++)
            for (int64_t i = 0; i < cols; i++)
                dst[l * width + i] *= scale[j + i];
    }
}

/* ---- blocking ---- */

static int64_t rows_of_block(const struct kn_packed_gemm *p, int64_t rows, int64_t k)
{
    const int64_t step = p->loops->rows, most = MC_KC / (k > 0 ? k : 1);
    const int64_t fit = kn_min_i64(most, MC) / step * step;
    const int64_t each = kn_even_size(rows, fit > step ? fit : step, 1);
    return kn_round_up(each, step);
}

struct block {
    int64_t row, rows, k_from, k;
};

static void run_block(const struct kn_packed_gemm *p, const struct kn_packed_gemm_args *t,
                      const struct kn_gemm_post_ops *post_ops, const struct block *at)
{
    const bool first = at->k_from == 0, last = at->k_from + at->k == p->k;
    const int64_t step = p->panel * p->k, groups = kn_div_up(at->rows, p->loops->rows);
    float *c = t->c + at->row * t->ldc;
    struct kn_packed_gemm_block s = {
        .a = t->a + at->row * t->lda + (at->k_from - t->k_from),
        .lda = t->lda,
        .ldc = t->ldc,
        .rows = at->rows,
        .k = at->k,
        .step = step,
        .prefetch_step = kn_div_up(p->panel, groups),
        .in_cache = p->in_cache,
        .clips = last && post_ops && post_ops->clips,
    };
    const float *start = first ? NULL : c;
    int64_t ld_start = t->ldc;

    if (first && post_ops && post_ops->residual) {
        ld_start = post_ops->ld_residual;
        start = post_ops->residual + at->row * ld_start;
    }
    s.ld_start = ld_start;
    if (s.clips) {
        s.least = post_ops->least;
        s.most = post_ops->most;
    }
    const int64_t most = at->rows > p->loops->gemv ? 1 : at->rows > 1 ? 2 : GEMV_PANELS;
    for (int64_t i = t->from; i < t->to; i += s.panels) {
        const int64_t col = i * p->panel, whole = (p->n - col) / p->panel;
        const int64_t left = kn_min_i64(whole, t->to - i);
        s.panels = left >= most ? (int)most : left >= 2 && most > 2 ? 2 : 1;
        const int64_t cols = kn_min_i64(p->n - col, s.panels * p->panel);
        s.wide = (int)((cols - 1) / p->loops->lanes) + 1;
        s.last = (int)(cols - (s.wide - 1) * p->loops->lanes);
        s.b = t->packed + i * step + at->k_from * p->panel;
        s.next = i + s.panels < t->to ? s.b + step : t->next ? t->next : s.b;
        s.c = c + col;
        s.start = start ? start + col : NULL;
        s.bias = first && post_ops && post_ops->bias ? post_ops->bias + col : NULL;
        s.prefetch_a = i == t->from && t->lda == at->k;
        p->loops->panel_block(&s);
        if (last && post_ops && post_ops->finish)
            post_ops->finish(post_ops->arg, s.c, at->row, at->rows, col, cols);
    }
}

void kn_packed_gemm_run(const struct kn_packed_gemm *p, const struct kn_packed_gemm_args *t,
                        const struct kn_gemm_post_ops *post_ops)
{
    const int64_t terms = t->k_to - t->k_from;
    /* If one micro-kernel computes all rows, each panel is read only once, so splitting k would
     * gain nothing. */
    const int64_t k = t->rows > p->loops->rows ? kn_even_size(terms, KC, 1) : terms;
    const int64_t rows = rows_of_block(p, t->rows, k);

    for (int64_t row = 0; row < t->rows; row += rows) {
        int64_t l = t->k_from;
        /* The loop runs once even if the sums have no terms, because the bias and the residual must
         * be added. */
        do {
            const struct block at = {row, kn_min_i64(t->rows - row, rows), l,
                                     kn_min_i64(t->k_to - l, k)};
            run_block(p, t, post_ops, &at);
            l += k;
        } while (l < t->k_to);
    }
}
