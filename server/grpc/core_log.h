/*
 * Writes the gRPC core's log messages to the server's log. Most of the core's errors are failed
 * connections, which a client can cause without limit. Therefore errors are logged as warnings and
 * with a limit (server/base/log_limit.h). The core's other messages are logged at debug level.
 */
#ifndef SRV_GRPC_CORE_LOG_H
#define SRV_GRPC_CORE_LOG_H

/* Redirects the core's log messages to the server's log. Any thread may call this function. */
void srv_core_log_start(void);

#endif
