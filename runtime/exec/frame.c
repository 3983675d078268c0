/*
 * A layout bound to the memory of one context: every tensor and every rt_run is filled in once, so
 * that a step in the steady state is one call. Only slots are handed on as the run goes.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/layout.h"
#include "runtime/exec/trace.h"

enum { MAX_FRAMES = 256, MAX_FRAME_BYTES = 8 << 20, USED_STEP = 64 };

struct bound_step {
    enum rt_status (*run)(struct rt_run *r);
    bool simple; /* a kernel of one output in the block, after which nothing is to be done */
    void *data;  /* of output 0 */
    struct rt_run r;
};

struct rt_frame {
    struct rt_frame *next, *prev; /* the last used first */
    struct rt_frame *then;        /* what was used after it the last time; NULL: none is known */
    int begin;                    /* the layout's */
    struct rt_layout *layout;
    void *block; /* what it is bound to */
    size_t bytes;
    struct bound_step *step;
    struct rt_tensor arg[];
};

int rt_frame_end(const struct rt_frame *f)
{
    return f->layout->end;
}

/* ---- the list ---- */

static void push(struct rt_context *c, struct rt_frame *f)
{
    f->prev = NULL;
    f->next = c->frames;
    if (f->next) {
        f->next->prev = f;
        f->next->then = f;
    }
    c->frames = f;
}

static void take_out(struct rt_context *c, struct rt_frame *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        c->frames = f->next;
    if (f->next)
        f->next->prev = f->prev;
}

/* Takes it from its context. */
static void detach(struct rt_context *c, struct rt_frame *f)
{
    take_out(c, f);
    for (struct rt_frame *x = c->frames; x; x = x->next)
        x->then = x->then == f ? NULL : x->then;
    c->frame_bytes -= f->bytes;
}

void rt_frames_free_list(struct rt_frame *list)
{
    for (struct rt_frame *f = list, *next; f; f = next) {
        next = f->next;
        rt_layout_unref(f->layout);
        free(f);
    }
}

static void frame_free(struct rt_context *c, struct rt_frame *f)
{
    detach(c, f);
    f->next = NULL;
    rt_frames_free_list(f);
}

void rt_frames_free(struct rt_context *c)
{
    for (const struct rt_frame *f = c->frames; f; f = f->next)
        c->frame_bytes -= f->bytes;
    rt_frames_free_list(c->frames);
    c->frames = NULL;
}

void rt_frames_take_retired(struct rt_context *c, struct rt_frame **list)
{
    for (struct rt_frame *f = c->frames, *next; f; f = next) {
        next = f->next;
        if (!atomic_load_explicit(&f->layout->retired, memory_order_relaxed))
            continue;
        detach(c, f);
        f->next = *list;
        *list = f;
    }
}

static bool is_for(const struct rt_frame *f, const struct rt_context *c, int begin)
{
    return f->begin == begin && rt_segment_fits(f->layout, c);
}

/* Of what begins there, to the front; NULL: none. A plan of many segments asks for one after the
 * other, each time. */
static struct rt_frame *take(struct rt_context *c, int begin)
{
    struct rt_frame *f = c->frames;

    if (f && f->then && is_for(f->then, c, begin))
        f = f->then;
    else
        while (f && !is_for(f, c, begin))
            f = f->next;
    if (f && f != c->frames) {
        take_out(c, f);
        push(c, f);
    }
    return f;
}

static void *in_block(const struct rt_frame *f, const struct rt_extent *e)
{
    return e->bytes ? (char *)f->block + e->offset : rt_no_elements();
}

/* Argument `a` as it is before a run. */
static void bind_arg(struct rt_frame *f, int a)
{
    const struct rt_layout *l = f->layout;
    f->arg[a] = l->arg[a];
    if (l->arg_kind[a] == RT_ARG_BLOCK)
        f->arg[a].data = in_block(f, &l->extent[(uintptr_t)l->arg[a].data]);
}

static void bind(struct rt_context *c, struct rt_frame *f)
{
    const struct rt_layout *l = f->layout;
    f->block = c->block;
    for (int a = 0; a < l->n_args; a++)
        bind_arg(f, a);
    for (int k = 0; k < l->n_steps; k++) {
        const struct rt_step *s = &l->step[k];
        const struct pl_node *n = &l->plan->node[s->node];
        struct bound_step *b = &f->step[k];
        *b = (struct bound_step){0};
        if (s->kind != RT_STEP_KERNEL)
            continue;
        b->run = s->prepared->kernel->run;
        b->data = f->arg[s->out].data;
        b->simple = n->n_out == 1 && l->arg_kind[s->out] == RT_ARG_BLOCK && !s->n_clear &&
                    !s->n_patch && !s->check;
        b->r =
            (struct rt_run){.node = n->def,
                            .state = s->prepared->state,
                            .n_in = n->n_in,
                            .n_out = n->n_out,
                            .in = &f->arg[s->in],
                            .out = &f->arg[s->out],
                            .scratch = s->scratch < 0 ? NULL : in_block(f, &l->extent[s->scratch]),
                            .ctx = c};
    }
}

