/*
 * The places of the code that a process reaches, for fuzzers. A place is a counter of clang's
 * -fsanitize-coverage=inline-8bit-counters. In a build without these counters there are none.
 *
 * Threads: only one thread at a time may call these functions. Other threads may run code
 * meanwhile; a place that they reach for the first time may be missed.
 */
#ifndef TESTS_OPFUZZ_COVERAGE_H
#define TESTS_OPFUZZ_COVERAGE_H

#include <stddef.h>
#include <stdint.h>

/* Returns the numbers of the places that the process has reached for the first time since the last
 * call, and sets *n to their number. The array belongs to the function and is valid until the next
 * call. */
const int32_t *coverage_new_places(size_t *n);

#endif
