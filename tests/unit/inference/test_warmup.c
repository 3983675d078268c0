/* Tests that recorded requests are replayed against a version that no server has published. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/base/tfrecord.h"
#include "runtime/files/file.h"
#include "server/replay/warmup.h"

struct world {
    struct rt_registry *ops;
    struct srv_version version;
    struct srv_options options;
    struct srv_budget budget, records;
    char path[64];
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct rt_error err = {0};
    assert_non_null(w);
    w->ops = rt_registry_new();
    assert_true(w->ops && kn_register(w->ops));
    const struct rt_model_options options = {.session = {.registry = w->ops}};
    assert_ok(rt_model_load(&w->version.loaded, "models/half_plus_two/2", &options, &err), &err);
    w->version.model = "half_plus_two";
    w->version.version = 2;
    w->options.max_body_bytes = 1 << 10;
    w->budget.limit = w->records.limit = 1 << 20;
    snprintf(w->path, sizeof w->path, "/tmp/slipway-warmup-XXXXXX");
    close(mkstemp(w->path));
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    rt_model_free(w->version.loaded);
    rt_registry_free(w->ops);
    remove(w->path);
    free(w);
    return 0;
}

/* A PredictLog. Its request has no model name and one input, `x`, with the shape [1] and the
 * value 2. Its response is two bytes long. */
#define TENSOR  "\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x04\x00\x00\x00\x40"
#define PREDICT "\x32\x1b\x0a\x15\x12\x13\x0a\x01x\x12\x0e" TENSOR "\x12\x02ok"

static void write_records(const struct world *w, const char *record, size_t n, int times)
{
    struct rt_error err = {0};
    struct rt_bytes bytes;
    rt_bytes_init(&bytes, 1 << 20);
    for (int i = 0; i < times; i++)
        rt_tfrecord_add(&bytes, record, n);
    assert_ok(rt_file_write(w->path, bytes.p ? bytes.p : "", bytes.n, &err), &err);
    rt_bytes_clear(&bytes);
}
#define WRITE(w, record, times) write_records(w, record, sizeof(record) - 1, times)

static struct srv_replay replay_of(struct world *w)
{
    return (struct srv_replay){.path = w->path,
                               .what = "warmup",
                               .version = &w->version,
                               .options = &w->options,
                               .budget = &w->budget,
                               .records = &w->records,
                               .n_threads = 3,
                               .n_iterations = 2};
}

static enum rt_status look(void *arg, const struct srv_recorded *record, struct rt_span response,
                           struct srv_growth *growth, struct rt_error *err)
{
    atomic_int *n = arg;
    (void)growth, (void)err;
    assert_int_equal(record->api, SRV_PREDICT);
    assert_true(rt_span_is(record->response, "ok"));
    assert_true(response.n > 0);
    atomic_fetch_add(n, 1);
    return RT_OK;
}

static enum rt_status refuse(void *arg, const struct srv_recorded *record, struct rt_span response,
                             struct srv_growth *growth, struct rt_error *err)
{
    (void)arg, (void)response, (void)growth;
    return record->index == 7 ? rt_fail(err, RT_FAILED_PRECONDITION, "seven") : RT_OK;
}

static void each_record_is_replayed_and_its_response_looked_at(void **state)
{
    struct rt_error err = {0};
    struct srv_replay p = replay_of(*state);
    atomic_int n_looks = 0;
    int64_t n;
    p.check = look;
    p.arg = &n_looks;
    WRITE(*state, PREDICT, 100);
    assert_ok(srv_replay_run(&p, &n, &err), &err);
    assert_int_equal(n, 100);
    assert_int_equal(n_looks, 200);
    WRITE(*state, PREDICT, SRV_MAX_WARMUP_RECORDS);
    assert_ok(srv_replay_run(&p, &n, &err), &err);
    WRITE(*state, "", 3);
    assert_ok(srv_replay_run(&p, &n, &err), &err);
    assert_int_equal(n, 3);
}

