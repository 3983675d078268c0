/*
 * Finds the fastest of a node's candidate kernels by running them on generated data with the node's
 * shapes. Times are the thread's processor time, so that other load on the machine has little
 * influence. Packed constants are generated in the sizes that packing yields, so that nothing is
 * packed for a kernel that is not chosen.
 *
 * The constants are flushed from the caches before each run, because a model reads the constants of
 * all other nodes between two runs of a node. Activations stay in the caches. With constants in the
 * caches, half of ResNet50's 1x1 convolutions would get a kernel that is a fifth slower in the
 * model than the best kernel.
 *
 * The first candidate is the kernel that the rule chooses (choose.c). It is kept unless another
 * kernel is clearly faster, because most small differences are noise. Candidates run in rounds. A
 * candidate is dropped when it can no longer be chosen.
 */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/select/autotune.h"
#include "runtime/base/clock.h"
#include "runtime/select/candidate.h"
#include "runtime/exec/context.h"
#include "runtime/select/benchmark.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/core/op.h"

enum {
    /* batch size of the second benchmark; the first benchmark uses the node's own batch size */
    ROWS = 4,
    ROUNDS = 4,
    MOST_BYTES = 256 << 20,
};
/* If the first round takes longer than long_ns, no larger batch is timed. From the second round on,
 * timing ends when all rounds together have taken more than long_ns. */
static const int64_t long_ns = 10000000;
/* ratio of times above which a difference is not considered noise */
static const double clearly = 1.25;

struct pl_benchmark {
    /* linked list of the packs generated for all candidates, the largest first */
    struct rt_pack *pack;
    size_t requested_bytes; /* total size in bytes of the packs of the candidate being prepared */
    bool can_forget;
};

struct candidate {
    const struct rt_kernel *kernel;
    struct rt_prepared *prepared;
    int64_t best_ns; /* shortest time for the current batch size */
    size_t packed;   /* size of the kernel's packed constants, in bytes */
    /* sum, over batch sizes, of the ratio of this candidate's time to the best time */
    double score;
    bool out;
};

struct tensors {
    int n_in, n_out;
    struct rt_tensor *in; /* n_in inputs followed by n_out outputs */
    struct rt_info *info;
};

/* ---- generated data ---- */

/* Fills memory with numbers of both signs and moderate size. The memory contains no denormal,
 * infinity or NaN, whether it is read as float, double or a 16-bit float type. */
static void make_up(void *data, size_t bytes)
{
    uint32_t *p = data;
    for (size_t i = 0; i < bytes / sizeof *p; i++) {
        const uint32_t x = (uint32_t)i * 2654435761u ^ (uint32_t)i >> 3;
        p[i] = 0x3c803c80u | (x & 0x807f0000u) | (x >> 9 & 0x807fu);
    }
    memset((char *)data + bytes / sizeof *p * sizeof *p, 0, bytes % sizeof *p);
}

enum rt_status pl_benchmark_pack(struct rt_prep *p, int input, size_t bytes,
                                 const struct rt_pack **out)
{
    struct pl_benchmark *t = p->self->benchmark;

    t->requested_bytes += bytes;
    if (!t->pack || t->pack->bytes < bytes) {
        struct rt_pack *k = calloc(1, sizeof *k);
        if (!k || bytes > MOST_BYTES || !(k->data = rt_large_alloc((bytes + 127) & ~(size_t)63))) {
            free(k);
            return rt_fail_memory(p->err, "a trial", bytes);
        }
        make_up(k->data, bytes);
        k->bytes = bytes;
        k->next = t->pack;
        t->pack = k;
    }
    *out = t->pack;
    p->self->packed |= UINT64_C(1) << input;
    return RT_OK;
}

void pl_benchmark_packs_free(struct rt_pack *k)
{
    for (struct rt_pack *next; k; k = next) {
        next = k->next;
        free(k->data);
        free(k);
    }
}

/* ---- caches ---- */

enum { LINE = 64 };

#if defined(__x86_64__)
static bool can_forget(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_CLFLUSHOPT);
}

