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

/* Writes the page in Prometheus' text format: counters, the states of all versions (from the
 * manager), and queue and memory gauges of the versions in `map`. If `map` is NULL, these gauges
 * are omitted. */
void srv_metrics_page(struct srv_server *server, const struct srv_map *map, struct rt_bytes *out);

#endif
