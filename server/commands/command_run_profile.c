/*
 * Implements `slipway run --profile`: prints how a run's time is divided among its nodes and ops.
 * Runs are traced one after another. The times of the nodes and the total are means over the faster
 * half of the traced runs. Therefore the times of the nodes and the time between nodes add up to
 * the total.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/map.h"
#include "runtime/api/describe.h"
#include "runtime/base/print.h"
#include "server/commands/command_run.h"
#include "server/tracing/own_times.h"

enum { WARM_RUNS = 3, MAX_SHOWN = 40 };
#define MAX_TRACE_BYTES ((size_t)1 << 30)

/* A row of a table: a node, or all nodes with the same op and the same fused ops. */
struct row {
    /* `name`, `kernel` and `shapes` are NULL in the row of an op */
    const char *name, *op, *fused, *kernel, *shapes;
    /* time of a node in each run in nanoseconds, excluding the nodes that it calls */
    int64_t *ns;
    struct row *sum; /* in the row of a node, the row of the node's op */
    int64_t calls;   /* number of calls of the node, or of all nodes of the op, in the last run */
    double flops, bytes; /* numbers of FLOPs and accessed bytes in the counted calls */
    double mean_ns;      /* mean time in nanoseconds over the faster half of the traced runs */
};

struct table {
    struct rt_map map;
    struct row **row;
    size_t n, capacity;
};

struct profile {
    const struct srv_run *run;
    struct rt_arena *arena;
    int n_runs;
    /* durations of the runs with tracing, and of the runs without tracing */
    int64_t *run_ns, *plain_ns;
    bool *chosen; /* whether traced run i is in the faster half of the traced runs */
    double mean_ns, plain_mean_ns, node_ns;
    /* size of the largest activation buffer of a segment, and of the largest scratch memory of a
     * node */
    size_t activation_bytes, scratch_bytes;
    struct table nodes, ops;
    struct rt_arena *trace_arena;
    struct rt_trace trace;
    int64_t origin_ns; /* start time of the first node in the last run */
    json_t *events;    /* trace events of the last run, or NULL if no trace was requested */
};

/* ---- collecting ---- */

static struct row *row_of(struct profile *p, struct table *t, const char *key)
{
    struct row *r = rt_map_get(&t->map, key);
    if (r)
        return r;
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : 256;
        struct row **more = rt_arena_array(p->arena, capacity, sizeof *more);
        if (!more)
            return NULL;
        if (t->n)
            memcpy(more, t->row, t->n * sizeof *more);
        t->row = more;
        t->capacity = capacity;
    }
    r = rt_arena_alloc(p->arena, sizeof *r);
    if (!r || !(r->ns = rt_arena_array(p->arena, (size_t)p->n_runs, sizeof *r->ns)) ||
        !rt_map_put(&t->map, key, r))
        return NULL;
    return t->row[t->n++] = r;
}

static void add_shapes(struct rt_bytes *to, const struct rt_trace_output *x, int n)
{
    char buffer[256];
    for (int k = 0; k < n; k++) {
        if (k)
            rt_bytes_addc(to, ' ');
        rt_bytes_addf(to, "%s%s", rt_dtype_name(x[k].dtype),
                      rt_shape_text(buffer, sizeof buffer, x[k].shape.rank, x[k].shape.dim));
    }
}

static const char *shapes_text(struct profile *p, const struct rt_trace_node *n)
{
    struct rt_bytes text;
    rt_bytes_init(&text, 4096);
    add_shapes(&text, n->inputs, n->n_inputs);
    rt_bytes_adds(&text, " -> ");
    add_shapes(&text, n->outputs, n->n_outputs);
    const char *out = rt_arena_strndup(p->arena, text.p ? text.p : "", text.n);
    rt_bytes_clear(&text);
    return out;
}

static void add_to(struct row *r, double flops, double bytes)
{
    r->calls++;
    r->flops += flops;
    r->bytes += bytes;
}

static void forget_amounts(struct row *r)
{
    r->calls = 0;
    r->flops = r->bytes = 0;
}

