/*
 * Epilogues (see rt_op.epilogue) are the steps that follow a GEMM or a convolution. All of them are
 * optional, and their order is:
 *
 *     y = activation(x * scale + shift + residual)
 *
 * scale and shift are constant vectors over the last axis. A kernel that packs its weights folds
 * the scale into them and lets oneDNN add the shift as a bias. The loops in epilogue.c apply the
 * remaining steps to outputs that are still in the cache.
 *
 * TensorFlow's multiplication of a sum of 0.0 by a negative scale yields -0.0, while a scale folded
 * into the weights leaves the sum 0.0. The sign of such a zero therefore differs from TensorFlow's
 * unless a shift is added (-0.0 + 0.0 is 0.0). Refusing to fold negative scales would prevent batch
 * normalisation from being folded into the weights.
 *
 * The residual is another tensor. In every known network it has the output's shape. Where it must
 * be broadcast, or makes the output larger (`broadcast_residual`), the kernel writes to scratch
 * memory, and kn_epilogue_broadcast computes the output from there.
 */
#ifndef KN_FUSED_EPILOGUE_H
#define KN_FUSED_EPILOGUE_H

#include <math.h>

#include "kernels/cpu/dnnl.h"
#include "runtime/fusion/epilogue.h"
#include "runtime/core/op.h"

struct kn_epilogue {
    /* index of each step's input among the node's inputs, or 0 if the epilogue lacks the step */
    int scale, shift, residual;
    enum rt_activation act;
    float alpha;
    bool residual_is_lhs; /* the residual is the left operand of its addition */
    bool broadcast_residual;
    struct rt_shape unfused; /* the shape of the output before the residual is added */
};

static inline bool kn_epilogue_any(const struct kn_epilogue *t)
{
    return t->scale || t->shift || t->residual || t->act;
}

/* Returns whether the activation only clips values to [0, *most]. */
static inline bool kn_epilogue_clips(const struct kn_epilogue *t, float *most)
{
    *most = t->act == RT_ACT_RELU6 ? 6 : INFINITY;
    return t->act == RT_ACT_RELU || t->act == RT_ACT_RELU6;
}

/* Sets the shape of out[0] to the output's shape after the residual is added. Called in rt_op.infer
 * after the op's own inference. */
enum rt_status kn_epilogue_infer(struct rt_infer *x);
/*
 * Lets the output be written over the residual if the residual has the shape `unfused`, which is
 * the output's shape before the residual is added. Writing an output element then overwrites the
 * residual's element. Called after kn_epilogue_infer, only for ops whose kernels all support this.
 */
void kn_epilogue_infer_in_place(struct rt_infer *x, const struct rt_shape *unfused);
/* Implements rt_op.rows for an op with an epilogue. `unfused` is the op's own rule, which is given
 * only the inputs in the op's schema. */
void kn_epilogue_rows(struct rt_rows *r, void (*unfused)(struct rt_rows *r));

/* Reads the epilogue while a kernel is prepared. The kernel must reserve *broadcast_bytes
 * additional bytes of scratch memory, possibly 0, and pass the address of these bytes to
 * kn_epilogue_output. Returns INTERNAL if the node's epilogue attribute contains an unknown
 * word. */
enum rt_status kn_epilogue_prepare(struct kn_epilogue *t, const struct rt_prep *p,
                                   size_t *broadcast_bytes);
/* Returns the memory that the kernel writes, which is the output, or `scratch` if the residual is
 * broadcast. */
float *kn_epilogue_output(const struct kn_epilogue *t, const struct rt_run *r, void *scratch);

/* The steps that kn_epilogue_apply can apply. */
enum {
    KN_EPILOGUE_SCALE_SHIFT = 1, /* applies the scale and the shift */
    /* applies the residual and the activation, or neither if the residual is broadcast */
    KN_EPILOGUE_RESIDUAL_ACT = 2,
    KN_EPILOGUE_ALL = 3,
};
/* Applies the steps `parts` to `rows` rows of `cols` elements at y. The rows begin `at` elements
 * after the start of the output. */
