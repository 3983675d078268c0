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

struct addrinfo;

/* Stores up to `capacity` connected stream sockets of the process in `fds`. If `fds` is NULL, only
 * counts them. Returns the number of sockets, or -1 if descriptors or memory run out. */
int srv_sockets(int *fds, int capacity);
bool srv_socket_has_unread(int fd);
/* Returns whether no request can follow: the peer has reset the connection, or it has closed its
 * sending side and no received bytes are unread. */
bool srv_socket_is_over(int fd);
/* Reads the number of bytes that the peer has acknowledged on the connection. Returns false if the
 * number is unknown because the socket is not a TCP socket. */
bool srv_socket_acked(int fd, uint64_t *bytes);
/* Limits the number of bytes that the kernel accepts from the process before it has sent them to
 * the peer. Without a limit, the kernel may accept 4 MiB for a peer that does not read. */
void srv_socket_limit_unsent(int fd, int bytes);
/* Connections may use rt_file_unreserved(rt_file_limit()) descriptors (runtime/files/file.h), and
 * plaintext gRPC connections rt_file_unreserved() of that number.
 *
 * Returns the maximum number of REST connections: --max_connections, or half of the descriptors
 * that connections may use. */
int srv_files_rest_share(int64_t max_connections);
/* Returns the maximum number of gRPC connections: all descriptors that connections may use, except
 * those of srv_files_rest_share if the server accepts REST connections. */
int srv_files_grpc_share(int64_t max_connections, bool has_rest);
/* Opens a TCP socket that listens at the address, with the flags of SOCK_CLOEXEC and SOCK_NONBLOCK.
 * The IPv6 address "::" includes the IPv4 addresses. Returns -1 and sets errno on failure. */
int srv_socket_listen(const struct addrinfo *address);
/* Returns the port to which a TCP socket is bound, or 0 if it is not bound. */
int srv_socket_port(int fd);
/* The reaction of a listener to a failure of accept4. */
enum srv_accept_next {
    SRV_ACCEPT_WAIT,  /* no connection is pending, and poll will report the next connection */
    SRV_ACCEPT_AGAIN, /* the error concerns one connection, and other connections may be pending */
    /* Descriptors or memory have run out. No event reports when they are available again, so the
     * listener must try again after some time. */
    SRV_ACCEPT_PAUSE,
};
/* `error` is errno after the failure of accept4. */
enum srv_accept_next srv_accept_failed(int error);
/* Writes the peer's address in gRPC's format: "ipv4:ADDRESS:PORT", "ipv6:[ADDRESS]:PORT" or
 * "unix:". Writes "" if the socket is not connected. */
void srv_socket_peer(int fd, char *out, size_t capacity);

#endif
