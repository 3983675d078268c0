#include "tests/support/test.h"

#include <malloc.h>
#include <pthread.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"
#include "server/telemetry/metrics_page.h"
#include "server/telemetry/metrics_text.h"
#include "server/batching/io_loop.h"
#include "server/server.h"

enum { N_IO_LOOPS = 3, N_WORKERS = 2 };

struct world {
    struct srv_server server;
    struct srv_io_loop io_loop[N_IO_LOOPS]; /* REST has two I/O loops, and gRPC has one */
    struct rt_model_signature signatures[2];
    struct rt_registry *ops;
    struct rt_model loaded; /* a model with a session on an empty graph */
    struct srv_version version;
    struct srv_version *versions[1];
    struct srv_map_model model;
    struct srv_map map;
    struct rt_bytes page;
};

static const char *const names[2] = {"serving_default", "an \"odd\\ one"};

static void no_wake(struct srv_io_loop *io_loop)
{
    (void)io_loop;
}

static struct world *begin(void)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->loaded = (struct rt_model){.n_signatures = 2, .signatures = w->signatures};
    w->ops = rt_registry_new();
    assert_non_null(w->ops);
    struct rt_error err = {0};
    struct rt_library *library = NULL;
    assert_int_equal(rt_library_import(&library, rt_span_of("", 0), w->ops, &err), RT_OK);
    const struct rt_session_options options = {.registry = w->ops};
    assert_int_equal(rt_session_new(&w->loaded.session, library, &options, &err), RT_OK);
    w->version = (struct srv_version){.model = "m", .version = 7, .loaded = &w->loaded};
    w->versions[0] = &w->version;
    w->model = (struct srv_map_model){.name = "m", .n_versions = 1, .versions = w->versions};
    w->map = (struct srv_map){1, &w->model};
    atomic_store(&w->server.map, &w->map);
    w->server.metrics = srv_metrics_new(N_IO_LOOPS, N_WORKERS);
    assert_non_null(w->server.metrics);
    for (int i = 0; i < N_IO_LOOPS; i++) {
        srv_io_loop_init(&w->io_loop[i], &w->server, i < 2 ? "REST" : "GRPC", no_wake, NULL);
        w->io_loop[i].index = i;
        w->server.io_loops[i] = &w->io_loop[i];
    }
    w->server.n_io_loops = N_IO_LOOPS;
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 7, 2, names);
    assert_non_null(w->version.metrics);
    rt_bytes_init(&w->page, 64 << 20);
    return w;
}

static void end(struct world *w)
{
    if (w->version.metrics)
        srv_metrics_drop_version(w->server.metrics, w->version.metrics);
    srv_metrics_free(w->server.metrics);
    rt_session_free(w->loaded.session);
    rt_registry_free(w->ops);
    rt_bytes_clear(&w->page);
    free(w);
}

static void count(struct world *w, int io_loop, int signature, enum rt_status code, int64_t ns)
{
    struct srv_job job = {.version = &w->version, .signature = &w->signatures[signature]};
    srv_metrics_request(&w->io_loop[io_loop], &job, NULL, rt_span_str("m"), SRV_PREDICT, code, ns);
}

static void expect(struct world *w, const char *line)
{
    rt_bytes_clear(&w->page);
    srv_metrics_page(&w->server, SRV_TEXT_PROMETHEUS, &w->page);
    assert_false(w->page.failed);
    if (!strstr(w->page.p, line))
        fail_msg("no \"%s\" in:\n%s", line, w->page.p);
}

static void expect_not(struct world *w, const char *text)
{
    rt_bytes_clear(&w->page);
    srv_metrics_page(&w->server, SRV_TEXT_PROMETHEUS, &w->page);
    assert_false(w->page.failed);
    if (strstr(w->page.p, text))
        fail_msg("\"%s\" is in:\n%s", text, w->page.p);
}

static void drop_version(struct world *w)
{
    srv_metrics_drop_version(w->server.metrics, w->version.metrics);
    w->version.metrics = NULL;
    w->model.n_versions = 0;
}

static void forget_after(struct world *w, int seconds)
{
    srv_metrics_forget_gone(w->server.metrics, rt_now_ns() + seconds * INT64_C(1000000000));
}

