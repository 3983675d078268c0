/*
 * Queries the kernel about the process's connections, and limits their number.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_SOCKETS_H
#define SRV_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists the process's connected stream sockets, at most `capacity` of them (if `fds` is NULL,
 * only counts them). Returns the number of sockets, or -1 if they cannot be listed for lack of
 * descriptors or memory. */
int srv_sockets(int *fds, int capacity);
/* Returns whether the socket has received bytes that have not been read. */
bool srv_socket_has_unread(int fd);
/* Reads how many bytes the peer has acknowledged since the connection began. Returns false if
 * the number is unknown because the socket is not a TCP socket. */
bool srv_socket_acked(int fd, uint64_t *bytes);
/* Returns RLIMIT_NOFILE. */
int srv_files_limit(void);
/* Returns how many of `n` file descriptors may be used for connections. The others (64, or half of
 * n if n is small) are reserved, so that models can be loaded regardless of how many clients are
 * connected. For REST connections `n` is the process's limit. gRPC itself does not limit its
 * connections; for them `n` is the number of descriptors that REST may use. */
int srv_files_left(int n);
/* Writes the peer's address in gRPC's format: "ipv4:ADDRESS:PORT", "ipv6:[ADDRESS]:PORT" or
 * "unix:". Writes "" if the socket is not connected. */
void srv_socket_peer(int fd, char *out, size_t capacity);

#endif
