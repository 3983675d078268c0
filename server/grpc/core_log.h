/*
 * Messages of the gRPC core as lines of the server's log. What the core calls an error is mostly a
 * connection that failed, and a client can cause as many of these as it likes: at most
 * SRV_CORE_LOG_LINES of them are logged in a second, as warnings, and the next one that is logged
 * tells how many were left out. The core's other messages are logged at the level of debugging.
 *
 * Threads: any.
 */
#ifndef SRV_GRPC_CORE_LOG_H
#define SRV_GRPC_CORE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SRV_CORE_LOG_LINES = 20 };

struct srv_core_log {
    _Atomic int64_t second; /* the second that n_lines counts */
    _Atomic int64_t n_lines;
    _Atomic int64_t n_left_out; /* since the last line that told it */
};

/* Whether a message at the time now_ns is logged. *left_out: messages to tell of, which were not
 * logged before it. */
bool srv_core_log_admits(struct srv_core_log *log, int64_t now_ns, int64_t *left_out);

/* Sends the core's messages to the server's log from now on. */
void srv_core_log_start(void);

#endif
