/*
 * The token executor runs a plan that contains TensorFlow 1's control flow. Tensors and control
 * signals move along edges as tokens, and a node runs when all of its tokens have arrived.
 *
 * A token from the branch that a Switch does not take is dead. A node with a dead input does not
 * run, and sends dead tokens. A Merge forwards the first live token that it receives. A loop is a
 * frame: Enter moves tokens into the frame, NextIteration moves them to the next iteration, and
 * Exit moves them out of the frame. The iterations of a loop run one at a time, so each frame has a
 * single state, and the state of a run has a fixed size. Dead tokens stop at NextIteration and
 * Exit. An Exit that has sent no live token sends a dead token when its loop ends.
 *
 * Constants without control inputs are not sent as tokens. Every frame reads them directly.
 */
#include "runtime/exec/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/frame_ids.h"
#include "runtime/session/resource.h"

enum op { NORMAL, SWITCH, MERGE, ENTER, EXIT, NEXT, LOOP_COND, TRIGGER };

struct edge {
    int node, slot; /* `slot` is the index of the input, or -1 for a control edge */
};

struct token_node {
    uint8_t op;
    /* whether the node is a constant that is read directly */
    bool is_free;
    bool is_constant; /* for an Enter, whether its value is the same in all iterations */
    /* index of the frame in which the node runs, or -1 if no token reaches the node */
    int frame;
    int out_frame;  /* index of the frame in which the node's outputs are read */
    int first_slot; /* index of the slot for input 0 */
    /* number of tokens for which the node waits; a Merge counts only control tokens */
    int pending;
    /* Index in ctrl_to of the node's first control edge. The edges end at the first_ctrl of the
     * next node. */
    int first_ctrl;
};

struct token_frame {
    const char *name;
    int parent; /* index of the enclosing frame, or -1 for the outermost frame */
    int n_nodes, n_enters;
    int *node;
    int *enter;
};

struct rt_token_plan {
    struct token_node *node;
    struct token_frame *frame;
    int n_frames, n_slots;
    /* array of `n_values + 1` indexes into `to`; the readers of value v begin at `first_to[v]` */
    int *first_to;
    struct edge *to; /* Readers of all values. An edge's slot is the index of the node's input. */
    int *ctrl_to;
    /* For each value, 1 + the index of its first fetch, or 0 if it is not fetched. */
    int *fetch;
};

/* ---- preparing ---- */

static enum op op_of(const struct rt_plan_step *n)
{
    static const struct {
        const char *name;
        enum op op;
    } names[] = {{"Switch", SWITCH}, {"Merge", MERGE},        {"Enter", ENTER},
                 {"Exit", EXIT},     {"NextIteration", NEXT}, {"LoopCond", LOOP_COND}};
    if (n->kind != PL_OP || !n->def)
        return NORMAL;
    const char *op = n->def->schema->name;
    if (strcmp(op, "ControlTrigger") == 0)
        return TRIGGER;
    op += strncmp(op, "Ref", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i].name) == 0)
            return names[i].op;
    return NORMAL;
}

static enum rt_status no_memory(struct rt_error *err)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED, "out of memory for a plan with loops");
}

