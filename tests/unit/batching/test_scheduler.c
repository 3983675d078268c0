/* The scheduler's shell with a model of our own: rt_callable_run is this file's. */
#include "tests/support/test.h"

#include <unistd.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "server/metrics/metrics.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/batching/io_loop.h"
#include "server/batching/scheduler.h"
#include "tests/support/folder.h"

/* ---- a model: y = 2 x; 13 is refused; s = s ---- */

static struct {
    _Atomic int runs, together, most_together;
    _Atomic int64_t rows[64];
    _Atomic bool held; /* runs wait until it is false */
    _Atomic bool one_output_row;
    _Atomic bool unproved; /* the plan was made again, and its rows depend on each other */
    int64_t sleep_us;
} model;

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
    return true;
}

void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes)
{
    (void)c;
    (void)shapes;
}

enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err)
{
    (void)c;
    if (options->is_merged && atomic_load(&model.unproved))
        return rt_fail(err, RT_ABORTED, "the rows depend on each other");
    int together = atomic_fetch_add(&model.together, 1) + 1;
    if (together > atomic_load(&model.most_together))
        atomic_store(&model.most_together, together);
    int run = atomic_fetch_add(&model.runs, 1);
    int64_t n = rt_tensor_count(&feeds[0]);
    if (run < 64)
        atomic_store(&model.rows[run], feeds[0].rank ? feeds[0].dim[0] : -1);
    while (atomic_load(&model.held) && !is_given_up(options))
        usleep(200);
    if (is_given_up(options)) {
        atomic_fetch_sub(&model.together, 1);
        return rt_fail(err, RT_CANCELLED, "given up");
    }
    if (model.sleep_us)
        usleep((useconds_t)model.sleep_us);
    enum rt_status st = RT_OK;
    if (feeds[0].dtype == RT_STRING) {
        st = rt_tensor_copy(&fetches[0], &feeds[0], NULL, err);
    } else {
        const float *x = feeds[0].data;
        for (int64_t i = 0; i < n && !st; i++)
            if (x[i] == 13)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "13 is not liked");
        int64_t dim[RT_MAX_RANK];
        memcpy(dim, feeds[0].dim, sizeof dim);
        if (atomic_load(&model.one_output_row))
            dim[0] = 1;
        if (!st)
            st = rt_tensor_new(&fetches[0], NULL, RT_F32, feeds[0].rank, dim, err);
        for (int64_t i = 0; !st && i < rt_tensor_count(&fetches[0]); i++)
            ((float *)fetches[0].data)[i] = 2 * x[i];
    }
    atomic_fetch_sub(&model.together, 1);
    return st;
}

/* ---- a server around it ---- */

struct world {
    struct srv_server server;
    struct srv_map map;
    struct srv_io_loop io_loop;
    struct rt_tensor_spec in, out;
    struct rt_signature def;
    struct rt_model_signature signature;
    struct rt_model loaded;
    struct srv_version version;
    _Atomic int n_done;
};

struct request {
    struct srv_job job;
    struct rt_tensor feed, fetch;
    struct rt_arena *arena;
    struct world *w;
};

static void no_wake(struct srv_io_loop *io_loop)
{
    (void)io_loop;
}

static struct world *begin_with(int n_workers, bool rowwise, bool writes, enum srv_maybe batching,
                                const char *parameters)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    memset(&model, 0, sizeof model);
    w->server.options = (struct srv_options){
        .max_batch_rows = 64, .max_queue_jobs = 20, .max_queue_bytes = 1 << 20, .inline_max_us = 0};
    w->server.options.enable_batching = batching;
    if (parameters) {
        folder_new();
        folder_write("batching.txt", parameters);
        w->server.options.batching_parameters_file = folder_path("batching.txt");
    }
    atomic_store(&w->server.map, &w->map);
    w->server.metrics = srv_metrics_new(1, n_workers + 1);
    struct rt_error err = {0};
    assert_ok(srv_scheduler_new(&w->server, n_workers, &w->server.scheduler, &err), &err);
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
    w->loaded = (struct rt_model){.n_signatures = 1, .signatures = &w->signature};
    w->version = (struct srv_version){.model = "m", .version = 1, .loaded = &w->loaded};
    assert_ok(srv_model_queue_new(w->server.scheduler, &w->version, &w->version.model_queue, &err),
              &err);
    static const char *const names[] = {"serving_default"};
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 1, 1, names);
    if (parameters)
        folder_remove();
    return w;
}

