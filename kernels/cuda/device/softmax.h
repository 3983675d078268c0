/* The parameter of the device kernel for Softmax and LogSoftmax along the last axis. */
#ifndef KC_SOFTMAX_H
#define KC_SOFTMAX_H

#include <stdint.h>

struct kc_softmax {
    float *out;
    const float *in;
    int64_t rows, columns;
    int32_t logarithm; /* whether the op is LogSoftmax */
    int32_t unused;
};

#endif
