/*
 * A device of the tests: ordinary memory behind addresses that nobody else may touch. Its pages
 * are protected except while the device itself copies or runs a kernel, freed memory is poisoned,
 * and work is done on a thread of its own, in order, so that errors arrive at `sync`. A kernel of
 * another device that reads its memory, or a forgotten copy, ends in a fault.
 */
#ifndef TESTS_SUPPORT_TEST_DEVICE_H
#define TESTS_SUPPORT_TEST_DEVICE_H

#include "runtime/core/op.h"

struct rt_device *test_device_new(void); /* type "TEST", index 0 */
void test_device_free(struct rt_device *d);
/* Kernels of the device: AddV2 and Mul of equal shapes, float. Fail refuses at sync. */
bool test_device_register(struct rt_registry *r);
int64_t test_device_bytes(const struct rt_device *d); /* allocated now */
int test_device_copies(const struct rt_device *d);    /* made so far, both ways */

#endif