/* A user of the same budget, and how often a check was called. */
struct other {
    struct srv_budget *budget;
    size_t own;
    int n_checks;
};

/* Takes half a mebibyte. The other user gives back its bytes at the third call. */
static enum rt_status take(void *arg, const struct srv_recorded *record, struct rt_span response,
                           struct srv_growth *growth, struct rt_error *err)
{
    struct other *other = arg;
    (void)record, (void)response;
    if (++other->n_checks == 3)
        srv_budget_give(other->budget, &other->own, other->own);
    return srv_growth_take(growth, 1 << 19, err);
}

static void a_response_waits_for_those_of_other_replays(void **state)
{
    struct world *w = *state;
    struct rt_error err = {0};
    struct srv_replay p = replay_of(w);
    struct other other = {.budget = &w->budget};
    int64_t n;
    p.n_threads = p.n_iterations = 1;
    p.check = take;
    p.arg = &other;
    WRITE(w, PREDICT, 1);
    assert_true(srv_budget_take(&w->budget, &other.own, 1000000));
    assert_ok(srv_replay_run(&p, &n, &err), &err);
    assert_int_equal(other.n_checks, 3);
    assert_int_equal(atomic_load(&w->budget.held), 0);
    w->budget.limit = 1 << 18;
    assert_fails(srv_replay_run(&p, &n, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the response is larger than --max_bytes_in_flight");
    assert_int_equal(atomic_load(&w->budget.held), 0);
}

/* Asserts that the feeds were freed before the response was written. A response of this size is not
 * charged. */
static enum rt_status no_feeds(void *arg, const struct srv_recorded *record,
                               struct rt_span response, struct srv_growth *growth,
                               struct rt_error *err)
{
    const struct srv_budget *budget = arg;
    (void)record, (void)response, (void)growth, (void)err;
    assert_int_equal(atomic_load(&budget->held), 0);
    return RT_OK;
}

struct background_replay {
    struct srv_replay p;
    enum rt_status status;
    struct rt_error err;
    _Atomic bool ended;
};

static void *replay(void *arg)
{
    struct background_replay *b = arg;
    int64_t n;
    b->status = srv_replay_run(&b->p, &n, &b->err);
    atomic_store(&b->ended, true);
    return NULL;
}

/* Checks that a replay waits while others hold all of the budget, and succeeds afterwards. */
static void waits_for_others(struct background_replay *b, struct srv_budget *budget)
{
    pthread_t thread;
    size_t own = 0;
    assert_true(srv_budget_take(budget, &own, (size_t)budget->limit));
    assert_int_equal(pthread_create(&thread, NULL, replay, b), 0);
    usleep(100000);
    const bool waited = !atomic_load(&b->ended);
    srv_budget_give(budget, &own, own);
    pthread_join(thread, NULL);
    assert_true(waited);
    assert_ok(b->status, &b->err);
}

static void feeds_wait_for_those_of_other_replays(void **state)
{
    struct world *w = *state;
    struct background_replay b = {.p = replay_of(w)};
    int64_t n;
    b.p.n_threads = 1;
    b.p.check = no_feeds;
    b.p.arg = &w->budget;
    WRITE(w, PREDICT, 1);
    w->budget.limit = 1000;
    waits_for_others(&b, &w->budget);
    /* the feed has four bytes */
    w->budget.limit = 3;
    assert_fails(srv_replay_run(&b.p, &n, &b.err), RT_RESOURCE_EXHAUSTED, &b.err,
                 "the request as tensors is larger than --max_bytes_in_flight");
    assert_int_equal(atomic_load(&w->budget.held), 0);
    w->budget.limit = 1 << 20;
}

static enum rt_status holds_record(void *arg, const struct srv_recorded *record,
                                   struct rt_span response, struct srv_growth *growth,
                                   struct rt_error *err)
{
    const struct srv_budget *records = arg;
    (void)response, (void)growth, (void)err;
    assert_true(atomic_load(&records->held) > (int64_t)record->response.n);
    return RT_OK;
}

/* Writes three records of more than 100,000 bytes, which are charged before they are read. */
static void write_large_records(struct world *w)
{
    /* the header of a PredictLog with the same request and a response of 100,000 bytes */
    static const char head[] =
        "\x32\xbb\x8d\x06\x0a\x15\x12\x13\x0a\x01x\x12\x0e" TENSOR "\x12\xa0\x8d\x06";
    const size_t n_head = sizeof head - 1, n_record = n_head + 100000;
    char *record = calloc(1, n_record);
    assert_non_null(record);
    memcpy(record, head, n_head);
    w->options.max_body_bytes = 1 << 17;
    write_records(w, record, n_record, 3);
    free(record);
}

static void a_large_record_waits_for_those_of_other_replays(void **state)
{
    struct world *w = *state;
    struct background_replay b = {.p = replay_of(w)};
    int64_t n;
    write_large_records(w);
    b.p.check = holds_record;
    b.p.arg = &w->records;
    w->records.limit = 150000;
    waits_for_others(&b, &w->records);
    assert_int_equal(atomic_load(&w->records.held), 0);
    w->records.limit = 100000;
    assert_fails(srv_replay_run(&b.p, &n, &b.err), RT_RESOURCE_EXHAUSTED, &b.err,
                 "warmup record 0 of ");
    assert_non_null(strstr(b.err.msg, "the record is larger than --max_bytes_in_flight"));
    assert_int_equal(atomic_load(&w->records.held), 0);
    w->records.limit = 1 << 20;
}

/* Fails after the other threads have begun to wait for memory for their records. */
static enum rt_status fails_late(void *arg, const struct srv_recorded *record,
                                 struct rt_span response, struct srv_growth *growth,
                                 struct rt_error *err)
{
    (void)arg, (void)record, (void)response, (void)growth;
    usleep(100000);
    return rt_fail(err, RT_ABORTED, "the responses differ");
}

static void a_failed_replay_ends_although_a_large_record_waits(void **state)
{
    struct world *w = *state;
    _Atomic bool cancelled = false;
    struct background_replay b = {.p = replay_of(w)};
    pthread_t thread;
    write_large_records(w);
    b.p.check = fails_late;
    b.p.cancelled = &cancelled;
    w->records.limit = 150000;
    assert_int_equal(pthread_create(&thread, NULL, replay, &b), 0);
    for (int i = 0; i < 6000 && !atomic_load(&b.ended); i++)
        usleep(10000);
    atomic_store(&cancelled, true); /* ends a replay that would wait for ten minutes */
    pthread_join(thread, NULL);
    assert_fails(b.status, RT_ABORTED, &b.err, "warmup record 0 of ");
    assert_int_equal(atomic_load(&w->records.held), 0);
    w->records.limit = 1 << 20;
}

struct canceller {
    _Atomic bool cancelled;
    int n_left;
};

static enum rt_status cancel(void *arg, const struct srv_recorded *record, struct rt_span response,
                             struct srv_growth *growth, struct rt_error *err)
{
    struct canceller *c = arg;
    (void)record, (void)response, (void)growth, (void)err;
    if (--c->n_left == 0)
        atomic_store(&c->cancelled, true);
    return RT_OK;
}

static void it_may_be_cancelled_between_small_requests(void **state)
{
    struct rt_error err = {0};
    struct srv_replay p = replay_of(*state);
    struct canceller c = {.n_left = 3};
    int64_t n;
    WRITE(*state, PREDICT, 2);
    p.n_threads = 1;
    p.n_iterations = INT64_MAX;
    p.check = cancel;
    p.arg = &c;
    p.cancelled = &c.cancelled;
    assert_fails(srv_replay_run(&p, &n, &err), RT_CANCELLED, &err, "warmup record 0 of /tmp/");
    assert_int_equal(n, 1);
    assert_int_equal(c.n_left, 0);
}

static void what_is_wrong_ends_it_with_a_reason(void **state)
{
    struct world *w = *state;
    struct rt_error err = {0};
    struct srv_replay p = replay_of(w);
    const _Atomic bool cancelled = true;
    int64_t n;
    WRITE(w, PREDICT, 100);
    p.check = refuse;
    assert_fails(srv_replay_run(&p, &n, &err), RT_FAILED_PRECONDITION, &err,
                 "warmup record 7 of /tmp/");
    assert_non_null(strstr(rt_error_text(&err), ": seven"));
    /* Before record 7 failed, the other threads may have replayed records after it. */
    assert_in_range(n, 8, 100);
    p.n_threads = 1;
    assert_fails(srv_replay_run(&p, &n, &err), RT_FAILED_PRECONDITION, &err,
                 "warmup record 7 of /tmp/");
    assert_int_equal(n, 8);
    p.n_threads = 3;
    p.check = NULL;
    p.cancelled = &cancelled;
    assert_fails(srv_replay_run(&p, &n, &err), RT_CANCELLED, &err, "");
    p.cancelled = NULL;
    WRITE(w, "\x32\x05", 1);
    assert_fails(srv_replay_run(&p, &n, &err), RT_INVALID_ARGUMENT, &err,
                 "Failed to parse warmup record: record 0 (2 bytes) from /tmp/");
    WRITE(w, "\x3a\x00", 1);
    assert_fails(srv_replay_run(&p, &n, &err), RT_UNIMPLEMENTED, &err,
                 "Unsupported log_type for warmup: 7");
    WRITE(w, "\x32\x00", 1); /* a PredictLog without a request */
    assert_fails(srv_replay_run(&p, &n, &err), RT_INVALID_ARGUMENT, &err, "warmup record 0 of");
    WRITE(w, PREDICT, SRV_MAX_WARMUP_RECORDS + 1);
    assert_fails(srv_replay_run(&p, &n, &err), RT_INVALID_ARGUMENT, &err,
                 "Number of warmup records exceeds the maximum (1000) at /tmp/");
    static const char big[4096];
    write_records(w, big, sizeof big, 1);
    assert_fails(srv_replay_run(&p, &n, &err), RT_RESOURCE_EXHAUSTED, &err, "");
    assert_ok(rt_file_write(w->path, "what is this? no record of any kind", 35, &err), &err);
    assert_fails(srv_replay_run(&p, &n, &err), RT_DATA_LOSS, &err,
                 "Please verify your warmup data is in TFRecord format.");
}

static void a_file_is_there_or_not(void **state)
{
    (void)state;
    struct rt_error err = {0};
    char *path;
    assert_ok(srv_replay_find("models/half_plus_two/2", "saved_model.pb", &path, &err), &err);
    assert_string_equal(path, "models/half_plus_two/2/saved_model.pb");
    free(path);
    assert_ok(srv_replay_find("models/half_plus_two/2", SRV_WARMUP_FILE, &path, &err), &err);
    assert_null(path);
    assert_false(srv_warmup_is_there("models/half_plus_two/2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_record_is_replayed_and_its_response_looked_at),
        cmocka_unit_test(what_is_wrong_ends_it_with_a_reason),
        cmocka_unit_test(a_response_waits_for_those_of_other_replays),
        cmocka_unit_test(feeds_wait_for_those_of_other_replays),
        cmocka_unit_test(a_large_record_waits_for_those_of_other_replays),
        cmocka_unit_test(a_failed_replay_ends_although_a_large_record_waits),
        cmocka_unit_test(it_may_be_cancelled_between_small_requests),
        cmocka_unit_test(a_file_is_there_or_not),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
