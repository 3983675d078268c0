#include "server/telemetry/page_profile.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base/clock.h"

static double since(int64_t ns, int64_t first_ns)
{
    return (double)(ns - first_ns) / 1000;
}

static void write_request(struct rt_bytes *out, const struct srv_profiled *x, int64_t first_ns)
{
    rt_bytes_addf(out, "{\"entry\":\"%s\",\"api\":\"%s\",\"code\":\"%s\",\"rows\":%" PRId64,
                  x->entry, x->api, rt_status_name(x->code), x->rows);
    rt_bytes_adds(out, ",\"version\":\"");
    if (x->has_version)
        rt_bytes_addf(out, "%" PRId64, x->version);
    rt_bytes_addf(out, "\",\"begin_us\":%.1f,\"end_us\":%.1f,\"phases\":[",
                  since(x->times.begin_ns, first_ns), since(x->times.end_ns, first_ns));
    for (int k = 0; k < SRV_N_PHASES; k++) {
        const struct srv_trace_times *t = &x->phase[k];
        if (k)
            rt_bytes_addc(out, ',');
        if (t->end_ns)
            rt_bytes_addf(out, "[%.1f,%.1f]", since(t->begin_ns, first_ns),
                          since(t->end_ns, first_ns));
        else
            rt_bytes_adds(out, "null");
    }
    rt_bytes_adds(out, "]}");
}

enum rt_status srv_page_profile(struct srv_profile *p, struct rt_span model, struct rt_bytes *out,
                                struct rt_error *err)
{
    struct srv_profiled *of = calloc(SRV_PROFILE_MOST, sizeof *of);
    bool is_running;

    if (!of)
        return rt_fail_memory(err, "a profile", SRV_PROFILE_MOST * sizeof *of);
    const int n = srv_profile_copy(p, model, rt_now_ns(), of, &is_running);
    int64_t first_ns = INT64_MAX;
    for (int i = 0; i < n; i++)
        if (of[i].times.begin_ns < first_ns)
            first_ns = of[i].times.begin_ns;
    rt_bytes_addf(out, "{\"running\":%s,\"phases\":[", is_running ? "true" : "false");
    for (int k = 0; k < SRV_N_PHASES; k++)
        rt_bytes_addf(out, "%s\"%s\"", k ? "," : "", srv_trace_phase_name((enum srv_trace_phase)k));
    rt_bytes_adds(out, "],\"requests\":[");
    for (int i = 0; i < n; i++) {
        if (i)
            rt_bytes_addc(out, ',');
        write_request(out, &of[i], first_ns);
    }
    rt_bytes_adds(out, "]}\n");
    free(of);
    return RT_OK;
}
