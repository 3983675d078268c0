#include "runtime/exec/trace.h"

#include <time.h>

#include "runtime/plan/plan.h"
#include "runtime/core/kernel.h"

/* Maximum number of nodes in a trace. A limit is needed because a loop may run any number of
 * nodes. */
enum { MAX_NODES = 100000 };

int64_t rt_trace_now(const struct rt_trace *t)
{
    struct timespec now;
    clock_gettime(t->wants_cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *rt_trace_op(const struct rt_plan_step *n)
{
    switch ((enum pl_kind)n->kind) {
    case PL_CONST:
        return "Const";
    case PL_FEED:
        return "_Arg";
    case PL_CALL:
        return "PartitionedCall";
    case PL_IF:
        return "If";
    case PL_CASE:
        return "Case";
    case PL_WHILE:
        return "While";
    default:
        return n->def ? n->def->schema->name : "NoOp";
    }
}

static struct rt_trace_output *copy_shapes(struct rt_trace *t, const struct rt_tensor *from, int n,
                                           int *n_copied)
{
    struct rt_trace_output *to = rt_arena_array(t->arena, (size_t)n + 1, sizeof *to);
    *n_copied = 0;
    for (int k = 0; to && k < n; k++) {
        if (!from[k].dtype)
            continue;
        struct rt_trace_output *x = &to[(*n_copied)++];
        x->dtype = (enum rt_dtype)from[k].dtype;
        x->shape.rank = from[k].rank;
        for (int d = 0; d < from[k].rank; d++)
            x->shape.dim[d] = from[k].dim[d];
    }
    return to;
}

void rt_trace_kernel(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_kernel *k,
                     const struct rt_tensor *in)
{
    struct rt_trace_node *x;

    t->begun = NULL;
    if (!t->wants_kernels || t->n_nodes >= MAX_NODES || !(x = rt_arena_alloc(t->arena, sizeof *x)))
        return;
    x->node = n->def;
    x->kernel = k->name;
    x->inputs = copy_shapes(t, in, n->n_in, &x->n_inputs);
    if (x->inputs)
        t->begun = x;
}

void rt_trace_ran(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_tensor *out,
                  int64_t start_ns)
{
    struct rt_trace_node *x = t->begun;
    int64_t end = rt_trace_now(t);

    t->begun = NULL;
    if (t->n_nodes >= MAX_NODES || (!x && !(x = rt_arena_alloc(t->arena, sizeof *x)))) {
        t->is_truncated = true;
        return;
    }
    x->name = rt_arena_strdup(t->arena, n->name ? n->name : "");
    x->op = rt_trace_op(n); /* The name of an op stays valid until the process exits. */
    x->device = n->on_accelerator;
    x->start_ns = start_ns;
    x->end_ns = end;
    x->outputs = copy_shapes(t, out, n->n_out, &x->n_outputs);
    if (!x->name || !x->outputs) {
        t->is_truncated = true;
        return;
    }
    if (t->last)
        t->last->next = x;
    else
        t->first = x;
    t->last = x;
    t->n_nodes++;
}

static bool copy_node(struct rt_trace *t, const struct rt_plan *p, const struct rt_plan_step *n)
{
    struct rt_trace_graph_node *to = &t->graph[t->n_graph_nodes];

    to->name = rt_arena_strdup(t->arena, n->name ? n->name : "");
    to->op = rt_trace_op(n);
    to->device = n->on_accelerator;
    to->inputs = rt_arena_array(t->arena, (size_t)n->n_in + 1, sizeof *to->inputs);
    if (!to->name || !to->inputs)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const char *from = p->node[n->in[k].node].name;
        to->inputs[k] = n->in[k].out ? rt_arena_printf(t->arena, "%s:%d", from, n->in[k].out)
                                     : rt_arena_strdup(t->arena, from ? from : "");
        if (!to->inputs[k])
            return false;
    }
    to->n_inputs = n->n_in;
    t->n_graph_nodes++;
    return true;
}

void rt_trace_plan(struct rt_trace *t, const struct rt_plan *p)
{
    t->graph = rt_arena_array(t->arena, (size_t)p->n_nodes + 1, sizeof *t->graph);
    for (int i = 0; t->graph && i < p->n_nodes; i++)
        if (p->node[i].kind != PL_GONE && !copy_node(t, p, &p->node[i])) {
            t->is_truncated = true;
            return;
        }
}