static struct world *begin(int n_workers, bool rowwise, bool writes)
{
    return begin_with(n_workers, rowwise, writes, SRV_UNSAID, NULL);
}

/* With --enable_batching=true; the signature is not proved. */
static struct world *begin_as_tensorflow(const char *parameters)
{
    return begin_with(1, false, false, SRV_YES, parameters);
}

static void end(struct world *w)
{
    srv_scheduler_free(w->server.scheduler);
    srv_model_queue_free(w->version.model_queue);
    srv_metrics_drop_version(w->server.metrics, w->version.metrics);
    srv_metrics_free(w->server.metrics);
    free(w);
}

static void on_done(struct srv_job *job)
{
    struct request *r = job->owner;
    atomic_fetch_add(&r->w->n_done, 1);
}

/* A request of that shape, its numbers value, value + step, ... */
static struct request *submit_shaped(struct world *w, int rank, const int64_t *dim, float value,
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
                              .version = &w->version,
                              .signature = &w->signature,
                              .arena = r->arena,
                              .n_feeds = 1,
                              .feeds = &r->feed,
                              .n_fetches = 1,
                              .fetches = &r->fetch,
                              .deadline_ns = deadline,
                              .body_bytes = 100,
                              .done = on_done,
                              .owner = r};
    srv_job_submit(&r->job);
    return r;
}

/* A request of `rows` rows of two numbers, all `value`; rows 0: a scalar. */
static struct request *submit(struct world *w, int64_t rows, float value, int64_t deadline)
{
    const int64_t dim[2] = {rows, 2};
    return submit_shaped(w, rows ? 2 : 0, dim, value, 0, deadline);
}

static void wait_done(struct world *w, int n)
{
    for (int i = 0; i < 100000 && atomic_load(&w->n_done) < n; i++)
        usleep(500);
    assert_int_equal(atomic_load(&w->n_done), n);
}

static void wait_runs(int n)
{
    for (int i = 0; i < 100000 && atomic_load(&model.runs) < n; i++)
        usleep(500);
    assert_int_equal(atomic_load(&model.runs), n);
}

static void expect(struct request *r, int64_t rows, float value)
{
    assert_ok(r->job.status, &r->job.err);
    assert_int_equal(r->fetch.dim[0], rows);
    for (int64_t i = 0; i < 2 * rows; i++)
        assert_float_equal(((float *)r->fetch.data)[i], 2 * value, 0);
}

static void drop(struct request *r)
{
    srv_job_clear(&r->job);
    rt_arena_free(r->arena);
    free(r);
}

