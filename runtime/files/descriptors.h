/* The descriptors of all message types that this program knows. */
#ifndef RT_DESCRIPTORS_H
#define RT_DESCRIPTORS_H

#include "runtime/base/span.h"

/* Returns a serialized google.protobuf.FileDescriptorSet. */
struct rt_span rt_descriptors(void);

#endif
