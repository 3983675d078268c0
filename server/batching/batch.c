#include "server/batching/batch.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/base/repeat.h"

enum { MAX_PADDED_RANK = 6 };

static bool is_data_error(enum rt_status st)
{
    switch (st) {
    case RT_INVALID_ARGUMENT:
    case RT_OUT_OF_RANGE:
    case RT_NOT_FOUND:
    case RT_FAILED_PRECONDITION:
    case RT_DATA_LOSS:
    case RT_UNKNOWN:
    case RT_RESOURCE_EXHAUSTED: /* a smaller batch needs less memory and may succeed */
        return true;
    default:
        return false;
    }
}

static bool is_of(const struct rt_tensor_spec *spec, const struct rt_tensor *t)
{
    bool same = spec->shape.rank < 0 || spec->shape.rank == t->rank;
    for (int d = 0; d < spec->shape.rank && same; d++)
        same = spec->shape.dim[d] < 0 || spec->shape.dim[d] == t->dim[d];
    return same;
}

/* If a job failed with INVALID_ARGUMENT, extends the error message by the name of the first input
 * whose shape does not match the signature. The graph's error messages name only nodes, and a
 * client does not know the nodes. */
static void name_input(struct srv_job *job)
{
    const struct rt_signature *def = job->signature->def;
    char was[sizeof job->err.msg], wants[160], has[160];

    if (job->status != RT_INVALID_ARGUMENT || job->signature->is_dynamic || job->err.long_msg)
        return;
    for (int k = 0; k < def->n_inputs && k < job->n_feeds; k++) {
        const struct rt_tensor_spec *spec = &def->inputs[k];
        const struct rt_tensor *t = &job->feeds[k];
        if (is_of(spec, t))
            continue;
        snprintf(was, sizeof was, "%s", rt_error_text(&job->err));
        rt_fail(&job->err, job->status,
                "%s\n\t Input '%s' has shape %s, the signature '%s' takes %s", was, spec->alias,
                rt_shape_text(has, sizeof has, t->rank, t->dim), def->name,
                rt_shape_text(wants, sizeof wants, spec->shape.rank, spec->shape.dim));
        return;
    }
}

/* Decodes and prepares a job of another kind than SRV_JOB_RUN. Afterwards the kind is
 * SRV_JOB_PREPARE. */
static enum rt_status prepare(struct srv_job *job)
{
    enum rt_status st = RT_OK;

    if (job->kind == SRV_JOB_DECODE) {
        job->kind = SRV_JOB_PREPARE;
        st = job->decode(job);
    }
    return !st && job->prepare ? job->prepare(job) : st;
}

void srv_batch_run_job(struct srv_job *job, int64_t end_ns, const struct rt_wait_hook *on_wait)
{
    struct rt_run_options options = {
        .deadline_ns = end_ns && end_ns < job->deadline_ns ? end_ns : job->deadline_ns,
        .cancelled = srv_job_cancelled(job),
        .trace = job->trace,
        .on_wait = on_wait,
        .accelerator = job->accelerator};

    if (job->kind != SRV_JOB_RUN) {
        job->status = prepare(job);
        return;
    }
    job->batch_rows = (int)(job->n_rows > 0 && job->n_rows < INT32_MAX ? job->n_rows : 1);
    job->status =
        rt_callable_run(job->signature->call, job->feeds, job->fetches, &options, &job->err);
    name_input(job);
}

/* ---- size of the outputs ---- */

bool srv_batch_has_large_outputs(const struct srv_job *job)
{
    size_t bytes = 0;

    for (int i = 0; i < job->n_fetches; i++) {
        const struct rt_tensor *t = &job->fetches[i];
        size_t n = 1;
        /* An empty row still takes a pair of brackets in JSON, so it counts as one value. */
        for (int d = 0; d < t->rank && t->dim[d]; d++)
            n *= (size_t)t->dim[d];
        bytes += n * rt_dtype_size((enum rt_dtype)t->dtype);
        if (bytes > job->max_inline_bytes)
            return true;
        if (t->dtype != RT_STRING || !rt_tensor_count(t))
            continue;
        if (!t->data) /* the strings are not loaded, so their lengths are unknown */
            return true;
        for (size_t k = 0; k < n && bytes <= job->max_inline_bytes; k++)
            bytes += rt_strs(t)[k].n;
    }
    return bytes > job->max_inline_bytes;
}

/* ---- merging ---- */

bool srv_batch_can_pad(const struct rt_tensor *t)
{
    return t->rank >= 1 && t->rank <= MAX_PADDED_RANK && rt_tensor_count(t) > 0;
}

