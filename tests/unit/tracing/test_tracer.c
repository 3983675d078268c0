/* Tests which requests are recorded, and the records of requests and batches. The records that the
 * exporter would send come to the test (-Wl,--wrap in tests/CMakeLists.txt). */
#include "tests/support/test.h"

#include <stdlib.h>

#include "server/base/serving_map.h"
#include "server/batching/job.h"
#include "server/tracing/access.h"
#include "server/tracing/tracer.h"

enum { MAX_RECORDS = 4 };

static struct srv_trace_record *records[MAX_RECORDS];
static int n_records;
static struct srv_tracer *tracer;

void __wrap_srv_exporter_add(struct srv_exporter *e, struct srv_trace_record *r);

void __wrap_srv_exporter_add(struct srv_exporter *e, struct srv_trace_record *r)
{
    assert_non_null(e);
    assert_int_not_equal(n_records, MAX_RECORDS);
    records[n_records++] = r;
}

static struct srv_tracer *start(double ratio, bool by_parent)
{
    static const char url[] = "http://127.0.0.1:1/v1/traces";
    const struct srv_tracer_options o = {
        .exporter = {.url = url,
                     .endpoint = url,
                     .headers = "",
                     .ca_file = "",
                     .cert_file = "",
                     .key_file = "",
                     .resource = {.service_name = "s", .attributes = ""},
                     .timeout_ns = 1000000000,
                     .interval_ns = 1000000000,
                     .queue_length = 8},
        .ratio = ratio,
        .by_parent = by_parent};
    struct srv_tracer *t = NULL;
    struct rt_error err = {0};

    assert_ok(srv_tracer_start(&o, &t, &err), &err);
    return t;
}

static int set_up(void **state)
{
    (void)state;
    tracer = start(1, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    srv_tracer_stop(tracer);
    while (n_records)
        free(records[--n_records]);
    return 0;
}

/* The span of a request whose client has sent a traceparent header. `random` is the eighth byte
 * from the end of the trace id, which decides about ratios. */
static struct srv_request_span from_client(unsigned char random, int flags)
{
    struct srv_request_span s;

    srv_request_span_init(&s);
    s.has_trace = s.has_parent = true;
    memset(s.context.trace_id, 0xaa, SRV_TRACE_ID_BYTES);
    s.context.trace_id[8] = random;
    memset(s.context.span_id, 0xbb, SRV_SPAN_ID_BYTES);
    memset(s.parent_id, 0xbb, SRV_SPAN_ID_BYTES);
    s.context.flags = (uint8_t)flags;
    return s;
}

static struct srv_request_span from_stranger(struct srv_tracer *t)
{
    struct srv_request_span s;

    srv_request_span_init(&s);
    srv_tracer_begin(t, &s);
    return s;
}

static bool is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* ---- which requests are recorded ---- */

static void a_request_without_a_parent_gets_a_trace_of_its_own(void **state)
{
    const struct srv_request_span a = from_stranger(tracer), b = from_stranger(tracer);

    (void)state;
    assert_true(a.is_recorded && a.has_trace);
    assert_false(a.has_parent);
    assert_int_equal(a.context.flags, SRV_TRACE_SAMPLED);
    assert_false(is_zero(a.context.trace_id, 8));
    assert_false(is_zero(a.context.trace_id + 8, 8));
    assert_false(is_zero(a.context.span_id, SRV_SPAN_ID_BYTES));
    assert_memory_not_equal(a.context.trace_id, a.context.trace_id + 8, 8);
    assert_memory_not_equal(a.context.trace_id, b.context.trace_id, SRV_TRACE_ID_BYTES);
    assert_memory_not_equal(a.context.span_id, b.context.span_id, SRV_SPAN_ID_BYTES);
}

static void without_a_tracer_or_at_a_ratio_of_0_nothing_is_recorded(void **state)
{
    struct srv_tracer *none = start(0, true);
    struct srv_request_span s = from_stranger(none);
    const struct srv_access a = {.api = "predict", .span = &s};

    (void)state;
    assert_false(s.is_recorded || s.has_trace);
    srv_tracer_request(none, &a, NULL);
    srv_tracer_stop(none);
    s = from_stranger(NULL);
    assert_false(s.is_recorded || s.has_trace);
    srv_tracer_request(NULL, &a, NULL);
    srv_tracer_batch(NULL, NULL, 0, 0, 1, 2, -1);
    srv_tracer_stop(NULL);
    assert_int_equal(n_records, 0);
}

static void the_parent_decides_if_it_may(void **state)
{
    struct srv_tracer *none = start(0, true);
    struct srv_request_span yes = from_client(0xff, SRV_TRACE_SAMPLED), no = from_client(0, 0);
    const struct srv_request_span was = yes;

    (void)state;
    srv_tracer_begin(none, &yes);
    srv_tracer_begin(tracer, &no);
    assert_true(yes.is_recorded);
    assert_false(no.is_recorded);
    /* the trace is the client's, the span is a new one */
    assert_memory_equal(yes.context.trace_id, was.context.trace_id, SRV_TRACE_ID_BYTES);
    assert_memory_equal(yes.parent_id, was.context.span_id, SRV_SPAN_ID_BYTES);
    assert_memory_not_equal(yes.context.span_id, was.context.span_id, SRV_SPAN_ID_BYTES);
    /* a request that is not recorded also passes its trace on */
    assert_true(no.has_trace);
    assert_int_equal(no.context.flags, 0);
    assert_memory_not_equal(no.context.span_id, was.context.span_id, SRV_SPAN_ID_BYTES);
    srv_tracer_stop(none);
}

static void all_servers_decide_alike_by_the_trace_id(void **state)
{
    struct srv_tracer *servers[] = {start(0.5, false), start(0.5, false)};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct srv_request_span below = from_client(0x7f, 0), above = from_client(0x80, 1);
        srv_tracer_begin(servers[i], &below);
        srv_tracer_begin(servers[i], &above);
        assert_true(below.is_recorded);
        assert_int_equal(below.context.flags, SRV_TRACE_SAMPLED);
        assert_false(above.is_recorded);
        assert_int_equal(above.context.flags, 0);
        srv_tracer_stop(servers[i]);
    }
}

