/* The parameter of the device kernel `finish`. The kernel applies, in place, the steps of an
 * epilogue that a library has not applied. */
#ifndef KC_FINISH_H
#define KC_FINISH_H

#include "kernels/cuda/device/epilogue.h"

struct kc_finish {
    float *data;
    int64_t n;       /* number of elements */
    int64_t columns; /* length of the last axis */
    int32_t width;   /* number of elements that a thread processes at a time: 4, or 1 */
    int32_t unused;
    struct kc_epilogue epilogue;
};

#endif
