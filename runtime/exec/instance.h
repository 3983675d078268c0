/*
 * A frame: a layout bound to the memory of one context. frame.c keeps a context's frames and binds
 * them; frame_run.c finds the frame of a segment and runs it.
 *
 * Owner and threads: its context's.
 */
#ifndef RT_INSTANCE_H
#define RT_INSTANCE_H

#include "runtime/plan/specialisation.h"

struct rt_bound_step {
    enum rt_status (*run)(struct rt_run *r);
    bool simple; /* a kernel of one output in the block, after which nothing is to be done */
    void *data;  /* of output 0 */
    struct rt_run r;
};

struct rt_instance {
    struct rt_instance *next, *prev; /* the last used first */
    struct rt_instance *then;        /* what was used after it the last time; NULL: none is known */
    int begin;                       /* the layout's */
    struct rt_specialisation *spec;
    void *activations; /* what it is bound to */
    size_t bytes;
    struct rt_bound_step *step;
    struct rt_tensor arg[];
};

/* Of what begins there, to the front; NULL: none. A plan of many segments asks for one after the
 * other, each time. */
struct rt_instance *rt_frame_take(struct rt_context *c, int begin);
/* Takes the reference to the layout; NULL: no memory, and it is the caller's still. The least used
 * of the context go when there are too many. */
struct rt_instance *rt_frame_new(struct rt_context *c, struct rt_specialisation *l);
void rt_frame_free(struct rt_context *c, struct rt_instance *f);
/* To the context's block as it lies now. */
void rt_frame_bind(struct rt_context *c, struct rt_instance *f);
/* Argument `a` as it is before a run. */
void rt_frame_bind_arg(struct rt_instance *f, int a);
static inline void *rt_frame_place(const struct rt_instance *f, const struct rt_extent *e)
{
    return e->bytes ? (char *)f->activations + e->offset : rt_no_elements();
}

#endif
