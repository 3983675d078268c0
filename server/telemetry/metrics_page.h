/*
 * Writes the page that Prometheus scrapes: the counters of server/metrics, and gauges of the
 * current state.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_METRICS_PAGE_H
#define SRV_METRICS_PAGE_H

#include "runtime/base/bytes.h"
#include "server/server.h"

/* Writes the page in Prometheus' text format: counters, and the states and gauges of all versions,
 * which are omitted if there is no manager. Takes time in proportion to the number of versions,
 * some 30 us for each. */
void srv_metrics_page(struct srv_server *server, struct rt_bytes *out);

#endif
