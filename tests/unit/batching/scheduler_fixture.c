#include "tests/unit/batching/scheduler_fixture.h"

#include <unistd.h>

#include "server/batching/scheduler_internal.h"
#include "server/metrics/metrics.h"
#include "tests/support/folder.h"

struct sched_model sched_model;

/* ---- the model ---- */

static bool is_given_up(const struct rt_run_options *o)
{
    if (o->cancelled && atomic_load(o->cancelled))
        return true;
    for (int i = 0; i < o->n_all_cancelled; i++)
        if (!atomic_load(o->all_cancelled[i]))
            return false;
    return o->n_all_cancelled > 0;
}

bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows)
{
    (void)c;
    (void)rows;
    atomic_fetch_add(&sched_model.n_compiled_asked, 1);
    return true;
}

void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes)
{
    (void)c;
    (void)shapes;
}

const struct rt_session_accelerators *rt_model_accelerators(const struct rt_model *m)
{
    (void)m;
    return &sched_model.gpus;
}

enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err)
{
    (void)c;
    if (options->is_merged && atomic_load(&sched_model.unproved))
        return rt_fail(err, RT_ABORTED, "the rows depend on each other");
    int together = atomic_fetch_add(&sched_model.together, 1) + 1;
    if (together > atomic_load(&sched_model.most_together))
        atomic_store(&sched_model.most_together, together);
    int run = atomic_fetch_add(&sched_model.runs, 1);
    int64_t n = rt_tensor_count(&feeds[0]);
    if (run < 64)
        atomic_store(&sched_model.rows[run], feeds[0].rank ? feeds[0].dim[0] : -1);
    const bool is_seven = feeds[0].dtype == RT_F32 && n && *(const float *)feeds[0].data == 7;
    while ((atomic_load(&sched_model.held) ||
            (is_seven && atomic_load(&sched_model.sevens_are_held))) &&
           !is_given_up(options))
        usleep(200);
    if (is_given_up(options)) {
        atomic_fetch_sub(&sched_model.together, 1);
        return rt_fail(err, RT_CANCELLED, "given up");
    }
    const int64_t us =
        sched_model.sleep_us + (feeds[0].rank ? feeds[0].dim[0] : 1) * sched_model.row_us;
    if (us)
        usleep((useconds_t)us);
    atomic_fetch_add(&sched_model.on_gpu[options->accelerator], 1);
    enum rt_status st = RT_OK;
    const int64_t most_rows = atomic_load(&sched_model.most_rows);
    if (most_rows && feeds[0].rank && feeds[0].dim[0] > most_rows) {
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "too many rows");
    } else if (feeds[0].dtype == RT_STRING) {
        st = rt_tensor_copy(&fetches[0], &feeds[0], NULL, err);
    } else {
        const float *x = feeds[0].data;
        for (int64_t i = 0; i < n && !st; i++)
            if (x[i] == 13)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "13 is not liked");
        int64_t dim[RT_MAX_RANK];
        memcpy(dim, feeds[0].dim, sizeof dim);
        if (atomic_load(&sched_model.one_output_row))
            dim[0] = 1;
        if (!st)
            st = rt_tensor_new(&fetches[0], NULL, RT_F32, feeds[0].rank, dim, err);
        for (int64_t i = 0; !st && i < rt_tensor_count(&fetches[0]); i++)
            ((float *)fetches[0].data)[i] = 2 * x[i];
    }
    atomic_fetch_sub(&sched_model.together, 1);
    return st;
}

/* ---- the server ---- */

static void no_wake(struct srv_io_loop *io_loop)
{
    (void)io_loop;
}

static struct world *new_world(void)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->max_inline_bytes = SIZE_MAX;
    memset(&sched_model, 0, sizeof sched_model);
    return w;
}

/* Sets the durations after which spare workers take batches. */
static void set_spare_times(struct world *w, int64_t long_run_ns, int64_t spare_after_ns)
{
    struct srv_scheduler *s = w->server.scheduler;
    rt_mutex_lock(&s->mu);
    s->long_run_ns = long_run_ns;
    s->spare_after_ns = spare_after_ns;
    rt_mutex_unlock(&s->mu);
}

void sched_have_spares(struct world *w)
{
    set_spare_times(w, 500000000, 20000000);
}

static struct world *begin(struct world *w, int n_workers, bool rowwise, bool writes,
                           enum srv_maybe batching, const char *parameters)
{
    w->server.options = (struct srv_options){
        .max_batch_rows = 64, .max_queue_jobs = 20, .max_queue_bytes = 1 << 20, .inline_max_us = 0};
    w->server.options.enable_batching = batching;
    w->server.options.quota_queue_share = w->queue_share;
    w->server.options.quota_max_clients = 8;
    if (parameters) {
        folder_new();
        folder_write("batching.txt", parameters);
        w->server.options.batching_parameters_file = folder_path("batching.txt");
    }
    atomic_store(&w->server.map, &w->map);
    w->server.options.num_workers = n_workers;
    w->server.metrics = srv_metrics_new(1, srv_scheduler_n_workers(&w->server));
    struct rt_error err = {0};
    assert_ok(srv_scheduler_new(&w->server, &w->server.scheduler, &err), &err);
    set_spare_times(w, RT_NEVER / 2, RT_NEVER / 2);
    w->server.n_io_loops = 1;
    w->server.io_loops[0] = &w->io_loop;
    srv_io_loop_init(&w->io_loop, &w->server, "REST", no_wake, NULL);
    w->in = w->out = (struct rt_tensor_spec){.alias = "x", .name = "x:0"};
    w->def = (struct rt_signature){.name = "serving_default",
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .inputs = &w->in,
                                   .outputs = &w->out};
    w->signature =
        (struct rt_model_signature){.def = &w->def, .rowwise = rowwise, .writes = writes};
    w->loaded = (struct rt_model){
        .n_signatures = 1, .signatures = &w->signature, .arena = rt_arena_new(1 << 20)};
    w->version = (struct srv_version){.model = "m", .version = 1, .loaded = &w->loaded};
    w->version.handles = srv_handles_new(1);
    assert_non_null(w->version.handles);
    assert_ok(srv_scheduler_read_parameters(w->server.scheduler, &w->version, "", &err), &err);
    assert_ok(srv_model_queue_new(w->server.scheduler, &w->version, &w->version.model_queue, &err),
              &err);
    static const char *const names[] = {"serving_default"};
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 1, 1, names);
    if (parameters)
        folder_remove();
    return w;
}

