/*
 * The execution instances of a context. Binding an instance fills in all of its
 * tensors and its rt_run structs, so that a simple step needs only one call. During a run, only the
 * values in slots (RT_ARG_SLOT) change owner.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/instance.h"
#include "runtime/select/prepared.h"

enum { MAX_INSTANCES = 256, MAX_INSTANCE_BYTES = 8 << 20 };

int rt_instance_end(const struct rt_instance *f)
{
    return f->spec->end;
}

/* ---- the list ---- */

static void push(struct rt_context *c, struct rt_instance *f)
{
    f->prev = NULL;
    f->next = c->instances;
    if (f->next) {
        f->next->prev = f;
        f->next->then = f;
    }
    c->instances = f;
}

static void take_out(struct rt_context *c, struct rt_instance *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        c->instances = f->next;
    if (f->next)
        f->next->prev = f->prev;
}

static void detach(struct rt_context *c, struct rt_instance *f)
{
    take_out(c, f);
    for (struct rt_instance *x = c->instances; x; x = x->next)
        x->then = x->then == f ? NULL : x->then;
    c->instance_bytes -= f->bytes;
}

void rt_instances_free_list(struct rt_instance *list)
{
    for (struct rt_instance *f = list, *next; f; f = next) {
        next = f->next;
        rt_specialisation_unref(f->spec);
        free(f);
    }
}

void rt_instance_free(struct rt_context *c, struct rt_instance *f)
{
    detach(c, f);
    f->next = NULL;
    rt_instances_free_list(f);
}

void rt_instances_free(struct rt_context *c)
{
    for (const struct rt_instance *f = c->instances; f; f = f->next)
        c->instance_bytes -= f->bytes;
    rt_instances_free_list(c->instances);
    c->instances = NULL;
}

void rt_instances_take_retired(struct rt_context *c, struct rt_instance **list)
{
    for (struct rt_instance *f = c->instances, *next; f; f = next) {
        next = f->next;
        if (!atomic_load_explicit(&f->spec->retired, memory_order_relaxed))
            continue;
        detach(c, f);
        f->next = *list;
        *list = f;
    }
}

static bool is_for(const struct rt_instance *f, const struct rt_context *c, int begin)
{
    return f->begin == begin && rt_segment_fits(f->spec, c);
}

struct rt_instance *rt_instance_take(struct rt_context *c, int begin)
{
    struct rt_instance *f = c->instances;

    if (f && f->then && is_for(f->then, c, begin))
        f = f->then;
    else
        while (f && !is_for(f, c, begin))
            f = f->next;
    if (f && f != c->instances) {
        take_out(c, f);
        push(c, f);
    }
    return f;
}

void rt_instance_bind_arg(struct rt_instance *f, int a)
{
    const struct rt_specialisation *l = f->spec;
    f->arg[a] = l->arg[a];
    if (l->arg_kind[a] == RT_ARG_ACTIVATION)
        f->arg[a].data = rt_instance_place(f, &l->extent[(uintptr_t)l->arg[a].data]);
}

void rt_instance_bind(struct rt_context *c, struct rt_instance *f)
{
    const struct rt_specialisation *l = f->spec;
    f->activations = c->activations;
    for (int a = 0; a < l->n_args; a++)
        rt_instance_bind_arg(f, a);
    for (int k = 0; k < l->n_steps; k++) {
        const struct rt_step *s = &l->step[k];
        const struct rt_plan_step *n = &l->plan->node[s->node];
        struct rt_bound_step *b = &f->step[k];
        *b = (struct rt_bound_step){0};
        if (s->kind != RT_STEP_KERNEL)
            continue;
        b->run = s->prepared->kernel->run;
        b->data = f->arg[s->out].data;
        b->simple = n->n_out == 1 && l->arg_kind[s->out] == RT_ARG_ACTIVATION && !s->n_clear &&
                    !s->n_patch && !s->check;
        b->r = (struct rt_run){
            .node = n->def,
            .state = s->prepared->state,
            .n_in = n->n_in,
            .n_out = n->n_out,
            .in = &f->arg[s->in],
            .out = &f->arg[s->out],
            .scratch = s->scratch < 0 ? NULL : rt_instance_place(f, &l->extent[s->scratch]),
            .ctx = c};
    }
}

struct rt_instance *rt_instance_new(struct rt_context *c, struct rt_specialisation *l)
{
    const size_t head = sizeof(struct rt_instance) + (size_t)l->n_args * sizeof(struct rt_tensor);
    const size_t bytes = head + (size_t)l->n_steps * sizeof(struct rt_bound_step);
    struct rt_instance *f = malloc(bytes);
    if (!f)
        return NULL;
    *f = (struct rt_instance){.begin = l->begin, .spec = l, .bytes = bytes};
    f->step = (struct rt_bound_step *)((char *)f + head);
    push(c, f);
    c->instance_bytes += bytes;
    size_t sum = 0;
    int n = 0;
    for (struct rt_instance *x = f->next, *next; x; x = next) {
        next = x->next;
        sum += x->bytes;
        if (++n >= MAX_INSTANCES || sum >= MAX_INSTANCE_BYTES)
            rt_instance_free(c, x);
    }
    return f;
}
