/*
 * The state of making one specialisation. Three files share it:
 *
 *   specialise.c   finds the role of each node and the last reader of each value
 *   regions.c      decides which kernels form regions, and adds the regions
 *   steps.c        adds all other steps
 *
 * Owner and threads: rt_specialisation_new makes the state on its stack and clears it.
 */
#ifndef RT_SPECIALISE_H
#define RT_SPECIALISE_H

#include <string.h>

#include "runtime/compile/compile.h"
#include "runtime/select/prepared.h"

enum role {
    SKIPPED, /* the node is not run, because it is a constant or a feed, or has no readers */
    VIEW,
    EVALUATED, /* the node's output is computed from the shapes alone */
    KERNEL,
    DEVICE_KERNEL, /* the accelerator runs the node's kernel, as part of a region */
    NODE,
};

/* A DEVICE value is an activation of the region that makes it. A DEVICE value that leaves its
 * region is also in a slot. */
enum place { NOWHERE, CONSTANT, SLOT, ACTIVATION, DEVICE };

struct value {
    struct rt_info info;
    /* The tensor of a CONSTANT. If the node is EVALUATED, struct work owns the tensor's bytes. */
    struct rt_tensor tensor;
    int root; /* index of the value itself or, for a view, of the viewed value */
    int last; /* last node that reads the value's bytes; -1 if there is none */
    int made; /* node that makes the value, or -1 if it is made before the segment */
    int extent;
    /* index among the live values; -1 if the value is not live where the segment begins */
    int live;
    uint8_t place;
    /* whether the value must be in its slot, because rt_exec_node or later nodes read it there */
    bool slot;
    bool escapes;
    bool kept;    /* whether the value is fetched, or read after the segment */
    bool fetched; /* whether the value is a fetch of a callable's plan */
    int region;
    /* `leaves` states whether the value is needed outside the region that makes it. `to_host`
     * states whether the host certainly reads the value's bytes. `stays` states whether the bytes
     * must stay in the accelerator's memory, because another region or a later node may read
     * them. */
    bool leaves, to_host, stays;
    /* Extent of the value's copy in the block of region `copied_to`, or -1 if there is no copy.
     * `copied_to` is the last region that copied the value. */
    int copy, copied_to;
};

/* The nodes of a region, from the first kernel to the last. */
struct region_nodes {
    int first, last;
    int last_step; /* index of the last step that was added for the region */
};

struct work {
    struct rt_plan *plan;
    int begin, end;
    struct value *value;
    uint8_t *role;
    /* prepared kernel of each node, until the node's step takes it over */
    struct rt_prepared **prepared;
    /* index of each node's step; -1 for a node without a step */
    int *step_of;
    struct rt_info *info;
    size_t state_bytes;
    int accelerator;          /* index of the session's accelerator */
    struct rt_device *device; /* the accelerator, or NULL if the session has none */
    /* for each node of the segment, the result of sp_region_of; NULL without an accelerator */
    int *region_of;
    struct region_nodes *region;
    int n_regions;
    struct rt_specialisation *l;
    struct rt_error *err;
};

/* Returns the index of the region that includes node i, or -1 if there is none. A region includes
 * all nodes from its first kernel to its last. */
static inline int sp_region_of(const struct work *w, int i)
{
    return w->region_of ? w->region_of[i - w->begin] : -1;
}
/* Returns a tensor of the type and shape of value v, without data. */
static inline struct rt_tensor sp_tensor_of(const struct work *w, int v)
{
    const struct rt_info *x = &w->value[v].info;
    struct rt_tensor t = {.dtype = (uint8_t)x->dtype, .rank = (int8_t)x->shape.rank};
    memcpy(t.dim, x->shape.dim, sizeof t.dim);
    return t;
}
static inline struct rt_plan_step *sp_node(const struct work *w, int i)
{
    return &w->plan->node[i];
}

/* Grows a full array so that one more element fits. `list` is the address of the pointer to the
 * array. */
bool sp_grow(void *list, int n, size_t size);
enum rt_status sp_no_memory(struct work *w);
/* Adds an extent that is in use from node `first` to node `last`, and sets *out to its index. */
enum rt_status sp_add_extent(struct work *w, bool on_device, size_t bytes, int first, int last,
                             int *out);
/* SP_REFERENCE: a step needs only a reference to the argument. SP_BYTES: it needs the argument's
 * bytes. SP_COMPUTED_BYTES: it needs the bytes unless the argument is a constant. */
enum sp_need { SP_REFERENCE, SP_COMPUTED_BYTES, SP_BYTES };
enum rt_status sp_add_arg(struct work *w, int v, bool is_out, enum sp_need need);
enum rt_status sp_add_step(struct work *w, int i, enum rt_step_kind kind, struct rt_step **out);
/* Adds a step for node i, which is a view. The step makes the slot of output 0 refer to the viewed
 * value. */
enum rt_status sp_add_ref(struct work *w, int i);
/* Returns whether output o of node i may overwrite the input that `infer` names as its alias. Both
 * must be in `place`. If the result is true, the output takes over the input's extent, which is
 * then in use until node `last`. */
bool sp_lies_on_input(struct work *w, int i, int o, enum place place, int last);
enum rt_status sp_add_steps(struct work *w);
/* Completes the steps after all of them have been added. Sets which values each step clears and
 * patches, and after which steps the deadline is checked. */
enum rt_status sp_finish_steps(struct work *w);

/* Finds the regions and the values that leave them. Called when the roles of all nodes and the last
 * readers of all values are known. */
enum rt_status sp_find_regions(struct work *w);
/* Adds region `region`. Then adds the steps that set the slots of views among the region's
 * nodes. */
enum rt_status sp_add_region(struct work *w, int region);
/* Returns the number of bytes of host memory that a region occupies when bound to one stream. */
size_t sp_region_bytes(const struct rt_region *r);

#endif
