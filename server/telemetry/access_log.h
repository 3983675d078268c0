/*
 * Writes the access log (--access_log): one record per answered REST or gRPC request, in the format
 * of the server's log. With --log_format=json each part of a record is a separate field.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_ACCESS_LOG_H
#define SRV_ACCESS_LOG_H

struct srv_access; /* server/tracing/access.h */

/* Writes a record. Replaces control characters and blanks in the client's text, and truncates long
 * text. */
void srv_access_log(const struct srv_access *a);

#endif