static void requests_are_summed_over_the_threads_of_an_entrypoint(void **state)
{
    (void)state;
    struct world *w = begin();
    count(w, 0, 0, RT_OK, 15000);
    count(w, 1, 0, RT_OK, 15000);
    count(w, 2, 0, RT_OK, 15000);
    count(w, 2, 0, RT_INVALID_ARGUMENT, 15000);
    expect(w, "slipway_requests_total{model=\"m\",version=\"7\",signature=\"serving_default\","
              "api=\"predict\",entrypoint=\"REST\",code=\"OK\"} 2\n");
    expect(w, "entrypoint=\"GRPC\",code=\"INVALID_ARGUMENT\"} 1\n");
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 3\n");
    end(w);
}

static void latencies_fall_into_servings_buckets_and_add_up(void **state)
{
    (void)state;
    struct world *w = begin();
    count(w, 0, 0, RT_OK, 9999);  /* 9999 ns is counted in the bucket up to 10 us */
    count(w, 0, 0, RT_OK, 10000); /* 10000 ns is counted in the bucket from 10 us to 18 us */
    count(w, 0, 0, RT_OK, 3600000000000);
#define LATENCY ":tensorflow:serving:request_latency"
#define LABELS  "model_name=\"m\",API=\"predict\",entrypoint=\"REST\""
    expect(w, LATENCY "_bucket{" LABELS ",le=\"10\"} 1\n");
    expect(w, LATENCY "_bucket{" LABELS ",le=\"18\"} 2\n");
    expect(w, LATENCY "_bucket{" LABELS ",le=\"32.4\"} 2\n");
    expect(w, LATENCY "_bucket{" LABELS ",le=\"+Inf\"} 3\n");
    expect(w, LATENCY "_count{" LABELS "} 3\n");
    expect(w, "slipway_request_duration_seconds_bucket{model=\"m\",version=\"7\",signature="
              "\"serving_default\",api=\"predict\",entrypoint=\"REST\",le=\"1e-05\"} 1\n");
    end(w);
}

static void a_few_models_that_there_are_not_are_told_apart(void **state)
{
    (void)state;
    struct world *w = begin();
    static const unsigned char unprintable[] = {'b', 0xff, '"', '\n', 0xc3, 0xa9};
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "nobody%d", i);
        srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str(name), SRV_PREDICT,
                            RT_NOT_FOUND, 0);
    }
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str("m"), SRV_STATUS, RT_OK, 0);
    expect(w,
           ":tensorflow:serving:request_count{model_name=\"nobody63\",status=\"NOT_FOUND\"} 1\n");
    expect(w, ":tensorflow:serving:request_count{model_name=\"\",status=\"NOT_FOUND\"} 36\n");
    assert_null(strstr(w->page.p, "nobody64"));
    assert_null(strstr(w->page.p, "model=\"nobody"));
    end(w);

    w = begin();
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_of(unprintable, sizeof unprintable),
                        SRV_STATUS, RT_NOT_FOUND, 0);
    expect(w, "{model_name=\"b\xef\xbf\xbd\\\"\\n\xc3\xa9\",status=\"NOT_FOUND\"} 1\n");
    srv_metrics_request(&w->io_loop[2], NULL, NULL, rt_span_str("not counted"), SRV_STATUS,
                        RT_NOT_FOUND, 0);
    expect(w, "slipway_requests_total{model=\"\"");
    assert_null(strstr(w->page.p, "not counted"));
    end(w);
}

static void refusals_of_inference_are_counted_over_all_models(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_metrics *m = w->server.metrics;
    count(w, 0, 0, RT_INTERNAL, 0);
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str("m"), SRV_STATUS, RT_NOT_FOUND, 0);
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str("m"), SRV_PREDICT, RT_OK, 0);
    assert_int_equal(srv_metrics_refused(m), 0);
    for (int i = 0; i < N_IO_LOOPS; i++)
        srv_metrics_request(&w->io_loop[i], NULL, NULL, rt_span_str(i ? "m" : "nobody"), SRV_INFER,
                            RT_RESOURCE_EXHAUSTED, 0);
    assert_int_equal(srv_metrics_refused(m), N_IO_LOOPS);
    w->io_loop[0].map = &w->map;
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str("m"), SRV_CLASSIFY,
                        RT_INVALID_ARGUMENT, 0);
    assert_int_equal(srv_metrics_refused(m), N_IO_LOOPS + 1);
    end(w);
}