/* Lets one request block the only worker, so that what follows queues up. */
static struct request *block(struct world *w)
{
    atomic_store(&model.held, true);
    struct request *r = submit(w, 1, 0, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_runs(1);
    return r;
}

static atomic_bool decodes, is_decoding;

static enum rt_status decode_for_long(struct srv_job *job)
{
    job->prepare = NULL;
    for (atomic_store(&is_decoding, true); atomic_load(&decodes);)
        usleep(500);
    return rt_fail(&job->err, RT_INVALID_ARGUMENT, "it is too long");
}

/* ---- tests ---- */

static void a_request_runs_and_is_answered_once(void **state)
{
    (void)state;
    struct world *w = begin(2, true, false);
    struct request *r = submit(w, 3, 1.5f, RT_NEVER);
    assert_int_equal(atomic_load(&w->n_done), 0); /* not before the turn ends */
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    expect(r, 3, 1.5f);
    assert_int_equal(r->job.batch_rows, 3);
    drop(r);
    end(w);
}

static void requests_that_wait_are_merged_and_each_gets_its_rows(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *r[6], *first = block(w);
    for (int i = 0; i < 6; i++)
        r[i] = submit(w, i + 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 7);
    assert_int_equal(atomic_load(&model.runs), 2);
    assert_int_equal(atomic_load(&model.rows[1]), 21);
    for (int i = 0; i < 6; i++) {
        expect(r[i], i + 1, (float)i);
        assert_int_equal(r[i]->job.batch_rows, 21);
        drop(r[i]);
    }
    drop(first);
    end(w);
}

static void only_the_request_at_fault_fails(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *r[9], *first = block(w);
    for (int i = 0; i < 9; i++)
        r[i] = submit(w, 1 + i % 2, i == 3 || i == 8 ? 13 : (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 10);
    for (int i = 0; i < 9; i++) {
        if (i == 3 || i == 8)
            assert_fails(r[i]->job.status, RT_INVALID_ARGUMENT, &r[i]->job.err, "13 is not liked");
        else
            expect(r[i], 1 + i % 2, (float)i);
        drop(r[i]);
    }
    drop(first);
    end(w);
}

static void strings_are_merged_too(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *r[3], *first = block(w);
    const int64_t dim[1] = {2};
    for (int i = 0; i < 3; i++) {
        struct rt_error err = {0};
        char text[64];
        r[i] = calloc(1, sizeof *r[i]);
        r[i]->w = w;
        assert_ok(rt_tensor_new(&r[i]->feed, NULL, RT_STRING, 1, dim, &err), &err);
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "a string that lies outside, number %d.%d", i, k);
            rt_str_set((struct rt_str *)r[i]->feed.data + k, NULL, text, strlen(text), NULL);
        }
        r[i]->job = (struct srv_job){.io_loop = &w->io_loop,
                                     .version = &w->version,
                                     .signature = &w->signature,
                                     .n_feeds = 1,
                                     .feeds = &r[i]->feed,
                                     .n_fetches = 1,
                                     .fetches = &r[i]->fetch,
                                     .deadline_ns = RT_NEVER,
                                     .done = on_done,
                                     .owner = r[i]};
        srv_job_submit(&r[i]->job);
    }
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 4);
    assert_int_equal(atomic_load(&model.runs), 2);
    for (int i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "a string that lies outside, number %d.1", i);
        assert_ok(r[i]->job.status, &r[i]->job.err);
        assert_int_equal(r[i]->fetch.dim[0], 2);
        assert_string_equal(rt_str_data(rt_strs(&r[i]->fetch) + 1), text);
        drop(r[i]);
    }
    drop(first);
    end(w);
}

static void signatures_that_are_not_row_wise_are_not_merged(void **state)
{
    (void)state;
    struct world *w = begin(1, false, false);
    struct request *r[3], *first = block(w);
    for (int i = 0; i < 3; i++)
        r[i] = submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 4);
    assert_int_equal(atomic_load(&model.runs), 4);
    for (int i = 0; i < 3; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

static void outputs_that_do_not_follow_the_rows_end_merging(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *r[4], *first = block(w);
    for (int i = 0; i < 4; i++)
        r[i] = submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.one_output_row, true);
    atomic_store(&model.held, false);
    wait_done(w, 5);
    assert_int_equal(atomic_load(&model.runs), 6); /* one merged, then each by itself */
    for (int i = 0; i < 4; i++) {
        expect(r[i], 1, (float)i);
        drop(r[i]);
    }
    drop(first);
    atomic_store(&model.held, true);
    r[0] = submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_runs(7);
    for (int i = 1; i < 4; i++)
        r[i] = submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 9);
    assert_int_equal(atomic_load(&model.runs), 10);
    for (int i = 0; i < 4; i++)
        drop(r[i]);
    end(w);
}

/* What was merged by the proof runs singly; what is merged by --enable_batching needs no proof. */
static void a_call_that_is_not_row_wise_any_more_ends_merging(void **state)
{
    (void)state;
    for (int promised = 0; promised < 2; promised++) {
        struct world *w = begin_with(1, true, false, promised ? SRV_YES : SRV_UNSAID, NULL);
        struct request *r[4], *first = block(w);
        atomic_store(&model.unproved, true);
        for (int turn = 0; turn < 2; turn++) {
            if (turn) {
                drop(first);
                atomic_store(&model.held, true);
                first = submit(w, 1, 0, RT_NEVER);
                srv_io_loop_end_turn(&w->io_loop);
                wait_runs(promised ? 3 : 6);
            }
            for (int i = 0; i < 4; i++)
                r[i] = submit(w, 1 + i, (float)i, RT_NEVER);
            srv_io_loop_end_turn(&w->io_loop);
            atomic_store(&model.held, false);
            wait_done(w, 5 * (turn + 1));
            for (int i = 0; i < 4; i++) {
                expect(r[i], 1 + i, (float)i);
                assert_int_equal(r[i]->job.batch_rows, promised ? 10 : 1 + i);
                drop(r[i]);
            }
        }
        assert_int_equal(atomic_load(&model.runs), promised ? 4 : 10);
        drop(first);
        end(w);
    }
}

