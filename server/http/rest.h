/*
 * The REST transport. The server's I/O loops run libmicrohttpd daemons, which have no threads of
 * their own. Only this module and the files that rest_loop.h lists use libmicrohttpd.
 */
#ifndef SRV_REST_H
#define SRV_REST_H

#include "server/server.h"

struct srv_rest_request;
/* Handles a request that has arrived completely. Returns true if it has submitted a job, which
 * answers the request later. Returns false if it has set the response. `browser` is set if the
 * request comes from a web page that may read responses (CORS). */
typedef bool srv_rest_handler(struct srv_rest_request *r, bool browser);
srv_rest_handler srv_rest_route;

/* The addresses at which the I/O loops accept connections. */
enum srv_rest_address {
    SRV_REST_PORT, /* the REST port */
    SRV_REST_PAGE, /* --page_address, where only the web page is served */
    SRV_N_REST_ADDRESSES
};

/*
 * Starts the threads of the I/O loops, and adds the loops to server->io_loops. From then on, the
 * threads confirm serving maps. srv_rest_bind and srv_rest_listen open the ports.
 */
enum rt_status srv_rest_start(struct srv_server *server, srv_rest_handler *handle,
                              struct srv_rest **out, struct rt_error *err);
/* Binds a listening socket to the address, before srv_rest_listen. An `address` of NULL or "" means
 * all interfaces, with IPv6 and IPv4, or with IPv4 only if there is no IPv6. Sets *bound to the
 * port, which the kernel chooses if `port` is 0. The message of an UNAVAILABLE error contains the
 * port. */
enum rt_status srv_rest_bind(struct srv_rest *r, enum srv_rest_address which, const char *address,
                             int port, int *bound, struct rt_error *err);
/* Begins to accept connections at the sockets that srv_rest_bind has opened. */
enum rt_status srv_rest_listen(struct srv_rest *r, struct rt_error *err);
/* Begins to drain: accepts no new connections, and sends `Connection: close` in responses. May be
 * called on any thread. */
void srv_rest_quiesce(struct srv_rest *r);
/* Returns the number of requests that have been read but not answered. */
int srv_rest_in_flight(struct srv_rest *r);
/* Cancels all requests that wait for a job, now and later. They are answered with UNAVAILABLE. */
void srv_rest_cancel_all(struct srv_rest *r);
/* Stops the I/O loops and frees `r`. Every job must have been completed. */
void srv_rest_stop(struct srv_rest *r);

#endif