/* Lists the readers of each value, and the nodes that wait for each node. */
static bool find_readers(const struct rt_plan *p, struct rt_token_plan *t)
{
    size_t n_edges = 0, n_ctrl = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        n_edges += (size_t)p->node[i].n_in;
        n_ctrl += (size_t)p->node[i].n_ctrl;
    }
    /* Element v + 2 of `ctrl` and `first_to` first counts the entries of list v. After summation,
     * element v + 1 is the start of list v. Filling list v advances element v + 1 to the start of
     * list v + 1. */
    int *ctrl = rt_arena_array(p->arena, (size_t)p->n_nodes + 2, sizeof *ctrl);
    t->first_to = rt_arena_array(p->arena, (size_t)p->n_values + 2, sizeof *t->first_to);
    t->to = rt_arena_array(p->arena, n_edges + 1, sizeof *t->to);
    t->ctrl_to = rt_arena_array(p->arena, n_ctrl + 1, sizeof *t->ctrl_to);
    if (!ctrl || !t->first_to || !t->to || !t->ctrl_to)
        return false;
    for (int fill = 0; fill < 2; fill++) {
        for (int i = 0; i < p->n_nodes; i++) {
            const struct rt_plan_step *n = &p->node[i];
            if (t->node[i].is_free)
                continue;
            for (int k = 0; k < n->n_in; k++) {
                if (fill)
                    t->to[t->first_to[n->in_value[k] + 1]++] = (struct edge){i, k};
                else
                    t->first_to[n->in_value[k] + 2]++;
            }
            for (int k = 0; k < n->n_ctrl; k++) {
                if (t->node[n->ctrl[k]].is_free)
                    continue;
                if (fill)
                    t->ctrl_to[ctrl[n->ctrl[k] + 1]++] = i;
                else
                    ctrl[n->ctrl[k] + 2]++;
            }
        }
        for (int v = 0; !fill && v < p->n_values; v++)
            t->first_to[v + 2] += t->first_to[v + 1];
        for (int i = 0; !fill && i < p->n_nodes; i++)
            ctrl[i + 2] += ctrl[i + 1];
    }
    for (int i = 0; i <= p->n_nodes; i++)
        t->node[i].first_ctrl = ctrl[i];
    return true;
}

static enum rt_status set_frame(const struct rt_plan *p, struct rt_token_plan *t, int i, int from,
                                int *queue, int *n_queue, struct rt_error *err)
{
    struct token_node *n = &t->node[i];
    int frame = t->node[from].out_frame;
    if (n->frame < 0) {
        n->frame = frame;
        queue[(*n_queue)++] = i;
        return RT_OK;
    }
    if (n->frame == frame)
        return RT_OK;
    /* A model cannot cause this error, because pl_resolve_frames has accepted its graph and passes
     * move no edges between frames. */
    return rt_fail(err, RT_INTERNAL, "node '%s' is in frames '%s' and '%s'", p->node[i].name,
                   t->frame[frame].name, t->frame[n->frame].name);
}

/* Finds the frame of each node. Starts at the nodes that wait for no token. A node that reads an
 * output is in the output's frame (out_frame). */
static enum rt_status find_frames(const struct rt_plan *p, struct rt_token_plan *t,
                                  struct rt_frame_ids *ids, struct rt_error *err)
{
    int *queue = rt_arena_array(p->arena, (size_t)p->n_nodes + 1, sizeof *queue);
    int n_queue = 0;
    enum rt_status st = RT_OK;
    if (!queue)
        return no_memory(err);
    for (int i = 0; i < p->n_nodes; i++) {
        const struct rt_plan_step *n = &p->node[i];
        bool waits = false;
        for (int k = 0; k < n->n_in; k++)
            waits |= !t->node[n->in[k].node].is_free;
        for (int k = 0; k < n->n_ctrl; k++)
            waits |= !t->node[n->ctrl[k]].is_free;
        t->node[i].frame = waits ? -1 : 0;
        if (!waits && !t->node[i].is_free)
            queue[n_queue++] = i;
    }
    for (int at = 0; at < n_queue && !st; at++) {
        int i = queue[at];
        struct token_node *n = &t->node[i];
        const struct rt_plan_step *pn = &p->node[i];
        n->out_frame = n->frame;
        if (n->op == ENTER) {
            const struct rt_span name = rt_attr_str(pn->def, "frame_name");
            n->out_frame = rt_frame_id(ids, n->frame, name);
            if (!n->out_frame)
                return no_memory(err);
            /* The array of frames is large enough, because it has one entry per Enter. */
            if (n->out_frame == t->n_frames)
                t->frame[t->n_frames++] =
                    (struct token_frame){.name = (const char *)name.p, .parent = n->frame};
            n->is_constant = rt_attr_bool(pn->def, "is_constant");
            t->frame[n->out_frame].n_enters++;
        } else if (n->op == EXIT) {
            if (n->frame == 0)
                return rt_fail(err, RT_INTERNAL, "Exit '%s' is in no frame", pn->name);
            n->out_frame = t->frame[n->frame].parent;
        }
        for (int o = 0; o < pn->n_out; o++) {
            int v = pn->first_value + o;
            for (int e = t->first_to[v]; e < t->first_to[v + 1] && !st; e++)
                st = set_frame(p, t, t->to[e].node, i, queue, &n_queue, err);
        }
        for (int e = n->first_ctrl; e < t->node[i + 1].first_ctrl && !st; e++)
            st = set_frame(p, t, t->ctrl_to[e], i, queue, &n_queue, err);
    }
    return st;
}

