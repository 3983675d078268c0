#include "kernels/cpu/narrow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "runtime/base/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * Panels of 64 columns, one behind the other, each of blocks of two rows: 128 weights, the first
 * row's before the second's, in 8 groups of 16. A weight is turned left by one bit, so that its
 * exponent is the highest byte. Of word i of each group stand
 *
 *   bits 0 to 15 in word i of one of 4 vectors, two groups in each,
 *   bits 16 to 23 in word i of one of 2 vectors, four groups in each,
 *   the exponent's code in word i of the last vector, all eight groups in it.
 */
enum {
    LANES = 16,
    GROUPS = 8,
    PARTS = 4, /* vectors of a panel's row */
    COLUMNS = PARTS * LANES,
    BLOCK = 112, /* words */
    HIGH = 64,   /* where in it the bits from 16 on stand */
    CODES = 96,
    CODE_BITS = 4,
    AHEAD = 2048,       /* bytes that are asked for before they are needed */
    MAGIC = 0x28b17f17, /* a trial (runtime/trial.c) runs on bytes that nobody has packed */
};

struct odd {
    int32_t row, column;
    float weight;
};

struct head {
    uint32_t magic, lowest; /* the exponent of code 1 */
    int64_t n_odd;          /* by column, then by row */
};

static int64_t most_odd(const struct kn_narrow *f)
{
    return f->k * f->n / KN_NARROW_ODD;
}

static size_t panels_at(const struct kn_narrow *f)
{
    return kn_padded(sizeof(struct head) + (size_t)most_odd(f) * sizeof(struct odd));
}

static int64_t panel_words(const struct kn_narrow *f)
{
    return (f->k + 1) / 2 * BLOCK;
}

static int64_t n_panels(const struct kn_narrow *f)
{
    return (f->n + COLUMNS - 1) / COLUMNS;
}

static int64_t panel_work(const struct kn_narrow *f)
{
    return f->k * (COLUMNS / 8);
}

bool kn_narrow_here(void)
{
#if defined(__x86_64__)
    return rt_machine_vectors() == RT_VECTORS_AVX512;
#else
    return false;
#endif
}

int64_t kn_narrow_bytes(const struct kn_narrow *f)
{
    if (f->k >= INT32_MAX || f->n >= INT32_MAX || (f->k + 1) * (f->n + COLUMNS) > INT64_MAX / 64)
        return -1;
    return (int64_t)panels_at(f) + n_panels(f) * panel_words(f) * (int64_t)sizeof(uint32_t);
}

static const struct odd *odd_of(const struct kn_narrow *f, const void *packed, int64_t *n)
{
    const struct head *h = packed;

    *n = h->magic == MAGIC && h->n_odd >= 0 && h->n_odd <= most_odd(f) ? h->n_odd : 0;
    return (const void *)(h + 1);
}

/* ---- packing ---- */

static inline uint32_t exponent(uint32_t word)
{
    return word >> 23 & 255;
}

/* The lowest of the 15 exponents that most weights have. */
static uint32_t find_lowest(const uint32_t *word, int64_t n)
{
    int64_t count[4][256] = {0}, inside = 0, most = -1;
    uint32_t best = 1;

    for (int64_t i = 0; i < n; i++)
        count[i & 3][exponent(word[i])]++;
    for (int e = 0; e < 256; e++)
        count[0][e] += count[1][e] + count[2][e] + count[3][e];
    for (int e = 1; e < 256; e++) {
        inside += count[0][e] - (e > 15 ? count[0][e - 15] : 0);
        if (e >= 15 && inside > most) {
            most = inside;
            best = (uint32_t)e - 14;
        }
    }
    return best;
}

/* Of one block; weights with odd exponents become 0. Whether there were any. */
KN_CLONES static bool pack_block(const uint32_t *restrict w, uint32_t lowest, uint32_t *restrict to)
{
    uint32_t odd = 0;

    memset(to, 0, BLOCK * sizeof *to);
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < LANES; i++) {
            const uint32_t word = w[g * LANES + i], e = word >> 23 & 255;
            const uint32_t is_inside = e - lowest < 15, is_kept = is_inside | (e == 0);
            const uint32_t turned = is_kept ? word << 1 | word >> 31 : 0;
            odd |= !is_kept;
            to[g / 2 * LANES + i] |= (turned & 0xffff) << g % 2 * 16;
            to[HIGH + g / 4 * LANES + i] |= (turned >> 16 & 0xff) << g % 4 * 8;
            to[CODES + i] |= (is_inside ? e - lowest + 1 : 0) << g * CODE_BITS;
        }
    return odd != 0;
}

