/*
 * Queries of the kernel about the process's connections, and the limits on their number.
 *
 * Threads: any.
 */
#ifndef SRV_SOCKETS_H
#define SRV_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists the process's connected stream sockets, at most `capacity` of them (fds NULL: only counts
 * them). Returns their number; -1: they cannot be listed, for lack of descriptors or memory. */
int srv_sockets(int *fds, int capacity);
/* Returns whether received bytes wait to be read. */
bool srv_socket_has_unread(int fd);
/* Reads how many bytes the peer has acknowledged since the connection began. False: unknown,
 * because the socket is not TCP. */
bool srv_socket_acked(int fd, uint64_t *bytes);
/* Returns RLIMIT_NOFILE. */
int srv_files_limit(void);
/* Returns how many of n descriptors are left when some are reserved: 64, or half of few. REST
 * connections use descriptors below what the limit leaves, so that models can be loaded however
 * many clients are connected. gRPC has no limit of connections; its connections use descriptors
 * below what that leaves. */
int srv_files_left(int n);
/* Writes the peer as gRPC writes addresses: "ipv4:ADDRESS:PORT", "ipv6:[ADDRESS]:PORT" or "unix:".
 * "": not connected. */
void srv_socket_peer(int fd, char *out, size_t capacity);

#endif