__attribute__((target("clflushopt"))) static void forget(const void *data, size_t bytes)
{
    const char *p = data;
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_ia32_clflushopt((void *)(uintptr_t)(p + i));
    __builtin_ia32_mfence();
}
#else
/* Returns false, because constants can be flushed from the caches only on x86-64. */
static bool can_forget(void)
{
    return false;
}

static void forget(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}
#endif

/* ---- shapes ---- */

static bool is_float(enum rt_dtype d)
{
    return d == RT_F32 || d == RT_F16 || d == RT_BF16 || d == RT_F64;
}

static bool is_constant(const struct rt_prep *prep, int k)
{
    return k < 64 && (prep->self->node->const_in >> k & 1);
}

static bool new_tensor(struct rt_tensor *t, const struct rt_info *x, size_t *bytes)
{
    struct rt_error ignored = {.arena = NULL};
    const int64_t n = x->shape.rank < 0 ? -1 : rt_count(x->shape.rank, x->shape.dim);

    if (!is_float(x->dtype) || n <= 0 || n > (int64_t)(MOST_BYTES - *bytes) / 8 ||
        rt_tensor_new(t, NULL, x->dtype, x->shape.rank, x->shape.dim, &ignored))
        return false;
    *bytes += rt_tensor_bytes(t);
    make_up(t->data, rt_tensor_bytes(t));
    return true;
}

/* Makes the inputs and outputs for a benchmark. If rows > 1, a first dimension of 1 becomes `rows`
 * in the shapes of the inputs that are not constants. Returns false for a type or size that is not
 * timed, or if memory runs out. */
static bool make_tensors(const struct rt_prep *prep, int64_t rows, struct tensors *t)
{
    const int n = prep->n_in + prep->n_out;
    struct rt_error ignored = {.arena = NULL};
    size_t bytes = 0;

    *t = (struct tensors){.n_in = prep->n_in, .n_out = prep->n_out};
    t->in = calloc((size_t)n + 1, sizeof *t->in);
    t->info = calloc((size_t)n + 1, sizeof *t->info);
    int8_t *alias = calloc((size_t)n + 1, 1);
    if (!t->in || !t->info || !alias) {
        free(alias);
        return false;
    }
    memcpy(t->info, prep->in, (size_t)prep->n_in * sizeof *t->info);
    memcpy(t->info + prep->n_in, prep->out, (size_t)prep->n_out * sizeof *t->info);
    for (int k = 0; k < prep->n_in && rows > 1; k++)
        if (!is_constant(prep, k) && t->info[k].shape.rank > 0 && t->info[k].shape.dim[0] == 1)
            t->info[k].shape.dim[0] = rows;
    bool ok = true;
    if (rows > 1) {
        for (int k = 0; k < prep->n_out; k++)
            t->info[prep->n_in + k].shape.rank = -1;
        struct rt_infer x = {.node = prep->node,
                             .n_in = prep->n_in,
                             .n_out = prep->n_out,
                             .in = t->info,
                             .out = t->info + prep->n_in,
                             .alias = alias,
                             .err = &ignored};
        ok = rt_infer_shapes(&x) == RT_OK;
    }
    free(alias);
    for (int k = 0; k < n && ok; k++) {
        if (k < prep->n_in && is_constant(prep, k) && prep->in[k].value)
            rt_tensor_ref(&t->in[k], prep->in[k].value);
        else
            ok = new_tensor(&t->in[k], &t->info[k], &bytes);
    }
    return ok;
}

static void tensors_clear(struct tensors *t)
{
    for (int k = 0; t->in && k < t->n_in + t->n_out; k++)
        rt_tensor_clear(&t->in[k]);
    free(t->in);
    free(t->info);
}

static void forget_constants(const struct rt_prep *prep, const struct candidate *c,
                             const struct tensors *t, const struct pl_benchmark *benchmark)
{
    if (!benchmark->can_forget)
        return;
    for (const struct rt_pack *k = benchmark->pack; k; k = k->next)
        forget(k->data, k->bytes < c->packed ? k->bytes : c->packed);
    for (int k = 0; k < t->n_in; k++)
        if (is_constant(prep, k) && t->in[k].data)
            forget(t->in[k].data, rt_tensor_bytes(&t->in[k]));
}

