/*
 * Makes the core read gRPC's connections in turns. The core reads from a connection as long as
 * bytes are available, and the reading thread handles no other events meanwhile. Several
 * connections that send continuously at a permitted rate would therefore block all others.
 *
 * Therefore each read is short. A connection that has used up its turn is paused. Its reads return
 * EAGAIN, and the core continues with other connections. The pause ends when one of the I/O loops
 * and the thread that read the connection are idle. A turn ends after 256 frames that cost work
 * (all frames except DATA frames of 256 bytes or more). Eight TLS records of less than 256 bytes
 * count as one more of these frames. If more than eight connections reach a limit of their turns
 * within a second, a turn ends after an equal share of 2,048 frames, but not before 64. With four
 * or more such connections, a turn also ends after 1 MiB, because requests that consist of a few
 * large frames may take a long time to handle. A read that empties the socket begins a new turn.
 *
 * With thousands of connections that send at the same time, turns that end when the socket is empty
 * would take seconds in total. While more than 32 connections send at least 8 KiB per turn within a
 * second, a turn ends after an equal share of 32 MiB, but not before 8 KiB. The bytes of a turn are
 * then counted for at least 250 ms, even if reads empty the socket in the meantime. A connection
 * that sends less than its share within 250 ms is not paused.
 *
 * The end of a connection that has sent at least 64 frames that cost work is delayed in the same
 * way, because the core then destroys all streams of the connection at once.
 *
 * The core also performs TLS handshakes on these threads. An RSA signature with a key of 4096 bits
 * takes 3 ms, during which other connections wait. A connection whose handshake has not ended may
 * therefore read only with this module's permission. Paused connections receive the permission one
 * by one, in the order in which they were paused, when an I/O loop is idle or when handshakes have
 * taken less than half of a thread's time.
 *
 * If the peer closes a paused connection, the connection does not wait for its turn or for
 * permission. It ends, and its unread bytes are lost. Otherwise, connections that are opened and
 * closed at a high rate would occupy all descriptors.
 *
 * The core waits for edge-triggered epoll events. At the end of a pause, this module sets
 * SO_RCVLOWAT, which makes Linux report the event of a readable TCP socket again. Connections are
 * not paused if the kernel does not do so, or if they use other kinds of sockets.
 *
 * Threads: any thread may call these functions, but a connection is read by one thread at a time. A
 * thread of this module ends the pauses.
 */
#ifndef SRV_READ_TURNS_H
#define SRV_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Starts the thread that ends pauses. May be called only once. *n_calls is the number of open
 * calls, and is read until srv_turns_stop is called. n_calls is NULL if the number is unknown. If
 * `has_tls` is set, every TCP connection begins with a TLS handshake, whose steps
 * srv_turns_handshake reports. Returns false if the thread cannot be started, or if
 * srv_socket_rearm does not work on this system (rearm.h). In both cases, no connection is ever
 * paused.
 */
bool srv_turns_start(const _Atomic int *n_calls, bool has_tls);
/* Stops the thread that ends pauses. The core must have stopped reading. Does nothing unless
 * srv_turns_start succeeded. */
void srv_turns_stop(void);

/* Registers the calling thread as an I/O loop that handles the core's events, until
 * srv_turns_stop. */
void srv_turns_begin_loop(void);
/* These functions record that the calling thread begins to wait for events of the epoll instance
 * `epoll`, and that the wait has ended. */
void srv_turns_wait_begins(int epoll);
void srv_turns_wait_ends(void);

void srv_turns_begin(int fd);
/* Called before a read. Returns whether the peer has closed the connection during a pause. The read
 * must then return the end of the connection, even if bytes have arrived. */
bool srv_turns_is_gone(int fd);
/* Called before a read. Returns the maximum number of bytes that the read may consume, or 0 if
 * the read must return EAGAIN. */
size_t srv_turns_limit(int fd);
/* Records a read of n bytes. n_frames is the number of frames in these bytes that cost work, or -1
 * if the bytes are still encrypted. is_all is set if the read has emptied the socket. The bytes
 * then begin a new turn, unless more than 32 connections send at the same time (see the top of this
 * file). */
void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all);
/* Counts n more frames that cost work. They were found by decrypting bytes of earlier reads. */
void srv_turns_held_frames(int fd, uint32_t n);
/* Records that a step of the connection's TLS handshake took took_ns nanoseconds, and whether the
 * handshake has ended. */
void srv_turns_handshake(int fd, int64_t took_ns, bool has_ended);
/* Records that a read has found the end of the connection. Returns true if the end is delayed. The
 * connection is then paused, and the read must return EAGAIN. */
bool srv_turns_end(int fd);

#endif