static void a_ratio_selects_about_its_part_of_new_traces(void **state)
{
    struct srv_tracer *half = start(0.5, true);
    int n = 0;

    (void)state;
    for (int i = 0; i < 1000; i++)
        n += from_stranger(half).is_recorded;
    assert_in_range(n, 400, 600); /* 500 with a standard deviation of 16 */
    srv_tracer_stop(half);
}

static void a_ratio_above_1_is_refused(void **state)
{
    const struct srv_tracer_options o = {.ratio = 1.5};
    struct srv_tracer *t = NULL;
    struct rt_error err = {0};

    (void)state;
    assert_int_equal(srv_tracer_check(&o, &err), RT_INVALID_ARGUMENT);
    assert_int_equal(srv_tracer_start(&o, &t, &err), RT_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "--trace_sampling_ratio=1.5"));
    assert_null(t);
}

/* ---- records of requests ---- */

static void a_record_has_the_outcome_and_no_query(void **state)
{
    struct srv_request_span s = from_client(1, SRV_TRACE_SAMPLED);
    struct srv_access a = {.api = "predict",
                           .method = rt_span_str("POST"),
                           .path = rt_span_str("/v1/models/m:predict?key=secret"),
                           .http = 404,
                           .code = RT_NOT_FOUND,
                           .begin_ns = 10,
                           .end_ns = 20,
                           .span = &s,
                           .model = rt_span_str("m")};

    (void)state;
    s.tracestate = rt_span_str("a=b");
    srv_tracer_begin(tracer, &s);
    srv_tracer_request(tracer, &a, NULL);
    a.http = 0;
    a.path = rt_span_of(NULL, 0);
    srv_tracer_request(tracer, &a, NULL);
    assert_int_equal(n_records, 2);
    const struct srv_trace_record *r = records[0];
    assert_false(r->is_batch || r->has_version || r->has_batch);
    assert_true(r->has_parent && r->is_http);
    assert_memory_equal(&r->context, &s.context, sizeof s.context);
    assert_memory_equal(r->parent_id, s.parent_id, SRV_SPAN_ID_BYTES);
    assert_string_equal(r->name, "predict");
    assert_string_equal(r->method, "POST");
    assert_string_equal(r->path, "/v1/models/m:predict");
    assert_string_equal(r->model, "m");
    assert_string_equal(r->tracestate, "a=b");
    assert_int_equal(r->http, 404);
    assert_int_equal(r->code, RT_NOT_FOUND);
    assert_int_equal(r->times.begin_ns, 10);
    assert_int_equal(r->times.end_ns, 20);
    assert_false(records[1]->is_http);
    assert_string_equal(records[1]->path, "");
}

