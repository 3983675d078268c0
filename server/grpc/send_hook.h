/*
 * Counts what sendmsg writes, by descriptor. gRPC's core writes by it, and is a shared library that
 * tells nobody how much it wrote; the kernel tells it of TCP alone. The program's own sendmsg,
 * which stands before the C library's, counts and does the same.
 *
 * Threads: any.
 */
#ifndef SRV_SEND_HOOK_H
#define SRV_SEND_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes written to the descriptor, also when it was another connection's. False: not known, for it
 * is too high a number. */
bool srv_socket_sent(int fd, uint64_t *bytes);

#endif
