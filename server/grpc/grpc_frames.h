/*
 * Inspects the frames of gRPC's connections while gRPC's core reads them. The core limits neither
 * the size of a header block, nor the number of frames that request nothing, nor, before a peer
 * has acknowledged the settings, the number of streams. It limits the memory of incomplete
 * messages by failing streams of arbitrary connections. A connection that server/grpc/h2_frames.h
 * objects to is cut off: the core sees that it has ended (plain) or failed (TLS).
 *
 * The core is a shared library that does not show what it reads. So the program defines functions
 * that take precedence over those of the libraries:
 *   - recvmsg, by which the core reads plain connections and the records of TLS;
 *   - SSL_read and SSL_write, which the plain text of TLS goes through;
 *   - sendmsg (server/grpc/send_hook.h);
 *   - accept4 and close: a descriptor that the core accepts is not a plain connection, even if its
 *     number belonged to one before;
 *   - epoll_wait, by which the core waits (server/grpc/read_turns.h).
 *
 * ALTS connections are not inspected, because the core itself decrypts them.
 *
 * Threads: any; one at a time for a connection.
 */
#ifndef SRV_GRPC_FRAMES_H
#define SRV_GRPC_FRAMES_H

#include <grpc/grpc.h>
#include <stdint.h>
#include <sys/socket.h>

struct srv_metrics;

/* The server accepts no plain connection with this descriptor or a higher one. */
enum { SRV_GRPC_MAX_FD = 1 << 17 };

/* Call it once, before the first connection. `metrics` must outlive the core and count an event
 * for each connection that is cut off. `args` hold the limit of a header list. `max_held` bounds
 * the bytes of incomplete bodies on all connections. */
void srv_grpc_frames_start(struct srv_metrics *metrics, const grpc_channel_args *args,
                           int64_t max_held);
/* Begins to inspect a new plain connection, below SRV_GRPC_MAX_FD, before the core gets it. */
void srv_grpc_frames_begin(int fd);
/* sendmsg has sent the first n bytes of `message` on the descriptor. */
void srv_grpc_frames_sent(int fd, const struct msghdr *message, size_t n);

#endif
