/*
 * Reads the values of counters from the Prometheus page by their TensorFlow names.
 *
 * Threads: the function is pure, so any thread may call it.
 */
#ifndef SRV_METRICS_TOTAL_H
#define SRV_METRICS_TOTAL_H

#include "runtime/base/span.h"

struct srv_total {
    /* The counter's name in TensorFlow's form. For example, the metrics page contains the counter
     * "/tensorflow/serving/request_count" as ":tensorflow:serving:request_count". */
    struct rt_span name;
    int index; /* for the caller's use; srv_metrics_totals ignores it */
    double value;
};

/* Sets the value of each of n counters to its sum over all labels, or to 0 if the page does not
 * contain it. Sorts the counters by name. Takes time proportional to the size of the page and to
 * the logarithm of n. */
void srv_metrics_totals(struct rt_span page, struct srv_total *totals, int n);

#endif
