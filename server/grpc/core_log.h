/*
 * Writes the gRPC core's log messages to the server's log. Most errors of the core are failed
 * connections, which a client can cause without limit. Therefore at most SRV_CORE_LOG_LINES errors
 * per second are logged, as warnings, followed by the number of omitted errors. All other messages
 * of the core are logged at debug level.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_GRPC_CORE_LOG_H
#define SRV_GRPC_CORE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SRV_CORE_LOG_LINES = 20 };

struct srv_core_log {
    _Atomic int64_t second; /* the second in which n_lines errors occurred */
    _Atomic int64_t n_lines;
    /* number of messages omitted since this number was last logged */
    _Atomic int64_t n_left_out;
};

/* Returns whether a message may be logged at the time now_ns. If so, sets *left_out to the number
 * of messages omitted before it, which the caller should log too. */
bool srv_core_log_admits(struct srv_core_log *log, int64_t now_ns, int64_t *left_out);

/* Redirects the core's log messages to the server's log. */
void srv_core_log_start(void);

#endif
