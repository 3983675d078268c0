/* Implements `slipway inspect --plan`: prints the compiled plan of a signature, node by node. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/api/describe.h"
#include "runtime/base/clock.h"
#include "runtime/base/print.h"
#include "server/base/precision.h"
#include "server/commands/command_run.h"

/* the first run records the input shapes, and the second uses their specialisation */
enum { RUNS = 2 };

struct plan_report {
    const struct srv_run *run;
    struct rt_described_plan plan;
    struct rt_session_stats stats;
};

static const char *where_name(enum rt_where w)
{
    switch (w) {
    case RT_WHERE_CONSTANT:
        return "constant";
    case RT_WHERE_FEED:
        return "feed";
    case RT_WHERE_ACTIVATION:
        return "activation";
    case RT_WHERE_IN_PLACE:
        return "in place";
    case RT_WHERE_OWN:
        return "own";
    case RT_WHERE_VIEW:
        return "view";
    case RT_WHERE_DEVICE:
        return "accelerator";
    case RT_WHERE_UNKNOWN:
        break;
    }
    return "pool";
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_values(const struct rt_described_value *v, int n, bool is_out)
{
    char buffer[256];
    for (int k = 0; k < n; k++) {
        rt_print(stdout, "%s%s", k ? ", " : "", rt_dtype_name(v[k].dtype));
        rt_print(stdout, "%s",
                 v[k].shape.rank < 0
                     ? "[?]"
                     : rt_shape_text(buffer, sizeof buffer, v[k].shape.rank, v[k].shape.dim));
        if (!is_out && v[k].from)
            rt_print(stdout, " %s", srv_run_short_name(v[k].from));
        if (!is_out)
            continue;
        rt_print(stdout, " %s", where_name(v[k].where));
        if (v[k].where == RT_WHERE_ACTIVATION || v[k].where == RT_WHERE_IN_PLACE)
            rt_print(stdout, " at %zu", v[k].offset);
    }
}

/* Prints the kernels in d->others that were not measured. */
static void print_others(const struct rt_described_node *d)
{
    const char *before = "; not ";
    for (const char *p = d->others; *p;) {
        const size_t n = strcspn(p, " ");
        bool plan_report = false;
        for (const char *q = d->why; q && (q = strstr(q, " ")) && !plan_report;)
            plan_report = strncmp(++q, p, n) == 0 && q[n] == ' ';
        if (!plan_report)
            rt_print(stdout, "%s%.*s", before, (int)n, p);
        before = plan_report ? before : " ";
        p += n + (p[n] == ' ');
    }
}

static void print_flops(double flops)
{
    if (flops >= 1e8)
        rt_print(stdout, "; %.3f GFLOP", flops / 1e9);
    else if (flops >= 1e5)
        rt_print(stdout, "; %.3f MFLOP", flops / 1e6);
    else if (flops > 0)
        rt_print(stdout, "; %.0f FLOP", flops);
}

static void print_node(const struct rt_described_node *d)
{
    const int indent = 2 + 2 * d->depth;
    rt_print(stdout, "%*s%s%s%s%s  %s\n", indent, "", d->op, *d->fused ? " [" : "", d->fused,
             *d->fused ? "]" : "", srv_run_short_name(d->name));
    if (d->kernel) {
        rt_print(stdout, "%*skernel %s", indent + 4, "", d->kernel);
        if (d->why)
            rt_print(stdout, ", %s", d->why);
        print_others(d);
        if (d->packed_bytes)
            rt_print(stdout, "; packed %zu bytes from %zu", d->packed_bytes, d->plain_bytes);
        if (d->scratch_bytes)
            rt_print(stdout, "; scratch %zu bytes", d->scratch_bytes);
        print_flops(d->flops);
        rt_print(stdout, "\n");
    }
    if (d->why_on_cpu)
        rt_print(stdout, "%*son the processor: %s\n", indent + 4, "", d->why_on_cpu);
    if (d->n_in) {
        rt_print(stdout, "%*sfrom ", indent + 4, "");
        print_values(d->in, d->n_in, false);
        rt_print(stdout, "\n");
    }
    if (d->n_out) {
        rt_print(stdout, "%*sto   ", indent + 4, "");
        print_values(d->out, d->n_out, true);
        rt_print(stdout, "%s\n", d->segment < 0 ? " (not compiled)" : "");
    }
}

/* Numbers of nodes of a plan. Each node is counted in exactly one member. */
struct counts {
    int steps, inputs, constants, views, rest;
};

static struct counts count(const struct plan_report *t)
{
    struct counts c = {0};
    for (int i = 0; i < t->plan.n_nodes; i++) {
        const struct rt_described_node *d = &t->plan.node[i];
        const enum rt_where where = d->n_out ? d->out[0].where : RT_WHERE_UNKNOWN;
        if (d->is_step)
            c.steps++;
        /* if d->depth is greater than 0, a feed is an input of a branch or loop, not of the plan */
        else if (where == RT_WHERE_FEED && d->depth == 0)
            c.inputs++;
        else if (where == RT_WHERE_CONSTANT)
            c.constants++;
        else if (where == RT_WHERE_VIEW)
            c.views++;
        else
            c.rest++;
    }
    return c;
}

/* The part of the plan that runs on the accelerator. */
struct accelerated {
    int steps;
    double flops, all_flops;
};

static struct accelerated count_accelerated(const struct plan_report *t)
{
    struct accelerated a = {0};
    for (int i = 0; i < t->plan.n_nodes; i++) {
        const struct rt_described_node *d = &t->plan.node[i];
        if (!d->is_step)
            continue;
        a.all_flops += d->flops;
        a.steps += d->on_accelerator;
        a.flops += d->on_accelerator ? d->flops : 0;
    }
    return a;
}

/* Returns the accelerator of the plan, or NULL if the plan is for the CPU. */
static const struct rt_device *device_of(const struct plan_report *t)
{
    const struct rt_session_accelerators *all = rt_model_accelerators(t->run->model);
    return all->n ? all->device[0] : NULL;
}

/* Returns the precision of the products of the plan's device. */
static const char *precision_of(const struct plan_report *t)
{
    if (device_of(t))
        return srv_gpu_precision(t->run->tuning.full_precision);
    return srv_cpu_precision(t->run->tuning.bf16);
}

static void print_accelerated(const struct plan_report *t, int steps)
{
    const struct accelerated a = count_accelerated(t);
    rt_print(stdout, "  %d of %d step%s on the GPU, with %.1f %% of the FLOP; GPU precision %s\n",
             a.steps, steps, plural(steps), a.all_flops > 0 ? 100 * a.flops / a.all_flops : 0,
             precision_of(t));
}

static void print_text(const struct plan_report *t)
{
    const struct counts c = count(t);
    rt_print(stdout, "plan of %s, %s\n", t->run->dir, t->run->s->def->name);
    for (int i = 0; i < t->run->s->def->n_inputs; i++) {
        const struct rt_tensor *f = &t->run->feeds[i];
        char buffer[256];
        rt_print(stdout, "  input %s: %s%s\n", t->run->s->def->inputs[i].alias,
                 rt_dtype_name((enum rt_dtype)f->dtype),
                 rt_shape_text(buffer, sizeof buffer, f->rank, f->dim));
    }
    rt_print(stdout,
             "  %d node%s: %d that run%s, %d input%s, %d constant%s (%zu bytes, %lld packed), %d "
             "view%s, "
             "%d known from the shapes or with nothing to do\n",
             t->plan.n_nodes, plural(t->plan.n_nodes), c.steps, c.steps == 1 ? "s" : "", c.inputs,
             plural(c.inputs), c.constants, plural(c.constants), t->plan.constant_bytes,
             (long long)t->stats.packed_bytes, c.views, plural(c.views), c.rest);
    if (t->plan.n_segments)
        rt_print(stdout, "  %d compiled segment%s, the largest activation buffer %zu bytes\n",
                 t->plan.n_segments, plural(t->plan.n_segments), t->plan.activation_bytes);
    else
        rt_print(stdout, "  nothing is compiled\n");
    if (t->run->gpu)
        print_accelerated(t, c.steps);
    rt_print(stdout,
             "  FLOP: of a run at the shapes beside them; ms: of a benchmark, at the shape it "
             "names\n\n");
    for (int i = 0; i < t->plan.n_nodes; i++)
        if (t->plan.node[i].is_step)
            print_node(&t->plan.node[i]);
}

/* ---- as JSON ---- */

static json_t *json_values(const struct rt_described_value *v, int n, bool is_out)
{
    json_t *a = json_array();
    for (int k = 0; k < n; k++) {
        json_t *shape = v[k].shape.rank < 0 ? json_null() : json_array();
        for (int d = 0; d < v[k].shape.rank; d++)
            json_array_append_new(shape, json_integer(v[k].shape.dim[d]));
        json_t *o = json_pack("{s:s, s:o, s:s?, s:s}", "dtype", rt_dtype_name(v[k].dtype), "shape",
                              shape, "from", v[k].from, "where", where_name(v[k].where));
        if (is_out && (v[k].where == RT_WHERE_ACTIVATION || v[k].where == RT_WHERE_IN_PLACE))
            json_object_set_new(o, "offset", json_integer((json_int_t)v[k].offset));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *json_node(const struct rt_described_node *d)
{
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:b, s:b, s:s?, s:s?, s:s?, s:s, s:o, s:o, s:I, s:I, s:I, s:f}",
        "name", d->name, "op", d->op, "fused", d->fused, "depth", d->depth, "segment", d->segment,
        "runs", d->is_step, "on_gpu", d->on_accelerator, "why_on_cpu", d->why_on_cpu, "kernel",
        d->kernel, "why", d->why, "others", d->others, "inputs", json_values(d->in, d->n_in, false),
        "outputs", json_values(d->out, d->n_out, true), "plain_bytes", (json_int_t)d->plain_bytes,
        "packed_bytes", (json_int_t)d->packed_bytes, "scratch_bytes", (json_int_t)d->scratch_bytes,
        "flops", d->flops);
}

static json_t *json_device(const struct plan_report *t)
{
    const struct rt_device *d = device_of(t);
    char name[32] = "CPU";
    if (d)
        snprintf(name, sizeof name, "%s:%d", d->type, d->index);
    return json_pack("{s:s, s:s?, s:s?}", "name", name, "model", d ? d->model : NULL, "uuid",
                     d ? d->uuid : NULL);
}

static enum rt_status print_json(const struct plan_report *t, struct rt_error *err)
{
    const struct accelerated a = count_accelerated(t);
    json_t *nodes = json_array();
    for (int i = 0; i < t->plan.n_nodes; i++)
        json_array_append_new(nodes, json_node(&t->plan.node[i]));
    json_t *o = json_pack(
        "{s:s, s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:i, s:I, s:I, s:I, s:o}", "dir", t->run->dir,
        "signature", t->run->s->def->name, "device", json_device(t), "precision", precision_of(t),
        "steps", count(t).steps, "gpu_steps", a.steps, "flops", a.all_flops, "gpu_flops", a.flops,
        "segments", t->plan.n_segments, "activation_bytes", (json_int_t)t->plan.activation_bytes,
        "constant_bytes", (json_int_t)t->plan.constant_bytes, "packed_bytes",
        (json_int_t)t->stats.packed_bytes, "nodes", nodes);
    if (!o)
        return rt_fail_memory(err, "the plan as JSON", 0);
    json_dumpf(o, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(o);
    return RT_OK;
}

/* Sets the types and shapes of the report's inputs to those that t->run passed, because the plan
 * leaves them unknown. */
static void name_feeds(struct plan_report *t)
{
    for (int i = 0; i < t->plan.n_nodes; i++) {
        const struct rt_described_node *d = &t->plan.node[i];
        for (int k = 0; k < d->n_in + d->n_out && !d->depth; k++) {
            struct rt_described_value *v = k < d->n_in ? &d->in[k] : &d->out[k - d->n_in];
            if (v->where != RT_WHERE_FEED || v->shape.rank >= 0 ||
                v->feed >= t->run->s->def->n_inputs)
                continue;
            const struct rt_tensor *f = &t->run->feeds[v->feed];
            v->dtype = (enum rt_dtype)f->dtype;
            v->shape.rank = f->rank;
            for (int a = 0; a < f->rank; a++)
                v->shape.dim[a] = f->dim[a];
        }
    }
}

enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err)
{
    struct plan_report t = {.run = r};
    const int n_out = r->s->def->n_outputs;
    struct rt_tensor *fetches = rt_arena_array(r->arena, (size_t)n_out + 1, sizeof *fetches);
    enum rt_status st = fetches ? RT_OK : rt_fail_memory(err, "fetches", 0);
    for (int i = 0; i < RUNS && !st; i++) {
        st = srv_run_call(r, r->s->call, fetches, NULL, rt_now_ns(), err);
        for (int k = 0; k < n_out; k++)
            rt_tensor_clear(&fetches[k]);
    }
    const bool is_cut_off = st == RT_DEADLINE_EXCEEDED;
    if (is_cut_off)
        rt_fail_prefix(err, "the plan shows what was known when it was cut off: ");
    struct rt_error *why = is_cut_off ? &(struct rt_error){0} : err; /* *err is already set */
    if (!st || is_cut_off)
        st = rt_callable_describe(r->s->call, r->arena, &t.plan, why);
    if (st)
        return is_cut_off ? RT_DEADLINE_EXCEEDED : st;
    name_feeds(&t);
    rt_session_stats(r->model->session, &t.stats);
    if (r->json)
        st = print_json(&t, why);
    else
        print_text(&t);
    return is_cut_off ? RT_DEADLINE_EXCEEDED : st;
}
