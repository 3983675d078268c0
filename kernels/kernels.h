#ifndef KN_KERNELS_H
#define KN_KERNELS_H

#include <stdbool.h>

struct rt_registry;

/* Registers all ops and kernels, which live as long as the program. Returns false if memory runs
 * out or an op is listed twice. */
bool kn_register(struct rt_registry *r);

#endif