/* Lists the nodes and Enters of each frame, and numbers the nodes' input slots frame by frame. */
static bool lay_out_frames(const struct rt_plan *p, struct rt_token_plan *t)
{
    int *all = rt_arena_array(p->arena, (size_t)p->n_nodes + 1, sizeof *all);
    int *enters = rt_arena_array(p->arena, (size_t)p->n_nodes + 1, sizeof *enters);
    int at = 0, at_enter = 0;
    if (!all || !enters)
        return false;
    for (int i = 0; i < p->n_nodes; i++)
        if (t->node[i].frame >= 0 && !t->node[i].is_free)
            t->frame[t->node[i].frame].n_nodes++;
    for (int f = 0; f < t->n_frames; f++) {
        t->frame[f].node = all + at;
        t->frame[f].enter = enters + at_enter;
        at += t->frame[f].n_nodes;
        at_enter += t->frame[f].n_enters;
        t->frame[f].n_nodes = t->frame[f].n_enters = 0;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        const struct token_node *n = &t->node[i];
        if (n->frame < 0 || n->is_free)
            continue;
        struct token_frame *in = &t->frame[n->frame], *entered = &t->frame[n->out_frame];
        in->node[in->n_nodes++] = i;
        if (n->op == ENTER)
            entered->enter[entered->n_enters++] = i;
    }
    for (int k = 0; k < at; k++) {
        t->node[all[k]].first_slot = t->n_slots;
        t->n_slots += p->node[all[k]].n_in;
    }
    return true;
}

enum rt_status rt_token_prepare(struct rt_plan *p, struct rt_error *err)
{
    struct rt_token_plan *t = rt_arena_alloc(p->arena, sizeof *t);
    int n_enters = 0;
    if (!t)
        return no_memory(err);
    t->node = rt_arena_array(p->arena, (size_t)p->n_nodes + 1, sizeof *t->node);
    t->fetch = rt_arena_array(p->arena, (size_t)p->n_values + 1, sizeof *t->fetch);
    if (!t->node || !t->fetch)
        return no_memory(err);
    for (int i = 0; i < p->n_nodes; i++) {
        t->node[i].op = (uint8_t)op_of(&p->node[i]);
        t->node[i].is_free = p->node[i].kind == PL_CONST && p->node[i].n_ctrl == 0;
        n_enters += t->node[i].op == ENTER;
    }
    t->frame = rt_arena_array(p->arena, (size_t)n_enters + 1, sizeof *t->frame);
    if (!t->frame)
        return no_memory(err);
    t->frame[0] = (struct token_frame){.name = "", .parent = -1};
    t->n_frames = 1;
    if (!find_readers(p, t))
        return no_memory(err);
    struct rt_frame_ids ids = {0};
    enum rt_status st = find_frames(p, t, &ids, err);
    rt_frame_ids_clear(&ids);
    if (st)
        return st;
    if (!lay_out_frames(p, t))
        return no_memory(err);
    for (int i = 0; i < p->n_nodes; i++) {
        const struct rt_plan_step *n = &p->node[i];
        for (int k = 0; k < n->n_ctrl; k++)
            t->node[i].pending += !t->node[n->ctrl[k]].is_free;
        for (int k = 0; k < n->n_in; k++)
            t->node[i].pending += t->node[i].op != MERGE && !t->node[n->in[k].node].is_free;
    }
    for (int k = p->n_fetches - 1; k >= 0; k--)
        t->fetch[p->fetch_value[k]] = k + 1;
    p->token = t;
    return RT_OK;
}

