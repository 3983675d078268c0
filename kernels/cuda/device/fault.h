/* A fault that device code finds in its inputs, such as an index out of range. */
#ifndef KC_FAULT_H
#define KC_FAULT_H

#include <stdint.h>

struct kc_fault {
    int64_t step;            /* number of the region's step, counted from 1, or 0 for no fault */
    int64_t position, value; /* values for rt_kernel.explain */
};

#endif
