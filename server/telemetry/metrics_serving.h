/*
 * Writes the metric families of TensorFlow and TensorFlow Serving, with their names, labels and
 * buckets, sorted as tensorflow_model_server prints them. A family without samples has only its
 * TYPE line. There are no HELP lines, and braces are always printed.
 *
 * Two differences from TensorFlow Serving are intended. Line breaks in labels are escaped. Sums and
 * counts are printed with all digits, because TensorFlow Serving's six digits do not suffice to
 * compute the rate of a large counter.
 *
 * Threads: any thread may call the function.
 */
#ifndef SRV_METRICS_SERVING_H
#define SRV_METRICS_SERVING_H

#include "server/server.h"
#include "server/telemetry/metrics_text.h"

/* Writes all of TensorFlow's metric families, sorted by name, including those without values. The
 * caller must hold srv_metrics.mu. */
void srv_metrics_serving(struct srv_server *server, const struct srv_text *text);

#endif