static struct rt_frame *frame_new(struct rt_context *c, struct rt_layout *l)
{
    const size_t head = sizeof(struct rt_frame) + (size_t)l->n_args * sizeof(struct rt_tensor);
    const size_t bytes = head + (size_t)l->n_steps * sizeof(struct bound_step);
    struct rt_frame *f = malloc(bytes);
    if (!f)
        return NULL;
    *f = (struct rt_frame){.begin = l->begin, .layout = l, .bytes = bytes};
    f->step = (struct bound_step *)((char *)f + head);
    push(c, f);
    c->frame_bytes += bytes;
    size_t sum = 0;
    int n = 0;
    for (struct rt_frame *x = f->next, *next; x; x = next) {
        next = x->next;
        sum += x->bytes;
        if (++n >= MAX_FRAMES || sum >= MAX_FRAME_BYTES)
            frame_free(c, x);
    }
    return f;
}

struct rt_frame *rt_frame_find(struct rt_context *c, int begin)
{
    struct rt_frame *f = take(c, begin);
    const int64_t now = atomic_load_explicit(&c->shared->session->runs, memory_order_relaxed);
    if (f && now - atomic_load_explicit(&f->layout->used, memory_order_relaxed) > USED_STEP)
        atomic_store_explicit(&f->layout->used, now, memory_order_relaxed);
    bool bound = f && f->block == c->block;
    if (!f) {
        struct rt_layout *l = rt_segment_layout(c, begin);
        if (!l)
            return NULL;
        f = frame_new(c, l);
        if (!f) {
            rt_layout_unref(l);
            return NULL;
        }
    }
    struct rt_error none = {0};
    if (rt_context_scratch(c, &c->block, &c->block_room, f->layout->block_bytes, "a layout",
                           &none) != RT_OK ||
        !rt_pool_has_room(c->shared->pool, f->layout->slot_bytes)) {
        rt_context_drop_scratch(c); /* node by node less is needed at a time */
        frame_free(c, f);
        return NULL;
    }
    if (!bound || f->block != c->block)
        bind(c, f);
    return f;
}

/* ---- running ---- */

static enum rt_status patch(struct rt_context *c, struct rt_frame *f, int first, int n,
                            struct rt_error *err)
{
    for (int k = first; k < first + n; k++) {
        const struct rt_patch *p = &f->layout->patch[k];
        struct rt_tensor *from = &c->value[p->value], *to = &f->arg[p->arg];
        rt_alias_follow(&c->shared->aliases, from);
        if (!from->data && from->buf) {
            enum rt_status st = rt_context_load(c, from, err);
            if (st)
                return st;
        }
        to->data = from->data;
        to->buf = from->buf;
        to->alias_of = from->alias_of;
        to->storage = from->storage;
    }
    return RT_OK;
}

/* A kernel may answer with a tensor of its own where it was given one: its bytes belong there. */
static enum rt_status bring_home(struct rt_frame *f, const struct rt_step *s, int o,
                                 struct rt_error *err)
{
    const struct rt_layout *l = f->layout;
    struct rt_tensor got = f->arg[s->out + o], *t = &f->arg[s->out + o];
    const size_t bytes = rt_tensor_bytes(&l->arg[s->out + o]);
    enum rt_status st = RT_OK;
    bind_arg(f, s->out + o);
    if (!got.dtype || got.dtype != t->dtype || rt_tensor_bytes(&got) != bytes ||
        (bytes && !got.data))
        st = rt_fail(err, RT_INTERNAL, "kernel %s left output %d of '%s' without its value",
                     s->prepared->kernel->name, o, l->plan->node[s->node].name);
    else if (bytes)
        memmove(t->data, got.data, bytes);
    rt_tensor_clear(&got);
    return st;
}

/* The same for an output that has to be a tensor of its own. */
static enum rt_status own_bytes(struct rt_context *c, const struct rt_step *s, struct rt_tensor *t,
                                const struct rt_tensor *want, struct rt_error *err)
{
    if (t->dtype != want->dtype || t->rank != want->rank ||
        memcmp(t->dim, want->dim, (size_t)(want->rank > 0 ? want->rank : 0) * sizeof *t->dim) != 0)
        return rt_fail(err, RT_INTERNAL, "kernel %s left '%s' without its value",
                       s->prepared->kernel->name, c->plan->node[s->node].name);
    if (t->buf || !t->data || s->is_view)
        return RT_OK;
    struct rt_tensor copy;
    enum rt_status st = rt_tensor_copy(&copy, t, c->shared->pool, err);
    if (!st)
        *t = copy;
    return st;
}

