/*
 * The state of the two kernels that compute any convolution, "*.onednn" and "*.plain", and what
 * their files need of each other.
 *
 * conv_kernel.c does what both kernels do: shapes, half types, sums without terms, the epilogue
 * behind the plain loops. conv_onednn.c prepares oneDNN's primitives, their splits into executions
 * and the packed filter; conv_onednn_run.c runs the executions. The plain loops have a header of
 * their own, conv_plain.h.
 *
 * Threads: prepare writes the state. Any number of runs share it, and write only its atomic
 * members.
 */
#ifndef KN_CONV_CONV_INTERNAL_H
#define KN_CONV_CONV_INTERNAL_H

#include <stdatomic.h>

#include "kernels/conv/conv_split.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"

/* ---- the state ---- */

/* The key of a packed filter: everything that its bytes depend on. */
struct kn_conv_filter {
    dnnl_memory_desc_t md;
    int64_t groups, ci, co;
    int n_spatial;
    bool transposed, bf16;
    int64_t size[KN_MAX_SPATIAL];
    /* co or 0: this many floats follow the struct and multiply the output channels */
    int64_t n_scale;
};

/* The executions that have one shape (conv_split.h). */
struct kn_conv_onednn_slice {
    struct kn_conv_shape g;
    struct kn_dnnl dnnl;
    /* the primitive without the activation, made when NaN was met */
    _Atomic(struct kn_dnnl *) unfused;
};

struct kn_conv_onednn_split {
    struct kn_conv_split by;
    struct kn_conv_onednn_slice slice[KN_CONV_SLICES];
    /*
     * > 0: the split is along the output channels. Each execution computes this many channels of
     * all images (slice KN_CONV_FIRST; the last execution, KN_CONV_LAST, the channels that are
     * left). Used where the filter is larger than what it is multiplied with, so that each core
     * reads only its share of the filter.
     */
    int64_t channels;
    /* Scratch memory of one execution: oneDNN's at 0, then the input rounded to bfloat16, then
     * outputs that are computed out of place before they go to the tensor. */
    size_t bf16_at, apart_at, bytes;
};

/* KN_CONV_SERIAL: executions one after the other on one core. KN_CONV_SHARDED: executions that give
 * several cores equal work. */
enum { KN_CONV_SERIAL, KN_CONV_SHARDED, KN_CONV_SPLITS };

struct kn_conv {
    struct kn_conv_shape g;
    enum rt_dtype dtype;
    int i_src, i_filter;
    int64_t n_src, n_filter, n_dst; /* elements */
    struct kn_epilogue epilogue;    /* the steps of the epilogue that oneDNN does not compute */
    int bias;                       /* the input that oneDNN adds as bias; 0: none */
    bool activates;                 /* oneDNN computes the activation */
    atomic_int met_nan;
    bool empty; /* the sums have no terms: the output is zero */
    bool by_library;
    struct kn_conv_onednn_split split[KN_CONV_SPLITS];
    int n_slots; /* executions that run at a time in the sharded split; 0: there is no such split */
    struct kn_dnnl reorder; /* packs a filter that is not constant */
    struct kn_conv_filter format;
    const struct rt_pack *filter; /* the packed filter if it is constant */
    /* offsets in scratch memory: float copies of half-precision tensors, the packed filter */
    size_t src_at, filter_at, packed_at, dst_at;
    size_t slots_at; /* offset in scratch memory of the executions of the sharded split */
    /* Scratch memory for the output before its broadcast residual is added; for the plain loops,
     * for a copy of the residual. */
    size_t broadcast_at, broadcast_bytes;
};

/* Elements of the input that one execution reads. */
static inline int64_t kn_conv_slice_input(const struct kn_conv_onednn_slice *p)
{
    return p->g.batch * kn_conv_image_in(&p->g);
}

/* Executions of a split along the output channels. */
static inline int64_t kn_conv_n_slices(const struct kn_conv *c,
                                       const struct kn_conv_onednn_split *split)
{
    return kn_div_up(c->g.co, split->channels);
}

/* ---- conv_kernel.c ---- */

/* Allocates the state and sets what follows from the node and its shapes: g to epilogue, `empty`
 * and broadcast_bytes. */
enum rt_status kn_conv_prepare_state(struct rt_prep *p, struct kn_conv **out);
/* Places what follows `used` bytes of scratch memory, and sets the size of the whole. `filter_too`:
 * a filter of a half type has a float copy as well. */
void kn_conv_place_rest(struct kn_conv *c, struct rt_prep *p, size_t used, bool filter_too);

/* ---- conv_onednn.c ---- */

/* Makes a primitive for shape g. `filter`: the filter's memory layout; NULL lets oneDNN choose
 * one. */
dnnl_status_t kn_conv_make_primitive(const struct kn_conv *c, struct kn_dnnl *d,
                                     const struct kn_conv_shape *g,
                                     const dnnl_memory_desc_t *filter, bool activates);

/* ---- conv_onednn_run.c ---- */

/* The memory that an execution reads and writes. */
struct kn_conv_work {
    const float *src, *filter;
    float *dst;
    char *workspace; /* scratch memory for the executions of one core */
    /* Set when a sharded run meets NaN: the run then starts again on one core. NULL in serial
     * runs. */
    atomic_bool *met_nan;
};
/* Runs all executions, on several cores where there is a split for them and cores are idle, and the
 * steps of the epilogue that oneDNN does not compute. Changes `w`. */
enum rt_status kn_conv_onednn_run(struct rt_run *r, struct kn_conv_work *w);

#endif
