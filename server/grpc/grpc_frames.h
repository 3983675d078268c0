/*
 * Inspects the frames of gRPC's connections while the core reads them. The core does not limit the
 * size of a header block, the number of frames that request nothing, or the number of streams that
 * a peer opens before it has acknowledged the settings. The core limits the memory for incomplete
 * messages, but fails streams of arbitrary connections when this limit is reached. This module cuts
 * off a connection that violates a limit of h2_frames.h. The core then sees the end of a plain
 * connection, or the failure of a TLS connection.
 *
 * The core is a shared library that gives no access to the bytes that it reads. Therefore the
 * program defines its own versions of library functions:
 *   - recvmsg, by which the core reads plain connections and TLS records;
 *   - SSL_read and SSL_write, which return and accept the plaintext of TLS connections;
 *   - SSL_do_handshake (server/grpc/read_turns.h);
 *   - sendmsg (server/grpc/send_hook.h);
 *   - close, by which connections end;
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

/* The server accepts a connection only if its descriptor is below SRV_GRPC_MAX_FD. */
enum { SRV_GRPC_MAX_FD = 1 << 17 };

/* Enables the inspection of frames. Must be called once, before the first connection. `metrics`,
 * which must outlive the core, counts the connections that are cut off. `args` contains the maximum
 * size of a header list. `max_held` is the maximum number of bytes of incomplete bodies on all
 * connections. */
void srv_grpc_frames_start(struct srv_metrics *metrics, const grpc_channel_args *args,
                           int64_t max_held);
/* Registers a new connection before the core receives it. Its descriptor must be below
 * SRV_GRPC_MAX_FD. `is_plain` is false if the connection is encrypted. */
void srv_grpc_frames_begin(int fd, bool is_plain);
/* Returns the number of open connections, without those that srv_grpc_frames_close_idle has closed.
 */
int srv_grpc_frames_n_open(void);
/* Closes the connection below max_fd that has been idle for the longest time, if this time is at
 * least idle_ms. A connection is idle if it sends nothing and has_calls(arg, descriptor) returns
 * false. The core frees the descriptor soon afterwards. Returns false if there is no such
 * connection. */
bool srv_grpc_frames_close_idle(int max_fd, int64_t idle_ms,
                                bool (*has_calls)(const void *arg, int fd), const void *arg);
/* Records that sendmsg has sent the first n bytes of `message` on the descriptor. */
void srv_grpc_frames_sent(int fd, const struct msghdr *message, size_t n);

#endif
