/*
 * The state of the two kernels that compute any convolution, "*.onednn" and "*.plain", and the
 * functions that their files share.
 *
 * conv_kernel.c contains the code that both kernels need. It prepares the state, converts
 * half-precision tensors, handles convolutions with empty tensors, and runs the epilogue after the
 * plain loops. conv_onednn.c splits a convolution into executions of oneDNN primitives, and
 * prepares the primitives and the packed filter. conv_onednn_run.c runs the executions.
 * conv_plain.h declares the plain loops.
 *
 * Threads: the prepare function writes the state. Any number of runs share it, and write only its
 * atomic members.
 */
#ifndef KN_CONV_CONV_INTERNAL_H
#define KN_CONV_CONV_INTERNAL_H

#include <stdatomic.h>

#include "kernels/conv/conv_split.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"

/* ---- the state ---- */

/* The key of a packed filter. It contains everything that the packed bytes depend on. */
struct kn_conv_filter {
    dnnl_memory_desc_t md;
    int64_t groups, ci, co;
    int n_spatial;
    bool transposed, bf16;
    int64_t size[KN_MAX_SPATIAL];
    /* Number of scale factors that follow this struct in memory. It is co, or 0 if the output
     * channels are not scaled. */
    int64_t n_scale;
};

/* The executions that share one shape (conv_split.h). */
struct kn_conv_onednn_slice {
    struct kn_conv_shape g;
    struct kn_dnnl dnnl;
    /* the primitive without the activation, created after the activation has encountered a NaN */
    _Atomic(struct kn_dnnl *) unfused;
};

struct kn_conv_onednn_split {
    struct kn_conv_split by;
    struct kn_conv_onednn_slice slice[KN_CONV_SLICES];
    /*
     * If `channels` is positive, the split divides the output channels of all images. Each
     * execution but the last computes `channels` channels (slice KN_CONV_FIRST). The last execution
     * computes the remaining channels (slice KN_CONV_LAST). This split is used if the filter is
     * much larger than the input and the output, because each core then reads only its share of the
     * filter.
     */
    int64_t channels;
    /* Layout of the scratch memory of one execution, which has `bytes` bytes. oneDNN's own scratch
     * memory is at offset 0, and the input, rounded to bfloat16, is at offset bf16_at. Outputs that
     * are computed out of place are at offset apart_at. */
    size_t bf16_at, apart_at, bytes;
};

/* In a KN_CONV_SERIAL split, one core runs the executions one after the other. In a KN_CONV_SHARDED
 * split, the executions are divided evenly among several cores. */
enum { KN_CONV_SERIAL, KN_CONV_SHARDED, KN_CONV_SPLITS };

struct kn_conv {
    struct kn_conv_shape g;
    enum rt_dtype dtype;
    int i_src, i_filter;
    int64_t n_src, n_filter, n_dst; /* numbers of elements */
    struct kn_epilogue epilogue;    /* the epilogue steps that oneDNN does not compute */
    /* index of the input that oneDNN adds as bias, or 0 if there is none */
    int bias;
    bool activates; /* whether oneDNN computes the activation */
    atomic_int met_nan;
    bool empty; /* set if the sums have no terms, so that the output is zero */
    bool by_library;
    struct kn_conv_onednn_split split[KN_CONV_SPLITS];
    /* number of executions that run concurrently in the sharded split, or 0 without such a split */
    int n_slots;
    struct kn_dnnl reorder; /* the primitive that packs a filter that is not constant */
    struct kn_conv_filter format;
    const struct rt_pack *filter; /* the packed filter, if the filter is constant */
    /* offsets in scratch memory at which float copies of half-precision tensors and the packed
     * filter begin */
    size_t src_at, filter_at, packed_at, dst_at;
    /* offset in scratch memory at which the memory of the sharded executions begins */
    size_t slots_at;
    /* Offset and size of the scratch memory for the output before its broadcast residual is added
     * or, in the plain kernel, for a copy of the residual. */
    size_t broadcast_at, broadcast_bytes;
};

/* Returns the number of input elements that one execution reads. */
static inline int64_t kn_conv_slice_input(const struct kn_conv_onednn_slice *p)
{
    return p->g.batch * kn_conv_image_in(&p->g);
}

/* Returns the number of executions in a split along the output channels. */
static inline int64_t kn_conv_n_slices(const struct kn_conv *c,
                                       const struct kn_conv_onednn_split *split)
{
    return kn_div_up(c->g.co, split->channels);
}

/* ---- conv_kernel.c ---- */

/* Allocates the state, and sets the members that depend only on the node and its shapes. These
 * are g, dtype, i_src, i_filter, n_src, n_filter, n_dst, epilogue, empty and broadcast_bytes. */
enum rt_status kn_conv_prepare_state(struct rt_prep *p, struct kn_conv **out);
/* Lays out the remaining scratch memory, starting at offset `used`, and sets the total size of the
 * scratch memory. If `filter_too` is set, reserves memory for a float copy of a half-precision
 * filter too. */
void kn_conv_place_rest(struct kn_conv *c, struct rt_prep *p, size_t used, bool filter_too);

/* ---- conv_onednn.c ---- */

/* Makes a primitive for shape g. `filter` is the filter's memory layout, or NULL if oneDNN chooses
 * the layout. */
dnnl_status_t kn_conv_make_primitive(const struct kn_conv *c, struct kn_dnnl *d,
                                     const struct kn_conv_shape *g,
                                     const dnnl_memory_desc_t *filter, bool activates);

/* ---- conv_onednn_run.c ---- */

/* The memory that the executions of a run read and write. */
struct kn_conv_work {
    const float *src, *filter;
    float *dst;
    char *workspace; /* scratch memory for the executions of one core */
    /* In a sharded run, a flag that is set when an execution encounters a NaN. The run is then
     * repeated on one core. NULL in serial runs. */
    atomic_bool *met_nan;
};
/* Runs all executions. Uses several cores if there is a sharded split and cores are idle. Then runs
 * the epilogue steps that oneDNN does not compute. Modifies `w`. */
enum rt_status kn_conv_onednn_run(struct rt_run *r, struct kn_conv_work *w);

#endif
