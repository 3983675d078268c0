/*
 * Tier 1: segments of a plan, compiled for exact shapes.
 *
 *   compile/specialise.c         finds shapes, values and kernels, and decides which values need a
 *                                separate tensor
 *   compile/memory_plan.c        places all tensors in one activation buffer
 *   compile/micro_batch.c        decides which specialisations run a few rows at a time
 *   compile/compile.c            runs every pending compilation, one at a time
 *   exec/specialisation_cache.c  keeps a limited number of specialisations of a plan, and a list of
 *                                the pending ones
 *   exec/instance.c              binds a specialisation to the memory of a context
 *   exec/instance_run.c          runs an execution instance, in one run or in micro-batches
 *
 * A segment is the steps [begin, end) of a plan. Its specialisation is valid for the exact types
 * and shapes of the values that are live at `begin`. A segment ends after the first node whose
 * output shapes are known only when it has run. The contents of feeds are never compiled into a
 * specialisation: a node whose infer function reads a value that depends on them ends the segment.
 *
 * There are three kinds of values. A value in the activation buffer is a range of bytes at an
 * offset, and its tensors have no rt_buffer. Values whose lifetimes do not overlap may share bytes.
 * A value in a slot is a separate tensor in rt_context.value, as all values are in tier 0. A value
 * is in a slot if it is fetched, is live after the segment, is read by a node that the segment does
 * not run itself, or might be kept alive by a view. A constant belongs to the plan, or to the
 * specialisation if it follows from the shapes.
 *
 * Threads: a specialisation is immutable once made, and shared by reference counting. An execution
 * instance belongs to its context.
 */
#ifndef RT_SPECIALISATION_H
#define RT_SPECIALISATION_H

#include "runtime/plan/plan.h"
#include "runtime/plan/device_region.h"

/* ---- memory in the activation buffer ---- */

/* A range of the activation buffer that is in use from step `first` to step `last`, inclusive. */
struct rt_extent {
    size_t bytes;
    int first, last;
    /* whether the range is in the block of a region's stream, not in the activation buffer */
    bool on_device;
    /* offset in the activation buffer, a multiple of 64; set by rt_memory_plan_place */
    size_t offset;
};

/* ---- a specialisation ---- */

enum rt_step_kind {
    RT_STEP_KERNEL, /* runs a kernel on tensors whose shapes are known */
    RT_STEP_NODE,   /* runs a node with rt_exec_node, as tier 0 does */
    RT_STEP_REGION,
    /* makes a slot refer to the step's only input, which is a constant or the input of a view */
    RT_STEP_REF,
};

enum { RT_MICRO_BATCH_ARGS = 16 };
enum rt_arg_kind { RT_ARG_CONST, RT_ARG_ACTIVATION, RT_ARG_SLOT };

/* As soon as `value` exists, argument `arg` is set to the data, buffer and alias in the value's
 * slot. */
struct rt_patch {
    int value, arg;
    bool loads; /* whether the bytes must be on the host when a step reads the argument */
};

struct rt_step {
    uint8_t kind;
    /* Whether to check the deadline after this step. Checks are made only after a certain amount of
     * work. */
    bool check;
    bool is_view; /* whether the kernel creates its own outputs (RT_K_VIEWS) */
    int node;
    struct rt_prepared *prepared;
    int in, out;       /* indexes of the first input argument and the first output argument */
    int scratch;       /* index of the scratch memory's extent, or -1 if there is none */
    int region;        /* index of the region of an RT_STEP_REGION */
    uint64_t last_use; /* for an RT_STEP_NODE: bit k is set if no later step reads input k */
    /* patches [patch, patch + n_patch) pass the step's outputs to arguments */
    int patch, n_patch;
    /* Elements [clear, clear + n_clear) of rt_specialisation.clear are the slots that no later step
     * reads. */
    int clear, n_clear;
};

struct rt_live {
    int value;
    uint8_t dtype;
    struct rt_shape shape; /* shape of the value; the rank is -1 if the value's type has no shape */
    int patch, n_patch;
};