/* ---- running ---- */

struct node_state {
    /* number of tokens that have not arrived; a Merge counts only control tokens */
    int pending;
    int n_dead; /* number of dead tokens that have arrived; a Merge counts only data tokens */
    int live;   /* for a Merge, the input whose live token came first; -1 until one has arrived */
    /* Whether a Merge has run and drops later tokens, or an Exit has sent a live token. */
    bool fired;
};

struct frame_state {
    bool active;
    /* number of queued nodes of the frame, plus the number of active frames directly inside it */
    int busy;
    int enters_left;
    int n_next; /* number of tokens stored for the next iteration */
};

struct run {
    struct rt_context *c;
    const struct rt_plan *p;
    const struct rt_token_plan *t;
    struct rt_tensor *slot;
    /* For each constant Enter, the tensor that it sends in every iteration. For each NextIteration,
     * the tensor that it sends in the next iteration. Indexed by node. */
    struct rt_tensor *kept;
    bool *kept_dead;
    struct node_state *node;
    struct frame_state *frame;
    /* Ring buffer of the nodes that are ready to run. The buffer contains each node at most
     * once. */
    int *queue;
    int head, n_queued;
    int n_rounds; /* number of iterations of the outermost frame that have begun */
    /* 1 + the index of a fetch to which a second value was sent, or 0 if there is no such fetch */
    int set_twice;
};

static void push(struct run *r, int i)
{
    int capacity = r->p->n_nodes + 1;
    r->queue[(r->head + r->n_queued++) % capacity] = i;
    r->frame[r->t->node[i].frame].busy++;
}

/* Delivers a token to an input of a node, or to a control edge if e.slot is -1. Takes over *t;
 * `t` may be NULL. */
static void arrive(struct run *r, struct edge e, struct rt_tensor *t, bool dead, bool from_enter)
{
    const struct token_node *n = &r->t->node[e.node];
    struct node_state *s = &r->node[e.node];
    struct rt_tensor *to = e.slot >= 0 ? &r->slot[n->first_slot + e.slot] : NULL;
    if (n->op == MERGE) {
        if (e.slot < 0)
            s->pending--;
        else if (dead)
            /* After a dead token has entered a loop, the loop's Merge receives no other token. */
            s->n_dead += from_enter ? r->p->node[e.node].n_in : 1;
        else if (s->live < 0 && !s->fired) {
            s->live = e.slot;
            *to = *t;
            t = NULL;
        }
        if (t)
            rt_tensor_clear(t);
        if (!s->fired && s->pending == 0 &&
            (s->live >= 0 || s->n_dead >= r->p->node[e.node].n_in)) {
            s->fired = true;
            push(r, e.node);
        }
        return;
    }
    if (dead && n->op != TRIGGER)
        s->n_dead++;
    if (t && to)
        *to = *t;
    if (--s->pending == 0)
        push(r, e.node);
}

/* Sends output o of node i to all its readers. Takes over the value *t. If `t` is NULL, sends a
 * dead token. */
