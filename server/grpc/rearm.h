/*
 * Makes the kernel report the readiness of a TCP socket again to an epoll instance that watches it
 * with EPOLLET.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_REARM_H
#define SRV_REARM_H

#include <stdbool.h>

/* Makes the kernel report the socket's readiness again, by setting SO_RCVLOWAT to 1 or, for a
 * socket that was reset, by calling shutdown. If the descriptor already refers to another socket,
 * neither call does any harm, because 1 is the default of SO_RCVLOWAT, and shutdown is called only
 * for a socket that has hung up. */
void srv_socket_rearm(int fd);
/* Returns whether srv_socket_rearm has this effect on this system, which a connection over the
 * loopback interface shows. */
bool srv_socket_can_rearm(void);

#endif
