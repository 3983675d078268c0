/*
 * The registry of ops and kernels: kernels/table.inc fills it once, and import and the compiler
 * look up what a model names.
 *
 * Owner: who makes it. Threads: read only once it is filled.
 */
#ifndef RT_REGISTRY_H
#define RT_REGISTRY_H

#include <stdbool.h>

#include "runtime/base/status.h"

struct rt_kernel;
struct rt_node;
struct rt_op;

struct rt_registry;
struct rt_registry *rt_registry_new(void);
void rt_registry_free(struct rt_registry *r);
/* False: out of memory, the name is registered already, or `internal_schema` is that of another
 * name. The structs must outlive the registry. */
bool rt_registry_add_op(struct rt_registry *r, const struct rt_op *op);
bool rt_registry_add_kernel(struct rt_registry *r, const struct rt_kernel *k);
const struct rt_op *rt_registry_op(const struct rt_registry *r, const char *name);
/* All *n kernels of an op. */
const struct rt_kernel *const *rt_registry_kernels(const struct rt_registry *r, const char *op,
                                                   int *n);
/* Whether the kernel accepts the node's types. */
bool rt_kernel_takes(const struct rt_kernel *k, const struct rt_node *n);
/* RT_OK: a kernel on `device` accepts the node's types. RT_UNIMPLEMENTED: err says whether the op,
 * a kernel for the types, or only one on the device is missing. */
enum rt_status rt_registry_can_run(const struct rt_registry *r, const struct rt_node *n,
                                   const char *device, struct rt_error *err);

#endif
