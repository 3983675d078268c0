/* Pseudo-random numbers: every run of a program draws the same ones. */
#ifndef TESTS_SUPPORT_DRAW_H
#define TESTS_SUPPORT_DRAW_H

#include <stdint.h>

float draw(void);              /* in [-1, 1) */
int64_t draw_below(int64_t n); /* in [0, n), where n is at most 2^24 */
/* n floats, 64-byte aligned, in a block of exactly that size, so that sanitizers see accesses
 * behind them. The caller frees them. */
float *draw_floats(int64_t n);

#endif
