#include "runtime/passes/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/fusion/fuse.h"
#include "runtime/ir/dump.h"
#include "runtime/ir/verify.h"

/*
 * Each plan counts as PLAN_NODES additional nodes, to account for the memory that even a small plan
 * takes. Otherwise, a model could have 60,000 plans of 12 KB before it reached the limit of 300,000
 * nodes. For example, if each function of a model contains a branch, the number of plans doubles at
 * each nesting level.
 */
enum { MAX_ALL_NODES = 300000, PLAN_NODES = 32, MAX_ROUNDS = 32, MAX_DUMP_BYTES = 1 << 28 };
/* Limit on the memory of all plans of a session, in bytes, without their constants. Without this
 * limit, a model with 130 signatures in a saved_model.pb of 21 KB occupied 5.2 GB, because all
 * functions were inlined into the plan of each signature. */
enum { MAX_PLAN_BYTES = 1 << 30 };

static enum rt_status count_nodes(struct pl_graph *g, struct rt_error *err)
{
    *g->nodes_left -= g->n + PLAN_NODES;
    return *g->nodes_left < 0
               ? rt_fail(err, RT_RESOURCE_EXHAUSTED,
                         "more than %d nodes with all functions in place", MAX_ALL_NODES)
               : RT_OK;
}

static enum rt_status prune(struct pl_graph *g, struct rt_error *err)
{
    (void)err;
    pl_prune(g);
    return RT_OK;
}

static enum rt_status mark_reads(struct pl_graph *g, struct rt_error *err)
{
    (void)err;
    pl_mark_reads(g);
    pl_prune(g);
    return RT_OK;
}

/*
 * The table of passes. The PL_TO_FIXED_POINT passes enable each other: inlining exposes reads of
 * variables, the reads become constants, constants decide branches, and a branch with a constant
 * condition becomes a call that can be inlined. These passes also run after each change by
 * functionalisation, because a graph without tokens can be simplified further.
 *
 * Fusions match large patterns before small ones, because a node of a large pattern may also fit a
 * small pattern, such as an epilogue. The order is: rewrites that enable other patterns; attention,
 * norms and rotary embeddings; epilogues; all element-wise nodes that are left; and finally
 * concatenations that only fused element-wise ops read.
 */
