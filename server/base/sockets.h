/*
 * What the kernel knows of the process's connections, and how many it allows.
 *
 * Threads: any.
 */
#ifndef SRV_SOCKETS_H
#define SRV_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The process's connected stream sockets, at most `room` of them (fds NULL: only counted); how
 * many; -1: they cannot be listed, for want of descriptors or memory. */
int srv_sockets(int *fds, int capacity);
/* Bytes that have come wait to be read. */
bool srv_socket_has_unread(int fd);
/* Bytes that the peer has taken since the connection began. False: not known, for it is not TCP. */
bool srv_socket_acked(int fd, uint64_t *bytes);
/* RLIMIT_NOFILE. */
int srv_files_limit(void);
/* What n descriptors leave when some are set aside: 64, but of few a half. Connections of REST have
 * descriptors below what the limit leaves, so that models can be loaded whoever is connected; those
 * of gRPC, which has no limit of connections, below what that leaves. */
int srv_files_left(int n);
/* The peer as gRPC writes addresses: "ipv4:ADDRESS:PORT", "ipv6:[ADDRESS]:PORT" or "unix:".
 * "": no connection. */
void srv_socket_peer(int fd, char *out, size_t capacity);

#endif
