/* Tests how records are encoded for the collector, what is read of its response, and sampling. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "opentelemetry/traces.pb-c.h"
#include "proto/unpack.h"
#include "server/tracing/otlp.h"
#include "server/tracing/tracer.h"

static struct rt_arena *arena;
static struct rt_error err;

static int set_up(void **state)
{
    (void)state;
    arena = rt_arena_new(SIZE_MAX);
    return arena ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rt_arena_free(arena);
    return 0;
}

static Opentelemetry__ExportTraceServiceRequest *encode(const struct srv_trace_record *first,
                                                        const struct srv_otlp_resource *resource)
{
    char *p;
    size_t n;

    assert_ok(srv_otlp_encode(first, resource, 1000, arena, &p, &n, &err), &err);
    Opentelemetry__ExportTraceServiceRequest *m =
        pb_unpack(&opentelemetry__export_trace_service_request__descriptor, rt_span_of(p, n),
                  "a request", &err);
    free(p);
    assert_non_null(m);
    assert_int_equal(m->n_resource_spans, 1);
    assert_int_equal(m->resource_spans[0]->n_scope_spans, 1);
    return m;
}

static const char *text_of(Opentelemetry__KeyValue *const *pairs, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(pairs[i]->key, key) == 0)
            return pairs[i]->value->string_value;
    return NULL;
}

static void a_batch_has_links_and_counts_those_that_it_lacks(void **state)
{
    (void)state;
    const struct srv_otlp_resource resource = {.service_name = "s", .attributes = ""};
    struct srv_trace_record *r = calloc(1, sizeof *r);

    assert_non_null(r);
    r->is_batch = true;
    r->times = (struct srv_trace_times){50, 40}; /* a clock never makes a span end early */
    r->n_links = SRV_TRACE_LINKS;
    r->n_dropped_links = 7;
    r->n_requests = SRV_TRACE_LINKS + 7;
    for (int i = 0; i < r->n_links; i++)
        r->link[i].span_id[7] = (unsigned char)i;
    Opentelemetry__ExportTraceServiceRequest *m = encode(r, &resource);
    const Opentelemetry__ScopeSpans *spans = m->resource_spans[0]->scope_spans[0];
    assert_string_equal(spans->scope->name, "slipway");
    assert_int_equal(spans->n_spans, 1);
    assert_string_equal(spans->spans[0]->name, "batch");
    assert_int_equal(spans->spans[0]->n_links, SRV_TRACE_LINKS);
    assert_int_equal(spans->spans[0]->dropped_links_count, 7);
    assert_int_equal(spans->spans[0]->links[9]->span_id.data[7], 9);
    assert_int_equal(spans->spans[0]->start_time_unix_nano, 1050);
    assert_int_equal(spans->spans[0]->end_time_unix_nano, 1050);
    pb_free(m);
    free(r);
}

static void only_errors_of_the_server_set_the_status(void **state)
{
    (void)state;
    const struct srv_otlp_resource resource = {.service_name = "", .attributes = ""};
    struct srv_trace_record *r = calloc(1, sizeof *r);

    assert_non_null(r);
    for (int code = 0; code < 17; code++) {
        r->code = (enum rt_status)code;
        Opentelemetry__ExportTraceServiceRequest *m = encode(r, &resource);
        const Opentelemetry__Span *s = m->resource_spans[0]->scope_spans[0]->spans[0];
        const bool is_error = code == RT_UNKNOWN || code == RT_DEADLINE_EXCEEDED ||
                              code == RT_UNIMPLEMENTED || code == RT_INTERNAL ||
                              code == RT_UNAVAILABLE || code == RT_DATA_LOSS;
        assert_int_equal(s->status ? s->status->code : 0, is_error ? 2 : 0);
        assert_int_equal(text_of(s->attributes, s->n_attributes, "error.type") != NULL, code != 0);
        assert_int_equal(s->parent_span_id.len, 0);
        pb_free(m);
    }
    free(r);
}