static void totals_do_not_go_back_when_a_version_goes(void **state)
{
    (void)state;
    struct world *w = begin();
    for (int i = 0; i < 4; i++)
        count(w, 2, i % 2, RT_OK, 15000);
    drop_version(w);
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 4\n");
    expect(w, ":tensorflow:serving:request_latency_count{model_name=\"m\",API=\"Predict\","
              "entrypoint=\"GRPC\"} 4\n");
    assert_null(strstr(w->page.p, "version=\"7\""));
    end(w);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    struct world *w = begin();
    count(w, 0, 1, RT_OK, 15000);
    expect(w, "signature=\"an \\\"odd\\\\ one\"");
    end(w);
}

static void batches_loads_and_events_are_counted(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_job b = {.version = &w->version, .started_ns = 5000, .n_rows = 1};
    struct srv_job a = {.next = &b, .version = &w->version, .started_ns = 5000, .n_rows = 2};
    srv_metrics_batch(w->server.metrics, 1, &a, 2, 3, 4, 1500000);
    /* The batch ran inline on the third I/O loop, which is gRPC's. */
    srv_metrics_batch(w->server.metrics, -1 - 2, &b, 1, 1, 1, 40000);
    srv_metrics_load(w->server.metrics, "m", "/models/m/7", true, 1000000);
    srv_metrics_load(w->server.metrics, "other", "/models/other/1", false, 1000000);
    srv_metrics_event(w->server.metrics, "smuggling_refused");
    srv_metrics_event(w->server.metrics, "smuggling_refused");
    expect(w, "slipway_batch_rows_bucket{model=\"m\",version=\"7\",le=\"1\"} 1\n");
    expect(w, "slipway_batch_rows_bucket{model=\"m\",version=\"7\",le=\"2\"} 1\n");
    expect(w, "slipway_batch_rows_bucket{model=\"m\",version=\"7\",le=\"4\"} 2\n");
    expect(w, "slipway_batch_rows_sum{model=\"m\",version=\"7\"} 4\n");
    expect(w, "slipway_queue_duration_seconds_count{model=\"m\",version=\"7\"} 3\n");
    expect(w, "slipway_model_loads_total{model=\"other\",result=\"failed\"} 1\n");
    expect(w, "slipway_events_total{event=\"smuggling_refused\"} 2\n");
    end(w);
}

static void runs_are_counted_by_tensorflows_names(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_job b = {.version = &w->version, .started_ns = 5000000, .n_rows = 1};
    struct srv_job a = {.next = &b, .version = &w->version, .started_ns = 5000000, .n_rows = 2};
    srv_metrics_batch(w->server.metrics, 0, &a, 2, 3, 8, 1000000);
    srv_metrics_batch(w->server.metrics, 1, &b, 1, 1, 1, 999999);
#define BATCHING ":tensorflow:serving:batching_session:"
    expect(w, ":tensorflow:core:graph_runs{} 2\n");
    expect(w, ":tensorflow:core:direct_session_runs{} 2\n");
    expect(w, ":tensorflow:core:graph_run_time_usecs{} 1999\n");
    expect(w, ":tensorflow:core:graph_run_time_usecs_histogram_bucket{le=\"1000\"} 1\n");
    expect(w, ":tensorflow:core:graph_run_time_usecs_histogram_bucket{le=\"2000\"} 2\n");
    expect(w, ":tensorflow:core:graph_run_time_usecs_histogram_sum{} 1999\n");
    expect(w, ":tensorflow:core:graph_run_input_tensor_bytes_bucket{le=\"6.71089e+07\"} 2\n");
    expect(w, BATCHING "wrapped_run_count{} 2\n");
    expect(w, BATCHING "queuing_latency_bucket{thread_pool_name=\"\",le=\"100\"} 0\n");
    expect(w, BATCHING "queuing_latency_sum{thread_pool_name=\"\"} 15000\n");
    /* A duration equal to a bucket's upper bound is counted in the next bucket. */
    expect(w, BATCHING "input_batch_size_bucket{le=\"2\"} 2\n");
    expect(w, BATCHING "input_batch_size_count{} 3\n");
    expect(w, BATCHING "processed_batch_size_sum{} 9\n");
    expect(w, BATCHING "padding_size_sum{execution_batch_size=\"8\"} 5\n");
    expect(w, BATCHING "padding_size_bucket{execution_batch_size=\"1\",le=\"1\"} 1\n");
    end(w);
}

