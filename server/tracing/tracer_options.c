#include "server/tracing/tracer_options.h"

#include <string.h>

enum rt_status srv_tracer_options(const struct srv_options *o, struct rt_arena *arena,
                                  struct srv_tracer_options *out, struct rt_error *err)
{
    static const char path[] = "/v1/traces";
    size_t n = strlen(o->otlp_endpoint);
    const bool is_complete =
        o->otlp_endpoint_is_complete ||
        (n >= sizeof path && strcmp(o->otlp_endpoint + n - sizeof path + 1, path) == 0);

    n -= n > 1 && strcmp(o->otlp_endpoint + n - 2, "//") != 0 && o->otlp_endpoint[n - 1] == '/';
    const char *url = is_complete
                          ? o->otlp_endpoint
                          : rt_arena_printf(arena, "%.*s%s", (int)n, o->otlp_endpoint, path);
    if (!url)
        return rt_fail_memory(err, "the tracer", n);
    *out = (struct srv_tracer_options){
        .exporter = {.url = url,
                     .endpoint = o->otlp_endpoint,
                     .headers = o->otlp_headers,
                     .ca_file = o->otlp_certificate,
                     .cert_file = o->otlp_client_certificate,
                     .key_file = o->otlp_client_key,
                     .resource = {.service_name = o->otlp_service_name,
                                  .attributes = o->otlp_resource_attributes},
                     .timeout_ns = o->otlp_timeout_ms * 1000000,
                     .interval_ns = o->otlp_interval_ms * 1000000,
                     .queue_length = (int)o->otlp_queue_length},
        .ratio = o->trace_sampling_ratio,
        .by_parent = o->trace_sampling_by_parent};
    return RT_OK;
}
