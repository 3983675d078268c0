#include "server/telemetry/page_plan.h"

#include <string.h>

#include "runtime/api/describe.h"
#include "server/inference/inference.h"
#include "server/json/json.h"
#include "server/tracing/profile.h"

enum {
    MAX_ARENA = 256 << 20, /* the description of a plan, while it is written */
    MAX_INPUTS = 16,       /* inputs of a node that are written */
};

static void write_text(struct rt_bytes *out, const char *key, const char *text)
{
    rt_bytes_addf(out, ",\"%s\":", key);
    srv_json_quote(out, text, strlen(text));
}

static void write_type(struct rt_bytes *out, const struct rt_described_value *v)
{
    char shape[256], text[320];

    snprintf(text, sizeof text, "%s%s", rt_dtype_name(v->dtype),
             v->shape.rank < 0 ? "[?]"
                               : rt_shape_text(shape, sizeof shape, v->shape.rank, v->shape.dim));
    srv_json_quote(out, text, strlen(text));
}

/* Writes the inputs as pairs of the producer, which is "" for a constant, and the type. */
static void write_inputs(struct rt_bytes *out, const struct rt_described_node *d)
{
    const int n = d->n_in < MAX_INPUTS ? d->n_in : MAX_INPUTS;

    rt_bytes_adds(out, ",\"in\":[");
    for (int k = 0; k < n; k++) {
        const char *from = d->in[k].where == RT_WHERE_CONSTANT ? "" : d->in[k].from;
        rt_bytes_adds(out, k ? ",[" : "[");
        srv_json_quote(out, from, strlen(from));
        rt_bytes_addc(out, ',');
        write_type(out, &d->in[k]);
        rt_bytes_addc(out, ']');
    }
    rt_bytes_addf(out, "],\"inputs_left_off\":%d", d->n_in - n);
}

static void write_outputs(struct rt_bytes *out, const struct rt_described_node *d)
{
    const int n = d->n_out < MAX_INPUTS ? d->n_out : MAX_INPUTS;

    rt_bytes_adds(out, ",\"out\":[");
    for (int k = 0; k < n; k++) {
        if (k)
            rt_bytes_addc(out, ',');
        write_type(out, &d->out[k]);
    }
    rt_bytes_addc(out, ']');
}

/* The measured times of the nodes of a plan. */
struct times {
    int n_runs; /* 0 if there are no times */
    int64_t all_ns;
    int64_t *ns; /* for each node of the plan, the sum over the runs */
};

static double mean_us(int64_t ns, int n_runs)
{
    return (double)ns / n_runs / 1000;
}

static void write_node(struct rt_bytes *out, const struct rt_described_node *d)
{
    rt_bytes_adds(out, "{\"name\":");
    srv_json_quote(out, d->name, strlen(d->name));
    write_text(out, "op", d->op);
    write_text(out, "fused", d->fused);
    if (d->kernel)
        write_text(out, "kernel", d->kernel);
    if (d->why)
        write_text(out, "why", d->why);
    rt_bytes_addf(out,
                  ",\"depth\":%d,\"segment\":%d,\"runs\":%s,\"on_gpu\":%s,\"flops\":%.0f,"
                  "\"packed_bytes\":%zu,\"scratch_bytes\":%zu",
                  d->depth, d->segment, d->is_step ? "true" : "false",
                  d->on_accelerator ? "true" : "false", d->flops, d->packed_bytes,
                  d->scratch_bytes);
    write_inputs(out, d);
    write_outputs(out, d);
}

static bool is_constant(const struct rt_described_node *d)
{
    return !d->is_step && d->n_out && d->out[0].where == RT_WHERE_CONSTANT;
}

static void write_plan(struct rt_bytes *out, const struct rt_described_plan *plan,
                       const struct times *times)
{
    int n = 0, left_off = 0;

    rt_bytes_adds(out, ",\"nodes\":[");
    for (int i = 0; i < plan->n_nodes && !out->failed; i++) {
        if (is_constant(&plan->node[i]))
            continue;
        if (n == SRV_PAGE_MAX_NODES) {
            left_off++;
            continue;
        }
        if (n++)
            rt_bytes_addc(out, ',');
        write_node(out, &plan->node[i]);
        if (times->n_runs && times->ns[i])
            rt_bytes_addf(out, ",\"us\":%.3f", mean_us(times->ns[i], times->n_runs));
        rt_bytes_addc(out, '}');
    }
    rt_bytes_addf(out,
                  "],\"left_off\":%d,\"segments\":%d,\"activation_bytes\":%zu,"
                  "\"profiled_runs\":%d",
                  left_off, plan->n_segments, plan->activation_bytes, times->n_runs);
    if (times->n_runs)
        rt_bytes_addf(out, ",\"profiled_us\":%.3f", mean_us(times->all_ns, times->n_runs));
    rt_bytes_adds(out, "}\n");
}

/* Reads the times of the plan's nodes from the last profile. */
static enum rt_status read_times(const struct srv_version *version, const char *signature,
                                 struct srv_profile *profile, const struct rt_described_plan *plan,
                                 struct rt_arena *arena, struct times *out, struct rt_error *err)
{
    const char **names = rt_arena_array(arena, (size_t)plan->n_nodes + 1, sizeof *names);

    out->ns = rt_arena_array(arena, (size_t)plan->n_nodes + 1, sizeof *out->ns);
    if (!names || !out->ns)
        return rt_fail_memory(err, "the description of a plan", 0);
    for (int i = 0; i < plan->n_nodes; i++)
        names[i] = plan->node[i].name;
    out->n_runs = srv_profile_node_times(profile, version, signature, plan->n_nodes, names, out->ns,
                                         &out->all_ns);
    return RT_OK;
}

static enum rt_status describe(const struct srv_version *version, struct rt_span name,
                               struct srv_profile *profile, struct rt_arena *arena,
                               struct rt_bytes *out, struct rt_error *err)
{
    const struct rt_model_signature *s = NULL;
    struct rt_described_plan plan;
    struct times times = {0};
    enum rt_status st = srv_find_signature(version->loaded, name, arena, &s, RT_NOT_FOUND,
                                           "the model has no signature %s", err);

    if (!st)
        st = rt_callable_describe(s->call, arena, &plan, err);
    if (!st)
        st = read_times(version, s->def->name, profile, &plan, arena, &times, err);
    if (st)
        return st;
    rt_bytes_addf(out, "{\"version\":\"%lld\"", (long long)version->version);
    write_plan(out, &plan, &times);
    return RT_OK;
}

enum rt_status srv_page_plan(const struct srv_version *version, struct rt_span signature,
                             struct srv_profile *profile, struct rt_bytes *out,
                             struct rt_error *err)
{
    struct rt_arena *arena = rt_arena_new(MAX_ARENA);
    const enum rt_status st = arena ? describe(version, signature, profile, arena, out, err)
                                    : rt_fail_memory(err, "the description of a plan", 0);

    rt_arena_free(arena);
    return st;
}