static void writers_never_run_beside_each_other(void **state)
{
    (void)state;
    struct world *w = begin(4, true, true);
    struct request *r[10];
    model.sleep_us = 500;
    for (int i = 0; i < 10; i++)
        r[i] = submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 10);
    assert_int_equal(atomic_load(&model.most_together), 1);
    for (int i = 0; i < 10; i++) {
        expect(r[i], 1, (float)i);
        drop(r[i]);
    }
    end(w);
}

static void a_full_queue_answers_unavailable_at_once(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *r[25], *first = block(w);
    for (int i = 0; i < 25; i++)
        r[i] = submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(atomic_load(&w->n_done), 5);
    for (int i = 20; i < 25; i++)
        assert_fails(r[i]->job.status, RT_UNAVAILABLE, &r[i]->job.err, "(--max_queue_jobs=20, ");
    atomic_store(&model.held, false);
    wait_done(w, 26);
    for (int i = 0; i < 25; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

static void a_deadline_is_kept_even_while_all_workers_run(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *first = block(w);
    struct request *r = submit(w, 1, 1, rt_now_ns() + 20000000);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    assert_fails(r->job.status, RT_DEADLINE_EXCEEDED, &r->job.err,
                 "Timed out waiting for notification");
    atomic_store(&model.held, false);
    wait_done(w, 2);
    drop(r);
    drop(first);
    end(w);
}

static void what_the_client_gave_up_is_not_run(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *first = block(w);
    struct request *gone = submit(w, 1, 1, RT_NEVER), *kept = submit(w, 1, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&gone->job.cancelled, true);
    atomic_store(&model.held, false);
    wait_done(w, 3);
    assert_int_equal(gone->job.status, RT_CANCELLED);
    expect(kept, 1, 2);
    assert_int_equal(atomic_load(&model.rows[1]), 1);
    drop(gone);
    drop(kept);
    drop(first);
    end(w);
}

static void a_batch_ends_when_the_last_of_its_clients_has_gone(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *first = block(w);
    struct request *a = submit(w, 1, 1, RT_NEVER), *b = submit(w, 1, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&first->job.cancelled, true);
    wait_done(w, 1);
    wait_runs(2);
    atomic_store(&a->job.cancelled, true);
    usleep(5000);
    assert_int_equal(atomic_load(&w->n_done), 1); /* the other still wants it */
    atomic_store(&b->job.cancelled, true);
    wait_done(w, 3);
    assert_int_equal(a->job.status, RT_CANCELLED);
    assert_int_equal(b->job.status, RT_CANCELLED);
    drop(a);
    drop(b);
    drop(first);
    end(w);
}

static void tiny_jobs_run_on_the_network_thread_once_their_cost_is_known(void **state)
{
    (void)state;
    struct world *w = begin(2, true, false);
    w->server.options.inline_max_us = 1000000;
    for (int i = 0; i < 3; i++) { /* on a worker */
        struct request *r = submit(w, 1, 1, RT_NEVER);
        assert_int_equal(atomic_load(&w->n_done), i);
        srv_io_loop_end_turn(&w->io_loop);
        wait_done(w, i + 1);
        drop(r);
    }
    srv_io_loop_begin_turn(&w->io_loop);
    struct request *r = submit(w, 1, 4, RT_NEVER);
    assert_int_equal(atomic_load(&w->n_done), 4);
    assert_null(w->io_loop.turn);
    expect(r, 1, 4);
    drop(r);
    end(w);
}

static void what_is_queued_at_the_end_is_refused(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *first = block(w), *r = submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(srv_scheduler_jobs(w->server.scheduler), 2);
    srv_scheduler_refuse_all(w->server.scheduler, RT_UNAVAILABLE, "the server is stopping");
    assert_fails(r->job.status, RT_UNAVAILABLE, &r->job.err, "stopping");
    atomic_store(&model.held, false);
    wait_done(w, 2);
    drop(r);
    drop(first);
    end(w);
}

/* ---- net and map ---- */

static int opened[4], n_opened;
struct letter {
    struct srv_message message;
    int number;
};

static void receive_letter(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)io_loop;
    opened[n_opened++] = ((struct letter *)message)->number;
}

static void messages_are_received_in_the_order_posted(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct letter letter[4];
    for (int i = 0; i < 4; i++) {
        letter[i] = (struct letter){.message = {.receive = receive_letter}, .number = i};
        srv_message_post(&w->io_loop, &letter[i].message);
    }
    srv_io_loop_begin_turn(&w->io_loop);
    assert_int_equal(n_opened, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(opened[i], i);
    end(w);
}

static int n_confirmed;
static void count(struct srv_retirement *r)
{
    (void)r;
    n_confirmed++;
}

static void a_retirement_is_answered_once_no_handle_is_held(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct srv_retirement r = {
        .message = {.receive = srv_retirement_receive}, .version = &w->version, .confirm = count};
    srv_hold(&w->io_loop, &w->version);
    srv_message_post(&w->io_loop, &r.message);
    srv_io_loop_begin_turn(&w->io_loop);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(n_confirmed, 0);
    srv_release(&w->io_loop, &w->version);
    srv_io_loop_begin_turn(&w->io_loop);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(n_confirmed, 1);
    assert_null(w->io_loop.retiring);
    end(w);
}

static struct srv_model_spec named(const char *name)
{
    return (struct srv_model_spec){.name = rt_span_str(name)};
}

static void the_map_finds_by_name_version_and_label(void **state)
{
    (void)state;
    struct srv_version v3 = {.version = 3}, v1 = {.version = 1}, *found;
    struct srv_version *const both[] = {&v3, &v1};
    const struct srv_label labels[] = {{"stable", 1}, {"gone", 2}};
    const struct srv_map_model models[] = {
        {.name = "a"},
        {.name = "half", .n_versions = 2, .versions = both, .n_labels = 2, .labels = labels},
        {.name = "halves"},
    };
    const struct srv_map map = {3, models};
    struct rt_error err = {0};
    struct srv_model_spec spec = named("half");

    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v3);
    spec.has_version = true;
    spec.version = 1;
    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v1);
    spec.version = 5;
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err,
                 "Servable not found for request: Specific(half, 5)");
    spec = named("half");
    spec.label = rt_span_str("stable");
    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v1);
    spec.label = rt_span_str("gone");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err, "Specific(half, 2)");
    spec.label = rt_span_str("canary");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_INVALID_ARGUMENT, &err,
                 "Unrecognized servable version label: canary");
    spec = named("hal");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err,
                 "Servable not found for request: Latest(hal)");
    spec.name = rt_span_of("half\0", 5);
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err, "Latest(half");
}

