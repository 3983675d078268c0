/*
 * Reads the value of a counter by TensorFlow's name for it from the Prometheus page.
 * Threads: pure functions, any thread.
 */
#ifndef SRV_METRICS_TOTAL_H
#define SRV_METRICS_TOTAL_H

#include "runtime/base/span.h"

#include <stdint.h>

/* Returns the sum over all labels as an integer, for a name such as
 * "/tensorflow/serving/request_count" (":tensorflow:serving:request_count" on the page); 0: the
 * page has no such counter. */
int64_t srv_metrics_total(struct rt_span page, struct rt_span name);

#endif