static void send_value(struct run *r, int i, int o, struct rt_tensor *t)
{
    const struct rt_token_plan *tp = r->t;
    int v = r->p->node[i].first_value + o;
    bool from_enter = tp->node[i].op == ENTER;
    if (t && tp->fetch[v]) {
        if (r->c->value[v].dtype)
            r->set_twice = tp->fetch[v];
        else
            rt_tensor_ref(&r->c->value[v], t);
    }
    int end = tp->first_to[v + 1];
    for (int e = tp->first_to[v]; e < end; e++) {
        struct rt_tensor copy;
        if (!t) {
            arrive(r, tp->to[e], NULL, true, from_enter);
        } else if (e + 1 < end) {
            rt_tensor_ref(&copy, t);
            arrive(r, tp->to[e], &copy, false, from_enter);
        } else {
            copy = *t;
            *t = (struct rt_tensor){0};
            arrive(r, tp->to[e], &copy, false, from_enter);
        }
    }
    if (t)
        rt_tensor_clear(t);
}

static void send_ctrl(struct run *r, int i, bool dead)
{
    const struct rt_token_plan *tp = r->t;
    for (int e = tp->node[i].first_ctrl; e < tp->node[i + 1].first_ctrl; e++)
        arrive(r, (struct edge){tp->ctrl_to[e], -1}, NULL, dead, false);
}

/* Sends dead tokens on all outputs of a node that did not run. */
static void send_dead(struct run *r, int i)
{
    for (int o = 0; o < r->p->node[i].n_out; o++)
        send_value(r, i, o, NULL);
    send_ctrl(r, i, true);
}

static void clear_slots(struct run *r, int i)
{
    for (int k = 0; k < r->p->node[i].n_in; k++)
        rt_tensor_clear(&r->slot[r->t->node[i].first_slot + k]);
}

static bool reads_constant(const struct run *r, int i)
{
    const struct rt_plan_step *n = &r->p->node[i];
    for (int k = 0; k < n->n_in; k++)
        if (r->t->node[n->in[k].node].is_free)
            return true;
    return false;
}

/*
 * Begins an iteration of frame f. First sends the constants that a Merge reads. As in TensorFlow,
 * the outermost frame sends constants only in its first iteration; a node that reads a constant in
 * a later iteration waits forever.
 */
static void begin_round(struct run *r, int f)
{
    const struct token_frame *fr = &r->t->frame[f];
    const bool sends = f > 0 || r->n_rounds == 0;
    for (int k = 0; k < fr->n_nodes; k++) {
        int i = fr->node[k];
        clear_slots(r, i);
        bool sent = r->t->node[i].op == EXIT && r->node[i].fired;
        const bool waits = !sends && r->t->node[i].op != MERGE && reads_constant(r, i);
        r->node[i] = (struct node_state){r->t->node[i].pending + waits, 0, -1, sent};
    }
    if (f == 0)
        r->n_rounds++;
    for (int k = 0; sends && k < fr->n_nodes; k++) {
        int i = fr->node[k];
        const struct rt_plan_step *n = &r->p->node[i];
        for (int j = 0; r->t->node[i].op == MERGE && j < n->n_in; j++)
            if (r->t->node[n->in[j].node].is_free) {
                struct rt_tensor t;
                rt_tensor_ref(&t, r->p->constant[n->in_value[j]]);
                arrive(r, (struct edge){i, j}, &t, false, false);
            }
    }
}

static void enter_frame(struct run *r, int f)
{
    struct frame_state *s = &r->frame[f];
    const struct token_frame *fr = &r->t->frame[f];
    if (s->active)
        return;
    *s = (struct frame_state){.active = true, .enters_left = fr->n_enters};
    r->frame[fr->parent].busy++;
    for (int k = 0; k < fr->n_nodes; k++)
        r->node[fr->node[k]].fired = false;
    begin_round(r, f);
}

/* Sends the stored token of node i. If `again` is set, the token remains stored for the next
 * iteration. */
static void send_kept(struct run *r, int i, bool again)
{
    if (r->kept_dead[i]) {
        send_dead(r, i);
        return;
    }
    struct rt_tensor t = r->kept[i];
    if (again)
        rt_tensor_ref(&t, &r->kept[i]);
    else
        r->kept[i] = (struct rt_tensor){0};
    send_value(r, i, 0, &t);
    send_ctrl(r, i, false);
}

