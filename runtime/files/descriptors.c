#include "runtime/files/descriptors.h"

#include "proto/descriptors.h"

struct rt_span rt_descriptors(void)
{
    return rt_span_of(pb_descriptors, pb_descriptors_size);
}
