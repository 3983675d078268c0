/* Reads arbitrary bytes as a GraphDef, makes a plan that fetches the last few nodes, and runs the
 * plan within a deadline. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"
#include "tests/fuzz/cost.h"

enum { MAX_FETCHES = 6 };

static void run_all(struct rt_session *s, const struct rt_graph *g)
{
    struct rt_error err = {0};
    const char *feed = NULL;
    float v[4] = {1, 2, 3, 4};
    struct rt_tensor in = {.dtype = RT_F32, .rank = 1, .dim = {4}, .data = v};
    for (int i = 0; i < g->n_nodes && !feed; i++)
        if (strcmp(g->node[i].schema->name, "Placeholder") == 0 &&
            g->node[i].out_dtype[0] == RT_F32)
            feed = g->node[i].name;
    for (int i = g->n_nodes - 1, n = 0; i >= 0 && n < MAX_FETCHES; i--) {
        const char *fetch = g->node[i].name;
        if (!g->node[i].n_out)
            continue;
        n++;
        struct rt_call_spec spec = {
            .feeds = &feed, .fetches = &fetch, .n_feeds = feed ? 1 : 0, .n_fetches = 1};
        struct rt_callable *c;
        if (rt_session_prepare(s, &spec, &c, &err))
            continue;
        struct rt_tensor out = {0};
        struct rt_run_options options = {.deadline_ns = rt_now_ns() + 50 * 1000 * 1000};
        if (rt_callable_run(c, &in, &out, &options, &err) == RT_OK)
            rt_tensor_clear(&out);
    }
}

const struct fuzz_cost fuzz_cost = FUZZ_GRAPH;

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct rt_registry *ops;
    struct rt_error err = {0};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    if (!ops && (!(ops = rt_registry_new()) || !kn_register(ops)))
        return;
    if (rt_library_import(&l, rt_span_of(data, size), ops, &err))
        return;
    struct rt_session_options options = {.registry = ops, .run_memory_limit = 64 << 20};
    if (rt_session_new(&s, l, &options, &err)) {
        rt_library_free(l);
        return;
    }
    run_all(s, rt_library_main(l));
    rt_session_free(s);
}
