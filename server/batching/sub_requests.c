#include "server/batching/sub_requests.h"

#include "runtime/base/arena.h"
#include "server/batching/batch.h"

struct sub_requests {
    struct srv_job *parent;
    struct rt_pool *pool;
    void (*parent_done)(struct srv_job *parent, bool follows_rows);
    atomic_int left;
    int n;
    struct srv_job *job;
};

/* ---- concatenating outputs ---- */

/* Returns whether the tensors of output i can be concatenated. Each tensor must have one row per
 * input row of its sub-request, and all tensors must have the same inner dimensions. */
static bool follows_rows(const struct sub_requests *p, int i)
{
    const struct rt_tensor *like = &p->job[0].fetches[i];
    for (int k = 0; k < p->n; k++) {
        const struct rt_tensor *t = &p->job[k].fetches[i];
        if (t->rank < 1 || t->rank != like->rank || t->dtype != like->dtype ||
            t->dim[0] != p->job[k].n_rows)
            return false;
        for (int d = 1; d < t->rank; d++)
            if (t->dim[d] != like->dim[d])
                return false;
    }
    return true;
}

static enum rt_status concat_output(const struct sub_requests *p, int i, struct rt_tensor *out,
                                    struct rt_error *err)
{
    const struct rt_tensor *like = &p->job[0].fetches[i];
    enum rt_dtype dtype = (enum rt_dtype)like->dtype;
    int64_t dim[RT_MAX_RANK] = {p->parent->n_rows};
    for (int d = 1; d < like->rank; d++)
        dim[d] = like->dim[d];
    enum rt_status st = rt_tensor_new(out, p->pool, dtype, like->rank, dim, err);
    char *to = out->data;
    for (int k = 0; k < p->n && !st; k++) {
        struct rt_tensor *t = &p->job[k].fetches[i];
        int64_t n = rt_tensor_count(t);
        st = rt_tensor_load(t, err);
        if (!st && n)
            rt_copy_elements(dtype, to, t->data, n);
        to += (size_t)n * rt_dtype_size(dtype);
    }
    return st;
}

static bool concat_outputs(struct sub_requests *p)
{
    struct srv_job *parent = p->parent;
    bool follows = true;

    parent->status = RT_OK;
    for (int k = 0; k < p->n && !parent->status; k++) {
        const struct srv_job *job = &p->job[k];
        if (job->status) {
            rt_error_copy(&parent->err, &job->err);
            parent->status = job->status;
        }
        if (job->batch_rows > parent->batch_rows)
            parent->batch_rows = job->batch_rows;
        if (!parent->started_ns || (job->started_ns && job->started_ns < parent->started_ns))
            parent->started_ns = job->started_ns;
    }
    for (int i = 0; i < parent->n_fetches && follows && !parent->status; i++)
        follows = follows_rows(p, i);
    for (int i = 0; i < parent->n_fetches && follows && !parent->status; i++)
        parent->status = concat_output(p, i, &parent->fetches[i], &parent->err);
    if (parent->status)
        for (int i = 0; i < parent->n_fetches; i++)
            rt_tensor_clear(&parent->fetches[i]);
    for (int k = 0; k < p->n; k++)
        srv_job_clear(&p->job[k]);
    if (!follows)
        srv_batch_run_job(parent, 0, NULL);
    return follows;
}

static void sub_request_done(struct srv_job *job)
{
    struct sub_requests *p = job->owner;
    if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel) == 1)
        p->parent_done(p->parent, concat_outputs(p));
}

/* ---- splitting ---- */

static enum rt_status split_feeds(struct srv_job *job, const struct srv_job *parent, int64_t at)
{
    for (int i = 0; i < parent->n_feeds; i++) {
        struct rt_tensor *t = &job->feeds[i];
        rt_tensor_ref(t, &parent->feeds[i]);
        enum rt_status st = rt_tensor_load(t, &job->err);
        if (st)
            return st;
        size_t row_bytes = rt_tensor_bytes(t) / (size_t)parent->n_rows;
        t->dim[0] = job->n_rows;
        if (t->data)
            t->data = (char *)t->data + (size_t)at * row_bytes;
    }
    return RT_OK;
}

enum rt_status srv_sub_requests_split(
    struct srv_job *parent, int64_t first_rows, int64_t rows, struct rt_pool *pool,
    void (*parent_done)(struct srv_job *parent, bool follows_rows), struct srv_job **first)
{
    int64_t after_first = parent->n_rows - first_rows;
    int64_t n = (first_rows > 0) + after_first / rows + (after_first % rows != 0);
    struct rt_arena *arena = parent->arena;
    struct sub_requests *p = rt_arena_alloc(arena, sizeof *p);
    struct srv_job *jobs = n < INT32_MAX ? rt_arena_array(arena, (size_t)n, sizeof *jobs) : NULL;
    enum rt_status st = RT_OK;
    int64_t at = 0;

    if (!p || !jobs)
        return rt_fail_memory(&parent->err, "the pieces of a request", 0);
    *p = (struct sub_requests){
        .parent = parent, .pool = pool, .parent_done = parent_done, .job = jobs};
    for (int64_t k = 0; k < n && !st; k++) {
        struct srv_job *job = &jobs[k];
        int64_t want = k == 0 && first_rows > 0 ? first_rows : rows;
        int64_t left = parent->n_rows - at;
        *job = (struct srv_job){
            .next = k + 1 < n ? &jobs[k + 1] : NULL,
            .parent = parent,
            .io_loop = parent->io_loop,
            .version = parent->version,
            .signature = parent->signature,
            .body_bytes = parent->body_bytes / (size_t)n,
            .n_feeds = parent->n_feeds,
            .feeds = rt_arena_array(arena, (size_t)parent->n_feeds + 1, sizeof *job->feeds),
            .n_fetches = parent->n_fetches,
            .fetches = rt_arena_array(arena, (size_t)parent->n_fetches + 1, sizeof *job->fetches),
            .max_inline_bytes = parent->max_inline_bytes,
            .n_rows = want < left ? want : left,
            .client = parent->client,
            .deadline_ns = parent->deadline_ns,
            .level = parent->level,
            .received_ns = parent->received_ns,
            .queued_ns = parent->queued_ns,
            .done = sub_request_done,
            .owner = p,
        };
        p->n++;
        if (!job->feeds || !job->fetches) {
            job->n_feeds = job->n_fetches = 0;
            st = rt_fail_memory(&job->err, "the pieces of a request", 0);
        } else {
            st = split_feeds(job, parent, at);
        }
        at += job->n_rows;
    }
    if (st) {
        rt_error_copy(&parent->err, &jobs[p->n - 1].err);
        for (int k = 0; k < p->n; k++)
            srv_job_clear(&jobs[k]);
        return st;
    }
    atomic_init(&p->left, p->n);
    *first = jobs;
    return RT_OK;
}
