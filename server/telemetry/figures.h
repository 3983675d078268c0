/*
 * Figures of the serving versions: what they are, what they hold, and optionally what they have
 * answered. The metrics page and the events of the web page show them.
 *
 * Owner: the caller, who clears them. They contain copies, because a version may be freed while
 * they are written, and because a session takes locks to compute them.
 * Threads: any. srv_figures_read takes the manager's lock.
 */
#ifndef SRV_FIGURES_H
#define SRV_FIGURES_H

#include "runtime/session/session.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

struct srv_figures {
    const char *model; /* allocated in srv_all_figures.arena */
    int64_t version, n_queued, weight_bytes;
    struct rt_session_stats stats;
    /* GPUs of the version; none if all its nodes run on the CPU */
    struct rt_session_accelerators gpus;
    bool gpu_full_precision;
    /* zeroed unless srv_figures_read was called with `has_statistics` */
    struct srv_version_statistics statistics;
    uint64_t n_errors; /* of the model, as srv_last_errors_count; set as `statistics` is */
};

struct srv_all_figures {
    struct rt_arena *arena;
    int n, n_models, capacity, most;
    struct srv_figures *of; /* in the order of the models' names */
    bool has_statistics;
    bool no_memory; /* memory ran out, and versions are missing */
};

/* Reads the figures of the serving versions, of at most the first `most` ones. Without a manager
 * there are none. */
void srv_figures_read(struct srv_server *server, bool has_statistics, int most,
                      struct srv_all_figures *out);
void srv_figures_clear(struct srv_all_figures *all);

#endif
