/*
 * How a convolution is split into executions of a library that computes whole convolutions only
 * (oneDNN). An execution computes `images` images or, where one image is too much for one
 * execution, `rows` rows of outputs along the first spatial axis. The first and the last rows have
 * padding and those between have none, so there are up to three shapes; the last execution may have
 * fewer rows.
 */
#ifndef KN_CONV_SPLIT_H
#define KN_CONV_SPLIT_H

#include "kernels/conv/conv_shape.h"

enum kn_conv_slice { KN_CONV_FIRST, KN_CONV_MIDDLE, KN_CONV_LAST, KN_CONV_SLICES };

struct kn_conv_split {
    int64_t images;
    int64_t rows; /* 0: executions of whole images */
};

/* One execution: which of the shapes it has, and the offsets in elements where it reads and
 * writes. */
struct kn_conv_block {
    enum kn_conv_slice slice;
    int64_t src_at, dst_at;
};

/*
 * The split for one core. An execution takes about ten milliseconds at most, so that the run can be
 * checked for its deadline between executions. With `after`, Slipway's own epilogue loops follow
 * each execution: its outputs then fit in the cache, unless the filter would have to be read too
 * often. No axis may be empty.
 */
void kn_conv_split_serial(const struct kn_conv_shape *g, bool after, struct kn_conv_split *split);
/*
 * The split for `width` cores: a multiple of the number of cores, or many more executions than
 * cores; of whole images if these divide among the cores evenly, else of rows. False: the work is
 * too little for two cores.
 */
bool kn_conv_split_sharded(const struct kn_conv_shape *g, bool after, int width,
                           struct kn_conv_split *split);

/* The cost of the largest execution: its multiplications, at the speed of whole vectors, plus 32
 * for each element that it reads or writes. */
double kn_conv_split_cost(const struct kn_conv_shape *g, const struct kn_conv_split *split);
/*
 * Whether every execution of the split for one core takes half a second at most. The library cannot
 * be interrupted during an execution, and some convolutions are executed as a whole whatever they
 * cost: transposes of one image, and those whose padding is as high as the image.
 */
bool kn_conv_split_is_interruptible(const struct kn_conv_shape *g);
int64_t kn_conv_split_count(const struct kn_conv_shape *g, const struct kn_conv_split *split);
/* The shape of the executions of one slice. False: the split has no such executions. */
bool kn_conv_split_shape(const struct kn_conv_shape *g, const struct kn_conv_split *split,
                         enum kn_conv_slice slice, struct kn_conv_shape *out);
/* The execution with index i. */
struct kn_conv_block kn_conv_split_block(const struct kn_conv_shape *g,
                                         const struct kn_conv_split *split, int64_t i);

/* Elements of one image with ci channels (kn_conv_image_in) and with co channels
 * (kn_conv_image_out). */
int64_t kn_conv_image_in(const struct kn_conv_shape *g);
int64_t kn_conv_image_out(const struct kn_conv_shape *g);

#endif
