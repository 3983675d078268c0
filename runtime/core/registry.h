/*
 * The registry of ops and kernels. kernels/table.inc fills it once; import and the compiler look up
 * the ops that a model names.
 *
 * Owner: the code that makes the registry. Threads: the registry is read-only once it is filled.
 */
#ifndef RT_REGISTRY_H
#define RT_REGISTRY_H

#include <stdbool.h>

#include "runtime/base/status.h"

struct rt_kernel;
struct rt_node;
struct rt_op;
struct rt_accelerators;
struct rt_accelerator_options;

struct rt_registry;
struct rt_registry *rt_registry_new(void);
void rt_registry_free(struct rt_registry *r);
/* Registers an op. The structs must outlive the registry. Returns false if memory runs out, the
 * name is already registered, or the op's name differs from that of its internal_schema. */
bool rt_registry_add_op(struct rt_registry *r, const struct rt_op *op);
/* Registers a kernel. Returns false if memory runs out. For a device other than the CPU, also
 * returns false if the kernel's op is not registered yet, or if `infer` reads the value of an input
 * (rt_op.shape_in) that host_in lacks. */
bool rt_registry_add_kernel(struct rt_registry *r, const struct rt_kernel *k);
/* Sets the function that opens the accelerators for which kernels are registered (device.h). */
void rt_registry_set_accelerators(
    struct rt_registry *r,
    enum rt_status (*open)(struct rt_accelerators *out,
                           const struct rt_accelerator_options *options, struct rt_error *err));
/* Opens accelerators (device.h). If rt_registry_set_accelerators has not been called, fails with
 * RT_UNIMPLEMENTED unless options->which is "none" or "auto". */
enum rt_status rt_registry_open_accelerators(const struct rt_registry *r,
                                             struct rt_accelerators *out,
                                             const struct rt_accelerator_options *options,
                                             struct rt_error *err);
const struct rt_op *rt_registry_op(const struct rt_registry *r, const char *name);
/* Returns an array of the op's kernels, and sets *n to its length. */
const struct rt_kernel *const *rt_registry_kernels(const struct rt_registry *r, const char *op,
                                                   int *n);
bool rt_kernel_takes(const struct rt_kernel *k, const struct rt_node *n);
/* Returns RT_OK if a kernel on `device` accepts the node's types. Otherwise returns
 * RT_UNIMPLEMENTED, with an error message that reports what is missing: the op, any kernel for the
 * types, or a kernel for the types on this device. */
enum rt_status rt_registry_can_run(const struct rt_registry *r, const struct rt_node *n,
                                   const char *device, struct rt_error *err);

#endif
