/*
 * Writes the metric families of GPUs in Prometheus' text format. The page contains them only if the
 * server uses GPUs.
 *
 * Threads: called on the thread that writes the page.
 */
#ifndef SRV_METRICS_GPUS_H
#define SRV_METRICS_GPUS_H

#include "server/telemetry/metrics_text.h"
#include "server/server.h"

void srv_metrics_gpus(struct srv_server *server, const struct srv_text *text);

#endif
