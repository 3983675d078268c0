#include "server/telemetry/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/siphash.h"

static bool ends_with(const char *name, size_t n, const char *end)
{
    const size_t n_end = strlen(end);

    return n > n_end && memcmp(name + n - n_end, end, n_end) == 0;
}

/* Writes the unit that the first n bytes of a family's name end with, if it is a base unit. */
static void write_unit(struct rt_bytes *out, const char *name, int n)
{
    static const char *const units[] = {"_seconds", "_bytes", "_ratio", "_celsius"};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ends_with(name, (size_t)n, units[i]))
            rt_bytes_addf(out, "# UNIT %.*s %s\n", n, name, units[i] + 1);
}

void srv_text_family(const struct srv_text *t, const char *name, const char *type, const char *help)
{
    const bool is_open = t->format == SRV_TEXT_OPENMETRICS;
    size_t n = strlen(name);

    if (is_open && strcmp(type, "counter") == 0 && ends_with(name, n, "_total"))
        n -= strlen("_total");
    if (is_open && ends_with(name, n, "_info")) {
        n -= strlen("_info");
        type = "info";
    }
    if (help)
        rt_bytes_addf(t->out, "# HELP %.*s %s\n", (int)n, name, help);
    rt_bytes_addf(t->out, "# TYPE %.*s %s\n", (int)n, name, type);
    if (is_open)
        write_unit(t->out, name, (int)n);
}

const char *srv_text_total(const struct srv_text *t, const char *name)
{
    const bool is_open = t->format == SRV_TEXT_OPENMETRICS;

    return is_open && !ends_with(name, strlen(name), "_total") ? "_total" : "";
}

void srv_text_label(struct rt_bytes *out, bool first, const char *key, const char *value)
{
    enum { CHECKSUM_BYTES = 33 }; /* a tilde and 32 hexadecimal digits */
    const size_t len = strlen(value);
    const bool fits = len <= SRV_LABEL_BYTES;
    const size_t n = fits ? len : SRV_LABEL_BYTES - CHECKSUM_BYTES;

    rt_bytes_addf(out, "%s%s=\"", first ? "" : ",", key);
    const size_t before = out->n;
    for (size_t i = 0; i < n; i++) {
        const size_t plain = strcspn(value + i, "\n\"\\");
        rt_bytes_add(out, value + i, plain < n - i ? plain : n - i);
        i += plain;
        if (i < n) {
            rt_bytes_addc(out, '\\');
            rt_bytes_addc(out, value[i] == '\n' ? 'n' : value[i]);
        }
    }
    rt_bytes_make_utf8(out, before);
    if (!fits) {
        /* The hash keys are constants, so that a label has the same value in each process. */
        static const uint64_t keys[2][2] = {{1, 2}, {3, 4}};
        rt_bytes_addf(out, "~%016" PRIx64 "%016" PRIx64, rt_siphash(keys[0], value, len),
                      rt_siphash(keys[1], value, len));
    }
    rt_bytes_addc(out, '"');
}

void srv_text_label_int(struct rt_bytes *out, const char *key, int64_t value)
{
    rt_bytes_addf(out, ",%s=\"%" PRId64 "\"", key, value);
}

void srv_text_begin_labels(struct rt_bytes *labels)
{
    labels->n = 0;
    labels->failed = labels->no_memory = false;
}

const char *srv_text_labels(const struct rt_bytes *labels, struct rt_bytes *out)
{
    if (labels->no_memory)
        rt_bytes_no_memory(out);
    return labels->n && !labels->failed ? labels->p : "";
}

/* Ends the line of a bucket, after its exemplar if there is one. */
static void end_bucket(const struct srv_text *t, const struct srv_exemplar *e)
{
    char trace[SRV_TRACEPARENT_TEXT]; /* 00-TRACE-SPAN-FLAGS */

    if (t->format == SRV_TEXT_OPENMETRICS && e && e->at_ms) {
        srv_traceparent_write(&e->context, trace);
        rt_bytes_addf(t->out, " # {trace_id=\"%.32s\",span_id=\"%.16s\"} %.9g %lld.%03d", trace + 3,
                      trace + 36, (double)e->value_ns / 1e9, (long long)(e->at_ms / 1000),
                      (int)(e->at_ms % 1000));
    }
    rt_bytes_addc(t->out, '\n');
}

void srv_text_histogram(const struct srv_text *t, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum, const struct srv_exemplar *exemplars)
{
    const char *comma = *labels ? "," : "";
    double bound = scale->first;
    uint64_t total = 0;

    for (int i = 0; i <= scale->n; i++) {
        char le[32] = "+Inf";
        total += srv_count_of(&n[i]);
        if (i < scale->n) {
            const int n_le = snprintf(le, sizeof le, "%g", bound * unit);
            /* OpenMetrics prints whole numbers as floating-point numbers. */
            if (t->format == SRV_TEXT_OPENMETRICS && !strpbrk(le, ".e"))
                snprintf(le + n_le, sizeof le - (size_t)n_le, ".0");
        }
        rt_bytes_addf(t->out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64, name, labels, comma, le, total);
        end_bucket(t, exemplars ? &exemplars[i] : NULL);
        bound *= scale->factor;
    }
    rt_bytes_addf(t->out, "%s_sum{%s} %.15g\n%s_count{%s} %" PRIu64 "\n", name, labels, sum * unit,
                  name, labels, total);
}
