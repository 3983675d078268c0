/*
 * Counts the bytes that sendmsg writes to each descriptor. gRPC's core writes with sendmsg, but
 * does not report how many bytes it has written. The kernel reports this number only for TCP. The
 * program therefore defines its own sendmsg, which takes precedence over that of the C library. It
 * also lets the kernel collect the responses of a group (server/base/send_group.h), because the
 * core writes each response by a call of its own.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_SEND_HOOK_H
#define SRV_SEND_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns how many bytes were written to the descriptor, including those of earlier connections
 * with the same descriptor. Returns false if `fd` is too high to be counted. */
bool srv_socket_sent(int fd, uint64_t *bytes);

#endif
