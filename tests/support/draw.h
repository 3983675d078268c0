/* Draws pseudo-random numbers, which are the same in every run of a program. */
#ifndef TESTS_SUPPORT_DRAW_H
#define TESTS_SUPPORT_DRAW_H

#include <stdint.h>

float draw(void);              /* returns a number in [-1, 1) */
int64_t draw_below(int64_t n); /* returns a number in [0, n), where n is at most 2^24 */
/* Returns n random floats in a 64-byte-aligned allocation of exactly n floats, so that sanitizers
 * report accesses beyond it. The caller frees it. */
float *draw_floats(int64_t n);

#endif
