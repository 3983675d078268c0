/* Made-up numbers, the same in each run of a program. */
#ifndef TESTS_SUPPORT_DRAW_H
#define TESTS_SUPPORT_DRAW_H

#include <stdint.h>

float draw(void);              /* -1 or more, less than 1 */
int64_t draw_below(int64_t n); /* 0 or more, less than n; of 2^24 numbers at most */
/* So many, 64-byte aligned; sanitizers see what is read or written behind them. To be freed. */
float *draw_floats(int64_t n);

#endif
