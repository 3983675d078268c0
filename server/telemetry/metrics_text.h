/*
 * Writes the text format of Prometheus: families, labels, histograms.
 */
#ifndef SRV_METRICS_TEXT_H
#define SRV_METRICS_TEXT_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "server/metrics/metrics_cells.h"

/* help NULL: none. */
void srv_text_family(struct rt_bytes *out, const char *name, const char *type, const char *help);
/* key="value", escaped, what is no UTF-8 replaced; a comma before all but the first. */
void srv_text_label(struct rt_bytes *out, bool first, const char *key, const char *value);
void srv_text_label_int(struct rt_bytes *out, const char *key, int64_t value);
/* The labels of one sample are written into bytes of their own: first this, */
void srv_text_begin_labels(struct rt_bytes *labels);
/* last this, for the text: "" where there are none or they are too long. Out of memory for them,
 * the page `out` has failed. */
const char *srv_text_labels(const struct rt_bytes *labels, struct rt_bytes *out);
/* `n`: the counts of scale->n + 1 buckets. `unit`: what a unit of the scale and of the sum is in
 * the page's. `labels` without braces. */
void srv_text_histogram(struct rt_bytes *out, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum);

#endif
