/*
 * Groups the sends of a gRPC thread that responds to several requests in a row. TCP transmits each
 * small response as a segment of its own, which takes about 6 us on loopback, a fifth of the time
 * of a small request. Within a group, the kernel transmits the first send immediately, and collects
 * the bytes of the others until the group is flushed or ends, or a segment is full.
 *
 * Threads: a group belongs to the thread that began it.
 */
#ifndef SRV_SEND_GROUP_H
#define SRV_SEND_GROUP_H

/* Begins a group. A group within a group belongs to the outer one. */
void srv_send_group_begin(void);
/* Transmits what the kernel has collected. Does nothing without a group. The next send of the group
 * is transmitted immediately. */
void srv_send_group_flush(void);
/* Ends the group, and transmits what the kernel has collected. */
void srv_send_group_end(void);
/* Returns the flags for a send or sendmsg on the socket `fd` that the thread is about to perform:
 * MSG_MORE if the bytes may wait for other bytes of the group, otherwise 0. Flushes the group after
 * SRV_SEND_GROUP_MOST sends, so that a response waits for at most as many others, and for what the
 * thread does between them. */
int srv_send_group_flags(int fd);

enum { SRV_SEND_GROUP_MOST = 16 };

#endif
