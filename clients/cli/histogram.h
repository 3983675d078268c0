/*
 * Histogram of durations with a relative bucket width of at most 1.6 %. Its size does not depend on
 * the number of durations. Threads: one thread adds durations. Other threads may read the
 * histogram at the same time, and may miss the latest durations.
 */
#ifndef CL_HISTOGRAM_H
#define CL_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { CL_HISTOGRAM_STEPS = 128, CL_HISTOGRAM_BUCKETS = 57 * CL_HISTOGRAM_STEPS };

struct cl_histogram {
    _Atomic uint64_t n, sum_ns, max_ns;
    _Atomic uint64_t bucket[CL_HISTOGRAM_BUCKETS];
};

void cl_histogram_add(struct cl_histogram *h, int64_t ns); /* a negative duration counts as 0 */
void cl_histogram_merge(struct cl_histogram *dst, const struct cl_histogram *src);
/* Returns the `q` quantile of the durations (0 <= q <= 1), or 0 if the histogram is empty. */
int64_t cl_histogram_quantile(const struct cl_histogram *h, double q);
double cl_histogram_mean(const struct cl_histogram *h);

#endif
