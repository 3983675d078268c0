/*
 * An accelerator for tests. Its memory is ordinary memory whose pages are protected except while
 * the accelerator copies or runs kernels, so that an access by the host, or a missing copy, causes
 * a fault. New and freed memory is poisoned. A stream does its work only when the host waits for
 * it, so a host that does not wait reads old bytes. The kernels are those of the CPU, so results
 * have the same bits as on the CPU.
 *
 * Threads: any.
 */
#ifndef TESTS_SUPPORT_TEST_DEVICE_H
#define TESTS_SUPPORT_TEST_DEVICE_H

#include "runtime/core/device.h"
#include "runtime/core/registry.h"

/* Makes an accelerator of type "TEST" and index 0. Returns NULL if out of memory. */
struct rt_device *test_device_new(int n_streams);
/* Frees the accelerator. Returns false, and frees nothing, if some of its memory is still in use.
 */
bool test_device_free(struct rt_device *d);
/* Registers, for the accelerator, all kernels of the registry whose op is pure, except kernels that
 * accept lazy inputs or return views. Does nothing if the registry already has kernels of the
 * accelerator. Must be called by one thread at a time. Returns false if memory runs out. */
bool test_device_register(struct rt_registry *r);

void test_device_limit(struct rt_device *d, int64_t bytes);

struct test_device_counts {
    int64_t bytes; /* number of bytes that are in use */
    /* numbers of copies from the host, to the host, and within the accelerator's memory */
    int64_t copies_in, copies_out, copies_within;
    int64_t runs, kernels; /* number of calls to enqueue_steps, and of kernels in them */
};
struct test_device_counts test_device_counts(const struct rt_device *d);

#endif