static bool add_node(struct profile *p, int run, const struct rt_trace_node *n, int64_t ns)
{
    struct row *r = row_of(p, &p->nodes, n->name), *o;
    if (!r)
        return false;
    if (!r->op) {
        r->name = rt_arena_strdup(p->arena, n->name);
        r->op = n->op;
        r->fused = rt_node_fused(n->node, p->arena);
        r->shapes = shapes_text(p, n);
    }
    r->kernel = n->kernel ? n->kernel : "";
    if (!r->name || !r->fused || !r->shapes)
        return false;
    char *key = rt_arena_printf(p->trace_arena, "%s %s", r->op, r->fused);
    if (!key || !(o = row_of(p, &p->ops, key)))
        return false;
    o->op = r->op;
    o->fused = r->fused;
    const double flops = rt_node_flops(n->node, n->inputs, n->n_inputs, n->outputs, n->n_outputs);
    const double bytes = rt_node_bytes(n->node, n->inputs, n->n_inputs, n->outputs, n->n_outputs);
    r->ns[run] += ns;
    r->sum = o;
    add_to(r, flops, bytes);
    add_to(o, flops, bytes);
    if (p->events && run == p->n_runs - 1)
        return !json_array_append_new(
            p->events, json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:{s:s, s:s, s:s, s:s, s:f, "
                                 "s:f}}",
                                 "name", r->name, "cat", r->op, "ph", "X", "ts",
                                 (double)(n->start_ns - p->origin_ns) / 1e3, "dur",
                                 (double)(n->end_ns - n->start_ns) / 1e3, "pid", 1, "tid", 1,
                                 "args", "op", r->op, "fused", r->fused, "kernel", r->kernel,
                                 "shapes", shapes_text(p, n), "flops", flops, "bytes", bytes));
    return true;
}

struct adding {
    struct profile *profile;
    int run;
};

static bool add_own_time(void *arg, const struct rt_trace_node *n, int64_t own_ns)
{
    const struct adding *a = arg;

    return add_node(a->profile, a->run, n, own_ns);
}

/* Adds a traced run to the table. */
static enum rt_status add_run(struct profile *p, int run, struct rt_error *err)
{
    struct adding a = {p, run};
    for (size_t i = 0; i < p->nodes.n; i++)
        forget_amounts(p->nodes.row[i]);
    for (size_t i = 0; i < p->ops.n; i++)
        forget_amounts(p->ops.row[i]);
    p->origin_ns = INT64_MAX;
    for (const struct rt_trace_node *n = p->trace.first; n; n = n->next)
        if (n->start_ns < p->origin_ns)
            p->origin_ns = n->start_ns;
    return srv_own_times(&p->trace, add_own_time, &a) ? RT_OK
                                                      : rt_fail_memory(err, "the profile", 0);
}

static int64_t now_ns(const struct srv_run *r)
{
    const struct rt_trace clock = {.wants_cpu = r->cpu_clock};
    return rt_trace_now(&clock);
}

static enum rt_status run_once(struct profile *p, struct rt_trace *trace, int64_t *ns,
                               struct rt_error *err)
{
    const struct srv_run *r = p->run;
    const int n_out = r->s->def->n_outputs;
    struct rt_tensor *fetches = calloc((size_t)n_out + 1, sizeof *fetches);
    if (!fetches)
        return rt_fail_memory(err, "fetches", 0);
    const int64_t start = now_ns(r);
    enum rt_status st = srv_run_call(r, r->s->call, fetches, trace, rt_now_ns(), err);
    *ns = now_ns(r) - start;
    for (int k = 0; k < n_out; k++)
        rt_tensor_clear(&fetches[k]);
    free(fetches);
    return st;
}

static enum rt_status collect(struct profile *p, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    int64_t ns;
    for (int i = 0; i < WARM_RUNS && !st; i++)
        st = run_once(p, NULL, &ns, err);
    for (int i = 0; i < p->n_runs && !st; i++) {
        rt_arena_reset(p->trace_arena);
        p->trace = (struct rt_trace){.arena = p->trace_arena,
                                     .wants_times = true,
                                     .wants_kernels = true,
                                     .wants_cpu = p->run->cpu_clock};
        st = run_once(p, NULL, &p->plain_ns[i], err);
        if (!st)
            st = run_once(p, &p->trace, &p->run_ns[i], err);
        if (!st)
            st = add_run(p, i, err);
    }
    return st;
}

static enum rt_status find_memory(struct profile *p, struct rt_error *err)
{
    struct rt_described_plan plan;
    const enum rt_status st = rt_callable_describe(p->run->s->call, p->arena, &plan, err);
    if (st)
        return st;
    p->activation_bytes = plan.activation_bytes;
    for (int i = 0; i < plan.n_nodes; i++)
        if (plan.node[i].scratch_bytes > p->scratch_bytes)
            p->scratch_bytes = plan.node[i].scratch_bytes;
    return RT_OK;
}

/* ---- means ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    return x->mean_ns > y->mean_ns ? -1 : x->mean_ns < y->mean_ns;
}

static int n_chosen(const struct profile *p)
{
    return (p->n_runs + 1) / 2;
}

/* Sorts the run times `ns`, and returns the mean of the faster half. */
static double mean_of_faster(const struct profile *p, int64_t *ns)
{
    double sum = 0;
    qsort(ns, (size_t)p->n_runs, sizeof *ns, by_size);
    for (int i = 0; i < n_chosen(p); i++)
        sum += (double)ns[i];
    return sum / n_chosen(p);
}

