/*
 * Makes the kernel report the readiness of a TCP socket again, to an epoll instance that watches it
 * with EPOLLET.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_REARM_H
#define SRV_REARM_H

#include <stdbool.h>

/* Makes the kernel report the socket's readiness again. Sets SO_RCVLOWAT to 1 or, for a socket that
 * was reset, calls shutdown. Both calls are harmless if the descriptor already refers to another
 * socket: 1 is the default of SO_RCVLOWAT, and shutdown is called only for a socket that has hung
 * up. */
void srv_socket_rearm(int fd);
/* Returns whether srv_socket_rearm works on this system. Tests this with a connection over the
 * loopback interface. */
bool srv_socket_can_rearm(void);

#endif
