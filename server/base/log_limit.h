/*
 * A limit on log messages that a client can cause at any rate. At most SRV_LOG_LINES messages per
 * second are logged, and the number of omitted messages is logged afterwards.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_LOG_LIMIT_H
#define SRV_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SRV_LOG_LINES = 20 };

/* State of a limit. All messages about the same subject share it. */
struct srv_log_limit {
    _Atomic int64_t second; /* the second in which n_lines messages occurred */
    _Atomic int64_t n_lines;
    /* number of messages omitted since the number was last logged */
    _Atomic int64_t n_left_out;
};

/* Returns whether a message may be logged at the time now_ns. If so, sets *left_out to the number
 * of messages omitted before this one. The caller should log this number too. */
bool srv_log_limit_admits(struct srv_log_limit *limit, int64_t now_ns, int64_t *left_out);

/* Returns whether a message may be logged now. If so, and if messages were omitted before this one,
 * first logs their number as a warning that begins with `subject`. */
bool srv_log_admits(struct srv_log_limit *limit, const char *subject);

#endif