static void a_resource_has_one_name(void **state)
{
    (void)state;
    static const struct {
        const char *service_name, *attributes, *name;
    } cases[] = {{"", "", "slipway"},
                 {"a", "", "a"},
                 {"", "x=1, service.name = b%20c ,y", "b c"},
                 {"a", "service.name=b", "a"},
                 {"\xff"
                  "a",
                  "", "?a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct srv_otlp_resource resource = {cases[i].service_name, cases[i].attributes};
        Opentelemetry__ExportTraceServiceRequest *m = encode(NULL, &resource);
        const Opentelemetry__Resource *r = m->resource_spans[0]->resource;
        int n = 0;
        for (size_t k = 0; k < r->n_attributes; k++)
            n += strcmp(r->attributes[k]->key, "service.name") == 0;
        assert_int_equal(n, 1);
        assert_string_equal(text_of(r->attributes, r->n_attributes, "service.name"), cases[i].name);
        pb_free(m);
    }
}

static void texts_are_utf8_and_end_with_a_character(void **state)
{
    (void)state;
    char out[8];

    srv_trace_text(out, sizeof out, rt_span_str("a\xc3\xa9\xff\xc3"));
    assert_string_equal(out, "a\xc3\xa9??");
    srv_trace_text(out, sizeof out, rt_span_str("abcdef\xc3\xa9"));
    assert_string_equal(out, "abcdef");
    srv_trace_text(out, sizeof out, rt_span_str("abcdefgh"));
    assert_string_equal(out, "abcdefg");
    srv_trace_text(out, sizeof out, rt_span_of("ab\0c", 4));
    assert_string_equal(out, "ab");
    srv_trace_text(out, sizeof out, rt_span_of(NULL, 0));
    assert_string_equal(out, "");
}

static void pairs_are_read_from_a_list(void **state)
{
    (void)state;
    const char *list = ",a=1, b = x%2cy ,=c,d,e=,f=%zz%0,g=%00", *key, *value;
    static const char *const want[] = {"a", "1", "b", "x,y", "e", "", "f", "%zz%0", "g", "%00"};

    for (size_t i = 0; i < sizeof want / sizeof *want; i += 2) {
        assert_true(srv_otlp_next_pair(&list, arena, &key, &value));
        assert_string_equal(key, want[i]);
        assert_string_equal(value, want[i + 1]);
    }
    assert_false(srv_otlp_next_pair(&list, arena, &key, &value));
}

static void a_list_with_another_element_is_refused(void **state)
{
    (void)state;
    assert_ok(srv_otlp_check_pairs("", "otlp_headers", &err), &err);
    assert_ok(srv_otlp_check_pairs(" , a=1,b=,", "otlp_headers", &err), &err);
    assert_fails(srv_otlp_check_pairs("a=1,secret", "otlp_headers", &err), RT_INVALID_ARGUMENT,
                 &err, "--otlp_headers: element 2 is not key=value");
    assert_fails(srv_otlp_check_pairs(" =secret", "otlp_headers", &err), RT_INVALID_ARGUMENT, &err,
                 "--otlp_headers: element 1 is not key=value");
}

static void a_response_tells_the_rejected_spans(void **state)
{
    (void)state;
    assert_int_equal(srv_otlp_rejected(rt_span_of("\x0a\x02\x08\x05", 4)), 5);
    assert_int_equal(
        srv_otlp_rejected(rt_span_of("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13)),
        0);
    assert_int_equal(srv_otlp_rejected(rt_span_of("\x0a\x05\x08\x05", 4)), 0);
    assert_int_equal(srv_otlp_rejected(rt_span_of(NULL, 0)), 0);
}

static void a_ratio_is_a_part_of_all_numbers(void **state)
{
    (void)state;
    assert_true(srv_tracer_threshold(0) == 0);
    assert_true(srv_tracer_threshold(-1) == 0);
    assert_true(srv_tracer_threshold(0.5) == UINT64_C(1) << 63);
    assert_true(srv_tracer_threshold(1) == UINT64_MAX);
    assert_true(srv_tracer_threshold(0.9999999999999999) > UINT64_MAX - 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_has_links_and_counts_those_that_it_lacks),
        cmocka_unit_test(only_errors_of_the_server_set_the_status),
        cmocka_unit_test(a_resource_has_one_name),
        cmocka_unit_test(texts_are_utf8_and_end_with_a_character),
        cmocka_unit_test(pairs_are_read_from_a_list),
        cmocka_unit_test(a_list_with_another_element_is_refused),
        cmocka_unit_test(a_response_tells_the_rejected_spans),
        cmocka_unit_test(a_ratio_is_a_part_of_all_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