static void next_round(struct run *r, int f)
{
    const struct token_frame *fr = &r->t->frame[f];
    r->frame[f].n_next = 0;
    begin_round(r, f);
    for (int k = 0; k < fr->n_enters; k++)
        if (r->t->node[fr->enter[k]].is_constant)
            send_kept(r, fr->enter[k], true);
    for (int k = 0; k < fr->n_nodes; k++) {
        int i = fr->node[k];
        if (r->t->node[i].op == NEXT && r->kept[i].dtype)
            send_kept(r, i, false);
    }
}

static void leave_frame(struct run *r, int f)
{
    const struct token_frame *fr = &r->t->frame[f];
    for (int k = 0; k < fr->n_nodes; k++) {
        int i = fr->node[k];
        if (r->t->node[i].op == EXIT && !r->node[i].fired)
            send_dead(r, i);
        clear_slots(r, i);
    }
    for (int k = 0; k < fr->n_enters; k++)
        rt_tensor_clear(&r->kept[fr->enter[k]]);
    r->frame[f].active = false;
    r->frame[fr->parent].busy--;
}

/* Begins the next iteration of frame f if the frame has no work left. If there is no next
 * iteration, ends the frame and continues with its parent. The outermost frame ends when the run
 * ends. */
static void advance(struct run *r, int f)
{
    while (r->frame[f].active && !r->frame[f].busy && !r->frame[f].enters_left) {
        if (r->frame[f].n_next) {
            next_round(r, f);
        } else if (f > 0) {
            leave_frame(r, f);
            f = r->t->frame[f].parent;
        } else {
            return;
        }
    }
}

/* ---- nodes ---- */

static enum rt_status fail_at(const struct rt_plan_step *n, struct rt_error *err)
{
    struct rt_error old = *err;
    return rt_fail(err, old.code, "%s\n\t [[{{node %s}}]]", rt_error_text(&old), n->name);
}

/* Replaces a ref with the value of its variable, if the node expects a value. Switch, Merge and
 * loop nodes need this function, because they do not use rt_exec_node. */
static enum rt_status follow_ref(const struct run *r, const struct rt_plan_step *n, int k,
                                 struct rt_tensor *t, struct rt_error *err)
{
    if (!pl_reads_variable(n->def, k, t->dtype))
        return RT_OK;
    struct rt_tensor value;
    struct rt_variable *v = rt_variable_of(t);
    if (!v)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input %d of '%s' is a handle of something that is no variable", k, n->name);
    const struct rt_check check = rt_context_as_check(r->c);
    enum rt_status st = rt_alias_read(&r->c->shared->aliases, v, &value, &check, err);
    if (st)
        return st;
    rt_tensor_clear(t);
    *t = value;
    return RT_OK;
}

static enum rt_status run_switch(struct run *r, int i, struct rt_tensor *in, struct rt_error *err)
{
    const struct rt_plan_step *n = &r->p->node[i];
    enum rt_status st = follow_ref(r, n, 1, &in[1], err);
    if (!st)
        st = rt_context_load(r->c, &in[1], err);
    if (st)
        return st;
    if (in[1].dtype != RT_BOOL || in[1].rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The second input must be a scalar, but it has "
                       "shape %s",
                       rt_shape_text((char[100]){0}, 100, in[1].rank, in[1].dim));
    int taken = *(const bool *)in[1].data ? 1 : 0;
    send_value(r, i, taken, &in[0]);
    send_value(r, i, !taken, NULL);
    send_ctrl(r, i, false);
    return RT_OK;
}

static enum rt_status run_merge(struct run *r, int i, struct rt_tensor *in, struct rt_error *err)
{
    const struct rt_plan_step *n = &r->p->node[i];
    struct rt_tensor index;
    int live = r->node[i].live;
    enum rt_status st = follow_ref(r, n, live, &in[live], err);
    if (!st)
        st = rt_tensor_new(&index, r->c->shared->pool, RT_I32, 0, NULL, err);
    if (st)
        return st;
    *(int32_t *)index.data = live;
    send_value(r, i, 0, &in[live]);
    send_value(r, i, 1, &index);
    send_ctrl(r, i, false);
    return RT_OK;
}

