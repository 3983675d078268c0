/*
 * Writes the page that Prometheus scrapes: the counters from server/metrics, and gauges of the
 * current state.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_METRICS_PAGE_H
#define SRV_METRICS_PAGE_H

#include "runtime/base/bytes.h"
#include "server/server.h"

/* Writes the metrics page in Prometheus' text format. The page contains the counters and, if there
 * is a manager, the states and gauges of all versions. Writing takes about 30 us per version. */
void srv_metrics_page(struct srv_server *server, struct rt_bytes *out);

#endif
