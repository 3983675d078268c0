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
#include "runtime/plan/frame_ids.h"
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"

enum { OUTERMOST = 0, UNKNOWN = -1 };

struct frames {
    const struct pl_graph *g;
    struct rt_frame_ids ids;
    int *of; /* for each node, its frame, or UNKNOWN until it is found */
    /* for each frame except the outermost one, the first Enter found that leads into it */
    int *enter;
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
                              : rt_attr_str(f->g->node[f->enter[frame]].def, "frame_name");
}

static enum rt_status set_frame(struct frames *f, int i, int from, int frame, struct rt_error *err)
{
    if (f->of[i] == UNKNOWN) {
        f->of[i] = frame;
        f->by[i] = from;
        f->queue[f->n_queue++] = i;
        return RT_OK;
    }
    if (f->of[i] == frame)
        return RT_OK;
    const struct rt_span a = name_of(f, frame), b = name_of(f, f->of[i]);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "{{node %s}} has inputs from different frames. The input {{node %s}} is in "
                   "frame '%.*s'. The input {{node %s}} is in frame '%.*s'.",
                   f->g->node[i].name, f->g->node[from].name, (int)a.n, (const char *)a.p,
                   f->g->node[f->by[i]].name, (int)b.n, (const char *)b.p);
}

/* Sets *out to the frame in which the outputs of node i are read. */
static enum rt_status frame_behind(struct frames *f, int i, int *out, struct rt_error *err)
{
    const struct pl_node *n = &f->g->node[i];
    *out = f->of[i];
    if (enters(n)) {
        *out = rt_frame_id(&f->ids, f->of[i], rt_attr_str(n->def, "frame_name"));
        if (!*out)
            return rt_fail_memory(err, "a plan", 0);
        if (f->enter[*out] < 0)
            f->enter[*out] = i;
    } else if (leaves(n)) {
        if (*out == OUTERMOST)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Invalid Exit op: Cannot find a corresponding Enter op.");
        *out = f->of[f->enter[*out]];
    }
    return RT_OK;
}

static enum rt_status find_frames(struct frames *f, struct rt_error *err)
{
    const struct pl_graph *g = f->g;
    enum rt_status st = RT_OK;
    for (int i = 0; i <= g->n; i++)
        f->enter[i] = -1;
    for (int i = 0; i < g->n; i++) {
        const bool waits = g->node[i].n_in > 0 || g->node[i].n_ctrl > 0;
        f->of[i] = waits ? UNKNOWN : OUTERMOST;
        if (!waits)
            f->queue[f->n_queue++] = i;
    }
    for (int at = 0; at < f->n_queue && !st; at++) {
        const int i = f->queue[at];
        int out;
        st = frame_behind(f, i, &out, err);
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
    f.enter = malloc(((size_t)g->n + 1) * sizeof *f.enter);
    f.by = malloc(((size_t)g->n + 1) * sizeof *f.by);
    f.queue = malloc(((size_t)g->n + 1) * sizeof *f.queue);
    f.readers = f.of && f.enter && f.by && f.queue ? pl_readers_new(g, true, err) : NULL;
    st = f.readers ? find_frames(&f, err) : rt_fail_memory(err, "a plan", 0);
    rt_frame_ids_clear(&f.ids);
    free(f.of);
    free(f.enter);
    free(f.by);
    free(f.queue);
    pl_readers_free(f.readers);
    return st;
}
