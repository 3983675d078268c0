/*
 * Turns of gRPC's connections to be read. The core reads on from a connection for as long as there
 * is anything to read, and its threads ask for no other events in the meantime: several connections
 * that send without a pause, each at a rate that it may have, would keep all others waiting.
 *
 * So reads are short, and a connection that has had its turn is paused: reads answer
 * EAGAIN, the core goes on to others, and when one of our loops and the thread that read it have
 * come to rest, the connection may be read again. A turn is of 64 frames that cost work (all but
 * DATA of some size), and of four times as many while fewer than four connections have so much
 * within a second. The end of a connection that has sent as much waits for a turn, too: the core
 * takes down all of its streams at once.
 *
 * The core waits for edges of epoll. Linux reports an edge anew when SO_RCVLOWAT is set on a TCP
 * socket that has something to be read; where a kernel does not, and on sockets of another kind,
 * nothing is paused.
 *
 * Threads: any; one at a time reads a connection. A thread of its own ends the pauses.
 */
#ifndef SRV_READ_TURNS_H
#define SRV_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once. `n_calls`, which may be NULL, tells how many calls are open, until srv_turns_stop. False:
 * no thread could be started, or the kernel does not do what is needed; nothing is ever paused
 * then. */
bool srv_turns_start(const _Atomic int *n_calls);
/* The core reads no more. Does nothing if they were not started. */
void srv_turns_stop(void);

/* The calling thread is one of the loops that take the core's events, until srv_turns_stop. */
void srv_turns_begin_loop(void);
/* The calling thread waits for events of `epoll`; its wait has ended. */
void srv_turns_wait_begins(int epoll);
void srv_turns_wait_ends(void);

/* A new connection has the descriptor. */
void srv_turns_begin(int fd);
/* Before a read: how many bytes it may take, 0 if it has to answer EAGAIN. */
size_t srv_turns_limit(int fd);
/* A read has taken n bytes with so many frames that cost work, or -1 if these are encrypted yet.
 * is_all: it left none, so that a turn begins with them. */
void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all);
/* The frames of what was read before, decrypted. */
void srv_turns_held_frames(int fd, uint32_t n);
/* A read has found the connection's end. True: the read has to answer EAGAIN, for this once. */
bool srv_turns_end(int fd);

#endif
