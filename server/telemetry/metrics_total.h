/*
 * Reads the values of counters from the Prometheus page, given TensorFlow's names of the counters.
 * Threads: the function is pure, so any thread may call it.
 */
#ifndef SRV_METRICS_TOTAL_H
#define SRV_METRICS_TOTAL_H

#include "runtime/base/span.h"

struct srv_total {
    /* The counter's name in TensorFlow's form. For example, "/tensorflow/serving/request_count" is
     * ":tensorflow:serving:request_count" on the page. */
    struct rt_span name;
    int index; /* for the caller's use; sorting moves it together with the name */
    double value;
};

/* Sets the value of each of n counters to the counter's sum over all labels, or to 0 if the page
 * does not contain the counter. Sorts the counters by name. Takes time proportional to the size of
 * the page and to the logarithm of n. */
void srv_metrics_totals(struct rt_span page, struct srv_total *totals, int n);

#endif