static enum rt_status run_kernel(struct rt_context *c, struct rt_frame *f, int k,
                                 struct rt_error *err)
{
    const struct rt_layout *l = f->layout;
    const struct rt_step *s = &l->step[k];
    struct bound_step *b = &f->step[k];
    const int n_out = b->r.n_out, first = l->plan->node[s->node].first_value;
    struct rt_tensor *out = b->r.out;
    const uint8_t *kind = l->arg_kind + s->out;
    enum rt_status st = RT_OK;

    for (int o = 0; o < n_out && !st; o++) {
        if (kind[o] != RT_ARG_SLOT)
            continue;
        if (s->is_view)
            out[o] = (struct rt_tensor){0};
        else
            st = rt_tensor_new(&out[o], c->shared->pool, (enum rt_dtype)l->arg[s->out + o].dtype,
                               l->arg[s->out + o].rank, l->arg[s->out + o].dim, err);
    }
    if (!st)
        st = b->run(&b->r);
    for (int o = 0; o < n_out && !st; o++) {
        if (kind[o] == RT_ARG_SLOT) {
            st = own_bytes(c, s, &out[o], &l->arg[s->out + o], err);
            c->value[first + o] = out[o];
            out[o] = (struct rt_tensor){0};
        } else if (out[o].data != in_block(f, &l->extent[(uintptr_t)l->arg[s->out + o].data]))
            st = bring_home(f, s, o, err);
    }
    for (int o = 0; o < n_out && st; o++) { /* what was not handed on */
        if (kind[o] == RT_ARG_SLOT || out[o].buf)
            rt_tensor_clear(&out[o]);
        bind_arg(f, s->out + o);
    }
    return st;
}

static enum rt_status run_ref(struct rt_context *c, struct rt_frame *f, const struct rt_step *s)
{
    const struct pl_node *n = &c->plan->node[s->node];
    rt_tensor_ref(&c->value[n->first_value], &f->arg[s->in]);
    return RT_OK;
}

/* Any step, and all that is to be done around it. */
static enum rt_status run_step(struct rt_context *c, struct rt_frame *f, int k,
                               struct rt_error *err)
{
    const struct rt_layout *l = f->layout;
    const struct rt_step *s = &l->step[k];
    struct rt_trace *trace = c->shared->trace;
    int64_t start_ns = trace ? rt_trace_now(trace) : 0;
    enum rt_status st = RT_OK;

    f->step[k].r.err = err;
    switch ((enum rt_step_kind)s->kind) {
    case RT_STEP_KERNEL:
        if (trace)
            rt_trace_kernel(trace, &l->plan->node[s->node], s->prepared->kernel, f->step[k].r.in);
        st = run_kernel(c, f, k, err);
        if (st)
            rt_exec_fail_at(&l->plan->node[s->node], err);
        else if (trace) {
            const struct pl_node *n = &l->plan->node[s->node];
            rt_trace_ran(trace, n, &l->arg[s->out], start_ns);
        }
        break;
    case RT_STEP_NODE:
        st = rt_exec_in_place(c, s->node, s->last_use, err);
        break;
    case RT_STEP_REF:
        st = run_ref(c, f, s);
        break;
    }
    if (!st && s->n_patch)
        st = patch(c, f, s->patch, s->n_patch, err);
    for (int j = 0; j < s->n_clear; j++)
        rt_tensor_clear(&c->value[l->clear[s->clear + j]]);
    if (!st && s->check)
        st = rt_context_check(c, err);
    return st;
}

enum rt_status rt_frame_run(struct rt_context *c, struct rt_frame *f, struct rt_error *err)
{
    const struct rt_layout *l = f->layout;
    const bool traced = c->shared->trace != NULL;
    const int n = l->n_steps;
    enum rt_status st = RT_OK;

    if (l->portion)
        return rt_portions_run(c, l, err);
    for (int k = 0; k < l->n_live && !st; k++)
        st = patch(c, f, l->live[k].patch, l->live[k].n_patch, err);
    for (int k = 0; k < n && !st; k++) {
        struct bound_step *b = &f->step[k];
        if (!b->simple || traced) {
            st = run_step(c, f, k, err);
            continue;
        }
        b->r.err = err;
        st = b->run(&b->r);
        if (st == RT_OK && b->r.out->data == b->data)
            continue;
        if (!st)
            st = bring_home(f, &l->step[k], 0, err);
        if (st) {
            rt_tensor_clear(b->r.out);
            bind_arg(f, l->step[k].out);
            rt_exec_fail_at(&l->plan->node[l->step[k].node], err);
        }
    }
    c->shared->nodes_run += n;
    return st;
}
