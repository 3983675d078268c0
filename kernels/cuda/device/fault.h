/* A fault that device code finds in its inputs, such as an index out of range. */
#ifndef KC_FAULT_H
#define KC_FAULT_H

#include <stdint.h>

struct kc_fault {
    int64_t step; /* number of the faulty step in the region, counted from 1; 0 means no fault */
    int64_t position, value; /* values for rt_kernel.explain */
};

#endif