static void loads_and_warm_ups_are_counted_by_folder(void **state)
{
    (void)state;
    struct world *w = begin();
    srv_metrics_load(w->server.metrics, "m", "/m/1", true, 1500000);
    srv_metrics_load(w->server.metrics, "m", "/m/2", false, 1500000);
    srv_metrics_warmup(w->server.metrics, "/m/1", RT_OK, 7, 2000000);
    srv_metrics_logged(w->server.metrics, "m", RT_OK);
#define SAVED_MODEL ":tensorflow:cc:saved_model:"
    expect(w, SAVED_MODEL "load_attempt_count{model_path=\"/m/1\",status=\"success\"} 1\n");
    expect(w, SAVED_MODEL "load_attempt_count{model_path=\"/m/2\",status=\"fail\"} 1\n");
    expect(w, SAVED_MODEL "load_latency{model_path=\"/m/1\"} 1500\n");
    expect(w, ":tensorflow:serving:model_warmup_records_read{model_path=\"/m/1\","
              "status=\"OK\"} 7\n");
    expect(w, ":tensorflow:serving:model_warmup_latency_sum{model_path=\"/m/1\","
              "status=\"OK\"} 2000\n");
    expect(w, ":tensorflow:serving:request_log_count{model_name=\"m\",status_code=\"OK\"} 1\n");
    for (int i = 0; i < 1000; i++) {
        char path[32];
        snprintf(path, sizeof path, "/many/%d", i);
        srv_metrics_load(w->server.metrics, "m", path, true, 1000);
    }
    expect(w, "model_path=\"/many/999\"");
    assert_null(strstr(w->page.p, "\"/m/1\""));
    end(w);
}

static void examples_and_run_times_are_counted_by_api(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_job job = {.version = &w->version,
                          .signature = &w->signatures[0],
                          .n_rows = 4,
                          .queued_ns = 1000,
                          .finished_ns = 21000};
    srv_metrics_request(&w->io_loop[0], &job, NULL, rt_span_str("m"), SRV_CLASSIFY, RT_OK, 30000);
    srv_metrics_request(&w->io_loop[0], &job, NULL, rt_span_str("m"), SRV_PREDICT, RT_OK, 30000);
    srv_metrics_request(&w->io_loop[0], &job, NULL, rt_span_str("m"), SRV_PREDICT, RT_INTERNAL,
                        30000);
    srv_metrics_request(&w->io_loop[0], NULL, NULL, rt_span_str("m"), SRV_STATUS, RT_OK, 30000);
    expect(w, ":tensorflow:serving:request_example_count_total{model=\"m\"} 4\n");
    expect(w, ":tensorflow:serving:request_example_counts_bucket{model=\"m\",le=\"4\"} 0\n");
    expect(w, ":tensorflow:serving:request_example_counts_bucket{model=\"m\",le=\"8\"} 1\n");
    expect(w, ":tensorflow:serving:runtime_latency_sum{model_name=\"m\",API=\"Classify\","
              "runtime=\"TF1\"} 20\n");
    expect(w, ":tensorflow:serving:runtime_latency_count{model_name=\"m\",API=\"Predict\","
              "runtime=\"TF1\"} 1\n");
    expect(w, ":tensorflow:serving:request_latency_count{model_name=\"m\",API=\"\","
              "entrypoint=\"REST\"} 1\n");
    end(w);
}

