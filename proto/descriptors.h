/*
 * The descriptors of every .proto file of this folder, as a serialized
 * google.protobuf.FileDescriptorSet from protoc. protobuf-c's generated code does not contain them.
 * cmake/protobuf.cmake generates the array at build time.
 */
#ifndef PB_DESCRIPTORS_H
#define PB_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char pb_descriptors[];
extern const size_t pb_descriptors_size;

#endif
