/*
 * Splits a convolution into executions of a library that computes only complete convolutions
 * (oneDNN). An execution computes `images` images. If one image is too much for an execution, it
 * computes `rows` rows of outputs along the first spatial axis.
 *
 * In an image, only the first and the last execution have padding, and the last may have fewer
 * rows. There are thus up to three different shapes.
 */
#ifndef KN_CONV_SPLIT_H
#define KN_CONV_SPLIT_H

#include "kernels/conv/conv_shape.h"

enum kn_conv_slice { KN_CONV_FIRST, KN_CONV_MIDDLE, KN_CONV_LAST, KN_CONV_SLICES };

struct kn_conv_split {
    int64_t images;
    /* number of output rows per execution, or 0 if an execution computes complete images */
    int64_t rows;
};

/* One execution, with the index of its shape and the offsets, in elements, at which it reads and
 * writes. */
struct kn_conv_block {
    enum kn_conv_slice slice;
    int64_t src_at, dst_at;
};

/*
 * Computes the split for one core. An execution takes at most about ten milliseconds, so that the
 * deadline can be checked between executions. No axis may be empty.
 *
 * If `after` is set, Slipway's own epilogue loops follow each execution. If the filter also fits in
 * the cache, executions are so small that their outputs stay in the cache for these loops.
 */
void kn_conv_split_serial(const struct kn_conv_shape *g, bool after, struct kn_conv_split *split);
/*
 * Computes the split for `width` cores. The number of executions is a multiple of the number of
 * cores, or is much larger than that number. Executions compute complete images if the images
 * divide evenly among the cores, and rows of outputs otherwise. Returns false if there is too
 * little work for two cores or the work cannot be split.
 */
bool kn_conv_split_sharded(const struct kn_conv_shape *g, bool after, int width,
                           struct kn_conv_split *split);

/* Returns the cost of the largest execution, in multiplications at the speed of full vectors. Each
 * element that the execution reads or writes costs as much as 32 multiplications. */
double kn_conv_split_cost(const struct kn_conv_shape *g, const struct kn_conv_split *split);
/*
 * Returns whether every execution of the split for one core takes at most half a second. The
 * library cannot be interrupted during an execution. A transposed convolution, or one whose padding
 * is as high as the image, has one execution per image regardless of its cost.
 */
bool kn_conv_split_is_interruptible(const struct kn_conv_shape *g);
int64_t kn_conv_split_count(const struct kn_conv_shape *g, const struct kn_conv_split *split);
/* Computes the shape of the executions of one slice. Returns false if the slice has no
 * executions. */
bool kn_conv_split_shape(const struct kn_conv_shape *g, const struct kn_conv_split *split,
                         enum kn_conv_slice slice, struct kn_conv_shape *out);
struct kn_conv_block kn_conv_split_block(const struct kn_conv_shape *g,
                                         const struct kn_conv_split *split, int64_t i);

/* These functions return the number of elements of one image with ci channels (kn_conv_image_in) or
 * with co channels (kn_conv_image_out). */
int64_t kn_conv_image_in(const struct kn_conv_shape *g);
int64_t kn_conv_image_out(const struct kn_conv_shape *g);

#endif
