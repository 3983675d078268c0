/*
 * Writes an event of the web page: the models with the states of their versions, and the figures of
 * the server, as JSON in the form of server-sent events. The browser subtracts two events, so that
 * the server keeps nothing for a viewer. An event therefore has totals:
 *
 * - `answered`, `failed`, `rows`, `latency` and `batches` of a version count since it was loaded.
 * - `errors` of a version is the number of errors that were ever kept for its model. `errors` of
 *   the server is the number of those that were kept for no model.
 * - `refused` is the result of srv_metrics_refused.
 * - `cpu_ms` counts since the process began.
 *
 * All other figures are current values.
 *
 * Threads: any. The functions take the locks of the manager and of the metrics, one after another.
 */
#ifndef SRV_PAGE_EVENT_H
#define SRV_PAGE_EVENT_H

#include "server/telemetry/figures.h"
#include "server/versions/status.h"

enum {
    SRV_PAGE_MAX_VERSIONS = 256, /* further versions are only counted in an event */
    SRV_PAGE_MAX_EVENT = 4 << 20,
    /* time in milliseconds after which a browser asks for the next event */
    SRV_PAGE_RETRY_MS = 250,
    SRV_PAGE_MESSAGE_BYTES = 2048, /* longer messages of versions are cut */
};

/* What an event says of the server as a whole. */
struct srv_page_totals {
    int64_t time_ms; /* monotonic time, for rates */
    bool is_ready;
    uint64_t refused; /* inference requests that failed before they had a version */
    uint64_t errors;  /* errors of requests that belong to no model, as srv_last_errors_count */
    int64_t requests_in_flight, bytes_in_flight, jobs, resident_bytes, cpu_ms;
    int cores;
};

/* Pieces of the writer. They are pure. */
void srv_page_write_begin(struct rt_bytes *out, const struct srv_page_totals *totals);
/* `figures` is NULL for a version that does not serve. */
void srv_page_write_version(struct rt_bytes *out, bool is_first, const char *model,
                            const struct srv_version_status *status,
                            const struct srv_figures *figures);
/* Writes a model that has no version, and why; or, of a model of which no version serves, a problem
 * that concerns none of its versions. */
void srv_page_write_no_version(struct rt_bytes *out, bool is_first, const char *model,
                               const char *message);
/* `problems` are the problems of the configuration, as srv_status_config_problems returns them. */
void srv_page_write_end(struct rt_bytes *out, int64_t left_off, int n_problems,
                        const char *const *problems);

/* Reads the server and writes one event. Initialises *out. `n_viewers` is the number of requests
 * in flight that wait for this event. If memory runs out, *out is marked as failed. */
void srv_page_event(struct srv_server *server, int n_viewers, struct rt_bytes *out);
/* Returns the error of an event that is marked as failed. */
enum rt_status srv_page_event_fail(const struct rt_bytes *event, struct rt_error *err);

#endif
