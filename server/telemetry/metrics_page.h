/*
 * The page that Prometheus reads: what server/metrics has counted, and gauges of what there is now.
 *
 * Threads: any.
 */
#ifndef SRV_METRICS_PAGE_H
#define SRV_METRICS_PAGE_H

#include "runtime/base/bytes.h"
#include "server/server.h"

/* The Prometheus text page, with the states of all versions (from the manager), and of the versions
 * in `map` what is queued and held. NULL: no map. */
void srv_metrics_page(struct srv_server *server, const struct srv_map *map, struct rt_bytes *out);

#endif
