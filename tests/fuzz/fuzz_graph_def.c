/*
 * Imports arbitrary bytes as a GraphDef, looks up its tensors, and instantiates every function that
 * a node's attribute names.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/core/graph.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_GRAPH;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct rt_library *l = NULL;
    if (rt_library_import(&l, rt_span_of(data, size), NULL, &err))
        return;
    const struct rt_graph *g = rt_library_main(l);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct rt_node *n = &g->node[i];
        struct rt_edge e;
        char text[64];
        snprintf(text, sizeof text, "%.50s:0", n->name);
        (void)rt_graph_tensor(g, text, &e, &err);
        for (int k = 0; k < n->schema->n_attr; k++)
            if (n->attr[k].type == RT_ATTR_FUNC) {
                const struct rt_graph *body;
                (void)rt_library_instantiate(l, n->attr[k].v.func, &body, &err);
            }
    }
    rt_library_free(l);
}