static double mean_of_chosen(const struct profile *p, const int64_t *ns)
{
    double sum = 0;
    for (int i = 0; i < p->n_runs; i++)
        sum += p->chosen[i] ? (double)ns[i] : 0;
    return sum / n_chosen(p);
}

static void choose(struct profile *p)
{
    for (int n = 0; n < n_chosen(p); n++) {
        int best = -1;
        for (int i = 0; i < p->n_runs; i++)
            if (!p->chosen[i] && (best < 0 || p->run_ns[i] < p->run_ns[best]))
                best = i;
        p->chosen[best] = true;
    }
}

static void average(struct profile *p)
{
    choose(p);
    p->mean_ns = mean_of_chosen(p, p->run_ns);
    p->plain_mean_ns = mean_of_faster(p, p->plain_ns);
    for (size_t i = 0; i < p->nodes.n; i++) {
        struct row *r = p->nodes.row[i];
        r->mean_ns = mean_of_chosen(p, r->ns);
        r->sum->mean_ns += r->mean_ns;
        p->node_ns += r->mean_ns;
    }
    if (p->nodes.n) {
        qsort(p->nodes.row, p->nodes.n, sizeof(*p->nodes.row), by_time);
        qsort(p->ops.row, p->ops.n, sizeof(*p->ops.row), by_time);
    }
}

/* ---- as text ---- */

const char *srv_run_short_name(const char *name)
{
    static const char call[] = "PartitionedCall";
    for (;;) {
        const char *p = strncmp(name, "Stateful", 8) == 0 ? name + 8 : name;
        if (strncmp(p, call, sizeof call - 1) != 0)
            return name;
        p += sizeof call - 1;
        p += strspn(p, "_0123456789");
        if (*p != '/')
            return name;
        name = p + 1;
    }
}

static void print_rate(double amount, double ns)
{
    if (amount > 0 && ns > 0)
        rt_print(stdout, " %9.1f", amount / ns);
    else
        rt_print(stdout, " %9s", "-");
}

static void print_row(const struct profile *p, const struct row *r)
{
    rt_print(stdout, "%10.4f %5.1f%% %6lld", r->mean_ns / 1e6, 100 * r->mean_ns / p->node_ns,
             (long long)r->calls);
    print_rate(r->flops, r->mean_ns);
    print_rate(r->bytes, r->mean_ns);
    rt_print(stdout, "  %s%s%s%s", r->op, *r->fused ? " [" : "", r->fused, *r->fused ? "]" : "");
    if (r->name)
        rt_print(stdout, "  %s  %s  %s", r->kernel, srv_run_short_name(r->name), r->shapes);
    rt_print(stdout, "\n");
}

static void print_table(const struct profile *p, const struct table *t, size_t most,
                        const char *what)
{
    double rest = 0;
    rt_print(stdout, "\n%10s %6s %6s %9s %9s  %s\n", "ms", "share", "calls", "GFLOP/s", "GB/s",
             what);
    for (size_t i = 0; i < t->n; i++)
        if (i < most)
            print_row(p, t->row[i]);
        else
            rest += t->row[i]->mean_ns;
    if (t->n > most)
        rt_print(stdout, "%10.4f %5.1f%%         of %zu others (--json: all)\n", rest / 1e6,
                 100 * rest / p->node_ns, t->n - most);
}

static double total_flops(const struct profile *p)
{
    double flops = 0;
    for (size_t i = 0; i < p->ops.n; i++)
        flops += p->ops.row[i]->flops;
    return flops;
}

static void print_text(const struct profile *p, const struct rt_session_stats *stats)
{
    const double flops = total_flops(p);
    rt_print(stdout, "%s, %s: %.4f ms a run: %.4f in %zu node%s, %.4f between them\n", p->run->dir,
             p->run->s->def->name, p->mean_ns / 1e6, p->node_ns / 1e6, p->nodes.n,
             p->nodes.n == 1 ? "" : "s", (p->mean_ns - p->node_ns) / 1e6);
    rt_print(
        stdout,
        "all times are means over the same %d of %d runs, the fastest, %s clock, with the profile "
        "on; off: %.4f ms a run\n",
        n_chosen(p), p->n_runs, p->run->cpu_clock ? "the calling thread's processor" : "wall",
        p->plain_mean_ns / 1e6);
    rt_print(stdout, "share: of the time in nodes; GFLOP/s and GB/s: per second in them\n");
    rt_print(
        stdout,
        "%.4f GFLOP a run, %.1f GFLOP/s; %.1f MB of packed constants, activation buffers of at "
        "most %.1f kB, "
        "scratch of at most %.1f kB\n",
        flops / 1e9, p->node_ns > 0 ? flops / p->node_ns : 0, (double)stats->packed_bytes / 1e6,
        (double)p->activation_bytes / 1e3, (double)p->scratch_bytes / 1e3);
    if (p->trace.is_truncated)
        rt_print(stdout, "only the first %d nodes of a run were looked at\n", p->trace.n_nodes);
    print_table(p, &p->ops, SIZE_MAX, "op [with what was fused into it]");
    print_table(p, &p->nodes, MAX_SHOWN, "op  kernel  node  shapes");
}