/* The state of writing a merged input. The writer checks for cancellation after every CHUNK_BYTES
 * bytes. */
struct merging {
    enum rt_dtype dtype;
    struct rt_check check;
    size_t written; /* number of bytes written since `check` was last called */
    struct rt_error *err;
};
enum { CHUNK_BYTES = 4 << 20 };

/* Returns how many of the next `n` elements to write. Returns 0 and sets *st if the run must be
 * cancelled. */
static int64_t next_chunk(struct merging *m, int64_t n, enum rt_status *st)
{
    const size_t size = rt_dtype_size(m->dtype);

    if (m->written >= CHUNK_BYTES) {
        m->written = 0;
        *st = m->check.check(m->check.arg, m->err);
        if (*st)
            return 0;
    }
    const int64_t chunk = (int64_t)((CHUNK_BYTES - m->written) / size) + 1;
    if (n > chunk)
        n = chunk;
    m->written += (size_t)n * size;
    return n;
}

static enum rt_status copy(struct merging *m, char *dst, const char *src, int64_t n)
{
    const size_t size = rt_dtype_size(m->dtype);
    enum rt_status st = RT_OK;

    for (int64_t k; n && (k = next_chunk(m, n, &st)); n -= k) {
        rt_copy_elements(m->dtype, dst, src, k);
        dst += (size_t)k * size;
        src += (size_t)k * size;
    }
    return st;
}

