/*
 * Tier 1: a segment of a plan's order, compiled for exact shapes.
 *
 *   compile/specialise.c  the walk over the nodes: shapes, values, kernels, what needs a tensor of
 *                         its own
 *   compile/layout.c      where everything lies in one block of memory
 *   compile/portions.c    which layouts are better run a few rows at a time
 *   compile/compile.c     the one entry: all that is wanted, one layout after the other
 *   exec/layout_cache.c   which layouts a plan has, which are wanted, how many are kept
 *   exec/frame.c          a layout bound to the memory of a context
 *   exec/frame_run.c      running it, whole or in portions
 *
 * A segment is [begin, end) of the order. Its layout is right for the exact types and shapes of
 * what is live at `begin`. It ends behind the first node whose output shapes are known only when it
 * has run. Values that depend on what is fed are never part of it: a node whose infer reads one
 * ends the segment.
 *
 * Three kinds of values. One in the block is bytes at an offset, shared with others at other times;
 * its tensors have no buffer. One in a slot is a tensor of its own in rt_context.value, as tier 0
 * has them all: what is fetched, lives on behind the segment, is read by a node that the segment
 * does not run itself, or might be kept by a view. A constant is the plan's, or the layout's when
 * it follows from the shapes.
 *
 * Threads: a layout is immutable once made, and shared by reference counting. A frame is its
 * context's.
 */
#ifndef RT_SPECIALISATION_H
#define RT_SPECIALISATION_H

#include "runtime/plan/plan.h"

/* ---- memory of a block ---- */

/* Bytes that are in use from one step to another, both included. */
struct rt_extent {
    size_t bytes;
    int first, last;
    size_t offset; /* set by rt_memory_plan_place; a multiple of 64 */
};

/* ---- a layout ---- */

enum rt_step_kind {
    RT_STEP_KERNEL, /* a kernel on tensors whose shapes are known */
    RT_STEP_NODE,   /* rt_exec_node, on slots */
    RT_STEP_REF,    /* a slot becomes a reference to its only input: a view, or a known value */
};

enum { RT_PORTION_ARGS = 16 };
enum rt_arg_kind { RT_ARG_CONST, RT_ARG_ACTIVATION, RT_ARG_SLOT };

/* Bytes of the slot of value `value` become those of argument `arg`. */
struct rt_patch {
    int value, arg;
};

struct rt_step {
    uint8_t kind;
    bool check;   /* much was done since the deadline was last looked at */
    bool is_view; /* a kernel that makes its own outputs */
    int node;
    struct rt_prepared *prepared;
    int in, out;        /* first of its arguments */
    int scratch;        /* its extent, -1: none */
    uint64_t last_use;  /* of RT_STEP_NODE */
    int patch, n_patch; /* what its outputs are handed to */
    int clear, n_clear; /* slots that nobody reads any more */
};

struct rt_live {
    int value;
    uint8_t dtype;
    struct rt_shape shape; /* rank -1: of a type without shapes */
    int patch, n_patch;
};

struct rt_specialisation {
    struct rt_specialisation *next; /* of its segment; guarded by spec_mu, until it is taken out */
    struct rt_plan *plan;
    int begin, end;
    /* > 0: it has no steps, so many rows at a time are run by another layout. Then feeds and
     * fetches are RT_PORTION_ARGS at most. */
    int64_t micro_batch;
    atomic_int refs;
    atomic_bool retired;
    _Atomic int64_t used; /* a stamp, to find the least used */
    int n_live;
    struct rt_live *live;
    int n_steps;
    struct rt_step *step;
    int n_args;
    struct rt_tensor *arg; /* in the block: `data` is the index of an extent; constants: whole */
    uint8_t *arg_kind;
    int n_patches;
    struct rt_patch *patch;
    int n_clears;
    int *clear;
    int n_extents;
    struct rt_extent *extent;
    size_t activation_bytes;
    size_t slot_bytes; /* of tensors that kernels are given besides */
    int n_evaluated;
    struct rt_tensor *evaluated; /* values that follow from the shapes */
    size_t bytes;                /* of the layout itself */
};

void rt_specialisation_unref(struct rt_specialisation *l); /* NULL is fine */

/* ---- a frame ---- */

struct rt_instance;
/* The frame of this context for the segment at `begin` and the live values' shapes; NULL: there is
 * no layout, or no memory for it. */
struct rt_instance *rt_instance_find(struct rt_context *c, int begin);
enum rt_status rt_instance_run(struct rt_context *c, struct rt_instance *f, struct rt_error *err);
int rt_instance_end(const struct rt_instance *f);
void rt_instances_free(struct rt_context *c);
/* Those of layouts that are no longer kept go to the front of *list, for rt_instances_free_list. */
void rt_instances_take_retired(struct rt_context *c, struct rt_instance **list);
void rt_instances_free_list(struct rt_instance *list); /* of no context; NULL is fine */

/* ---- the layouts of a plan ---- */

/* A layout whose live values are as in this context, with a reference; NULL: there is none, and it
 * is wanted if it was missed before. */
struct rt_specialisation *rt_segment_specialisation(struct rt_context *c, int begin);
/* The one that was asked for last, with a reference; NULL: there is none. */
struct rt_specialisation *rt_segment_last(struct rt_plan *p, int begin);
bool rt_segment_fits(const struct rt_specialisation *l, const struct rt_context *c);

/* ---- the queue of layouts that are wanted, for who compiles (compile.h) ---- */

struct rt_pending_compilation {
    struct rt_pending_compilation *next;
    struct rt_plan_box *box;
    struct rt_plan *plan;
    uint64_t hash;
    int begin, n_live;
    struct rt_live live[];
};
struct rt_pending_compilation *rt_want_take(struct rt_session *s); /* NULL: nothing is wanted */
void rt_want_free(struct rt_pending_compilation *w);
/* Runs of these shapes never ask again. */
void rt_want_refuse(struct rt_session *s, const struct rt_pending_compilation *w);
/* From now on runs find it, unless there is one by now or no room. Takes the reference. */
void rt_layout_publish(struct rt_session *s, struct rt_specialisation *l);

#endif