/* ---- --enable_batching=true ---- */

static void with_batching_off_nothing_is_merged(void **state)
{
    (void)state;
    struct world *w = begin_with(1, true, false, SRV_NO, NULL);
    struct request *r[3], *first = block(w);
    for (int i = 0; i < 3; i++)
        r[i] = submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 4);
    assert_int_equal(atomic_load(&model.runs), 4);
    for (int i = 0; i < 3; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

static void with_batching_on_every_signature_is_merged_up_to_the_files_size(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("max_batch_size { value: 4 }");
    struct request *r[6], *first = block(w);
    for (int i = 0; i < 6; i++)
        r[i] = submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 7);
    assert_int_equal(atomic_load(&model.runs), 3);
    assert_int_equal(atomic_load(&model.rows[1]), 4);
    assert_int_equal(atomic_load(&model.rows[2]), 2);
    for (int i = 0; i < 6; i++) {
        expect(r[i], 1, (float)i);
        drop(r[i]);
    }
    drop(first);
    end(w);
}

static void a_batch_waits_for_the_files_timeout_and_no_longer_than_it_is_full(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("max_batch_size { value: 4 } "
                                          "batch_timeout_micros { value: 60000 }");
    const int64_t start = rt_now_ns();
    struct request *r = submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    assert_true(rt_now_ns() - start >= 60000000);
    drop(r);
    end(w);
    w = begin_as_tensorflow("max_batch_size { value: 4 } "
                            "batch_timeout_micros { value: 3600000000 }");
    struct request *a = submit(w, 2, 1, RT_NEVER), *b = submit(w, 2, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 2); /* and not in an hour */
    assert_int_equal(atomic_load(&model.rows[0]), 4);
    drop(a);
    drop(b);
    end(w);
}

