/*
 * Reads the value of a counter from the Prometheus page, given TensorFlow's name of the counter.
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_METRICS_TOTAL_H
#define SRV_METRICS_TOTAL_H

#include "runtime/base/span.h"

#include <stdint.h>

/* Returns the sum of a counter over all labels as an integer, or 0 if the page does not contain the
 * counter. The name is given in TensorFlow's form. For example, "/tensorflow/serving/request_count"
 * is ":tensorflow:serving:request_count" on the page. */
int64_t srv_metrics_total(struct rt_span page, struct rt_span name);

#endif
