/*
 * Writes the text format of Prometheus: families, labels, histograms.
 */
#ifndef SRV_METRICS_TEXT_H
#define SRV_METRICS_TEXT_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "server/metrics_cells.h"

/* help NULL: none. */
void srv_text_family(struct rt_bytes *out, const char *name, const char *type, const char *help);
/* key="value", escaped, what is no UTF-8 replaced; a comma before all but the first. */
void srv_text_label(struct rt_bytes *out, bool first, const char *key, const char *value);
void srv_text_label_int(struct rt_bytes *out, const char *key, int64_t value);
/* `n`: the counts of scale->n + 1 buckets. `unit`: what a unit of the scale and of the sum is in
 * the page's. `labels` without braces. */
void srv_text_histogram(struct rt_bytes *out, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum);

#endif