static void every_family_is_there_before_anything_was_counted(void **state)
{
    (void)state;
    struct world *w = begin();
    static const char *const families[] = {
        ":tensorflow:cc:saved_model:load_attempt_count counter",
        ":tensorflow:cc:saved_model:load_latency counter",
        ":tensorflow:cc:saved_model:load_latency_by_stage histogram",
        ":tensorflow:core:direct_session_runs counter",
        ":tensorflow:core:graph_optimization_usecs counter",
        ":tensorflow:core:graph_pending_queue_length_histogram histogram",
        ":tensorflow:core:graph_run_input_tensor_bytes histogram",
        ":tensorflow:core:graph_run_output_tensor_bytes histogram",
        ":tensorflow:core:graph_run_time_usecs counter",
        ":tensorflow:core:graph_run_time_usecs_histogram histogram",
        ":tensorflow:core:graph_runs counter",
        ":tensorflow:serving:batching_session:input_batch_size histogram",
        ":tensorflow:serving:batching_session:padding_size histogram",
        ":tensorflow:serving:batching_session:processed_batch_size histogram",
        ":tensorflow:serving:batching_session:queuing_latency histogram",
        ":tensorflow:serving:batching_session:wrapped_run_count counter",
        ":tensorflow:serving:mlmd_map gauge",
        ":tensorflow:serving:model_warmup_latency histogram",
        ":tensorflow:serving:model_warmup_records_read counter",
        ":tensorflow:serving:request_count counter",
        ":tensorflow:serving:request_example_count_total counter",
        ":tensorflow:serving:request_example_counts histogram",
        ":tensorflow:serving:request_latency histogram",
        ":tensorflow:serving:request_log_count counter",
        ":tensorflow:serving:runtime_latency histogram",
    };
    const char *at = NULL;
    expect(w, "# TYPE slipway_queue_requests gauge\n");
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "# TYPE %s\n", families[i]);
        const char *found = strstr(w->page.p, line);
        if (!found || found < at)
            fail_msg("not there, or not in order: %s", families[i]);
        at = found;
    }
    expect(w, ":tensorflow:core:graph_runs{} 0\n");
    end(w);
}

static void every_line_is_prometheus_text(void **state)
{
    (void)state;
    struct world *w = begin();
    count(w, 0, 1, RT_OK, 15000);
    expect(w, "slipway_ready 0\n");
    for (char *line = w->page.p; *line;) {
        char *newline = strchr(line, '\n');
        assert_non_null(newline);
        *newline = '\0';
        if (*line != '#') {
            char *value = strrchr(line, ' '), *rest;
            assert_non_null(value);
            strtod(value + 1, &rest);
            assert_string_equal(rest, "");
        }
        line = newline + 1;
    }
    end(w);
}

static void counters_of_a_model_that_is_gone_are_dropped_after_a_while(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_job job = {.version = &w->version, .n_rows = 1};
    count(w, 0, 0, RT_OK, 15000);
    srv_metrics_batch(w->server.metrics, 0, &job, 1, 1, 1, 1000000);
    srv_metrics_load(w->server.metrics, "m", "/m/7", true, 1000000);
    drop_version(w);
    srv_metrics_model_gone(w->server.metrics, "m");
    srv_metrics_model_gone(w->server.metrics, "unknown");
    forget_after(w, 0);
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 1\n");
    forget_after(w, SRV_GONE_SECONDS + 1);
    expect_not(w, "=\"m\"");
    expect(w, ":tensorflow:core:graph_runs{} 1\n");
    srv_metrics_logged(w->server.metrics, "m", RT_OK); /* a request log outlives its model */
    expect_not(w, "=\"m\"");
    end(w);
}

static void a_model_that_returns_keeps_its_counters(void **state)
{
    (void)state;
    struct world *w = begin();
    count(w, 0, 0, RT_OK, 15000);
    drop_version(w);
    srv_metrics_model_gone(w->server.metrics, "m");
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 8, 2, names);
    assert_non_null(w->version.metrics);
    forget_after(w, SRV_GONE_SECONDS + 1);
    count(w, 0, 0, RT_OK, 15000);
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 2\n");
    end(w);
}

static void few_models_that_are_gone_keep_their_counters(void **state)
{
    (void)state;
    struct world *w = begin();
    char name[32], text[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "gone%d", i);
        srv_metrics_load(w->server.metrics, name, "/gone", true, 1000);
        srv_metrics_model_gone(w->server.metrics, name);
        /* a repeated call does not make "gone0" newer than the other models */
        srv_metrics_model_gone(w->server.metrics, "gone0");
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "slipway_model_loads_total{model=\"gone%d\",", i);
        if (i < 1000 - SRV_MAX_GONE)
            expect_not(w, text);
        else
            expect(w, text);
    }
    end(w);
}

