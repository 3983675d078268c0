/*
 * The REST transport: libmicrohttpd daemons without threads of their own, run by the server's I/O
 * loops. Only this module and the files that rest_loop.h lists use libmicrohttpd.
 */
#ifndef SRV_REST_H
#define SRV_REST_H

#include "server/server.h"

struct srv_rest_request; /* defined in rest_request.h */
/* Handles a request that has arrived completely. True: a job was submitted, which responds later;
 * false: the response is set. `browser`: the request comes from a web page that may read responses
 * (CORS). */
typedef bool srv_rest_handler(struct srv_rest_request *r, bool browser);
srv_rest_handler srv_rest_route; /* dispatches to every route of this server (rest_routes.c) */

/*
 * Starts the threads of the I/O loops, each of which confirms new serving maps from now on, and
 * registers the loops in server->io_loops. srv_rest_listen opens the port.
 */
enum rt_status srv_rest_start(struct srv_server *server, srv_rest_handler *handle,
                              struct srv_rest **out, struct rt_error *err);
/* Binds the address and begins to accept connections. *bound receives the port, also if `port` is
 * 0. The text of UNAVAILABLE names the address. */
enum rt_status srv_rest_listen(struct srv_rest *r, const char *address, int port, int *bound,
                               struct rt_error *err);
/* Begins the drain: accepts no new connections, and sends `Connection: close` in responses. Any
 * thread. */
void srv_rest_quiesce(struct srv_rest *r);
/* Returns the number of requests that were read but not answered yet. */
int srv_rest_in_flight(struct srv_rest *r);
/* Stops the I/O loops and frees `r`. Call it when every job has been answered. */
void srv_rest_stop(struct srv_rest *r);

#endif
