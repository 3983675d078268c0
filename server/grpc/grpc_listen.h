/*
 * Slipway's own listening sockets, and the thread that accepts connections. The core's own listener
 * would permanently stop when accept4 fails, for example because no descriptor is free. It would
 * also take over the UNIX socket path of another running server, and later remove the path.
 *
 * Owner: the srv_grpc that contains the srv_listener.
 * Threads: the functions are called on one thread. The listener's own thread accepts connections
 * from srv_listener_start to srv_listener_close.
 */
#ifndef SRV_GRPC_LISTEN_H
#define SRV_GRPC_LISTEN_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "runtime/base/status.h"

struct srv_grpc;
struct srv_grpc_port;

enum { SRV_MAX_LISTEN = 16 };

struct srv_listen_fd {
    int fd;
    struct srv_grpc_port *port;
    bool is_secure; /* whether connections use the credentials of the server (TLS or ALTS) */
    /* path of the socket file, or "" for TCP */
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    /* identity of the socket file; when the server stops, it removes the path only if the path
     * still refers to this file */
    struct stat made;
};
struct srv_listener {
    struct srv_grpc *grpc;
    int n, stop_fd;
    struct srv_listen_fd at[SRV_MAX_LISTEN];
    pthread_t thread;
    bool is_running;
};

void srv_listener_init(struct srv_listener *l, struct srv_grpc *grpc);
/* Returns the channel argument by which srv_grpc_listen_secure receives port->secure. The port's
 * server in the core must be created with this argument. */
grpc_arg srv_grpc_secure_argument(struct srv_grpc_port *port);
/* Makes the port accept secure connections. Must be called before the core's server starts. */
enum rt_status srv_grpc_listen_secure(struct srv_grpc_port *port,
                                      grpc_server_credentials *credentials, struct rt_error *err);
/* Listens on a TCP address. If `is_secure` is set, srv_grpc_listen_secure must have been called for
 * the port. Sets *bound to the port number, which the kernel chooses if `number` is 0. */
enum rt_status srv_listen_tcp(struct srv_listener *l, struct srv_grpc_port *port, bool is_secure,
                              const char *address, int number, int *bound, struct rt_error *err);
/* Listens on a UNIX socket. `mode` is the mode of the socket file; 0 means that the umask applies.
 * `flag` is the name of the flag that specifies the path. Error messages contain this name. */
enum rt_status srv_listen_unix(struct srv_listener *l, struct srv_grpc_port *port, const char *path,
                               int mode, const char *flag, struct rt_error *err);
enum rt_status srv_listener_start(struct srv_listener *l, struct rt_error *err);
void srv_listener_close(struct srv_listener *l);

#endif