static const struct pl_pass passes[] = {
    {"inline", pl_inline, NULL, PL_EXTRACT, PL_TO_FIXED_POINT, 0, true},
    {"resolve", pl_resolve, NULL, "inline", PL_TO_FIXED_POINT, 0, false},
    {"simplify", NULL, pl_simplify, "resolve", PL_TO_FIXED_POINT, 0, false},
    {"dead-branches", NULL, pl_remove_dead_branches, "simplify", PL_TO_FIXED_POINT, 0, false},
    {"freeze", NULL, pl_freeze, "resolve", PL_TO_FIXED_POINT, 0, false},
    {"count-nodes", count_nodes, NULL, "freeze", PL_ONCE, 0, false},
    {"functionalise-branches", NULL, pl_functionalise_branches, "freeze", PL_FUNCTIONALISE,
     PL_ON_FUSED, false},
    {"recurrent-frames", NULL, pl_fuse_rnn_frames, "functionalise-branches", PL_FUNCTIONALISE,
     PL_ON_FUSED, false},
    {"functionalise-loops", NULL, pl_functionalise_loops, "recurrent-frames", PL_FUNCTIONALISE,
     PL_ON_FUSED, false},
    {"recurrent-loops", pl_fuse_rnn_whiles, NULL, "functionalise-loops", PL_ONCE, PL_ON_FUSED,
     false},
    {"sub-plans", pl_sub_plans, NULL, "count-nodes", PL_ONCE, 0, false},
    {"prune", prune, NULL, "sub-plans", PL_ONCE, 0, false},
    {"mark-written", pl_mark_written, NULL, "sub-plans", PL_ONCE, PL_ON_SERVED, false},
    {"drop-targets", pl_drop_targets, NULL, "sub-plans", PL_ONCE, PL_ON_FUSED, false},
    {"simplify-algebra", pl_simplify_algebra, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-embeddings", pl_fuse_embeddings, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-einsums", pl_fuse_einsums, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-dense", pl_fuse_dense, NULL, "fuse-einsums", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-pools", pl_fuse_pools, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-masks", pl_fuse_masks, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-softmaxes", pl_fuse_softmaxes, NULL, "fuse-masks", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-attention", pl_fuse_attention, NULL, "fuse-softmaxes", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-norms", pl_fuse_norms, NULL, "fuse-attention", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-rotaries", pl_fuse_rotaries, NULL, "fuse-norms", PL_ONCE, PL_ON_FUSED, false},
    {"assign", pl_assign, NULL, "sub-plans", PL_ONCE, 0, false},
    {"fuse-pads", pl_fuse_pads, NULL, "drop-targets", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-epilogues", pl_fuse_epilogues, NULL, "fuse-pads", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-elementwise", pl_fuse_elementwise, NULL, "fuse-epilogues", PL_ONCE, PL_ON_FUSED, false},
    {"fuse-concats", pl_fuse_concats, NULL, "fuse-elementwise", PL_ONCE, PL_ON_FUSED, false},
    {"mark-reads", mark_reads, NULL, "sub-plans", PL_ONCE, 0, false},
};
enum { N_PASSES = sizeof passes / sizeof *passes };

const char *rt_pass_name(int i)
{
    return i == 0 ? PL_EXTRACT : i > 0 && i <= N_PASSES ? passes[i - 1].name : NULL;
}

const struct pl_pass *pl_passes(int *n)
{
    *n = N_PASSES;
    return passes;
}

/* ---- running passes ---- */

static bool is_for(const struct pl_pass *p, const struct pl_graph *g)
{
    return !((p->graphs & PL_ON_FUSED) && g->session->options.tuning.no_fusion) &&
           !((p->graphs & PL_ON_SERVED) && g->is_load);
}

/* Verifies the graph. An invalid graph is a bug in the compiler, except for one case: the model may
 * cause a type error in nodes that have just been imported. */
static void verify(struct pl_graph *g, const char *pass, bool imports)
{
    struct rt_error err = {.arena = NULL}, other = {.arena = NULL};
    if (!PL_VERIFIES || pl_verify(g, !g->mistyped, &err) == RT_OK)
        return;
    g->mistyped = imports && pl_verify(g, false, &other) == RT_OK;
    if (g->mistyped)
        return;
    RT_LOG(RT_LOG_ERROR, "event=broken_graph pass=%s reason=\"%s\"", pass, rt_error_text(&err));
    assert(!"a pass left a broken graph");
}

/* Verifies the graph after a pass. Dumps it on request. */
static void look_at(struct pl_graph *g, const char *pass, bool imports)
{
    const struct rt_pass_dump *dump = g->session->options.pass_dump;
    verify(g, pass, imports);
    if (!dump || (dump->pass && strcmp(dump->pass, pass) != 0))
        return;
    struct rt_bytes text;
    rt_bytes_init(&text, MAX_DUMP_BYTES);
    pl_dump(g, pass, &text);
    if (text.n)
        dump->put(dump->arg, text.p, text.n);
    rt_bytes_clear(&text);
}

static enum rt_status check_plan_bytes(const struct rt_session *s, struct rt_error *err)
{
    return atomic_load(&s->plan_bytes) > MAX_PLAN_BYTES
               ? rt_fail(err, RT_RESOURCE_EXHAUSTED,
                         "the plans of all signatures and calls of the model take more than %d MB",
                         MAX_PLAN_BYTES >> 20)
               : RT_OK;
}

static enum rt_status run_pass(struct pl_graph *g, const struct pl_pass *p, bool *changed,
                               struct rt_error *err)
{
    *changed = false;
    if (!is_for(p, g))
        return RT_OK;
    enum rt_status st = rt_session_check(g->session, err);
    if (!st)
        st = check_plan_bytes(g->session, err);
    if (!st)
        st = p->change ? p->change(g, changed, err) : p->run(g, err);
    if (!st)
        look_at(g, p->name, p->imports);
    return st;
}

/* Returns the index after the last pass of a group: pass `first` and the passes directly after it
 * with the same `repeat`. */
static int end_of(int first)
{
    int end = first + 1;
    while (end < N_PASSES && passes[end].repeat == passes[first].repeat)
        end++;
    return end;
}

static enum rt_status run_to_fixed_point(struct pl_graph *g, struct rt_error *err)
{
    bool again = true;
    enum rt_status st = RT_OK;
    for (int round = 0; !st && again && round < MAX_ROUNDS; round++) {
        again = false;
        for (int i = 0; i < N_PASSES && !st; i++) {
            bool changed = false;
            if (passes[i].repeat == PL_TO_FIXED_POINT)
                st = run_pass(g, &passes[i], &changed, err);
            again |= changed;
        }
    }
    return st;
}

static enum rt_status functionalise(struct pl_graph *g, int first, int end, struct rt_error *err)
{
    bool again = true;
    enum rt_status st = RT_OK;
    for (int round = 0; !st && again && round < MAX_ROUNDS; round++) {
        again = false;
        for (int i = first; i < end && !st && !again; i++)
            st = run_pass(g, &passes[i], &again, err);
        if (!st && again)
            st = run_to_fixed_point(g, err);
    }
    return st;
}

static enum rt_status run_passes(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    look_at(g, PL_EXTRACT, true);
    for (int i = 0, end; i < N_PASSES && !st; i = end) {
        bool changed;
        end = passes[i].repeat == PL_ONCE ? i + 1 : end_of(i);
        switch (passes[i].repeat) {
        case PL_ONCE:
            st = run_pass(g, &passes[i], &changed, err);
            break;
        case PL_TO_FIXED_POINT:
            st = run_to_fixed_point(g, err);
            break;
        case PL_FUNCTIONALISE:
            st = functionalise(g, i, end, err);
            break;
        }
    }
    return st;
}

/* ---- services for passes, on graphs of their own ---- */

static enum rt_status look_inside(const struct pl_graph *g, int node, const struct rt_func_ref *f,
                                  bool is_body, struct pl_graph *out, struct rt_error *err)
{
    int64_t nodes_left = *g->nodes_left;
    struct pl_sub_request r;
    enum rt_status st = pl_sub_request(g, &g->node[node], f, 0, is_body, &r, err);

    *out = (struct pl_graph){.session = g->session,
                             .pipeline = g->pipeline,
                             .serving = g->serving,
                             .depth = g->depth + 1,
                             .is_load = g->is_load,
                             .nodes_left = &nodes_left};
    if (!st && !(out->arena = rt_session_plan_arena(g->session)))
        st = rt_fail_memory(err, "a plan", 0);
    if (!st)
        st = pl_extract(out, &r.q, err);
    if (!st)
        st = run_to_fixed_point(out, err);
    out->nodes_left = NULL;
    pl_sub_request_clear(&r);
    if (st)
        pl_graph_clear(out);
    return st;
}

static const struct pl_pipeline pipeline = {pl_simplify, look_inside};

/* ---- plans ---- */

enum rt_status pl_build_graph(struct pl_graph *g, struct rt_plan **out, struct rt_error *err)
{
    const struct rt_session *s = g->session;
    enum rt_status st = run_passes(g, err);

    if (!st)
        st = pl_finish(g, out, err);
    if (!st) {
        (*out)->writes_fed = g->writes_fed;
        (*out)->handed_out = g->handed_out;
        (*out)->n_handed_out = g->n_handed_out;
    }
    /* A plan for restore or init ops runs only once, so its segments are not compiled. */
    if (!st && !(*out)->tokens && !g->is_load && !s->options.tuning.no_specialise)
        (*out)->segment =
            rt_arena_array(g->arena, (size_t)(*out)->n_nodes + 1, sizeof *(*out)->segment);
    pl_nodes_clear(g);
    if (st)
        rt_arena_free(g->arena);
    return st;
}

enum rt_status rt_plan_build(struct rt_session *s, const struct pl_request *q, int depth,
                             struct rt_plan **out, struct rt_error *err)
{
    int64_t nodes_left = MAX_ALL_NODES;
    struct pl_graph g = {.session = s,
                         .pipeline = &pipeline,
                         .arena = rt_session_plan_arena(s),
                         .serving = s->serving,
                         .depth = depth,
                         .is_load = q->is_load,
                         .nodes_left = q->nodes_left ? q->nodes_left : &nodes_left};
    enum rt_status st;
    if (!g.arena)
        return rt_fail_memory(err, "a plan", 0);
    st = pl_extract(&g, q, err);
    if (!st)
        return pl_build_graph(&g, out, err);
    pl_graph_clear(&g);
    return st;
}
