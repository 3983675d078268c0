/*
 * How a convolution is cut into executions of a library that knows whole convolutions only:
 * `images` images each or, where one image is too much for one, `rows` rows of outputs along the
 * first axis. The first and the last rows have their padding, those between have none, so that
 * there are up to three shapes; the last may be fewer.
 */
#ifndef KN_CPU_CONV_CUT_H
#define KN_CPU_CONV_CUT_H

#include "kernels/conv/conv_shape.h"

enum kn_conv_part { KN_CONV_FIRST, KN_CONV_MIDDLE, KN_CONV_LAST, KN_CONV_PARTS };

struct kn_conv_cut {
    int64_t images;
    int64_t rows; /* 0: whole images */
};

/* An execution: of which shape, and where it reads and writes, in elements. */
struct kn_conv_piece {
    enum kn_conv_part part;
    int64_t src_at, dst_at;
};

/*
 * For one core: executions of some ten milliseconds at most, so that it can be asked between them
 * whether to go on; and with `after`, where loops of our own follow each, of outputs that lie in
 * the cache still, unless the filter then had to be read too often. No axis may be empty.
 */
void kn_conv_cut_alone(const struct kn_conv_shape *g, bool after, struct kn_conv_cut *cut);
/*
 * The same for `width` cores: as many blocks as there are cores, or many more; of whole images if
 * they come out even, else of rows. False: there is too little to do for two.
 */
bool kn_conv_cut_shared(const struct kn_conv_shape *g, bool after, int width,
                        struct kn_conv_cut *cut);

int64_t kn_conv_cut_count(const struct kn_conv_shape *g, const struct kn_conv_cut *cut);
/* The shape of a part's executions; false: the cut has none of it. */
bool kn_conv_cut_shape(const struct kn_conv_shape *g, const struct kn_conv_cut *cut,
                       enum kn_conv_part part, struct kn_conv_shape *out);
/* Execution i. */
struct kn_conv_piece kn_conv_cut_piece(const struct kn_conv_shape *g, const struct kn_conv_cut *cut,
                                       int64_t i);

/* Elements of one image of the wide side (ci channels) and of the other (co channels). */
int64_t kn_conv_image_in(const struct kn_conv_shape *g);
int64_t kn_conv_image_out(const struct kn_conv_shape *g);

#endif
