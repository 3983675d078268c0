/*
 * Tails (see rt_op.tail): what follows a product or a convolution, in this order, each part being
 * there or not:
 *
 *     y = activation(x * scale + shift + residual)
 *
 * scale and shift are constant vectors over the last axis. A kernel that packs its weights folds
 * the scale into them and lets oneDNN add the shift as its bias; the rest is done here, by loops
 * over what was just made.
 *
 * Folded, a negative scale cannot make -0.0 of products that sum up to 0.0: where nothing is added
 * behind it, such a zero has another sign than TensorFlow's. (With a shift it has not: -0.0 and 0.0
 * is 0.0.) No fold would cost batch normalisation its place in the weights.
 *
 * The residual is another tensor, of the output's shape in every network that there is. A tensor
 * that has to be broadcast, or makes the output larger, is `odd`: the kernel then writes to
 * scratch memory, and kn_epilogue_broadcast makes the output from it.
 */
#ifndef KN_FUSED_EPILOGUE_H
#define KN_FUSED_EPILOGUE_H

#include <math.h>

#include "kernels/cpu/dnnl.h"
#include "runtime/fusion/epilogue.h"
#include "runtime/core/op.h"

struct kn_epilogue {
    int scale, shift, residual; /* which input; 0: none */
    enum rt_activation act;
    float alpha;
    bool residual_is_lhs; /* the residual is the addition's first operand */
    bool broadcast_residual;
    struct rt_shape unfused; /* the output without the residual */
};

/* Whether there is anything to do. */
static inline bool kn_epilogue_any(const struct kn_epilogue *t)
{
    return t->scale || t->shift || t->residual || t->act;
}

/* Whether the activation does no more than keep values between 0 and *most. */
static inline bool kn_epilogue_clips(const struct kn_epilogue *t, float *most)
{
    *most = t->act == RT_ACT_RELU6 ? 6 : INFINITY;
    return t->act == RT_ACT_RELU || t->act == RT_ACT_RELU6;
}

/* rt_op.infer, after the op's own: out[0] becomes what the residual makes of it. */
enum rt_status kn_epilogue_infer(struct rt_infer *x);
/* Then, for an op all of whose kernels cope: the output may be written over the residual, if that
 * has the shape `own` of the output without it. Writing an element then loses the residual's. */
void kn_epilogue_infer_in_place(struct rt_infer *x, const struct rt_shape *unfused);
/* rt_op.rows, after the op's own (which sees the schema's inputs only). */
void kn_epilogue_rows(struct rt_rows *r, void (*unfused)(struct rt_rows *r));

/* In prepare. *odd: the scratch bytes that the kernel must add to its own and hand to
 * kn_epilogue_output (0: none). INTERNAL: a word that is none of a tail's. */
enum rt_status kn_epilogue_prepare(struct kn_epilogue *t, const struct rt_prep *p,
                                   size_t *broadcast_bytes);
/* Where the kernel writes: the output, or, if the tail is odd, `scratch`. */
float *kn_epilogue_output(const struct kn_epilogue *t, const struct rt_run *r, void *scratch);

/* What of the tail kn_epilogue_apply does. */
enum {
    KN_EPILOGUE_SCALE_SHIFT = 1,  /* scale and shift */
    KN_EPILOGUE_RESIDUAL_ACT = 2, /* residual and activation, unless the tail is odd */
    KN_EPILOGUE_ALL = 3,
};
/* On `rows` rows of `cols` elements at y, which stand `at` elements behind the output's start. */
void kn_epilogue_apply(const struct kn_epilogue *t, const struct rt_run *r, int parts, float *y,
                       int64_t at, int64_t rows, int64_t cols);
/* Whether a kernel that is given sums to end must keep them apart from the output, which may lie
 * over the residual: then this instead of kn_epilogue_apply, which writes the output. */
static inline bool kn_epilogue_is_out_of_place(const struct kn_epilogue *t)
{
    return t->residual && !t->broadcast_residual;
}
/* All of it, on sums that lie elsewhere and are lost. Of less than whole rows (then one at a time)
 * a tail without scale and shift. */
void kn_epilogue_apply_out_of_place(const struct kn_epilogue *t, const struct rt_run *r,
                                    float *sums, int64_t at, int64_t rows, int64_t cols);
/*
 * For kernels that cannot: a run of the same whose residual is a copy, if the output lies over it.
 * room: kn_epilogue_residual_bytes of scratch; of an odd tail, which has no such copy, they are
 * what kn_epilogue_prepare says.
 */
enum { KN_EPILOGUE_MAX_INPUTS = 5 /* three of them a tail's */ };
struct kn_epilogue_residual_copy {
    struct rt_run run;
    struct rt_tensor in[KN_EPILOGUE_MAX_INPUTS];
};
size_t kn_epilogue_residual_bytes(const struct kn_epilogue *t);
struct rt_run *kn_epilogue_copy_residual(const struct kn_epilogue *t, struct rt_run *r,
                                         void *workspace, struct kn_epilogue_residual_copy *kept);
/* Its activation alone, on rows of `cols` elements, `ld` apart. */
void kn_epilogue_activate(const struct kn_epilogue *t, float *y, int64_t rows, int64_t cols,
                          int64_t ld);
/* The end of an odd tail: the output from what kn_epilogue_output gave. Of others: nothing. */
enum rt_status kn_epilogue_broadcast(const struct kn_epilogue *t, struct rt_run *r, const float *y);

/* d = s * v, v over the last axis: for weights that are packed with the scale. */
void kn_epilogue_scale(float *d, const float *s, const float *v, int64_t rows, int64_t cols);
/*
 * In prepare: rt_prep_pack of what is also multiplied by the n floats at `scale` (NULL: it is not),
 * which stand behind the `size` bytes of `format` where `fill` sees it, and are part of the key.
 */
enum rt_status kn_epilogue_pack(struct rt_prep *p, int input, const void *format, size_t size,
                                const float *scale, int64_t n, size_t bytes,
                                enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                       const void *format, struct rt_error *err),
                                const struct rt_pack **out);
/* A constant's floats, for prepare: the scale (`input` of the tail), NULL without one. */
const float *kn_epilogue_constant(const struct rt_prep *p, int input);

/*
 * Whether oneDNN does the activation as a post-op. It makes numbers of NaN and infinity where
 * TensorFlow makes NaN (its maximum of NaN and 0 is 0); but comparing NaN, or infinity times 0,
 * raises the processor's invalid flag, so that a run without the flag has met neither. The flag is
 * a thread's own: kn_epilogue_clear_nan_flag lowers it before, kn_epilogue_nan_flag asks for it
 * after a run; then the activation must be done again from what it was given. False on processors
 * without such a flag.
 */
bool kn_epilogue_has_dnnl_post_op(const struct kn_epilogue *t);
dnnl_status_t kn_epilogue_dnnl_post_op(const struct kn_epilogue *t, dnnl_primitive_attr_t attr);
void kn_epilogue_clear_nan_flag(void);
bool kn_epilogue_nan_flag(void);

#endif
