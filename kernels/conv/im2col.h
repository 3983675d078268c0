/*
 * im2col copies the window of one output pixel of a convolution over two axes. With such copies as
 * rows, the convolution is a GEMM.
 */
#ifndef KN_CONV_IM2COL_H
#define KN_CONV_IM2COL_H

#include "kernels/nn/window.h"

struct kn_im2col {
    struct kn_axis y, x;
    int64_t ci;
    int64_t taps; /* number of taps of a window that are contiguous in the input */
    size_t size;  /* bytes of an element */
};

static inline struct kn_im2col kn_im2col_of(const struct kn_axis *y, const struct kn_axis *x,
                                            int64_t ci, size_t size)
{
    return (struct kn_im2col){
        .y = *y, .x = *x, .ci = ci, .taps = x->dilation == 1 ? x->size : 1, .size = size};
}
/* Copies terms [from, to) of the window whose first tap lies at (y, x) of an image. Taps outside
 * the image become zeros. */
void kn_im2col_row(const struct kn_im2col *s, const void *image, int64_t y, int64_t x, int64_t from,
                   int64_t to, void *dst);

#endif
