/* The cost of runs, as a function of their number of rows. Threads: the caller must guard all calls
 * for one struct srv_cost with one lock. */
#ifndef SRV_COST_H
#define SRV_COST_H

#include <stdint.h>

/* Cost model: a run of n rows takes `a + b * n` nanoseconds. The model is fitted to measured runs.
 * Older runs have less weight. */
struct srv_cost {
    double w, x, y, xx, xy; /* weighted sums for the least-squares fit */
    int64_t runs;
    double fastest; /* duration of the fastest recent run, in nanoseconds */
};
void srv_cost_learn(struct srv_cost *c, int64_t rows, int64_t ns);
/* Fits the line `a + b * n` to the weighted measurements by least squares, with non-negative a and
 * b. Both are 0 if no run has been measured yet. */
void srv_cost_line(const struct srv_cost *c, double *a, double *b);
/* returns the expected cost of a run, or 0 if no run has been measured yet */
int64_t srv_cost_of(const struct srv_cost *c, int64_t rows);

#endif
