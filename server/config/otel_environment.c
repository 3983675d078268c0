#include "server/config/otel_environment.h"

#include <string.h>

#include "runtime/base/log.h"
#include "server/base/number.h"
#include "server/json/json_number.h"

struct environment {
    struct srv_options *o;
    char *(*get)(const char *name);
};

/* Returns the value of the variable `name`, or NULL if it is not set. OpenTelemetry treats an empty
 * value like a variable that is not set. */
static const char *value_of(const struct environment *e, const char *name)
{
    const char *value = e->get(name);
    return value && *value ? value : NULL;
}

/* Returns the value of the variable for traces or, if it is not set, that for all signals. Sets
 * *name to the variable that is set. */
static const char *value_of_either(const struct environment *e, const char *of_traces,
                                   const char *of_all, const char **name)
{
    const char *value = value_of(e, *name = of_traces);
    return value ? value : value_of(e, *name = of_all);
}

static void ignore(const char *name, const char *why)
{
    RT_LOG(RT_LOG_WARNING, "the environment variable %s is ignored: %s", name, why);
}

static void take_text(const struct environment *e, const char *flag, const char **field,
                      const char *value)
{
    if (value && !srv_options_is_given(e->o, flag))
        *field = value;
}

static void take_number(const struct environment *e, const char *flag, int64_t *field,
                        const char *name, const char *value, int64_t most)
{
    int64_t n;

    if (!value || srv_options_is_given(e->o, flag))
        return;
    if (srv_parse_int64(value, strlen(value), &n) && n >= 1 && n <= most)
        *field = n;
    else
        ignore(name, "it is not a number in the range of the flag");
}

/* Returns whether the variables ask for an export by OTLP over HTTP with protobuf. */
static bool asks_for_export(const struct environment *e)
{
    const char *name, *exporter = value_of(e, "OTEL_TRACES_EXPORTER");
    const char *protocol = value_of_either(e, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                                           "OTEL_EXPORTER_OTLP_PROTOCOL", &name);
    const char *disabled = value_of(e, "OTEL_SDK_DISABLED");

    if (exporter && strcmp(exporter, "otlp") != 0)
        return false;
    if (protocol && strcmp(protocol, "http/protobuf") != 0) {
        ignore("OTEL_EXPORTER_OTLP_ENDPOINT",
               "the protocol is another than http/protobuf, the only one");
        return false;
    }
    return !disabled || strcmp(disabled, "true") != 0;
}

static void take_endpoint(const struct environment *e)
{
    const char *url = value_of(e, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    const char *base = value_of(e, "OTEL_EXPORTER_OTLP_ENDPOINT");

    if (srv_options_is_given(e->o, "otlp_endpoint") || (!url && !base) || !asks_for_export(e))
        return;
    e->o->otlp_endpoint = url ? url : base;
    e->o->otlp_endpoint_is_complete = url != NULL;
}

/* Reads OTEL_TRACES_SAMPLER, which contains both whether the parent decides, and how much is
 * sampled otherwise. */
static void take_sampler(const struct environment *e)
{
    static const char parent[] = "parentbased_";
    const char *sampler = value_of(e, "OTEL_TRACES_SAMPLER");
    const char *text = value_of(e, "OTEL_TRACES_SAMPLER_ARG");
    double ratio = 1;

    if (!sampler)
        return;
    const bool by_parent = strncmp(sampler, parent, sizeof parent - 1) == 0;
    const char *rest = sampler + (by_parent ? sizeof parent - 1 : 0);
    if (strcmp(rest, "always_off") == 0) {
        ratio = 0;
    } else if (strcmp(rest, "traceidratio") == 0) {
        const unsigned char *end = text ? (const unsigned char *)text + strlen(text) : NULL;
        if (text && (srv_double_read((const unsigned char *)text, end, &ratio) != end ||
                     !(ratio >= 0 && ratio <= 1))) {
            ratio = 1;
            ignore("OTEL_TRACES_SAMPLER_ARG", "it is not a number from 0 to 1");
        }
    } else if (strcmp(rest, "always_on") != 0) {
        ignore("OTEL_TRACES_SAMPLER", "the sampler is unknown");
        return;
    }
    if (!srv_options_is_given(e->o, "trace_sampling_ratio"))
        e->o->trace_sampling_ratio = ratio;
    if (!srv_options_is_given(e->o, "trace_sampling_by_parent"))
        e->o->trace_sampling_by_parent = by_parent;
}

void srv_otel_environment(struct srv_options *o, char *(*get)(const char *name))
{
    const struct environment e = {.o = o, .get = get};
    const char *name, *value;

    take_endpoint(&e);
    if (!*o->otlp_endpoint)
        return;
    value = value_of_either(&e, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS",
                            &name);
    take_text(&e, "otlp_headers", &o->otlp_headers, value);
    value = value_of_either(&e, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
                            "OTEL_EXPORTER_OTLP_CERTIFICATE", &name);
    take_text(&e, "otlp_certificate", &o->otlp_certificate, value);
    value = value_of_either(&e, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
                            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &name);
    take_text(&e, "otlp_client_certificate", &o->otlp_client_certificate, value);
    value = value_of_either(&e, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
                            "OTEL_EXPORTER_OTLP_CLIENT_KEY", &name);
    take_text(&e, "otlp_client_key", &o->otlp_client_key, value);
    value = value_of_either(&e, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT",
                            &name);
    take_number(&e, "otlp_timeout_seconds", &o->otlp_timeout_ms, name, value, INT32_MAX);
    name = "OTEL_BSP_SCHEDULE_DELAY";
    take_number(&e, "otlp_interval_seconds", &o->otlp_interval_ms, name, value_of(&e, name),
                INT32_MAX);
    name = "OTEL_BSP_MAX_QUEUE_SIZE";
    take_number(&e, "otlp_queue_length", &o->otlp_queue_length, name, value_of(&e, name),
                SRV_MAX_OTLP_QUEUE);
    take_text(&e, "otlp_service_name", &o->otlp_service_name, value_of(&e, "OTEL_SERVICE_NAME"));
    take_text(&e, "otlp_resource_attributes", &o->otlp_resource_attributes,
              value_of(&e, "OTEL_RESOURCE_ATTRIBUTES"));
    take_sampler(&e);
}