static void a_signature_has_counters_only_once_it_is_called(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct world *w = begin();
    static const char *many[N];
    static char text[N][8];
    static struct rt_model_signature signatures[N];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "s%d", i);
        many[i] = text[i];
    }
    drop_version(w);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 7, N, many);
    assert_non_null(w->version.metrics);
    const size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(after < before + ((size_t)2 << 20));
    w->loaded.signatures = signatures;
    w->loaded.n_signatures = N;
    for (int i = 0; i < SRV_MAX_CALLED + 44; i++) {
        struct srv_job job = {.version = &w->version, .signature = &signatures[N - 1 - i]};
        srv_metrics_request(&w->io_loop[i % 2], &job, NULL, rt_span_str("m"), SRV_PREDICT, RT_OK,
                            1000);
    }
    expect(w, "signature=\"s99999\",api=\"predict\",entrypoint=\"REST\",code=\"OK\"} 1\n");
    expect(w, "signature=\"s99744\",api=\"predict\",entrypoint=\"REST\",code=\"OK\"} 1\n");
    expect(w, "signature=\"\",api=\"predict\",entrypoint=\"REST\",code=\"OK\"} 44\n");
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 300\n");
    expect_not(w, "signature=\"s99743\"");
    expect_not(w, "signature=\"s0\"");
    w->loaded.signatures = w->signatures;
    end(w);
}

enum { N_CALLED = 200 };
static struct rt_model_signature called[N_CALLED];

struct counter {
    struct world *w;
    int io_loop;
    pthread_t thread;
};

