/*
 * Writes Prometheus' text format: families, labels, histograms.
 */
#ifndef SRV_METRICS_TEXT_H
#define SRV_METRICS_TEXT_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "server/metrics/metrics_cells.h"

/* Writes the HELP line (none when help is NULL) and the TYPE line. */
void srv_text_family(struct rt_bytes *out, const char *name, const char *type, const char *help);
/* Writes key="value". The value is escaped and its invalid UTF-8 is replaced. A comma precedes
 * every label but the first. */
void srv_text_label(struct rt_bytes *out, bool first, const char *key, const char *value);
void srv_text_label_int(struct rt_bytes *out, const char *key, int64_t value);
/* Clears the buffer in which the labels of one sample are written. */
void srv_text_begin_labels(struct rt_bytes *labels);
/* Returns the labels as text: "" when there are none or they are too long. When memory ran out for
 * them, the page `out` fails too. */
const char *srv_text_labels(const struct rt_bytes *labels, struct rt_bytes *out);
/* `n` holds the counts of scale->n + 1 buckets. `unit` converts a unit of the scale and of the sum
 * into the page's unit. `labels` has no braces. */
void srv_text_histogram(struct rt_bytes *out, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum);

#endif
