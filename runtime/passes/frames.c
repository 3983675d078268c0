/*
 * Finds the frame of each node of an extracted graph, and refuses graphs with invalid frames, as
 * TensorFlow does. All inputs and control inputs of a node must be in the same frame. A constant
 * without control inputs is in the outermost frame, so only an Enter can bring its value into a
 * loop.
 *
 * Frames are found before all passes, because folding removes the edges that tie a constant to its
 * frame.
 */
#include <stdlib.h>

#include "runtime/core/attr.h"
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"

enum { OUTERMOST = -1, UNKNOWN = -2 };

struct frames {
    const struct pl_graph *g;
    /* For each node, the first Enter found that leads into the node's frame; OUTERMOST if no Enter
     * does, and UNKNOWN until the frame is found. */
    int *of;
    int *by; /* for each node, the input that determined its frame */
    int *queue, n_queue;
    struct pl_readers *readers;
};

static bool enters(const struct pl_node *n)
{
    return pl_is(n, "Enter") || pl_is(n, "RefEnter");
}

static bool leaves(const struct pl_node *n)
{
    return pl_is(n, "Exit") || pl_is(n, "RefExit");
}

static struct rt_span name_of(const struct frames *f, int frame)
{
    return frame == OUTERMOST ? (struct rt_span){0}
                              : rt_attr_str(f->g->node[frame].def, "frame_name");
}

/* Returns whether two Enters lead into the same frame, that is, whether their frame names and the
 * names of all enclosing frames are equal. */
static bool is_same(const struct frames *f, int a, int b)
{
    while (a != b) {
        if (a == OUTERMOST || b == OUTERMOST || !rt_span_eq(name_of(f, a), name_of(f, b)))
            return false;
        a = f->of[a];
        b = f->of[b];
    }
    return true;
}

static enum rt_status set_frame(struct frames *f, int i, int from, int frame, struct rt_error *err)
{
    if (f->of[i] == UNKNOWN) {
        f->of[i] = frame;
        f->by[i] = from;
        f->queue[f->n_queue++] = i;
        return RT_OK;
    }
    if (is_same(f, f->of[i], frame))
        return RT_OK;
    const struct rt_span a = name_of(f, frame), b = name_of(f, f->of[i]);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "{{node %s}} has inputs from different frames. The input {{node %s}} is in "
                   "frame '%.*s'. The input {{node %s}} is in frame '%.*s'.",
                   f->g->node[i].name, f->g->node[from].name, (int)a.n, (const char *)a.p,
                   f->g->node[f->by[i]].name, (int)b.n, (const char *)b.p);
}

static enum rt_status find_frames(struct frames *f, struct rt_error *err)
{
    const struct pl_graph *g = f->g;
    enum rt_status st = RT_OK;
    for (int i = 0; i < g->n; i++) {
        const bool waits = g->node[i].n_in > 0 || g->node[i].n_ctrl > 0;
        f->of[i] = waits ? UNKNOWN : OUTERMOST;
        if (!waits)
            f->queue[f->n_queue++] = i;
    }
    for (int at = 0; at < f->n_queue && !st; at++) {
        const int i = f->queue[at];
        int out = enters(&g->node[i]) ? i : f->of[i];
        if (leaves(&g->node[i])) {
            if (out == OUTERMOST)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Invalid Exit op: Cannot find a corresponding Enter op.");
            out = f->of[out];
        }
        for (int k = f->readers->first[i]; k < f->readers->first[i + 1] && !st; k++)
            st = set_frame(f, f->readers->of[k].node, i, out, err);
    }
    return st;
}

/* Turns each NextIteration into an Identity. In a graph without Switch, Merge, Enter or Exit,
 * TensorFlow's executor treats a NextIteration as an Identity. */
static enum rt_status make_identities(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < g->n && !st; i++)
        if (pl_is(&g->node[i], "NextIteration"))
            st = pl_make_identity(g, i, g->node[i].def->out_dtype[0], g->node[i].in[0], err);
    return st;
}

enum rt_status pl_resolve_frames(struct pl_graph *g, struct rt_error *err)
{
    struct frames f = {.g = g};
    enum rt_status st = RT_OK;
    bool has_frames = false, has_next = false;

    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        const bool next = pl_is(n, "NextIteration");
        has_next |= next;
        has_frames |=
            n->kind == PL_OP && n->def && !next && !pl_is(n, "LoopCond") && pl_is_token(n->def);
    }
    if (!has_frames)
        return has_next ? make_identities(g, err) : RT_OK;
    f.of = malloc(((size_t)g->n + 1) * sizeof *f.of);
    f.by = malloc(((size_t)g->n + 1) * sizeof *f.by);
    f.queue = malloc(((size_t)g->n + 1) * sizeof *f.queue);
    f.readers = f.of && f.by && f.queue ? pl_readers_new(g, true, err) : NULL;
    st = f.readers ? find_frames(&f, err) : rt_fail_memory(err, "a plan", 0);
    free(f.of);
    free(f.by);
    free(f.queue);
    pl_readers_free(f.readers);
    return st;
}
