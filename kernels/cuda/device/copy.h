/* The parameter of the device kernel for strided copies and fills. */
#ifndef KC_COPY_H
#define KC_COPY_H

#include <stdint.h>

enum { KC_COPY_MOST_RANK = 18 };

/* For all index vectors i within `dim`, element sum(i * src) of the source is copied to element
 * sum(i * dst) of the destination. The outermost dimension comes first, and strides are in
 * elements. */
struct kc_copy {
    float *to;
    const float *from; /* NULL to write 0 */
    int64_t n;         /* number of elements to copy */
    int32_t rank;
    int32_t unused;
    int64_t dim[KC_COPY_MOST_RANK], dst[KC_COPY_MOST_RANK], src[KC_COPY_MOST_RANK];
};

#endif