struct world *sched_begin_with(int n_workers, bool rowwise, bool writes, enum srv_maybe batching,
                               const char *parameters)
{
    return begin(new_world(), n_workers, rowwise, writes, batching, parameters);
}

struct world *sched_begin_with_shares(double part, enum srv_maybe batching, const char *parameters)
{
    struct world *w = new_world();
    w->queue_share = part;
    return begin(w, 1, true, false, batching, parameters);
}

struct world *sched_begin_on_gpus(int n, int gpu)
{
    struct world *w = new_world();
    for (int k = 0; k < n; k++) {
        w->gpu[k] = (struct rt_device){.type = "GPU", .index = k, .n_streams = 2};
        w->server.gpus.device[k] = &w->gpu[k];
    }
    w->server.gpus.n = n;
    sched_model.gpus = rt_one_accelerator(&w->gpu[gpu < 0 ? 0 : gpu]);
    for (int k = 0; gpu < 0 && k < n; k++)
        sched_model.gpus.device[k] = &w->gpu[k];
    sched_model.gpus.n = gpu < 0 ? n : 1;
    return begin(w, 1, true, false, SRV_UNSET, NULL);
}

struct world *sched_begin(int n_workers, bool rowwise, bool writes)
{
    return sched_begin_with(n_workers, rowwise, writes, SRV_UNSET, NULL);
}

struct world *sched_begin_as_tensorflow(const char *parameters)
{
    return sched_begin_with(1, false, false, SRV_YES, parameters);
}

void sched_end(struct world *w)
{
    srv_scheduler_free(w->server.scheduler);
    srv_model_queue_free(w->version.model_queue);
    srv_metrics_drop_version(w->server.metrics, w->version.metrics);
    srv_metrics_free(w->server.metrics);
    rt_arena_free(w->loaded.arena);
    free(w->version.handles);
    free(w);
}

void sched_on_done(struct srv_job *job)
{
    struct request *r = job->owner;
    atomic_fetch_add(&r->w->n_done, 1);
}

struct request *sched_submit_shaped(struct world *w, int rank, const int64_t *dim, float value,
                                    float step, int64_t deadline)
{
    struct request *r = calloc(1, sizeof *r);
    struct rt_error err = {0};
    assert_non_null(r);
    r->w = w;
    r->arena = rt_arena_new(SIZE_MAX);
    assert_non_null(r->arena);
    assert_ok(rt_tensor_new(&r->feed, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&r->feed); i++)
        ((float *)r->feed.data)[i] = value + step * (float)i;
    r->job = (struct srv_job){.io_loop = &w->io_loop,
                              .version = w->other ? w->other : &w->version,
                              .signature = &w->signature,
                              .decode = w->decode,
                              .prepare = w->prepare,
                              .arena = r->arena,
                              .n_feeds = 1,
                              .feeds = &r->feed,
                              .n_fetches = 1,
                              .fetches = &r->fetch,
                              .max_inline_bytes = w->max_inline_bytes,
                              .client = w->client,
                              .deadline_ns = deadline,
                              .body_bytes = 100,
                              .done = sched_on_done,
                              .owner = r};
    srv_job_submit(&r->job);
    return r;
}

struct request *sched_submit(struct world *w, int64_t rows, float value, int64_t deadline)
{
    const int64_t dim[2] = {rows, 2};
    return sched_submit_shaped(w, rows ? 2 : 0, dim, value, 0, deadline);
}

void sched_wait_done(struct world *w, int n)
{
    for (int i = 0; i < 100000 && atomic_load(&w->n_done) < n; i++)
        usleep(500);
    assert_int_equal(atomic_load(&w->n_done), n);
}

void sched_wait_runs(int n)
{
    for (int i = 0; i < 100000 && atomic_load(&sched_model.runs) < n; i++)
        usleep(500);
    assert_int_equal(atomic_load(&sched_model.runs), n);
}

void sched_expect(struct request *r, int64_t rows, float value)
{
    assert_ok(r->job.status, &r->job.err);
    assert_int_equal(r->fetch.dim[0], rows);
    for (int64_t i = 0; i < 2 * rows; i++)
        assert_float_equal(((float *)r->fetch.data)[i], 2 * value, 0);
}

void sched_drop(struct request *r)
{
    srv_job_clear(&r->job);
    rt_arena_free(r->arena);
    free(r);
}

struct request *sched_block(struct world *w)
{
    atomic_store(&sched_model.held, true);
    struct request *r = sched_submit(w, 1, 0, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_runs(1);
    return r;
}