static void phases(int64_t begin_ns, enum rt_status code, const struct srv_request_span *s,
                   const struct srv_job *job, const int64_t want[SRV_N_PHASES][2])
{
    const struct srv_access a = {.begin_ns = begin_ns, .code = code, .span = s};
    struct srv_trace_times got[SRV_N_PHASES] = {0};

    srv_tracer_phases(&a, job, got);
    for (int i = 0; i < SRV_N_PHASES; i++)
        if (got[i].begin_ns != want[i][0] || got[i].end_ns != want[i][1])
            fail_msg("phase %d: %lld to %lld", i, (long long)got[i].begin_ns,
                     (long long)got[i].end_ns);
}

static void the_phases_follow_each_other(void **state)
{
    struct srv_request_span s = {.read_ns = 2, .encoded_ns = 7};
    struct srv_job job = {.queued_ns = 3, .started_ns = 4, .finished_ns = 6};

    (void)state;
    phases(1, RT_OK, &s, &job, (const int64_t[][2]){{1, 2}, {2, 3}, {3, 4}, {4, 6}, {6, 7}});
    /* an error is not encoded */
    phases(1, RT_INTERNAL, &s, &job, (const int64_t[][2]){{1, 2}, {2, 3}, {3, 4}, {4, 6}, {0}});
    /* a job that has expired in the queue has no run */
    job.started_ns = 0;
    phases(1, RT_DEADLINE_EXCEEDED, &s, &job,
           (const int64_t[][2]){{1, 2}, {2, 3}, {3, 6}, {0}, {0}});
    /* a worker has decoded the request; the queue begins then */
    job = (struct srv_job){.queued_ns = 3, .started_ns = 10, .finished_ns = 11};
    s = (struct srv_request_span){
        .read_ns = 2, .decode_begin_ns = 5, .decode_end_ns = 8, .encoded_ns = 12};
    phases(1, RT_OK, &s, &job, (const int64_t[][2]){{1, 2}, {5, 8}, {8, 10}, {10, 11}, {11, 12}});
    /* the job has ended while it was queued for decoding */
    s = (struct srv_request_span){.read_ns = 2, .is_preparing = true};
    phases(1, RT_CANCELLED, &s, &job, (const int64_t[][2]){{1, 2}, {0}, {3, 11}, {0}, {0}});
}

static void only_the_phases_of_a_record_have_ids(void **state)
{
    struct srv_request_span s = from_stranger(tracer);
    const struct srv_version version = {.model = "m", .version = 7};
    const struct srv_access a = {.api = "predict", .begin_ns = 1, .end_ns = 9, .span = &s};
    struct srv_job job = {.queued_ns = 3, .finished_ns = 6};

    (void)state;
    job.version = (struct srv_version *)(uintptr_t)&version;
    s.read_ns = 2;
    srv_tracer_request(tracer, &a, &job);
    assert_int_equal(n_records, 1);
    for (int i = 0; i < SRV_N_PHASES; i++)
        assert_int_equal(!is_zero(records[0]->phase_id[i], SRV_SPAN_ID_BYTES),
                         i <= SRV_PHASE_QUEUE);
    assert_true(records[0]->has_version);
    assert_int_equal(records[0]->version, 7);
    assert_string_equal(records[0]->model, "m");
}

/* ---- records of batches ---- */