struct rt_specialisation {
    /* The next specialisation of the segment. Guarded by spec_mu while this one is in the list. */
    struct rt_specialisation *next;
    struct rt_plan *plan;
    int begin, end;
    /* The number of rows in a micro-batch, or 0. If it is positive, this specialisation has no
     * steps; another specialisation runs the batch in micro-batches. The plan then has at most
     * RT_MICRO_BATCH_ARGS feeds and fetches. */
    int64_t micro_batch;
    atomic_int refs;
    atomic_bool retired;
    /* The session's count of runs at the last use. The least recently used specialisation is
     * evicted first. */
    _Atomic int64_t used;
    int n_live;
    struct rt_live *live;
    int n_steps;
    struct rt_step *step;
    int n_args;
    /* For an argument of kind RT_ARG_ACTIVATION, `data` is the index of an extent instead of an
     * address. An argument of kind RT_ARG_CONST is a complete tensor. */
    struct rt_tensor *arg;
    uint8_t *arg_kind;
    int n_patches;
    struct rt_patch *patch;
    int n_clears;
    int *clear;
    int n_extents;
    struct rt_extent *extent;
    size_t activation_bytes;
    /* The regions, and the size in bytes of the block that they need. Every extent with on_device
     * set is in this block. */
    int n_regions;
    struct rt_region *region;
    struct rt_session *session;
    /* The accelerator of the regions, or NULL, and its index in the session. Without regions, runs
     * on any accelerator may use the specialisation. */
    struct rt_device *device;
    int accelerator;
    size_t device_bytes;
    size_t slot_bytes; /* total size in bytes of the slot tensors that are allocated for kernels */
    int n_evaluated;
    struct rt_tensor *evaluated; /* constants computed from the shapes */
    size_t bytes;                /* size of the specialisation itself, in bytes */
};

void rt_specialisation_unref(struct rt_specialisation *l); /* does nothing if `l` is NULL */

/* ---- an execution instance ---- */

struct rt_instance;
/* Finds or makes the context's execution instance for the segment at `begin` and the shapes of the
 * live values. Returns NULL if there is no specialisation, or no memory for an instance. */
struct rt_instance *rt_instance_find(struct rt_context *c, int begin);
enum rt_status rt_instance_run(struct rt_context *c, struct rt_instance *f, struct rt_error *err);
int rt_instance_end(const struct rt_instance *f);
void rt_instances_free(struct rt_context *c);
/* Moves the instances of retired specialisations to the front of *list, for
 * rt_instances_free_list. */
void rt_instances_take_retired(struct rt_context *c, struct rt_instance **list);
/* Frees instances that belong to no context. `list` may be NULL. */
void rt_instances_free_list(struct rt_instance *list);

/* ---- the specialisations of a plan ---- */

/* Returns a reference to the specialisation of the segment at `begin` for the context's live
 * values, or NULL if there is none. The second miss for the same shapes requests their
 * compilation. */
struct rt_specialisation *rt_segment_specialisation(struct rt_context *c, int begin);
/* Returns a reference to the most recently used specialisation that has steps of its own, or NULL
 * if there is none. */
struct rt_specialisation *rt_segment_last(struct rt_plan *p, int begin);
bool rt_segment_fits(const struct rt_specialisation *l, const struct rt_context *c);

/* rt_plan.compiled has bits only for numbers of rows below this limit */
enum { RT_COMPILED_ROWS = 1024 };
/* Implements rt_callable_request_compilation: requests a specialisation of the plan's first
 * segment. */
void rt_segment_request(struct rt_plan_box *b, const struct rt_shape *shapes);
/* Frees the segments of a plan and retires their specialisations. */
void rt_segments_free(struct rt_plan *p);

/* ---- the queue of pending compilations, for the compiler (compile/compile.h) ---- */

struct rt_pending_compilation {
    struct rt_pending_compilation *next;
    struct rt_plan_box *box;
    struct rt_plan *plan;
    uint64_t hash;
    int accelerator;  /* index of the session's accelerator that is to run the regions */
    int memory_freed; /* rt_session.memory_freed when the compilation began */
    int begin, n_live;
    struct rt_live live[];
};
struct rt_pending_compilation *
rt_pending_compilation_take(struct rt_session *s); /* returns NULL if the queue is empty */
void rt_pending_compilation_free(struct rt_pending_compilation *w);
void rt_pending_compilations_free(struct rt_session *s); /* empties the queue */
/* Returns whether a published specialisation already serves the runs for which `w` was requested.
 * One without regions serves the runs on all accelerators. */
bool rt_pending_compilation_is_made(struct rt_session *s, const struct rt_pending_compilation *w);
/* Later requests for a compilation with the shapes of `w` will be ignored. */
void rt_pending_compilation_refuse(struct rt_session *s, const struct rt_pending_compilation *w);
/* If the compilation has failed with `st` because its accelerator, for whose memory the session
 * waits, has no memory, keeps `w` until rt_session_memory_freed is called, and returns true. */
bool rt_pending_compilation_waits(struct rt_session *s, struct rt_pending_compilation *w,
                                  enum rt_status st);
/* Makes the specialisation available to runs, unless an equal one is published already or the cache
 * is full. Takes over the caller's reference. */
void rt_specialisation_publish(struct rt_session *s, struct rt_specialisation *l);

#endif
