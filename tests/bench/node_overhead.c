/*
 * Measures the runtime's own cost, which is the CPU time per node of a graph of 100 trivial nodes,
 * run node by node and compiled. The result is that of the fastest of several rounds, because other
 * programs may use the machine at the same time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"
#include "runtime/base/bytes.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { NODES = 100, RUNS = 5000, ROUNDS = 20 };

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static enum rt_status measure(const struct rt_registry *ops, const struct rt_bytes *g, int n_floats,
                              bool compiled, double *ns, struct rt_error *err)
{
    const char *feed = "x", *fetch = "v100";
    struct rt_session_options options = {.registry = ops,
                                         .tuning = {.no_fusion = true, .no_specialise = !compiled},
                                         .compiles_inline = compiled};
    struct rt_call_spec spec = {.feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *call;
    struct rt_tensor in = {0}, out;
    enum rt_status st = rt_library_import(&l, gd_span(g), ops, err);
    if (!st)
        st = rt_session_new(&s, l, &options, err);
    if (!st)
        st = rt_session_prepare(s, &spec, &call, err);
    if (!st)
        st = rt_tensor_new(&in, NULL, RT_F32, 1, (int64_t[]){n_floats}, err);
    for (int i = 0; !st && i < n_floats; i++)
        ((float *)in.data)[i] = (float)i;
    *ns = 1e18;
    for (int round = 0; !st && round < ROUNDS; round++) {
        double start = cpu_ns();
        for (int i = 0; !st && i < RUNS; i++) {
            st = rt_callable_run(call, &in, &out, NULL, err);
            if (!st)
                rt_tensor_clear(&out);
        }
        double each = (cpu_ns() - start) / RUNS / NODES;
        *ns = each < *ns ? each : *ns;
    }
    rt_tensor_clear(&in);
    rt_session_free(s);
    return st;
}

/* Measures a graph whose nodes all run `op`. If `extra` is not empty, it is the second input of
 * each node. */
static int bench(const struct rt_registry *ops, const char *op, const char *extra, int n_floats)
{
    struct rt_bytes g;
    char name[16], in[48];
    struct rt_error err = {0};
    double ns[2];
    rt_bytes_init(&g, 1 << 24);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "one", "Const", "", "dtype=float value=float<>:1");
    for (int i = 1; i <= NODES; i++) {
        snprintf(name, sizeof name, "v%d", i);
        snprintf(in, sizeof in, "%s%.0d %s", i > 1 ? "v" : "x", i - 1, extra);
        gd_node(&g, name, op, in, "T=float");
    }
    for (int compiled = 0; compiled < 2; compiled++)
        if (measure(ops, &g, n_floats, compiled, &ns[compiled], &err)) {
            fprintf(stderr, "%s: %s\n", op, rt_error_text(&err));
            return 1;
        }
    printf("%-8s %4d floats: %6.1f ns a node, compiled %6.1f ns\n", op, n_floats, ns[0], ns[1]);
    rt_bytes_clear(&g);
    return 0;
}

int main(void)
{
    struct rt_registry *ops = rt_registry_new();
    int failed = !ops || !kn_register(ops);
    printf("# %d nodes in a row, run again and again: the time of a run by nodes, node by node and "
           "compiled\n",
           NODES);
    for (int n = 1; n <= 64 && !failed; n *= 8)
        failed = bench(ops, "Neg", "", n) || bench(ops, "Relu", "", n) ||
                 bench(ops, "AddV2", "one", n) || bench(ops, "AddV2", "x", n);
    rt_registry_free(ops);
    return failed;
}