/* ---- running ---- */

static bool prepare(const struct rt_prep *from, struct candidate *c, const struct tensors *t,
                    struct pl_benchmark *benchmark, struct rt_error *err)
{
    struct rt_prepared *p = calloc(1, sizeof *p);

    if (!p)
        return false;
    p->session = from->self->session;
    p->node = from->self->node;
    p->kernel = c->kernel;
    p->benchmark = benchmark;
    struct rt_prep prep = {.node = from->node,
                           .n_in = t->n_in,
                           .n_out = t->n_out,
                           .in = t->info,
                           .out = t->info + t->n_in,
                           .tuning = from->tuning,
                           .self = p,
                           .err = err};
    c->prepared = p;
    benchmark->requested_bytes = 0;
    if (c->kernel->can && c->kernel->can(&prep) <= 0)
        return false;
    if (pl_prepare_candidate(&prep, c->kernel))
        return false;
    c->packed = benchmark->requested_bytes;
    for (int k = 0; k < t->n_in; k++)
        if (is_constant(from, k) && !(p->packed >> k & 1) &&
            rt_session_load_tensor(p->session, &t->in[k], err))
            return false;
    return true;
}

/* Returns the time of one run in ns, or -1 if the run failed. */
static int64_t run_once(const struct rt_prep *prep, const struct candidate *c, struct tensors *t,
                        struct pl_benchmark *benchmark)
{
    struct rt_session *s = prep->self->session;
    struct rt_error err = {.arena = NULL};
    struct rt_run_shared shared = {.session = s, .pool = rt_session_pool(s), .alone = true};
    struct rt_context context = {.shared = &shared, .in = t->in};
    struct rt_run r = {.node = prep->node,
                       .state = c->prepared->state,
                       .n_in = t->n_in,
                       .n_out = t->n_out,
                       .in = t->in,
                       .out = t->in + t->n_in,
                       .ctx = &context,
                       .err = &err};
    int64_t ns = -1;

    if (!shared.pool)
        return -1;
    if (rt_context_scratch(&context, &context.scratch, &context.scratch_capacity,
                           c->prepared->scratch_bytes, prep->node->name, &err)) {
        rt_session_pool_back(s, shared.pool);
        return -1;
    }
    if (c->prepared->scratch_bytes)
        memset(context.scratch, 0, c->prepared->scratch_bytes);
    r.scratch = context.scratch;
    forget_constants(prep, c, t, benchmark);
    const int64_t start = rt_thread_cpu_ns();
    if (c->kernel->run(&r) == RT_OK)
        ns = rt_thread_cpu_ns() - start;
    rt_context_drop_scratch(&context);
    rt_session_pool_back(s, shared.pool);
    return ns < 0 ? ns
                  : rt_autotune_time(s->options.autotune, c->kernel, t->n_in ? t->in[0].dim[0] : 1,
                                     ns);
}

/* Runs each remaining candidate once. Returns the sum of the times. */
static int64_t one_round(const struct rt_prep *prep, struct candidate *c, int n, struct tensors *t,
                         struct pl_benchmark *benchmark)
{
    int64_t sum = 0;

    for (int k = 0; k < n; k++) {
        if (c[k].out)
            continue;
        const int64_t ns = run_once(prep, &c[k], t, benchmark);
        c[k].out = ns < 0;
        if (ns >= 0 && ns < c[k].best_ns)
            c[k].best_ns = ns;
        sum += ns > 0 ? ns : 0;
    }
    return sum;
}

static int64_t best_of(const struct candidate *c, int n, int *n_left)
{
    int64_t best = INT64_MAX;

    *n_left = 0;
    for (int k = 0; k < n; k++) {
        *n_left += !c[k].out;
        if (!c[k].out && c[k].best_ns < best)
            best = c[k].best_ns;
    }
    return best < 1 ? 1 : best;
}

/* Drops every candidate that is clearly slower than the best, or that is not faster than the first
 * candidate. From the second round on, a candidate must be clearly faster than the first candidate.
 * The first candidate is never dropped for being slow. */
