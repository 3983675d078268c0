/*
 * The frames of gRPC's connections, looked at as gRPC's core reads them: the core limits neither
 * the size of a header block nor the number of frames that ask for nothing, and until a peer has
 * acknowledged our settings nor that of streams; and what it holds of messages that are not whole
 * yet it limits by failing streams of whatever connection. What server/grpc/h2_frames.h finds is
 * cut off: the core is told that the connection has ended (plain) or failed (TLS).
 *
 * The core is a shared library that shows nobody what it reads. So the program has functions of its
 * own that stand before those of the libraries: recvmsg, by which the core reads plain connections
 * and TLS's records; SSL_read and SSL_write, through which the contents of TLS go; sendmsg
 * (server/grpc/send_hook.h); accept4 and close, for a descriptor that the core accepts is no plain
 * connection, though one may have had its number; and epoll_wait, by which the core waits
 * (server/grpc/read_turns.h). ALTS is not looked at: its bytes are decrypted inside of the core.
 *
 * Threads: any; one at a time for a connection.
 */
#ifndef SRV_GRPC_FRAMES_H
#define SRV_GRPC_FRAMES_H

#include <grpc/grpc.h>
#include <stdint.h>
#include <sys/socket.h>

struct srv_metrics;

/* No connection has a higher descriptor. */
enum { SRV_GRPC_MAX_FD = 1 << 17 };

/* Once, before the first connection. `metrics`, which outlive the core, count an event for each
 * connection that is cut off; `args` tell how large a list of headers may be. */
void srv_grpc_frames_start(struct srv_metrics *metrics, const grpc_channel_args *args,
                           int64_t max_held);
/* A new plain connection, below SRV_GRPC_MAX_FD, before the core has it. */
void srv_grpc_frames_begin(int fd);
/* n bytes of the message were sent on the descriptor. */
void srv_grpc_frames_sent(int fd, const struct msghdr *message, size_t n);

#endif