static void a_batch_is_linked_with_its_recorded_members(void **state)
{
    struct srv_request_span a = from_stranger(tracer), b = from_client(0, 0),
                            c = from_stranger(tracer), split = from_stranger(tracer);
    struct srv_job whole = {.span = &split};
    struct srv_job jobs[] = {{.span = &b}, {.span = &a}, {.parent = &whole}, {.span = &c}, {0}};
    const struct srv_access access = {.api = "predict", .span = &a};

    (void)state;
    srv_tracer_begin(tracer, &b);
    c.is_preparing = true; /* was only decoded */
    for (int i = 0; i < 4; i++)
        jobs[i].next = &jobs[i + 1];
    srv_tracer_batch(tracer, jobs, 5, 12, 100, 200, 3);
    assert_int_equal(n_records, 1);
    const struct srv_trace_record *r = records[0];
    assert_true(r->is_batch && r->has_parent);
    assert_int_equal(r->n_links, 2);
    assert_int_equal(r->n_dropped_links, 0);
    assert_memory_equal(&r->link[0], &a.context, sizeof a.context);
    assert_memory_equal(&r->link[1], &split.context, sizeof split.context);
    /* the batch belongs to the trace of its first recorded member */
    assert_memory_equal(r->context.trace_id, a.context.trace_id, SRV_TRACE_ID_BYTES);
    assert_memory_equal(r->parent_id, a.context.span_id, SRV_SPAN_ID_BYTES);
    assert_memory_not_equal(r->context.span_id, a.context.span_id, SRV_SPAN_ID_BYTES);
    assert_int_equal(r->times.begin_ns, 100);
    assert_int_equal(r->times.end_ns, 200);
    assert_int_equal(r->rows, 12);
    assert_int_equal(r->n_requests, 5);
    assert_string_equal(r->device, "gpu:3");
    /* the batch is noted in the spans of whole requests */
    assert_int_equal(a.batch.n_requests, 5);
    assert_int_equal(split.batch.n_requests, 0);
    assert_int_equal(c.batch.n_requests, 0);
    srv_tracer_request(tracer, &access, NULL);
    assert_int_equal(n_records, 2);
    assert_true(records[1]->has_batch);
    assert_int_equal(records[1]->rows, 12);
    assert_string_equal(records[1]->device, "gpu:3");
    assert_memory_equal(&records[1]->batch, &r->context, sizeof r->context);
}

static void a_batch_without_recorded_members_has_no_record(void **state)
{
    struct srv_request_span s = from_client(0, 0);
    struct srv_job last = {0}, first = {.span = &s, .next = &last};

    (void)state;
    srv_tracer_begin(tracer, &s);
    srv_tracer_batch(tracer, &first, 2, 2, 1, 2, -1);
    assert_int_equal(n_records, 0);
    assert_int_equal(s.batch.n_requests, 0);
}

static void a_batch_counts_the_members_beyond_its_links(void **state)
{
    enum { N = SRV_TRACE_LINKS + 3 };
    static struct srv_request_span spans[N];
    static struct srv_job jobs[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        spans[i] = from_stranger(tracer);
        jobs[i] = (struct srv_job){.span = &spans[i], .next = i + 1 < N ? &jobs[i + 1] : NULL};
    }
    srv_tracer_batch(tracer, jobs, N, N, 1, 2, -1);
    assert_int_equal(n_records, 1);
    assert_int_equal(records[0]->n_links, SRV_TRACE_LINKS);
    assert_int_equal(records[0]->n_dropped_links, 3);
    assert_string_equal(records[0]->device, "cpu");
    assert_int_equal(spans[N - 1].batch.n_requests, N);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_request_without_a_parent_gets_a_trace_of_its_own),
        TEST(without_a_tracer_or_at_a_ratio_of_0_nothing_is_recorded),
        TEST(the_parent_decides_if_it_may),
        TEST(all_servers_decide_alike_by_the_trace_id),
        TEST(a_ratio_selects_about_its_part_of_new_traces),
        TEST(a_ratio_above_1_is_refused),
        TEST(a_record_has_the_outcome_and_no_query),
        TEST(the_phases_follow_each_other),
        TEST(only_the_phases_of_a_record_have_ids),
        TEST(a_batch_is_linked_with_its_recorded_members),
        TEST(a_batch_without_recorded_members_has_no_record),
        TEST(a_batch_counts_the_members_beyond_its_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
