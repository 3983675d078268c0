/*
 * The value of a counter by the name that TensorFlow gives it, from the Prometheus page.
 * Threads: pure.
 */
#ifndef SRV_METRICS_TOTAL_H
#define SRV_METRICS_TOTAL_H

#include "runtime/base/span.h"

#include <stdint.h>

/* "/tensorflow/serving/request_count" (on the page ":tensorflow:serving:request_count"): the sum
 * over all labels, as an integer; 0: there is none. */
int64_t srv_metrics_total(struct rt_span page, struct rt_span name);

#endif