/* Rows l and l + 1 of 64 columns, as far as they are there; zeros. */
static void read_block(const struct kn_narrow *f, const uint32_t *b, bool turned, int64_t l,
                       int64_t j, uint32_t *to)
{
    const int64_t wide = f->n - j < COLUMNS ? f->n - j : COLUMNS;

    if (wide < COLUMNS || l + 1 == f->k)
        memset(to, 0, 2 * COLUMNS * sizeof *to);
    for (int64_t y = 0; y < 2 && l + y < f->k; y++) {
        uint32_t *row = to + y * COLUMNS;
        if (!turned)
            memcpy(row, b + (l + y) * f->n + j, (size_t)wide * sizeof *row);
        for (int64_t x = 0; turned && x < wide; x++)
            row[x] = b[(j + x) * f->k + l + y];
    }
}

static int by_column(const void *x, const void *y)
{
    const struct odd *a = x, *b = y;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* What is odd in a block, to the end of the list. False: there is no room for it. */
static bool keep_odd(const struct kn_narrow *f, struct head *h, const uint32_t *block, int64_t l,
                     int64_t j)
{
    struct odd *list = (void *)(h + 1);

    for (int i = 0; i < 2 * COLUMNS; i++) {
        const uint32_t e = exponent(block[i]);
        if (!e || e - h->lowest < 15)
            continue;
        if (h->n_odd == most_odd(f))
            return false;
        struct odd *o = &list[h->n_odd++];
        o->row = (int32_t)(l + i / COLUMNS);
        o->column = (int32_t)(j + i % COLUMNS);
        memcpy(&o->weight, &block[i], sizeof o->weight);
    }
    return true;
}

bool kn_narrow_pack(const struct kn_narrow *f, const float *b, bool turned, void *packed)
{
    const uint32_t *words = (const void *)b;
    struct head *h = packed;
    uint32_t *panels = (void *)((char *)packed + panels_at(f)), block[2 * COLUMNS];

    *h = (struct head){.magic = MAGIC, .lowest = find_lowest(words, f->k * f->n)};
    for (int64_t l = 0; l < f->k; l += 2)
        for (int64_t j = 0; j < f->n; j += COLUMNS) {
            uint32_t *to = panels + j / COLUMNS * panel_words(f) + l / 2 * BLOCK;
            read_block(f, words, turned, l, j, block);
            if (pack_block(block, h->lowest, to) && !keep_odd(f, h, block, l, j))
                return false;
        }
    if (h->n_odd)
        qsort(h + 1, (size_t)h->n_odd, sizeof(struct odd), by_column);
    return true;
}

/* ---- loops ---- */

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))

typedef uint32_t words __attribute__((vector_size(64)));

/* By code, in the highest byte; of code 0 the exponent is 0. */
TARGET static inline __attribute__((always_inline)) words exponents_of(const struct head *h)
{
    words v;
    for (uint32_t c = 0; c < LANES; c++)
        v[c] = c ? (h->lowest + c - 1) << 24 : 0;
    return v;
}

/* Group g of a block. */
TARGET static inline __attribute__((always_inline)) __m512 unpack(const uint32_t *block, int g,
                                                                  words exponents)
{
    const words pair = *(const words *)(block + g / 2 * LANES);
    const words four = *(const words *)(block + HIGH + g / 4 * LANES);
    const words all = *(const words *)(block + CODES);
    words low = pair, high = four, code = all;
    if (g % 2)
        low >>= 16;
    else
        low &= 0xffff;
    if (g % 4 < 2)
        high <<= 16 - g % 4 * 8;
    else
        high >>= g % 4 * 8 - 16;
    high &= 0xff0000;
    /* It looks at the lowest four bits of each word alone. */
    code >>= g * CODE_BITS;
    const words top = (words)_mm512_permutexvar_epi32((__m512i)code, (__m512i)exponents);
    const words turned = low | top | high;
    return (__m512)_mm512_ror_epi32((__m512i)turned, 1);
}