void kn_epilogue_apply(const struct kn_epilogue *t, const struct rt_run *r, int parts, float *y,
                       int64_t at, int64_t rows, int64_t cols);
/* Returns whether a kernel must compute its sums in memory other than the output, because the
 * output may overlap the residual. The kernel then calls kn_epilogue_apply_out_of_place instead of
 * kn_epilogue_apply. */
static inline bool kn_epilogue_is_out_of_place(const struct kn_epilogue *t)
{
    return t->residual && !t->broadcast_residual;
}
/* Applies the complete epilogue to `sums`, which lies outside the output, and writes the output.
 * Overwrites `sums`. If the epilogue has no scale and no shift, a call may cover only part of a
 * row. */
void kn_epilogue_apply_out_of_place(const struct kn_epilogue *t, const struct rt_run *r,
                                    float *sums, int64_t at, int64_t rows, int64_t cols);
/*
 * kn_epilogue_copy_residual is for kernels that cannot compute out of place. If the output overlaps
 * the residual, the function copies the residual to `workspace` and returns a run that reads the
 * copy. If they do not overlap, or if the residual is broadcast, the function returns `r`.
 * `workspace` has kn_epilogue_residual_bytes bytes.
 */
/* maximum number of inputs of a node, including three for its epilogue */
enum { KN_EPILOGUE_MAX_INPUTS = 5 };
struct kn_epilogue_residual_copy {
    struct rt_run run;
    struct rt_tensor in[KN_EPILOGUE_MAX_INPUTS];
};
size_t kn_epilogue_residual_bytes(const struct kn_epilogue *t);
struct rt_run *kn_epilogue_copy_residual(const struct kn_epilogue *t, struct rt_run *r,
                                         void *workspace, struct kn_epilogue_residual_copy *kept);
/* Applies only the activation, to rows of `cols` elements whose starts are `ld` elements apart. */
void kn_epilogue_activate(const struct kn_epilogue *t, float *y, int64_t rows, int64_t cols,
                          int64_t ld);
/* Completes an epilogue with a broadcast residual. Computes the output from the memory that
 * kn_epilogue_output returned. Does nothing for other epilogues. */
enum rt_status kn_epilogue_broadcast(const struct kn_epilogue *t, struct rt_run *r, const float *y);

/* Computes `d = s * v`, where s has `rows` rows of `cols` elements, and v has `cols` elements.
 * Applies the scale to weights when they are packed. */
void kn_epilogue_scale(float *d, const float *s, const float *v, int64_t rows, int64_t cols);
/* Calls rt_prep_pack for weights that are multiplied by `scale` when they are packed. If `scale` is
 * NULL, the weights are not multiplied. `fill` receives the `size` bytes of `format`, followed by
 * the n floats at `scale`. May be called only while a kernel is being prepared. */
enum rt_status kn_epilogue_pack(struct rt_prep *p, int input, const void *format, size_t size,
                                const float *scale, int64_t n, size_t bytes,
                                enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                       const void *format, struct rt_error *err),
                                const struct rt_pack **out);
/* Returns the values of a constant input, such as the scale, or NULL if `input` is 0 or not
 * constant. Called while a kernel is prepared. */
const float *kn_epilogue_constant(const struct rt_prep *p, int input);

/*
 * Returns whether oneDNN can compute the activation as a post-op.
 *
 * For some NaN and infinite inputs, oneDNN's post-ops return numbers where TensorFlow returns NaN
 * (the maximum of NaN and 0 is 0). On such inputs, comparing NaN or multiplying infinity by 0 sets
 * the thread's flag for invalid operations. kn_epilogue_clear_nan_flag clears the flag before a
 * run, and kn_epilogue_nan_flag reads it after the run. If the flag is set, the activation must be
 * computed again from its input. On processors without this flag, oneDNN's post-ops are not used.
 */
bool kn_epilogue_has_dnnl_post_op(const struct kn_epilogue *t);
dnnl_status_t kn_epilogue_dnnl_post_op(const struct kn_epilogue *t, dnnl_primitive_attr_t attr);
void kn_epilogue_clear_nan_flag(void);
bool kn_epilogue_nan_flag(void);

#endif
