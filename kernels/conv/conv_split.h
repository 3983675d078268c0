/*
 * How a convolution is cut into executions of a library that knows whole convolutions only:
 * `images` images each or, where one image is too much for one, `rows` rows of outputs along the
 * first axis. The first and the last rows have their padding, those between have none, so that
 * there are up to three shapes; the last may be fewer.
 */
#ifndef KN_CONV_SPLIT_H
#define KN_CONV_SPLIT_H

#include "kernels/conv/conv_shape.h"

enum kn_conv_slice { KN_CONV_FIRST, KN_CONV_MIDDLE, KN_CONV_LAST, KN_CONV_SLICES };

struct kn_conv_split {
    int64_t images;
    int64_t rows; /* 0: whole images */
};

/* An execution: of which shape, and where it reads and writes, in elements. */
struct kn_conv_block {
    enum kn_conv_slice slice;
    int64_t src_at, dst_at;
};

/*
 * For one core: executions of some ten milliseconds at most, so that it can be asked between them
 * whether to go on; and with `after`, where loops of our own follow each, of outputs that lie in
 * the cache still, unless the filter then had to be read too often. No axis may be empty.
 */
void kn_conv_split_serial(const struct kn_conv_shape *g, bool after, struct kn_conv_split *split);
/*
 * The same for `width` cores: as many blocks as there are cores, or many more; of whole images if
 * they come out even, else of rows. False: there is too little to do for two.
 */
bool kn_conv_split_sharded(const struct kn_conv_shape *g, bool after, int width,
                           struct kn_conv_split *split);

/* What the largest execution takes, in multiplications at a vector's speed. */
double kn_conv_split_cost(const struct kn_conv_shape *g, const struct kn_conv_split *split);
int64_t kn_conv_split_count(const struct kn_conv_shape *g, const struct kn_conv_split *split);
/* The shape of a part's executions; false: the cut has none of it. */
bool kn_conv_split_shape(const struct kn_conv_shape *g, const struct kn_conv_split *split,
                         enum kn_conv_slice slice, struct kn_conv_shape *out);
/* Execution i. */
struct kn_conv_block kn_conv_split_block(const struct kn_conv_shape *g,
                                         const struct kn_conv_split *split, int64_t i);

/* Elements of one image of the wide side (ci channels) and of the other (co channels). */
int64_t kn_conv_image_in(const struct kn_conv_shape *g);
int64_t kn_conv_image_out(const struct kn_conv_shape *g);

#endif
