/*
 * Counts the bytes that sendmsg writes to each descriptor. gRPC's core writes with sendmsg but, as
 * a shared library, does not report how many bytes it has written. The kernel reports this number
 * only for TCP. The program defines its own sendmsg, which takes precedence over that of the C
 * library and counts the bytes.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_SEND_HOOK_H
#define SRV_SEND_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns how many bytes have been written to the descriptor, including those of earlier
 * connections with the same descriptor number. Returns false if the number is unknown, because `fd`
 * is too high a number for its bytes to be counted. */
bool srv_socket_sent(int fd, uint64_t *bytes);

#endif
