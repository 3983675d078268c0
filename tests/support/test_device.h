/*
 * A device for tests, whose memory is ordinary memory that only the device may touch. Its pages are
 * protected except while the device copies or runs a kernel, and freed memory is poisoned, so that
 * a kernel of another device that reads it, or a copy that is missing, ends in a fault. Work is
 * done in order on a thread of the device, and its errors arrive at `sync`.
 */
#ifndef TESTS_SUPPORT_TEST_DEVICE_H
#define TESTS_SUPPORT_TEST_DEVICE_H

#include "runtime/core/op.h"

struct rt_device *test_device_new(void); /* type "TEST", index 0 */
void test_device_free(struct rt_device *d);
/* Registers the device's kernels: AddV2 and Mul of floats of equal shapes. Mul fails on 13 * 13, so
 * that an error arrives at `sync`. */
bool test_device_register(struct rt_registry *r);
int64_t test_device_bytes(const struct rt_device *d); /* bytes that are allocated now */
int test_device_copies(const struct rt_device *d);    /* copies so far, to and from the device */

#endif
