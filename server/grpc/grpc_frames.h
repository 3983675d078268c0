/*
 * Inspects the frames of gRPC's connections while gRPC's core reads them. The core does not limit
 * the size of a header block or the number of frames that do not request anything. Before a peer
 * has acknowledged the settings, the core does not limit the number of streams either. It limits
 * the memory of incomplete messages, but enforces this limit by failing streams of arbitrary
 * connections. A connection that violates a limit of server/grpc/h2_frames.h is cut off. To the
 * core a plain connection then appears to have ended, and a TLS connection to have failed.
 *
 * The core is a shared library that gives no access to the bytes that it reads. So the program
 * defines functions that take precedence over those of the libraries:
 *   - recvmsg, by which the core reads plain connections and the records of TLS;
 *   - SSL_read and SSL_write, which return and accept the plain text of TLS;
 *   - SSL_do_handshake (server/grpc/read_turns.h);
 *   - sendmsg (server/grpc/send_hook.h);
 *   - accept4 and close: a descriptor that the core accepts is not a plain connection, even if its
 *     number belonged to one before;
 *   - epoll_wait, by which the core waits (server/grpc/read_turns.h).
 *
 * ALTS connections are not inspected, because the core itself decrypts them.
 *
 * Threads: any thread may call these functions, but only one thread at a time per connection.
 */
#ifndef SRV_GRPC_FRAMES_H
#define SRV_GRPC_FRAMES_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct srv_metrics;

/* The server accepts only those plain connections whose descriptors are below SRV_GRPC_MAX_FD. */
enum { SRV_GRPC_MAX_FD = 1 << 17 };

/* Enables the inspection of frames. Must be called once, before the first connection. `metrics`
 * counts an event for each connection that is cut off, and must outlive the core. `args` contain
 * the maximum size of a header list. `max_held` limits the bytes of incomplete bodies on all
 * connections. */
void srv_grpc_frames_start(struct srv_metrics *metrics, const grpc_channel_args *args,
                           int64_t max_held);
/* Begins to inspect a new plain connection before it is passed to the core. The connection's
 * descriptor is below SRV_GRPC_MAX_FD. */
void srv_grpc_frames_begin(int fd);
/* A plain connection is idle if it has sent nothing for at least idle_ms and has no calls according
 * to has_calls(arg, descriptor). Among the idle connections with descriptors below max_fd, closes
 * the one that has sent nothing for longest. The core frees the descriptor soon afterwards. Returns
 * false if there is no such connection. */
bool srv_grpc_frames_close_idle(int max_fd, int64_t idle_ms,
                                bool (*has_calls)(const void *arg, int fd), const void *arg);
/* Reports that sendmsg has sent the first n bytes of `message` on the descriptor. */
void srv_grpc_frames_sent(int fd, const struct msghdr *message, size_t n);

#endif
