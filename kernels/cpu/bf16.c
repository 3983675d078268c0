#include "kernels/cpu/bf16_internal.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "runtime/base/machine.h"

#define KN_LOOPS      "kernels/cpu/bf16_loops.h"
#define KN_LOOPS_TYPE struct kn_bf16_loops
#define KN_LOOPS_OF   kn_bf16_loops_of
#include "kernels/cpu/vector_sets.h"

enum {
    PACK_ROWS = 64,
    /* number of rows of the result that are computed with one panel before the next panel is
     * read */
    SLAB = 64,
    WORK = 1 << 22,      /* minimum number of multiply-adds per shard */
    CHECK_SHARDS = 1024, /* maximum number of shards computed between two deadline checks */
};

static atomic_bool pretended;

void kn_bf16_pretend(bool yes)
{
    atomic_store(&pretended, yes);
}

bool kn_bf16_multiplies(void)
{
    return atomic_load(&pretended) || rt_machine_has_bf16();
}

KN_CLONES void kn_bf16_round(const float *restrict x, struct kn_bfloat *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = kn_to_bf16(x[i]);
}

void kn_bf16_panels(struct kn_bf16_panels *p, int64_t k, int64_t n)
{
    *p = (struct kn_bf16_panels){.k = k, .n = n, .width = loops_of(0)->width};
}

static int64_t panel_words(const struct kn_bf16_panels *p)
{
    return (p->k + 1) / 2 * p->width;
}

static int64_t n_panels(const struct kn_bf16_panels *p)
{
    return kn_div_up(p->n, p->width);
}

size_t kn_bf16_panels_bytes(const struct kn_bf16_panels *p)
{
    return (size_t)(n_panels(p) * panel_words(p)) * sizeof(uint32_t);
}

/* Packs n columns of two rows into one word per column, with row `first` in the low half and row
 * `second` in the high half (0 if `second` is NULL). */
KN_CLONES static void pack_pair(const float *restrict first, const float *restrict second,
                                int64_t step, int64_t n, uint32_t *restrict to)
{
    for (int64_t j = 0; j < n; j++)
        to[j] = (uint32_t)kn_to_bf16(first[j * step]).bits |
                (second ? (uint32_t)kn_to_bf16(second[j * step]).bits << 16 : 0);
}

void kn_bf16_pack(const struct kn_bf16_panels *p, const float *b, bool transposed, void *packed)
{
    const int64_t step_k = transposed ? 1 : p->n, step_n = transposed ? p->k : 1;

    /* PACK_ROWS rows are packed into all panels before the next rows are read, so that the reads
     * stay close together in memory. */
    for (int64_t l0 = 0; l0 < p->k; l0 += PACK_ROWS) {
        const int64_t end = p->k - l0 < PACK_ROWS ? p->k : l0 + PACK_ROWS;
        for (int64_t j0 = 0; j0 < p->n; j0 += p->width) {
            const int64_t wide = p->n - j0 < p->width ? p->n - j0 : p->width;
            uint32_t *to = (uint32_t *)packed + j0 / p->width * panel_words(p) + l0 / 2 * p->width;
            for (int64_t l = l0; l < end; l += 2, to += p->width) {
                const float *at = b + l * step_k + j0 * step_n;
                pack_pair(at, l + 1 < p->k ? at + step_k : NULL, step_n, wide, to);
                memset(to + wide, 0, (size_t)(p->width - wide) * sizeof *to);
            }
        }
    }
}

struct bf16_gemm {
    const struct kn_bf16_panels *p;
    /* `m` is the number of rows of `a`, and `panels` the number of panels per shard. The current
     * call of rt_run_parallel begins with shard `first`. */
    int64_t m, panels, first;
    const float *a;
    const uint32_t *b;
    float *c;
};

static void bf16_gemm_shard(void *arg, int64_t index)
{
    const struct bf16_gemm *x = arg;
    const struct kn_bf16_panels *p = x->p;
    const struct kn_bf16_loops *loops = loops_of(0);
    const int64_t from = (x->first + index) * x->panels;
    const int64_t to = from + x->panels < n_panels(p) ? from + x->panels : n_panels(p);
    float edge[SLAB * KN_BF16_MOST_WIDTH];

    for (int64_t i = 0; i < x->m; i += SLAB) {
        const int64_t rows = x->m - i < SLAB ? x->m - i : SLAB;
        const float *a = x->a + i * p->k;
        for (int64_t j = from; j < to; j++) {
            const uint32_t *b = x->b + j * panel_words(p);
            const int64_t left = p->n - j * p->width;
            float *c = x->c + i * p->n + j * p->width;
            if (left >= p->width) {
                loops->panel(rows, a, p->k, b, c, p->n, p->k);
                continue;
            }
            loops->panel(rows, a, p->k, b, edge, p->width, p->k);
            for (int64_t y = 0; y < rows; y++)
                memcpy(c + y * p->n, edge + y * p->width, (size_t)left * sizeof *c);
        }
    }
}

enum rt_status kn_bf16_gemm(const struct kn_bf16_panels *p, int64_t m, const float *a,
                            const void *packed, float *c, struct rt_run *r)
{
    const double work = (double)m * (double)p->k * (double)p->width;
    const int64_t panels = work > 0 && work < WORK ? (int64_t)(WORK / work) + 1 : 1;
    const int64_t shards = kn_div_up(n_panels(p), panels);
    struct bf16_gemm x = {.p = p, .m = m, .panels = panels, .a = a, .b = packed, .c = c};

    int64_t round = (int64_t)(KN_CHECK_MACS / (work * (double)panels + 1)) + 1;
    if (round > CHECK_SHARDS)
        round = CHECK_SHARDS;
    for (; x.first < shards; x.first += round) {
        const int64_t n = shards - x.first < round ? shards - x.first : round;
        rt_run_parallel(r, n, bf16_gemm_shard, &x);
        if (x.first + n < shards && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}
