/*
 * All ops of the project and their kernels, put into a registry by one call.
 */
#ifndef KN_KERNELS_H
#define KN_KERNELS_H

#include <stdbool.h>

struct rt_registry;

/* False: out of memory, or an op listed twice. What is registered lives as long as the program. */
bool kn_register(struct rt_registry *r);

#endif
