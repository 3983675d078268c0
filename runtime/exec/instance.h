/*
 * An execution instance is a specialisation bound to the memory of one context. instance.c stores
 * the instances of a context and binds them; instance_run.c finds the instance of a segment and
 * runs it.
 *
 * Owner and threads: as for the context.
 */
#ifndef RT_INSTANCE_H
#define RT_INSTANCE_H

#include "runtime/plan/specialisation.h"
#include "runtime/core/run.h"
#include "runtime/exec/context.h"

struct rt_bound_step {
    enum rt_status (*run)(struct rt_run *r);
    /* whether the step's only output is in the activation buffer, and the step has no patches,
     * clears no values and checks no deadline */
    bool simple;
    void *data; /* address of output 0 */
    struct rt_run r;
};

struct rt_instance {
    /* links of the context's list of instances, most recently used first */
    struct rt_instance *next, *prev;
    /* The instance that the context used next after the last use of this instance. NULL if not
     * known. */
    struct rt_instance *then;
    int begin; /* index of the first node of the specialisation's segment */
    struct rt_specialisation *spec;
    void *activations; /* the activation buffer to which the tensors are bound */
    size_t bytes;
    struct rt_bound_step *step;
    struct rt_tensor arg[];
};

/* Returns the context's instance for the segment at `begin` and the shapes of its live values, or
 * NULL if there is none. Moves the instance to the front of the context's list. Every run of a plan
 * uses its segments in the same order, so the instance that followed in the previous run is tried
 * first. */
struct rt_instance *rt_instance_take(struct rt_context *c, int begin);
/* Makes an unbound instance and takes over the caller's reference to the specialisation. If memory
 * runs out, returns NULL, and the caller keeps the reference. Frees the least recently used
 * instances of a context that has too many. */
struct rt_instance *rt_instance_new(struct rt_context *c, struct rt_specialisation *l);
void rt_instance_free(struct rt_context *c, struct rt_instance *f);
/* Binds the instance to the current address of the context's activation buffer. */
void rt_instance_bind(struct rt_context *c, struct rt_instance *f);
/* Resets argument `a` to the state that it had before the run. */
void rt_instance_bind_arg(struct rt_instance *f, int a);
static inline void *rt_instance_place(const struct rt_instance *f, const struct rt_extent *e)
{
    return e->bytes ? (char *)f->activations + e->offset : rt_no_elements();
}

#endif