/* ---- as JSON ---- */

static json_t *json_rows(const struct profile *p, const struct table *t)
{
    json_t *a = json_array();
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = t->row[i];
        json_t *o = json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "op", r->op, "fused", r->fused,
                              "calls", (json_int_t)r->calls, "ms", r->mean_ns / 1e6, "share",
                              r->mean_ns / p->node_ns, "flops", r->flops, "bytes", r->bytes);
        if (o && r->name) {
            json_object_set_new(o, "name", json_string(r->name));
            json_object_set_new(o, "kernel", json_string(r->kernel));
            json_object_set_new(o, "shapes", json_string(r->shapes));
        }
        json_array_append_new(a, o);
    }
    return a;
}

static enum rt_status print_json(const struct profile *p, const struct rt_session_stats *stats,
                                 struct rt_error *err)
{
    json_t *o = json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:b, s:o, s:o}",
                          "runs", p->n_runs, "chosen_runs", n_chosen(p), "run_ms", p->mean_ns / 1e6,
                          "nodes_ms", p->node_ns / 1e6, "between_ms",
                          (p->mean_ns - p->node_ns) / 1e6, "unprofiled_ms", p->plain_mean_ns / 1e6,
                          "flops", total_flops(p), "packed_bytes", (json_int_t)stats->packed_bytes,
                          "activation_bytes", (json_int_t)p->activation_bytes, "scratch_bytes",
                          (json_int_t)p->scratch_bytes, "is_cut", p->trace.is_truncated, "ops",
                          json_rows(p, &p->ops), "nodes", json_rows(p, &p->nodes));
    if (!o)
        return rt_fail_memory(err, "the profile", 0);
    json_dumpf(o, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(o);
    return RT_OK;
}

/* Writes the last run in the Chrome trace format, as read by chrome://tracing and Perfetto. */
static enum rt_status write_trace(const struct profile *p, struct rt_error *err)
{
    const char *path = p->run->profile_trace;
    json_t *o = json_pack("{s:s, s:O}", "displayTimeUnit", "ns", "traceEvents", p->events);
    FILE *f = o ? fopen(path, "w") : NULL;
    bool ok = f && json_dumpf(o, f, JSON_COMPACT) == 0;
    const int error = errno;
    ok = (!f || fclose(f) == 0) && ok;
    json_decref(o);
    return ok ? RT_OK : rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(error));
}

enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err)
{
    struct profile p = {.run = r,
                        .n_runs = (int)r->n_runs,
                        .arena = rt_arena_new(SIZE_MAX),
                        .trace_arena = rt_arena_new(MAX_TRACE_BYTES)};
    enum rt_status st = p.arena && p.trace_arena ? RT_OK : rt_fail_memory(err, "the profile", 0);
    rt_map_init(&p.nodes.map);
    rt_map_init(&p.ops.map);
    if (!st) {
        p.run_ns = rt_arena_array(p.arena, (size_t)p.n_runs, sizeof *p.run_ns);
        p.plain_ns = rt_arena_array(p.arena, (size_t)p.n_runs, sizeof *p.plain_ns);
        p.events = r->profile_trace ? json_array() : NULL;
        p.chosen = rt_arena_array(p.arena, (size_t)p.n_runs, sizeof *p.chosen);
        if (!p.run_ns || !p.plain_ns || !p.chosen || (r->profile_trace && !p.events))
            st = rt_fail_memory(err, "the profile", 0);
    }
    if (!st)
        st = collect(&p, err);
    if (!st)
        st = find_memory(&p, err);
    /* The trace is written before the report, because the reader of the report may close the pipe
     * early. */
    if (!st && p.events)
        st = write_trace(&p, err);
    if (!st) {
        average(&p);
        struct rt_session_stats stats;
        rt_session_stats(r->model->session, &stats);
        if (r->json)
            st = print_json(&p, &stats, err);
        else
            print_text(&p, &stats);
    }
    json_decref(p.events);
    rt_map_clear(&p.nodes.map);
    rt_map_clear(&p.ops.map);
    rt_arena_free(p.trace_arena);
    rt_arena_free(p.arena);
    return st;
}
