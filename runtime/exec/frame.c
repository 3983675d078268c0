/*
 * The frames of a context. Binding fills in every tensor and every rt_run once, so that a step in
 * the steady state is one call. Only slots are handed on as the run goes.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/frame.h"

enum { MAX_FRAMES = 256, MAX_FRAME_BYTES = 8 << 20 };

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

void rt_frame_free(struct rt_context *c, struct rt_frame *f)
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

struct rt_frame *rt_frame_take(struct rt_context *c, int begin)
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

void rt_frame_bind_arg(struct rt_frame *f, int a)
{
    const struct rt_layout *l = f->layout;
    f->arg[a] = l->arg[a];
    if (l->arg_kind[a] == RT_ARG_BLOCK)
        f->arg[a].data = rt_frame_place(f, &l->extent[(uintptr_t)l->arg[a].data]);
}

void rt_frame_bind(struct rt_context *c, struct rt_frame *f)
{
    const struct rt_layout *l = f->layout;
    f->block = c->block;
    for (int a = 0; a < l->n_args; a++)
        rt_frame_bind_arg(f, a);
    for (int k = 0; k < l->n_steps; k++) {
        const struct rt_step *s = &l->step[k];
        const struct rt_plan_step *n = &l->plan->node[s->node];
        struct rt_bound_step *b = &f->step[k];
        *b = (struct rt_bound_step){0};
        if (s->kind != RT_STEP_KERNEL)
            continue;
        b->run = s->prepared->kernel->run;
        b->data = f->arg[s->out].data;
        b->simple = n->n_out == 1 && l->arg_kind[s->out] == RT_ARG_BLOCK && !s->n_clear &&
                    !s->n_patch && !s->check;
        b->r = (struct rt_run){
            .node = n->def,
            .state = s->prepared->state,
            .n_in = n->n_in,
            .n_out = n->n_out,
            .in = &f->arg[s->in],
            .out = &f->arg[s->out],
            .scratch = s->scratch < 0 ? NULL : rt_frame_place(f, &l->extent[s->scratch]),
            .ctx = c};
    }
}

struct rt_frame *rt_frame_new(struct rt_context *c, struct rt_layout *l)
{
    const size_t head = sizeof(struct rt_frame) + (size_t)l->n_args * sizeof(struct rt_tensor);
    const size_t bytes = head + (size_t)l->n_steps * sizeof(struct rt_bound_step);
    struct rt_frame *f = malloc(bytes);
    if (!f)
        return NULL;
    *f = (struct rt_frame){.begin = l->begin, .layout = l, .bytes = bytes};
    f->step = (struct rt_bound_step *)((char *)f + head);
    push(c, f);
    c->frame_bytes += bytes;
    size_t sum = 0;
    int n = 0;
    for (struct rt_frame *x = f->next, *next; x; x = next) {
        next = x->next;
        sum += x->bytes;
        if (++n >= MAX_FRAMES || sum >= MAX_FRAME_BYTES)
            rt_frame_free(c, x);
    }
    return f;
}
