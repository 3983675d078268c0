/*
 * The descriptors of every .proto file that a gRPC service needs, as a serialized
 * google.protobuf.FileDescriptorSet from protoc. The code that protobuf-c generates does not
 * contain them. The array is generated at build time (cmake/protobuf.cmake).
 */
#ifndef PB_DESCRIPTORS_H
#define PB_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char pb_descriptors[];
extern const size_t pb_descriptors_size;

#endif