static void drop_slow(struct candidate *c, int n, int round)
{
    int n_left;
    const double best = (double)best_of(c, n, &n_left), rule = (double)c[0].best_ns;

    for (int k = 1; k < n; k++) {
        const double ns = (double)c[k].best_ns;
        if (ns > clearly * best || (!c[0].out && ns * (round ? clearly : 1) > rule))
            c[k].out = true;
    }
}

/* Times the candidates with `rows` rows and adds the results to their scores. Returns the time of
 * the first round, or -1 if the candidates cannot be timed. */
static int64_t benchmark_rows(const struct rt_prep *prep, struct candidate *c, int n, int64_t rows,
                              struct pl_benchmark *benchmark)
{
    struct rt_error err = {.arena = NULL};
    struct tensors t;
    int64_t took = 0, first = -1;
    int n_left = 2;
    const bool ok = make_tensors(prep, rows, &t);

    for (int k = 0; k < n && ok; k++) {
        c[k].best_ns = INT64_MAX;
        if (!c[k].out)
            c[k].out = !prepare(prep, &c[k], &t, benchmark, &err);
    }
    for (int round = 0; round < (rows > 1 ? 1 : ROUNDS) && ok && n_left > 1; round++) {
        took += one_round(prep, c, n, &t, benchmark);
        first = round ? first : took;
        if (rows == 1)
            drop_slow(c, n, round);
        best_of(c, n, &n_left);
        if (round && took > long_ns)
            break;
    }
    const double best = (double)best_of(c, n, &n_left);
    for (int k = 0; k < n; k++) {
        if (ok && !c[k].out)
            c[k].score += (double)c[k].best_ns / best;
        rt_prepared_free(c[k].prepared);
        c[k].prepared = NULL;
    }
    tensors_clear(&t);
    return n_left ? first : -1;
}

/* Returns whether to time a larger batch too: whether a candidate's packed weights are more than an
 * eighth smaller than those of the first candidate. All rows of a batch share each read of the
 * weights, so smaller weights may make a candidate faster only for a single row. */
static bool wants_rows(const struct candidate *c, int n)
{
    for (int k = 1; k < n; k++)
        if (!c[0].out && !c[k].out && c[k].packed < c[0].packed / 8 * 7)
            return true;
    return false;
}

int pl_benchmark(const struct rt_prep *prep, const struct rt_kernel *const *kernels, int n,
                 struct rt_pack **packs, int64_t *left_ns, int64_t *ns)
{
    const struct rt_info *in = prep->in;
    struct pl_benchmark benchmark = {.pack = *packs, .can_forget = can_forget()};
    struct candidate c[PL_MOST_KERNELS] = {0};
    const int64_t start = rt_thread_cpu_ns();
    int best = -1;

    for (int k = 0; k < n; k++)
        ns[k] = -1;
    for (int k = 0; k < n; k++)
        if (n > PL_MOST_KERNELS || kernels[k]->run == NULL)
            return -1;
    for (int k = 0; k < n; k++)
        c[k].kernel = kernels[k];
    const int64_t one = benchmark_rows(prep, c, n, 1, &benchmark);
    for (int k = 0; k < n && one >= 0; k++)
        ns[k] = c[k].best_ns < INT64_MAX ? c[k].best_ns : -1;
    if (one >= 0 && one < long_ns && wants_rows(c, n) && prep->n_in && in->shape.rank > 0 &&
        in->shape.dim[0] == 1 && prep->node->op->rows && prep->node->op->infer) {
        struct candidate few[PL_MOST_KERNELS];
        memcpy(few, c, sizeof few);
        if (benchmark_rows(prep, few, n, ROWS, &benchmark) >= 0)
            memcpy(c, few, sizeof c);
    }
    for (int k = 0; k < n; k++)
        if (!c[k].out && c[k].score > 0 &&
            (best < 0 || c[k].score * (best == 0 ? clearly : 1) < c[best].score))
            best = k;
    if (benchmark.pack) {
        pl_benchmark_packs_free(benchmark.pack->next);
        benchmark.pack->next = NULL;
    }
    *packs = benchmark.pack;
    *left_ns -= rt_thread_cpu_ns() - start;
    return best;
}