/* Stores the token of an Enter or NextIteration for send_kept. */
static void keep(struct run *r, int i, struct rt_tensor *t, bool dead)
{
    rt_tensor_clear(&r->kept[i]);
    r->kept_dead[i] = dead;
    if (!dead) {
        r->kept[i] = *t;
        *t = (struct rt_tensor){0};
    }
}

static void run_enter(struct run *r, int i, struct rt_tensor *t, bool dead)
{
    const struct token_node *n = &r->t->node[i];
    enter_frame(r, n->out_frame);
    keep(r, i, t, dead);
    send_kept(r, i, n->is_constant);
    r->frame[n->out_frame].enters_left--;
    advance(r, n->out_frame);
}

static enum rt_status run_normal(struct run *r, int i, struct rt_tensor *in, uint64_t ours,
                                 struct rt_error *err)
{
    const struct rt_plan_step *n = &r->p->node[i];
    struct rt_tensor *out = r->c->out;
    if (n->kind == PL_FEED) {
        out[0] = r->c->value[n->first_value];
        r->c->value[n->first_value] = (struct rt_tensor){0};
    } else {
        enum rt_status st = RT_OK;
        memset(out, 0, (size_t)n->n_out * sizeof *out);
        /* Replaces the handles that the run owns with the values of their variables. rt_exec_node
         * replaces all other handles. */
        for (int k = 0; k < n->n_in && n->kind == PL_OP && n->def && !st; k++)
            if (k >= 64 || (ours >> k & 1))
                st = follow_ref(r, n, k, &in[k], err);
        if (st)
            return fail_at(n, err);
        st = rt_exec_node(r->c, i, in, ours, out, err);
        if (st)
            return st;
    }
    for (int o = 0; o < n->n_out; o++)
        send_value(r, i, o, &out[o]);
    send_ctrl(r, i, false);
    return RT_OK;
}

static enum rt_status run_node(struct run *r, int i, struct rt_error *err)
{
    const struct rt_plan_step *n = &r->p->node[i];
    const struct token_node *t = &r->t->node[i];
    struct rt_tensor *in = r->c->in;
    bool dead = t->op == MERGE ? r->node[i].live < 0 : r->node[i].n_dead > 0;
    /* Bit k is set if the run owns the reference to input k, so that the node may take it over. */
    uint64_t ours = 0;
    enum rt_status st = RT_OK;
    for (int k = 0; k < n->n_in; k++) {
        struct rt_tensor *slot = &r->slot[t->first_slot + k];
        bool is_free = t->op != MERGE && r->t->node[n->in[k].node].is_free;
        if (is_free && t->op == NORMAL && k < 64) {
            in[k] = *r->p->constant[n->in_value[k]];
            continue;
        }
        if (is_free)
            rt_tensor_ref(&in[k], r->p->constant[n->in_value[k]]);
        else {
            in[k] = *slot;
            *slot = (struct rt_tensor){0};
            rt_alias_follow(&r->c->shared->aliases, &in[k]);
        }
        if (k < 64)
            ours |= UINT64_C(1) << k;
    }
    if (!dead && (t->op == SWITCH || (t->op >= ENTER && t->op <= LOOP_COND)))
        st = follow_ref(r, n, 0, &in[0], err);
    if (st) {
        fail_at(n, err);
    } else if (t->op == ENTER) {
        run_enter(r, i, &in[0], dead);
    } else if (dead) {
        if (t->op != NEXT && t->op != EXIT)
            send_dead(r, i);
    } else {
        switch ((enum op)t->op) {
        case SWITCH:
            st = run_switch(r, i, in, err);
            break;
        case MERGE:
            st = run_merge(r, i, in, err);
            break;
        case NEXT:
            keep(r, i, &in[0], false);
            r->frame[t->frame].n_next++;
            break;
        case EXIT:
            /* An Exit whose input does not come from a Switch receives a live token in each
             * iteration. The nodes outside the frame expect one token, so only the first is
             * sent. */
            if (r->node[i].fired)
                break;
            r->node[i].fired = true;
            send_value(r, i, 0, &in[0]);
            send_ctrl(r, i, false);
            break;
        case LOOP_COND:
            send_value(r, i, 0, &in[0]);
            send_ctrl(r, i, false);
            break;
        default:
            st = run_normal(r, i, in, ours, err);
            break;
        }
        if (st && t->op != NORMAL && t->op != TRIGGER)
            fail_at(n, err);
    }
    for (int k = 0; k < n->n_in; k++)
        if (k >= 64 || ours >> k & 1)
            rt_tensor_clear(&in[k]);
        else
            in[k] = (struct rt_tensor){0};
    return st;
}