static void fill_chunk(enum rt_dtype dtype, char *dst, const void *value, int64_t n)
{
    size_t size = rt_dtype_size(dtype);

    if (rt_dtype_is_plain(dtype)) {
        memcpy(dst, value, size);
        srv_repeat(dst, n, size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        rt_copy_elements(dtype, dst + (size_t)i * size, value, 1);
}

static enum rt_status fill(struct merging *m, char *dst, const void *value, int64_t n)
{
    enum rt_status st = RT_OK;

    for (int64_t k; n && (k = next_chunk(m, n, &st)); n -= k) {
        fill_chunk(m->dtype, dst, value, k);
        dst += (size_t)k * rt_dtype_size(m->dtype);
    }
    return st;
}

/* Copies t into dst, beginning at index 0 in each dimension. Each inner dimension of dst must be at
 * least as long as that of t. The caller has already filled the padding. */
static enum rt_status copy_corner(struct merging *m, const struct rt_tensor *t, char *dst,
                                  const int64_t *dim)
{
    size_t size = rt_dtype_size(m->dtype);
    int last = t->rank - 1;
    int64_t at[RT_MAX_RANK] = {0}, line = t->dim[last], n_lines = rt_tensor_count(t) / line;
    const char *src = t->data;
    enum rt_status st = RT_OK;

    for (int64_t k = 0; k < n_lines && !st; k++, src += (size_t)line * size) {
        int64_t to = 0;
        for (int d = 0; d <= last; d++)
            to = to * (d ? dim[d] : 1) + at[d];
        st = copy(m, dst + (size_t)to * size, src, line);
        for (int d = last - 1; d >= 0 && ++at[d] == t->dim[d]; d--)
            at[d] = 0;
    }
    return st;
}

static bool same_inner(const struct rt_tensor *t, const int64_t *dim)
{
    for (int d = 1; d < t->rank; d++)
        if (t->dim[d] != dim[d])
            return false;
    return true;
}

static enum rt_status check_options(void *options, struct rt_error *err)
{
    return rt_run_options_check(options, err);
}

/* Sets dim to the shape of merged input i, including padding. */
static void merged_shape(const struct srv_batch *b, int i, int64_t *dim)
{
    const int rank = b->first->feeds[i].rank;

    dim[0] = b->run_rows;
    for (int d = 1; d < rank; d++)
        dim[d] = 0;
    for (const struct srv_job *j = b->first; j; j = j->next)
        for (int d = 1; d < rank; d++)
            dim[d] = j->feeds[i].dim[d] > dim[d] ? j->feeds[i].dim[d] : dim[d];
}

/* Fails if the merged inputs exceed their limit. A small request may have large ones, because
 * padding repeats rows and extends short rows. */
static enum rt_status check_input_limit(const struct srv_batch *b, struct rt_error *err)
{
    size_t total = 0;

    for (int i = 0; i < b->first->n_feeds && b->input_limit; i++) {
        const struct rt_tensor *like = &b->first->feeds[i];
        int64_t dim[RT_MAX_RANK];
        size_t bytes;
        merged_shape(b, i, dim);
        const enum rt_status st =
            rt_shape_check((enum rt_dtype)like->dtype, like->rank, dim, &bytes, err);
        if (st)
            return st;
        if (__builtin_add_overflow(total, bytes, &total))
            total = SIZE_MAX;
    }
    if (total <= b->input_limit)
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "out of memory: %zu bytes for the inputs of a batch of %lld rows, which is more "
                   "than the limit of %zu (--run_memory_limit_bytes)",
                   total, (long long)b->run_rows, b->input_limit);
}

/* Merges input i of all jobs into *out. If this fails, the caller must clear *out. */
static enum rt_status merge_feed(const struct srv_batch *b, int i, struct rt_run_options *options,
                                 struct rt_tensor *out, struct rt_error *err)
{
    const struct rt_tensor *like = &b->first->feeds[i];
    struct merging m = {
        .dtype = (enum rt_dtype)like->dtype, .check = {check_options, options}, .err = err};
    int64_t dim[RT_MAX_RANK], inner, at = 0, last = 0;
    enum rt_status st;

    merged_shape(b, i, dim);
    st = rt_tensor_new_checked(out, b->pool, m.dtype, like->rank, dim, &m.check, err);
    if (st || !rt_tensor_count(out))
        return st;
    inner = rt_tensor_count(out) / b->run_rows;
    size_t row_bytes = (size_t)inner * rt_dtype_size(m.dtype);
    for (const struct srv_job *j = b->first; j && !st; j = j->next) {
        const struct rt_tensor *t = &j->feeds[i];
        char *to = (char *)out->data + (size_t)at * row_bytes;
        last = at;
        at += j->n_rows;
        if (same_inner(t, dim)) {
            st = copy(&m, to, t->data, j->n_rows * inner);
            continue;
        }
        st = fill(&m, to, t->data, j->n_rows * inner);
        if (!st)
            st = copy_corner(&m, t, to, dim);
    }
    /* appends copies of the first row of the last job as padding */
    for (; at < b->run_rows && !st; at++)
        st = copy(&m, (char *)out->data + (size_t)at * row_bytes,
                  (char *)out->data + (size_t)last * row_bytes, inner);
    return st;
}

/* ---- running ---- */

/* Sets the outputs of each job to views of its rows in the merged outputs `all`. */
static void split(const struct srv_batch *b, const struct rt_tensor *all, int n)
{
    int64_t at = 0;
    for (struct srv_job *j = b->first; j; j = j->next) {
        for (int i = 0; i < n; i++) {
            struct rt_tensor *t = &j->fetches[i];
            rt_tensor_ref(t, &all[i]);
            t->dim[0] = j->n_rows;
            if (t->data)
                t->data = (char *)t->data +
                          (size_t)at * (rt_tensor_bytes(&all[i]) / (size_t)all[i].dim[0]);
        }
        at += j->n_rows;
    }
}

/* Result of running a merged batch. NOT_ROW_WISE: the row-wise analysis could not prove that each
 * output row depends only on its own input row. The proof fails because of the shapes or
 * for lack of memory, so the analysis may succeed later. */
enum outcome { RAN, FAILED, NOT_ROW_WISE, DOES_NOT_FOLLOW_ROWS };

/* Runs the jobs of the batch as one merged run. If the result is FAILED, *err contains the reason,
 * and no job was modified. */
static enum outcome run_merged(const struct srv_batch *b, struct rt_error *err)
{
    const struct rt_model_signature *sig = b->first->signature;
    int n_in = b->first->n_feeds, n_out = b->first->n_fetches;
    struct rt_run_options options = {
        .is_merged = b->needs_row_wise, .accelerator = b->first->accelerator, .trace = b->trace};
    struct rt_tensor *in = rt_arena_array(b->arena, (size_t)n_in + 1, sizeof *in);
    struct rt_tensor *out = rt_arena_array(b->arena, (size_t)n_out + 1, sizeof *out);
    const _Atomic bool **gone = rt_arena_array(b->arena, (size_t)b->n_jobs, sizeof *gone);
    enum rt_status st = RT_OK;
    enum outcome outcome = RAN;

    if (!in || !out || !gone) {
        rt_fail_memory(err, "a batch", 0);
        return FAILED;
    }
    /* The deadline of the merged run is the latest deadline of any of its jobs. Before that
     * deadline, the run is cancelled only if the clients of all jobs have disconnected. */
    options.all_cancelled = gone;
    for (const struct srv_job *j = b->first; j; j = j->next) {
        if (j->deadline_ns > options.deadline_ns)
            options.deadline_ns = j->deadline_ns;
        gone[options.n_all_cancelled++] = srv_job_cancelled(j);
    }
    st = check_input_limit(b, err);
    for (int i = 0; i < n_in && !st; i++)
        st = merge_feed(b, i, &options, &in[i], err);
    if (!st)
        st = rt_callable_run(sig->call, in, out, &options, err);
    if (st == RT_ABORTED)
        outcome = DOES_NOT_FOLLOW_ROWS;
    else if (st == RT_UNAVAILABLE)
        outcome = NOT_ROW_WISE;
    for (int i = 0; i < n_in; i++)
        rt_tensor_clear(&in[i]);
    for (int i = 0; i < n_out && !st; i++)
        st = rt_tensor_load(&out[i], err);
    if (st && outcome == RAN)
        outcome = FAILED;
    for (int i = 0; i < n_out && outcome == RAN; i++)
        if (out[i].rank < 1 || out[i].dim[0] != b->run_rows)
            outcome = DOES_NOT_FOLLOW_ROWS;
    if (outcome == RAN) {
        split(b, out, n_out);
        for (struct srv_job *j = b->first; j; j = j->next) {
            j->status = RT_OK;
            j->batch_rows = (int)(b->rows < INT32_MAX ? b->rows : INT32_MAX);
        }
    }
    for (int i = 0; i < n_out; i++)
        rt_tensor_clear(&out[i]);
    return outcome;
}

static void run_singly(const struct srv_batch *b)
{
    for (struct srv_job *j = b->first; j; j = j->next)
        srv_batch_run_job(j, 0, NULL);
}

static void fail_all(const struct srv_batch *b, const struct rt_error *err)
{
    for (struct srv_job *j = b->first; j; j = j->next) {
        rt_error_copy(&j->err, err);
        j->status = err->code;
    }
}

/* Runs the two halves of a failed batch separately, so that only the jobs that cause the failure
 * fail. */
static void bisect(const struct srv_batch *b)
{
    struct srv_batch half[2] = {{.first = b->first}, {.n_jobs = 0}};
    struct srv_job **at = &half[0].first;

    for (int i = 0; i < b->n_jobs; i++) {
        struct srv_batch *h = &half[i >= b->n_jobs / 2];
        if (i == b->n_jobs / 2)
            half[1].first = *at;
        h->n_jobs++;
        h->rows += (*at)->n_rows;
        at = &(*at)->next;
    }
    at = &half[0].first;
    for (int i = 0; i < half[0].n_jobs; i++)
        at = &(*at)->next;
    *at = NULL; /* Separates the jobs of the halves. The lists are joined after the runs. */
    for (int i = 0; i < 2; i++) {
        struct srv_batch *h = &half[i];
        struct rt_error err = {.arena = b->arena};
        h->run_rows = h->rows;
        h->needs_row_wise = b->needs_row_wise;
        h->arena = b->arena;
        h->pool = b->pool;
        h->input_limit = b->input_limit;
        if (h->n_jobs == 1) {
            srv_batch_run_job(h->first, 0, NULL);
            continue;
        }
        switch (run_merged(h, &err)) {
        case RAN:
            break;
        case NOT_ROW_WISE:
        case DOES_NOT_FOLLOW_ROWS:
            run_singly(h);
            break;
        case FAILED:
            if (is_data_error(err.code))
                bisect(h);
            else
                fail_all(h, &err);
        }
    }
    *at = half[1].first;
}

struct srv_batch_verdict srv_batch_run(struct srv_batch *b)
{
    struct rt_error err = {.arena = b->arena};

    if (b->n_jobs == 1 && b->run_rows == b->rows) {
        srv_batch_run_job(b->first, b->end_ns, b->on_wait);
        if (b->first->status)
            return (struct srv_batch_verdict){0};
        return (struct srv_batch_verdict){
            .learn = true, .has_large_outputs = srv_batch_has_large_outputs(b->first)};
    }
    switch (run_merged(b, &err)) {
    case RAN:
        return (struct srv_batch_verdict){
            .learn = true, .has_large_outputs = srv_batch_has_large_outputs(b->first)};
    case NOT_ROW_WISE:
        run_singly(b);
        return (struct srv_batch_verdict){0};
    case DOES_NOT_FOLLOW_ROWS:
        run_singly(b);
        return (struct srv_batch_verdict){.never_merge = true};
    case FAILED:
        break;
    }
    if (is_data_error(err.code) && b->n_jobs > 1) {
        bisect(b);
        return (struct srv_batch_verdict){.halve_limit = err.code == RT_RESOURCE_EXHAUSTED};
    }
    /* If memory ran out, the padding may have needed it. */
    if (err.code == RT_RESOURCE_EXHAUSTED)
        run_singly(b);
    else
        fail_all(b, &err);
    return (struct srv_batch_verdict){0};
}
