/*
 * The descriptors of every .proto that a service is made of, as protoc writes them (a serialized
 * google.protobuf.FileDescriptorSet): what protobuf-c generates does not hold them. Made at build
 * time (cmake/protobuf.cmake).
 */
#ifndef PB_DESCRIPTORS_H
#define PB_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char pb_descriptors[];
extern const size_t pb_descriptors_size;

#endif
