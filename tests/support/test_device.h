/*
 * A device for tests, in ordinary memory that only the device may access. Its pages are protected
 * except while the device copies or runs a kernel, and freed memory is poisoned. An access by a
 * kernel of another device, or a missing copy, therefore causes a fault. A thread of the device
 * does the work in order, and `sync` reports errors.
 */
#ifndef TESTS_SUPPORT_TEST_DEVICE_H
#define TESTS_SUPPORT_TEST_DEVICE_H

#include "runtime/core/op.h"

struct rt_device *test_device_new(void); /* type "TEST", index 0 */
void test_device_free(struct rt_device *d);
/* Registers the device's kernels: AddV2 and Mul of floats of equal shapes. Mul fails on 13 * 13, so
 * that `sync` has an error to report. */
bool test_device_register(struct rt_registry *r);
/* Returns the number of bytes that are currently allocated. */
int64_t test_device_bytes(const struct rt_device *d);
/* Returns the number of copies made to and from the device so far. */
int test_device_copies(const struct rt_device *d);

#endif
