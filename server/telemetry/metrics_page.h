/*
 * Writes the page that Prometheus scrapes: the counters from server/metrics, and gauges of the
 * current state. A new counter is a field in server/metrics/metrics_cells.h, a function that
 * increments it in server/metrics/metrics.h, and a line here. A counter per version must be added
 * to the sums of unloaded versions too (server/metrics/metrics_models.c). A gauge needs only a line
 * in `gauges` or `versions_gauges`. metrics_gpus.c writes the gauges of GPUs, and metrics_serving.c
 * the metrics of TensorFlow Serving. docs/metrics.md lists all of them.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_METRICS_PAGE_H
#define SRV_METRICS_PAGE_H

#include "runtime/base/bytes.h"
#include "server/server.h"
#include "server/telemetry/metrics_text.h"

/* Initializes *out and writes the metrics page to it in the given format. The page contains
 * the counters and, if there is a manager, the states and gauges of all versions. Writing takes
 * about 30 us per version. If memory runs out or the page exceeds SRV_MAX_METRICS_PAGE, *out fails.
 * The caller must clear *out. */
void srv_metrics_page(struct srv_server *server, enum srv_text_format format, struct rt_bytes *out);
/* Sets *err to the reason why a page has failed. */
enum rt_status srv_metrics_page_fail(const struct rt_bytes *page, struct rt_error *err);

#endif