TARGET static inline __attribute__((always_inline)) void ask_ahead(const uint32_t *block)
{
    for (int i = 0; i < BLOCK; i += LANES)
        __builtin_prefetch((const char *)(block + i) + AHEAD, 0, 3);
}

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* c [rows, 64] = a [rows, k] times a panel: weights are used as they are unpacked. */
TARGET static inline __attribute__((always_inline)) void multiply(const float *a, int64_t k,
                                                                  const uint32_t *block,
                                                                  words exponents, float *c,
                                                                  int64_t ldc, const int rows)
{
    __m512 sum[KN_NARROW_ROWS][PARTS];

    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int q = 0; q < PARTS; q++) sum[i][q] =
        _mm512_setzero_ps();
    for (int64_t l = 0; l < k; l += 2, block += BLOCK) {
        const bool is_pair = l + 1 < k;
        ask_ahead(block);
        UNROLL for (int g = 0; g < GROUPS; g++)
        {
            if (g == PARTS && !is_pair)
                break;
            const __m512 w = unpack(block, g, exponents);
            UNROLL for (int i = 0; i < rows; i++) sum[i][g % PARTS] =
                _mm512_fmadd_ps(_mm512_set1_ps(a[i * k + l + g / PARTS]), w, sum[i][g % PARTS]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int q = 0; q < PARTS; q++)
        _mm512_storeu_ps(c + i * ldc + q * LANES, sum[i][q]);
}

/* A panel's product. */
TARGET static void panel(const struct head *h, int64_t m, const float *a, int64_t k,
                         const uint32_t *block, float *c, int64_t ldc)
{
    const words exponents = exponents_of(h);

    switch (m) {
    case 1:
        multiply(a, k, block, exponents, c, ldc, 1);
        break;
    case 2:
        multiply(a, k, block, exponents, c, ldc, 2);
        break;
    case 3:
        multiply(a, k, block, exponents, c, ldc, 3);
        break;
    default:
        multiply(a, k, block, exponents, c, ldc, KN_NARROW_ROWS);
    }
}

/* A sum over bytes in vectors: what any loop over weights as they are cannot do without. */
TARGET static float add_up(const float *from, int64_t n)
{
    __m512 sum[PARTS] = {0};

    for (int64_t i = 0; i + COLUMNS <= n; i += COLUMNS)
        UNROLL for (int q = 0; q < PARTS; q++) sum[q] =
            _mm512_add_ps(sum[q], _mm512_loadu_ps(from + i + q * LANES));
    return _mm512_reduce_add_ps(sum[0] + sum[1] + sum[2] + sum[3]);
}
#else
static void panel(const struct head *h, int64_t m, const float *a, int64_t k, const uint32_t *block,
                  float *c, int64_t ldc)
{
    (void)h, (void)m, (void)a, (void)k, (void)block, (void)c, (void)ldc;
}
static float add_up(const float *from, int64_t n)
{
    (void)from, (void)n;
    return 0;
}
#endif

/* ---- what is odd ---- */

static float weight_at(const struct kn_narrow *f, const void *packed, int64_t l, int64_t j)
{
    const struct head *h = packed;
    const uint32_t *block = (const void *)((const char *)packed + panels_at(f));
    const int64_t at = l % 2 * COLUMNS + j % COLUMNS, g = at / LANES, i = at % LANES;

    block += j / COLUMNS * panel_words(f) + l / 2 * BLOCK;
    const uint32_t code = block[CODES + i] >> g * CODE_BITS & 15;
    const uint32_t turned = (block[g / 2 * LANES + i] >> g % 2 * 16 & 0xffff) |
                            (block[HIGH + g / 4 * LANES + i] >> g % 4 * 8 & 0xff) << 16 |
                            (code ? (h->lowest + code - 1) << 24 : 0);
    const uint32_t word = turned >> 1 | turned << 31;
    float w;
    memcpy(&w, &word, sizeof w);
    return w;
}

/* In columns [from, to) of one row. In the panels an odd weight is 0, which infinity must not be
 * multiplied with. */
static void add_odd(const struct kn_narrow *f, const float *a, const void *packed, int64_t from,
                    int64_t to, float *c)
{
    bool is_finite = true;
    int64_t n;
    const struct odd *o = odd_of(f, packed, &n), *end = o + n;

    while (o < end && o->column < from)
        o++;
    for (int64_t l = 0; l < f->k && o < end; l++)
        is_finite &= a[l] - a[l] == 0;
    while (o < end && o->column < to) {
        if (is_finite) {
            c[o->column] += a[o->row] * o->weight;
            o++;
            continue;
        }
        const int32_t j = o->column;
        float sum = 0;
        for (int64_t l = 0; l < f->k; l++) {
            const bool is_odd = o < end && o->column == j && o->row == l;
            sum += a[l] * (is_odd ? o->weight : weight_at(f, packed, l, j));
            o += is_odd;
        }
        c[j] = sum;
    }
}

/* ---- the product ---- */

struct job {
    const struct kn_narrow *f;
    const void *packed;
    const float *a;
    float *c;
    int64_t m;
};

/* Panels [from, to). */
static enum rt_status some_panels(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct job *x = arg;
    const struct kn_narrow *f = x->f;
    const uint32_t *first = (const void *)((const char *)x->packed + panels_at(f));
    const int64_t end = to * COLUMNS < f->n ? to * COLUMNS : f->n;
    float edge[KN_NARROW_ROWS * COLUMNS];
    int64_t left = RT_WORK, n_odd;

    for (int64_t p = from; p < to; p++) {
        const int64_t wide = f->n - p * COLUMNS;
        const bool is_whole = wide >= COLUMNS;
        float *c = x->c + p * COLUMNS;
        panel(x->packed, x->m, x->a, f->k, first + p * panel_words(f), is_whole ? c : edge,
              is_whole ? f->n : COLUMNS);
        for (int64_t y = 0; y < x->m && !is_whole; y++)
            memcpy(c + y * f->n, edge + y * COLUMNS, (size_t)wide * sizeof *c);
        if (rt_run_spend(r, &left, panel_work(f)))
            return r->err->code;
    }
    odd_of(f, x->packed, &n_odd);
    for (int64_t i = 0; i < x->m && n_odd; i++)
        add_odd(f, x->a + i * f->k, x->packed, from * COLUMNS, end, x->c + i * f->n);
    return RT_OK;
}

enum rt_status kn_narrow_product(const struct kn_narrow *f, int64_t m, const float *a,
                                 const void *packed, float *c, struct rt_run *r)
{
    struct job x = {.f = f, .packed = packed, .a = a, .c = c, .m = m};
    return kn_parallel_rows(r, n_panels(f), panel_work(f), 1, some_panels, &x);
}

/* ---- whether it pays ---- */

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Both loops on a matrix that lies beyond the second cache: some milliseconds. */
static bool compare(void)
{
    enum { ROUNDS = 5, LEAST = 6 << 20, MOST = 24 << 20 };
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const int64_t twice = cache > 0 && cache < MOST ? 2 * (int64_t)cache : 0;
    const struct kn_narrow f = {.k = 512, .n = (twice > LEAST ? twice : LEAST) / 4 / 512};
    const size_t bytes = (size_t)(f.k * f.n) * sizeof(float);
    int64_t plain_ns = INT64_MAX, narrow_ns = INT64_MAX;
    volatile float kept = 0;
    float *matrix = kn_narrow_here() ? aligned_alloc(64, bytes) : NULL;
    float *a = calloc((size_t)(f.k + COLUMNS), sizeof *a);

    for (int round = 0; round < ROUNDS && matrix && a; round++) {
        if (!round)
            memset(matrix, 0, bytes);
        int64_t start = cpu_ns();
        kept = kept + add_up(matrix, f.k * f.n);
        int64_t took = cpu_ns() - start;
        plain_ns = took < plain_ns ? took : plain_ns;
        start = cpu_ns();
        for (int64_t p = 0; p < n_panels(&f); p++)
            panel((const void *)matrix, 1, a, f.k,
                  (const uint32_t *)(const void *)matrix + p * panel_words(&f), a + f.k, COLUMNS);
        took = cpu_ns() - start;
        narrow_ns = took < narrow_ns ? took : narrow_ns;
    }
    free(matrix);
    free(a);
    return narrow_ns < plain_ns - plain_ns / 32;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_faster;

static void find_out(void)
{
    is_faster = compare();
}

bool kn_narrow_pays(void)
{
    pthread_once(&once, find_out);
    return is_faster;
}