static void *count_all(void *arg)
{
    const struct counter *c = arg;
    struct srv_request_span span;
    srv_request_span_init(&span);
    srv_request_span_traceparent(
        &span, rt_span_str("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    for (int i = 0; i < N_CALLED; i++) {
        struct srv_job job = {.version = &c->w->version, .signature = &called[i]};
        srv_metrics_request(&c->w->io_loop[c->io_loop], &job, &span, rt_span_str("m"), SRV_PREDICT,
                            RT_OK, 1000);
    }
    return NULL;
}

static void the_last_sampled_request_of_a_bucket_is_its_exemplar(void **state)
{
    (void)state;
    struct world *w = begin();
    struct srv_request_span span;
    struct srv_job job = {.version = &w->version, .signature = &w->signatures[0], .span = &span};
    srv_request_span_init(&span);
    static const char *const parents[] = {
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01",
        "00-2af7651916cd43dd8448eb211c80319c-d7ad6b7169203331-00"}; /* is not sampled */
    for (int i = 0; i < 3; i++) {
        srv_request_span_init(&span);
        srv_request_span_traceparent(&span, rt_span_str(parents[i]));
        srv_metrics_request(&w->io_loop[0], &job, &span, rt_span_str("m"), SRV_PREDICT, RT_OK,
                            11000 + i);
        srv_metrics_batch(w->server.metrics, 1, &job, 1, 1, 1, 3000000 + i);
    }
    expect_not(w, " # {");
    expect_not(w, "# EOF");
    rt_bytes_clear(&w->page);
    srv_metrics_page(&w->server, SRV_TEXT_OPENMETRICS, &w->page);
    assert_false(w->page.failed);
    static const char *const there[] = {
        "api=\"predict\",entrypoint=\"REST\",le=\"1.8e-05\"} 3 # {trace_id="
        "\"1af7651916cd43dd8448eb211c80319c\",span_id=\"c7ad6b7169203331\"} 1.1001e-05 ",
        "slipway_run_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"0.00357047\"} 3 # "
        "{trace_id=\"1af7651916cd43dd8448eb211c80319c\",span_id=\"c7ad6b7169203331\"} 0.003000001 ",
        "slipway_queue_duration_seconds_bucket{model=\"m\",version=\"7\",le=\"1e-05\"} 3 # {",
        "# TYPE slipway_request_duration_seconds histogram\n"
        "# UNIT slipway_request_duration_seconds seconds\n",
        "# TYPE slipway_requests counter\n",
        "# TYPE slipway_build info\n",
        "slipway_batch_rows_bucket{model=\"m\",version=\"7\",le=\"1.0\"} 3\n",
        ":tensorflow:core:graph_runs_total{} 3\n",
        "# TYPE :tensorflow:serving:request_example_count counter\n"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!strstr(w->page.p, there[i]))
            fail_msg("no \"%s\" in:\n%s", there[i], w->page.p);
    assert_string_equal(w->page.p + w->page.n - 6, "# EOF\n");
    assert_null(strstr(w->page.p, "0af7651916cd43dd")); /* the second request replaced it */
    assert_null(strstr(w->page.p, "2af7651916cd43dd"));
    end(w);
}

static void threads_may_call_a_signature_for_the_first_time_at_once(void **state)
{
    (void)state;
    struct world *w = begin();
    const char *many[N_CALLED];
    struct counter c[N_IO_LOOPS];
    for (int i = 0; i < N_CALLED; i++)
        many[i] = "s";
    drop_version(w);
    w->version.metrics = srv_metrics_version(w->server.metrics, "m", 7, N_CALLED, many);
    assert_non_null(w->version.metrics);
    w->loaded.signatures = called;
    w->loaded.n_signatures = N_CALLED;
    for (int i = 0; i < N_IO_LOOPS; i++) {
        c[i] = (struct counter){.w = w, .io_loop = i};
        assert_int_equal(rt_thread_start(&c[i].thread, "count", count_all, &c[i]), 0);
    }
    /* meanwhile, threads count requests */
    expect(w, "# TYPE slipway_requests_total counter\n");
    rt_bytes_clear(&w->page);
    srv_metrics_page(&w->server, SRV_TEXT_OPENMETRICS, &w->page);
    assert_non_null(strstr(w->page.p, "# TYPE slipway_requests counter\n"));
    for (int i = 0; i < N_IO_LOOPS; i++)
        pthread_join(c[i].thread, NULL);
    expect(w, ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 600\n");
    expect_not(w, "signature=\"\",api=\"predict\"");
    w->loaded.signatures = w->signatures;
    end(w);
}

/* Returns the label that srv_text_label writes for the value. The caller must free it. */
static char *label(const char *value)
{
    struct rt_bytes out;

    rt_bytes_init(&out, SIZE_MAX);
    srv_text_label(&out, true, "l", value);
    rt_bytes_addc(&out, '\0');
    assert_false(out.failed);
    size_t n;
    return rt_bytes_take(&out, &n);
}

static void a_long_label_is_cut_but_differs_from_others(void **state)
{
    (void)state;
    static char value[60001];
    /* computed by another implementation of SipHash-1-3 */
    static const char sum[] = "~efbf64d08b17ee5d0f4d5418ecf5e2a0";

    memset(value, 'x', SRV_LABEL_BYTES);
    char *whole = label(value);
    assert_int_equal(strlen(whole), strlen("l=''") + SRV_LABEL_BYTES);
    assert_null(strchr(whole, '~'));
    free(whole);
    memset(value, 'x', sizeof value - 1);
    char *a = label(value);
    assert_int_equal(strlen(a), strlen("l=''") + SRV_LABEL_BYTES);
    assert_non_null(strstr(a, sum));
    value[sizeof value - 2] = 'y';
    char *b = label(value);
    assert_int_equal(strlen(b), strlen(a));
    assert_string_not_equal(a, b);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_summed_over_the_threads_of_an_entrypoint),
        cmocka_unit_test(latencies_fall_into_servings_buckets_and_add_up),
        cmocka_unit_test(a_few_models_that_there_are_not_are_told_apart),
        cmocka_unit_test(refusals_of_inference_are_counted_over_all_models),
        cmocka_unit_test(totals_do_not_go_back_when_a_version_goes),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(a_long_label_is_cut_but_differs_from_others),
        cmocka_unit_test(batches_loads_and_events_are_counted),
        cmocka_unit_test(runs_are_counted_by_tensorflows_names),
        cmocka_unit_test(loads_and_warm_ups_are_counted_by_folder),
        cmocka_unit_test(examples_and_run_times_are_counted_by_api),
        cmocka_unit_test(every_family_is_there_before_anything_was_counted),
        cmocka_unit_test(every_line_is_prometheus_text),
        cmocka_unit_test(counters_of_a_model_that_is_gone_are_dropped_after_a_while),
        cmocka_unit_test(a_model_that_returns_keeps_its_counters),
        cmocka_unit_test(few_models_that_are_gone_keep_their_counters),
        cmocka_unit_test(a_signature_has_counters_only_once_it_is_called),
        cmocka_unit_test(the_last_sampled_request_of_a_bucket_is_its_exemplar),
        cmocka_unit_test(threads_may_call_a_signature_for_the_first_time_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
