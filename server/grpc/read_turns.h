/*
 * Makes the core read gRPC's connections in turns. The core reads from a connection as long as
 * bytes are available, and its threads handle no other events in the meantime. Several connections
 * that send continuously, each at a permitted rate, would therefore block all others.
 *
 * So each read is short, and a connection that has used up its turn is paused: its reads return
 * EAGAIN, and the core goes on to other connections. The pause ends when one of the I/O loops and
 * the thread that read the connection are idle. A turn ends after 64 frames that cost work (all
 * frames except DATA frames of 256 bytes or more). While fewer than four connections reach this
 * number within a second, a turn ends after four times as many frames. Otherwise a turn also ends
 * after 1 MiB, because requests that consist of few large frames may take long to handle. When a
 * connection that has sent at least 64 such frames ends, the end also waits for a turn, because the
 * core takes down all streams of the connection together.
 *
 * The core also performs TLS handshakes on these threads. An RSA signature with a key of 4096 bits
 * takes 3 ms, during which other connections wait. So the reads of a connection whose handshake has
 * not ended need permission. Paused connections receive this permission one by one, in the order of
 * their pauses, when an I/O loop is idle or when handshakes have taken less than half of a thread's
 * time.
 *
 * The core waits for edge-triggered epoll events. When SO_RCVLOWAT is set on a TCP socket with
 * readable bytes, Linux reports the edge again. Connections are not paused if the kernel does not
 * report the edge again, or if they use other kinds of sockets.
 *
 * Threads: any thread may call these functions, but a connection is read by one thread at a time. A
 * thread of this module ends the pauses.
 */
#ifndef SRV_READ_TURNS_H
#define SRV_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts the thread that ends pauses. May be called only once. *n_calls is the number of open calls
 * and is read until srv_turns_stop; n_calls may be NULL. If `has_tls` is set, every TCP connection
 * begins with a TLS handshake, and srv_turns_handshake reports the steps of the handshake. Returns
 * false if the thread cannot be started or the kernel does not report edges again; in both cases no
 * connection is ever paused. */
bool srv_turns_start(const _Atomic int *n_calls, bool has_tls);
/* Stops the thread that ends pauses. Must be called after the core has stopped reading. Does
 * nothing unless srv_turns_start succeeded. */
void srv_turns_stop(void);

/* Registers the calling thread, until srv_turns_stop, as an I/O loop that handles the core's
 * events. */
void srv_turns_begin_loop(void);
/* The first function records that the calling thread begins to wait for events of `epoll`, and the
 * second function records that the wait has ended. */
void srv_turns_wait_begins(int epoll);
void srv_turns_wait_ends(void);

/* Registers a new connection whose socket is `fd`. */
void srv_turns_begin(int fd);
/* Called before a read. Returns the maximum number of bytes that the read may consume, or 0 if
 * the read must return EAGAIN. */
size_t srv_turns_limit(int fd);
/* Reports that a read has consumed n bytes with n_frames frames that cost work; an n_frames of -1
 * means that the bytes are still encrypted. If is_all is set, the read has emptied the socket, so a
 * new turn begins with these bytes. */
void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all);
/* Counts n frames that were found by decrypting bytes that were read earlier. */
void srv_turns_held_frames(int fd, uint32_t n);
/* Reports the duration took_ns, in nanoseconds, of a step of the connection's TLS handshake, and
 * whether the handshake has ended. */
void srv_turns_handshake(int fd, int64_t took_ns, bool has_ended);
/* Reports that a read has found the end of the connection. Returns true if that read must first
 * return EAGAIN once. */
bool srv_turns_end(int fd);

#endif
