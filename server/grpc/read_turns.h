/*
 * Turns in which gRPC's connections are read. The core reads from a connection as long as bytes
 * are available, and its threads take no other events meanwhile: several connections that send
 * without a pause, each at a permitted rate, would keep all others waiting.
 *
 * So reads are short, and a connection that has had its turn is paused: its reads return EAGAIN
 * and the core goes on to others. When one of the I/O loops and the thread that read the
 * connection are idle, the pause ends. A turn is 64 frames that cost work (all frames but DATA of
 * 256 bytes or more), and four times as many while fewer than four connections reach that number
 * within a second. The end of a connection that has sent that many frames waits for a turn, too,
 * because the core takes down all of its streams at once.
 *
 * The core waits for edge-triggered events of epoll. Linux reports the edge again when SO_RCVLOWAT
 * is set on a TCP socket with readable bytes. On kernels that do not, and on other kinds of
 * sockets, nothing is paused.
 *
 * Threads: any; one at a time reads a connection. A thread of this module ends the pauses.
 */
#ifndef SRV_READ_TURNS_H
#define SRV_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call it once. *n_calls, if it is not NULL, is the number of open calls; it is read until
 * srv_turns_stop. False: the thread cannot be started, or the kernel does not report edges again;
 * no connection is ever paused then. */
bool srv_turns_start(const _Atomic int *n_calls);
/* After the core has stopped reading. Does nothing unless srv_turns_start succeeded. */
void srv_turns_stop(void);

/* Registers the calling thread as an I/O loop that takes the core's events, until srv_turns_stop.
 */
void srv_turns_begin_loop(void);
/* The calling thread begins to wait for events of `epoll`, or has ended its wait. */
void srv_turns_wait_begins(int epoll);
void srv_turns_wait_ends(void);

/* Registers a new connection with this descriptor. */
void srv_turns_begin(int fd);
/* Before a read: the most bytes that it may take, or 0 if it must return EAGAIN. */
size_t srv_turns_limit(int fd);
/* A read has taken n bytes with n_frames frames that cost work; -1: they are still encrypted.
 * is_all: it has emptied the socket, so that a new turn begins with these bytes. */
void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all);
/* Counts the frames in bytes that were read earlier, once decrypted. */
void srv_turns_held_frames(int fd, uint32_t n);
/* A read has found the end of the connection. True: this read must return EAGAIN once. */
bool srv_turns_end(int fd);

#endif