static void a_request_larger_than_a_batch_is_refused(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("max_batch_size { value: 4 }");
    struct request *r = submit(w, 5, 1, RT_NEVER);
    wait_done(w, 1);
    assert_int_equal(r->job.status, RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Task size 5 is larger than maximum input batch size 4");
    drop(r);
    end(w);
}

static void inputs_without_common_rows_are_refused(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("");
    struct request *r = submit(w, 0, 1, RT_NEVER);
    wait_done(w, 1);
    assert_int_equal(r->job.status, RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Batching Run() input tensors must have at least one dimension");
    drop(r);
    end(w);
}

static void a_queue_full_of_batches_refuses_with_their_number(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("max_batch_size { value: 4 } "
                                          "max_enqueued_batches { value: 2 }");
    struct request *r[4], *first = block(w);
    for (int i = 0; i < 3; i++)
        r[i] = submit(w, 3, 1, RT_NEVER);
    r[3] = submit(w, 1, 1, RT_NEVER); /* fits the second batch */
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(atomic_load(&w->n_done), 1);
    assert_int_equal(r[2]->job.status, RT_UNAVAILABLE);
    assert_string_equal(rt_error_text(&r[2]->job.err),
                        "The batch scheduling queue to which this task was submitted is full; "
                        "currently 2 batches enqueued and max_enqueued_batches is 2");
    atomic_store(&model.held, false);
    wait_done(w, 5);
    for (int i = 0; i < 4; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

static void small_requests_do_not_wait_for_workers_that_are_at_long_ones(void **state)
{
    (void)state;
    struct world *w = begin(1, true, false);
    struct request *first = submit(w, 1, 1, RT_NEVER); /* its shape is known to be quick */
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    struct request *small, large = {.w = w, .arena = rt_arena_new(SIZE_MAX)};
    assert_non_null(large.arena);
    large.job = first->job;
    large.job.arena = large.arena;
    large.job.prepare = decode_for_long;
    large.job.owner = &large;
    atomic_store(&decodes, true);
    srv_job_submit(&large.job);
    srv_io_loop_end_turn(&w->io_loop);
    while (!atomic_load(&is_decoding))
        usleep(500);
    small = submit(w, 1, 4, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 2); /* while the only worker decodes */
    expect(small, 1, 4);
    atomic_store(&decodes, false);
    wait_done(w, 3);
    rt_arena_free(large.arena);
    drop(first);
    drop(small);
    end(w);
}

static void what_expires_in_the_queue_is_reported_as_such(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("");
    struct request *first = block(w);
    struct request *r = submit(w, 1, 1, rt_now_ns() + 20000000);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    assert_int_equal(r->job.status, RT_RESOURCE_EXHAUSTED);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Run() timeout exceeded while waiting in batching queue");
    atomic_store(&model.held, false);
    wait_done(w, 2);
    drop(r);
    drop(first);
    end(w);
}

static void a_batch_is_padded_with_the_last_requests_first_row(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("max_batch_size { value: 8 } allowed_batch_sizes: 5 "
                                          "allowed_batch_sizes: 8");
    struct request *r[2], *first = block(w);
    const int64_t dim[2] = {2, 2};
    r[0] = submit(w, 1, 1, RT_NEVER);
    r[1] = submit_shaped(w, 2, dim, 20, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 3);
    assert_int_equal(atomic_load(&model.rows[0]), 5);
    assert_int_equal(atomic_load(&model.rows[1]), 5);
    expect(r[0], 1, 1);
    assert_int_equal(r[1]->fetch.dim[0], 2);
    assert_float_equal(((float *)r[1]->fetch.data)[3], 46, 0);
    /* What lies behind the rows of the last request: copies of its first row. */
    assert_float_equal(((float *)r[1]->fetch.data)[4], 40, 0);
    assert_float_equal(((float *)r[1]->fetch.data)[7], 42, 0);
    for (int i = 0; i < 2; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

static void shapes_that_differ_go_to_batches_of_their_own(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("");
    struct request *r[4], *first = block(w);
    for (int i = 0; i < 4; i++)
        r[i] = submit_shaped(w, 2, (int64_t[]){1, 2 + i % 2}, (float)i, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 5);
    assert_int_equal(atomic_load(&model.runs), 3);
    for (int i = 0; i < 4; i++) {
        assert_ok(r[i]->job.status, &r[i]->job.err);
        assert_int_equal(r[i]->fetch.dim[1], 2 + i % 2);
        drop(r[i]);
    }
    drop(first);
    end(w);
}

static void with_padding_shapes_that_differ_are_merged(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("pad_variable_length_inputs: true");
    struct request *r[3], *first = block(w);
    r[0] = submit_shaped(w, 3, (int64_t[]){1, 2, 1}, 1, 1, RT_NEVER);
    r[1] = submit_shaped(w, 3, (int64_t[]){2, 1, 3}, 20, 1, RT_NEVER);
    r[2] = submit_shaped(w, 3, (int64_t[]){1, 0, 3}, 0, 0, RT_NEVER); /* empty: by itself */
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 4);
    assert_int_equal(atomic_load(&model.runs), 3);
    static const float want0[] = {2, 2, 2, 4, 2, 2};
    static const float want1[] = {40, 42, 44, 40, 40, 40, 46, 48, 50, 40, 40, 40};
    assert_ok(r[0]->job.status, &r[0]->job.err);
    assert_int_equal(r[0]->fetch.dim[1], 2);
    assert_int_equal(r[0]->fetch.dim[2], 3);
    assert_memory_equal(r[0]->fetch.data, want0, sizeof want0);
    assert_ok(r[1]->job.status, &r[1]->job.err);
    assert_memory_equal(r[1]->fetch.data, want1, sizeof want1);
    assert_ok(r[2]->job.status, &r[2]->job.err);
    for (int i = 0; i < 3; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

#define SPLIT                                                                                      \
    "max_batch_size { value: 4 } enable_large_batch_splitting { value: true } "                    \
    "max_enqueued_batches { value: 3 } "

static void a_large_request_is_split_and_concatenated(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = block(w);
    small = submit(w, 1, 5, RT_NEVER);
    large = submit_shaped(w, 2, (int64_t[]){10, 2}, 100, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 3);
    assert_int_equal(atomic_load(&model.runs), 4);
    assert_int_equal(atomic_load(&model.rows[1]), 4); /* the first piece fills the open batch */
    assert_int_equal(atomic_load(&model.rows[2]), 4);
    assert_int_equal(atomic_load(&model.rows[3]), 3);
    expect(small, 1, 5);
    assert_ok(large->job.status, &large->job.err);
    assert_int_equal(large->fetch.dim[0], 10);
    for (int i = 0; i < 20; i++)
        assert_float_equal(((float *)large->fetch.data)[i], 200 + 2 * (float)i, 0);
    drop(small);
    drop(large);
    drop(first);
    end(w);
}

static void a_large_request_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = block(w);
    small = submit(w, 3, 5, RT_NEVER);
    large = submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(large->job.status, RT_UNAVAILABLE);
    assert_string_equal(rt_error_text(&large->job.err),
                        "The batch scheduling queue to which this task was submitted is full; task "
                        "size is 10 but scheduling capacity is only 9 (num_enqueued_batches=1, "
                        "max_enqueued_batches=3, open_batch_size=3, max_execution_batch_size=4)");
    atomic_store(&model.held, false);
    wait_done(w, 3);
    assert_int_equal(atomic_load(&model.runs), 2);
    drop(small);
    drop(large);
    drop(first);
    end(w);
}

static void a_large_request_fails_as_one_and_spares_its_neighbours(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = block(w);
    small = submit(w, 1, 5, RT_NEVER);
    large = submit_shaped(w, 2, (int64_t[]){10, 2}, 1, 1, RT_NEVER); /* 13 is among them */
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 3);
    expect(small, 1, 5);
    assert_fails(large->job.status, RT_INVALID_ARGUMENT, &large->job.err, "13 is not liked");
    assert_null(large->fetch.data);
    drop(small);
    drop(large);
    drop(first);
    end(w);
}

static void a_request_whose_outputs_cannot_be_concatenated_runs_whole(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow(SPLIT);
    atomic_store(&model.one_output_row, true);
    struct request *large = submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 1);
    assert_ok(large->job.status, &large->job.err);
    assert_int_equal(large->fetch.dim[0], 1);
    assert_int_equal(atomic_load(&model.runs), 4);
    assert_int_equal(atomic_load(&model.rows[3]), 10);
    drop(large);
    large = submit(w, 10, 1, RT_NEVER); /* remembered */
    srv_io_loop_end_turn(&w->io_loop);
    wait_done(w, 2);
    assert_int_equal(atomic_load(&model.runs), 5);
    drop(large);
    end(w);
}

static void sub_requests_of_a_client_that_has_gone_are_not_run(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow(SPLIT);
    struct request *large, *first = block(w);
    large = submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&large->job.cancelled, true);
    atomic_store(&model.held, false);
    wait_done(w, 2);
    assert_int_equal(large->job.status, RT_CANCELLED);
    assert_int_equal(atomic_load(&model.runs), 1);
    drop(large);
    drop(first);
    end(w);
}

static void signatures_of_the_same_call_share_batches(void **state)
{
    (void)state;
    struct world *w = begin_as_tensorflow("");
    struct rt_model_signature other = w->signature;
    struct request *r[2], *first = block(w);
    r[0] = submit(w, 1, 1, RT_NEVER);
    r[1] = calloc(1, sizeof *r[1]);
    r[1]->w = w;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&r[1]->feed, NULL, RT_F32, 2, (int64_t[]){1, 2}, &err), &err);
    memset(r[1]->feed.data, 0, 8);
    r[1]->job = (struct srv_job){.io_loop = &w->io_loop,
                                 .version = &w->version,
                                 .signature = &other,
                                 .n_feeds = 1,
                                 .feeds = &r[1]->feed,
                                 .n_fetches = 1,
                                 .fetches = &r[1]->fetch,
                                 .deadline_ns = RT_NEVER,
                                 .done = on_done,
                                 .owner = r[1]};
    srv_job_submit(&r[1]->job);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&model.held, false);
    wait_done(w, 3);
    assert_int_equal(atomic_load(&model.runs), 2);
    for (int i = 0; i < 2; i++)
        drop(r[i]);
    drop(first);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_runs_and_is_answered_once),
        cmocka_unit_test(requests_that_wait_are_merged_and_each_gets_its_rows),
        cmocka_unit_test(only_the_request_at_fault_fails),
        cmocka_unit_test(strings_are_merged_too),
        cmocka_unit_test(signatures_that_are_not_row_wise_are_not_merged),
        cmocka_unit_test(outputs_that_do_not_follow_the_rows_end_merging),
        cmocka_unit_test(a_call_that_is_not_row_wise_any_more_ends_merging),
        cmocka_unit_test(writers_never_run_beside_each_other),
        cmocka_unit_test(a_full_queue_answers_unavailable_at_once),
        cmocka_unit_test(a_deadline_is_kept_even_while_all_workers_run),
        cmocka_unit_test(what_the_client_gave_up_is_not_run),
        cmocka_unit_test(a_batch_ends_when_the_last_of_its_clients_has_gone),
        cmocka_unit_test(tiny_jobs_run_on_the_network_thread_once_their_cost_is_known),
        cmocka_unit_test(what_is_queued_at_the_end_is_refused),
        cmocka_unit_test(messages_are_received_in_the_order_posted),
        cmocka_unit_test(a_retirement_is_answered_once_no_handle_is_held),
        cmocka_unit_test(the_map_finds_by_name_version_and_label),
        cmocka_unit_test(with_batching_off_nothing_is_merged),
        cmocka_unit_test(with_batching_on_every_signature_is_merged_up_to_the_files_size),
        cmocka_unit_test(a_batch_waits_for_the_files_timeout_and_no_longer_than_it_is_full),
        cmocka_unit_test(a_request_larger_than_a_batch_is_refused),
        cmocka_unit_test(inputs_without_common_rows_are_refused),
        cmocka_unit_test(a_queue_full_of_batches_refuses_with_their_number),
        cmocka_unit_test(small_requests_do_not_wait_for_workers_that_are_at_long_ones),
        cmocka_unit_test(what_expires_in_the_queue_is_reported_as_such),
        cmocka_unit_test(a_batch_is_padded_with_the_last_requests_first_row),
        cmocka_unit_test(shapes_that_differ_go_to_batches_of_their_own),
        cmocka_unit_test(with_padding_shapes_that_differ_are_merged),
        cmocka_unit_test(a_large_request_is_split_and_concatenated),
        cmocka_unit_test(a_large_request_is_taken_whole_or_not_at_all),
        cmocka_unit_test(a_large_request_fails_as_one_and_spares_its_neighbours),
        cmocka_unit_test(a_request_whose_outputs_cannot_be_concatenated_runs_whole),
        cmocka_unit_test(sub_requests_of_a_client_that_has_gone_are_not_run),
        cmocka_unit_test(signatures_of_the_same_call_share_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