/* The error message names the node that TensorFlow adds for each fetch. */
static enum rt_status fail_set_twice(const struct run *r, struct rt_error *err)
{
    const int k = r->set_twice - 1, v = r->p->fetch_value[k];
    int i = 0;
    while (v < r->p->node[i].first_value || v >= r->p->node[i].first_value + r->p->node[i].n_out)
        i++;
    return rt_fail(err, RT_INTERNAL,
                   "Retval[%d] has already been set.\n\t [[{{node _retval_%s_%d_%d}}]]", k,
                   r->p->node[i].name, v - r->p->node[i].first_value, k);
}

static enum rt_status run_all(struct run *r, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    int capacity = r->p->n_nodes + 1;
    r->frame[0].active = true;
    begin_round(r, 0);
    const struct token_frame *outer = &r->t->frame[0];
    for (int k = 0; k < outer->n_nodes; k++) {
        int i = outer->node[k];
        if (r->t->node[i].op != MERGE && r->t->node[i].pending == 0)
            push(r, i);
    }
    for (int64_t steps = 1; r->n_queued && !st; steps++) {
        int i = r->queue[r->head];
        r->head = (r->head + 1) % capacity;
        r->n_queued--;
        st = run_node(r, i, err);
        int f = r->t->node[i].frame;
        r->frame[f].busy--;
        if (!st)
            advance(r, f);
        if (!st && r->set_twice)
            st = fail_set_twice(r, err);
        if (!st && (steps & 15) == 0)
            st = rt_context_check(r->c, err);
    }
    return st;
}

enum rt_status rt_exec_token(struct rt_context *c, struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    const struct rt_token_plan *t = p->token;
    size_t n = (size_t)p->n_nodes + 1;
    struct run r = {.c = c, .p = p, .t = t};
    enum rt_status st = RT_OK;
    r.slot = calloc((size_t)t->n_slots + 1, sizeof *r.slot);
    r.kept = calloc(n, sizeof *r.kept);
    r.kept_dead = calloc(n, sizeof *r.kept_dead);
    r.node = calloc(n, sizeof *r.node);
    r.frame = calloc((size_t)t->n_frames, sizeof *r.frame);
    r.queue = malloc(n * sizeof *r.queue);
    if (r.slot && r.kept && r.kept_dead && r.node && r.frame && r.queue)
        st = run_all(&r, err);
    else
        st = no_memory(err);
    for (int k = 0; k < p->n_fetches && !st; k++) {
        int v = p->fetch_value[k];
        if (!p->constant[v] && !c->value[v].dtype)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "Retval[%d] does not have value", k);
    }
    for (int i = 0; r.slot && i < t->n_slots; i++)
        rt_tensor_clear(&r.slot[i]);
    for (size_t i = 0; r.kept && i < n; i++)
        rt_tensor_clear(&r.kept[i]);
    free(r.slot);
    free(r.kept);
    free(r.kept_dead);
    free(r.node);
    free(r.frame);
    free(r.queue);
    return st;
}
