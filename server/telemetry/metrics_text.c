#include "server/telemetry/metrics_text.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/base/siphash.h"

void srv_text_family(struct rt_bytes *out, const char *name, const char *type, const char *help)
{
    if (help)
        rt_bytes_addf(out, "# HELP %s %s\n", name, help);
    rt_bytes_addf(out, "# TYPE %s %s\n", name, type);
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

void srv_text_histogram(struct rt_bytes *out, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum)
{
    const char *comma = *labels ? "," : "";
    double bound = scale->first;
    uint64_t total = 0;

    for (int i = 0; i < scale->n; i++) {
        total += srv_count_of(&n[i]);
        rt_bytes_addf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                      bound * unit, total);
        bound *= scale->factor;
    }
    total += srv_count_of(&n[scale->n]);
    rt_bytes_addf(
        out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n%s_sum{%s} %.15g\n%s_count{%s} %" PRIu64 "\n",
        name, labels, comma, total, name, labels, sum * unit, name, labels, total);
}
