/*
 * Writes families, labels and histograms in Prometheus' text format, or in that of OpenMetrics 1.0.
 */
#ifndef SRV_METRICS_TEXT_H
#define SRV_METRICS_TEXT_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "server/metrics/metrics_cells.h"

enum srv_text_format { SRV_TEXT_PROMETHEUS, SRV_TEXT_OPENMETRICS };

struct srv_text {
    struct rt_bytes *out;
    enum srv_text_format format;
};

/* Writes the HELP line, if `help` is not NULL, and the TYPE line. OpenMetrics names a counter's
 * family without "_total", and that of constant labels without "_info"; a family whose name ends
 * with a unit has a UNIT line. */
void srv_text_family(const struct srv_text *t, const char *name, const char *type,
                     const char *help);
/* Returns what OpenMetrics appends to the name of a counter in its samples: "_total", or "" if the
 * name ends with it or the format is Prometheus'. */
const char *srv_text_total(const struct srv_text *t, const char *name);
/* Maximum length of a label's value. A name in a model may be much longer, and a page may contain
 * it thousands of times. */
enum { SRV_LABEL_BYTES = 1024 };
/* Writes key="value", escaped and with invalid UTF-8 replaced. A comma precedes every label except
 * the first. A value longer than SRV_LABEL_BYTES is cut, and a checksum of the whole value is
 * appended, so that different values remain different. */
void srv_text_label(struct rt_bytes *out, bool first, const char *key, const char *value);
void srv_text_label_int(struct rt_bytes *out, const char *key, int64_t value);
/* Prepares a buffer for the next sample's labels. */
void srv_text_begin_labels(struct rt_bytes *labels);
/* Returns the labels as text, or "" if there are none or their text is too long. If memory ran out
 * while the labels were written, marks `out` as failed. */
const char *srv_text_labels(const struct rt_bytes *labels, struct rt_bytes *out);
/* Writes a histogram. `n` contains the counts of scale->n + 1 buckets. The factor `unit` converts
 * the bounds and the sum to the page's unit. `labels` is written without braces. `exemplars`, of as
 * many buckets and in seconds, are written only in OpenMetrics, and may be NULL. */
void srv_text_histogram(const struct srv_text *t, const char *name, const char *labels,
                        const struct srv_scale *scale, double unit, const _Atomic uint64_t *n,
                        double sum, const struct srv_exemplar *exemplars);

#endif
