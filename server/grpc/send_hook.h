/*
 * Counts the bytes that sendmsg writes, per descriptor. gRPC's core writes with sendmsg and, as a
 * shared library, does not report how many bytes it wrote; the kernel reports this number only for
 * TCP. The program defines its own sendmsg, which takes precedence over that of the C library and
 * counts what it sends.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_SEND_HOOK_H
#define SRV_SEND_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns how many bytes have been written to the descriptor, including those of earlier
 * connections with the same descriptor number. Returns false if the number is unknown because the
 * descriptor is too high. */
bool srv_socket_sent(int fd, uint64_t *bytes);

#endif
