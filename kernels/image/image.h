/*
 * Shapes, row rules and the PNG encoder that the ops on images share. Images are [batch, height,
 * width, channels].
 *
 * Threads: any; all data belongs to a single run.
 */
#ifndef KN_IMAGE_IMAGE_H
#define KN_IMAGE_IMAGE_H

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* Fails with RT_INVALID_ARGUMENT and the message `words`, followed by the shape. */
enum rt_status kn_image_fail_shape(struct rt_error *err, const char *words,
                                   const struct rt_shape *s);
/* Returns whether the rank of the shape is known and differs from `rank`. */
static inline bool kn_image_rank_differs(const struct rt_shape *s, int rank)
{
    return s->rank >= 0 && s->rank != rank;
}
/* Returns a shape of rank `rank` whose dimensions are unknown. */
struct rt_shape kn_image_unknown(int rank);
struct rt_shape kn_image_shape_of(const struct rt_tensor *t);
/*
 * Row rule for ops that compute each block of the last `inner` axes on its own. The row axis of
 * input 0 remains if it is not among these axes. The other inputs must not depend on the batch.
 */
void kn_image_rows_outer(struct rt_rows *r, int inner);

/* Infers output 0 of an op that resizes images. Input 0 holds the images, and input 1 the new
 * height and width. */
enum rt_status kn_resize_infer(struct rt_infer *x);
/* Sets *n to the number of boxes of a crop, or to -1 if it is unknown. As in TensorFlow, empty
 * boxes and an empty box_ind match each other whatever their dimensions are. */
enum rt_status kn_image_match_boxes(const struct rt_shape *boxes, const struct rt_shape *index,
                                    int64_t *n, struct rt_error *err);
/* An image of 8 or 16 bits a sample that is to be encoded as PNG, with 1 to 4 channels. */
struct kn_png {
    const void *pixels;
    int64_t height, width;
    int channels;
    size_t depth_bytes;
    int compression; /* level of zlib, or -1 for its default */
};
/* Appends the PNG file to a buffer of the run (kn_text_begin). Returns false if the image cannot be
 * encoded or the run must end; in the second case, r->err has the reason. */
bool kn_png_write(struct rt_run *r, const struct kn_png *image, struct rt_bytes *file);

#endif
