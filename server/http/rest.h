/*
 * The REST transport: libmicrohttpd daemons without threads of their own, run by the server's I/O
 * loops. Only this module and the files that rest_loop.h lists use libmicrohttpd.
 */
#ifndef SRV_REST_H
#define SRV_REST_H

#include "server/server.h"

struct srv_rest_request; /* defined in rest_request.h */
/* Handles a request that has arrived completely. Returns false if it has set the response, or true
 * if it has submitted a job, so that the response follows later. `browser` is set if the request
 * comes from a web page that may read responses (CORS). */
typedef bool srv_rest_handler(struct srv_rest_request *r, bool browser);
/* Calls the handler of the request's route (rest_routes.c). */
srv_rest_handler srv_rest_route;

/*
 * Starts the threads of the I/O loops, and registers the loops in server->io_loops. From then on,
 * the threads confirm new serving maps. srv_rest_listen opens the port.
 */
enum rt_status srv_rest_start(struct srv_server *server, srv_rest_handler *handle,
                              struct srv_rest **out, struct rt_error *err);
/* Binds a listening socket to the address and begins to accept connections. *bound receives the
 * port, which the kernel chooses if `port` is 0. The message of an UNAVAILABLE error contains the
 * port. */
enum rt_status srv_rest_listen(struct srv_rest *r, const char *address, int port, int *bound,
                               struct rt_error *err);
/* Begins to drain the REST transport: accepts no new connections, and sends `Connection: close` in
 * responses. May be called on any thread. */
void srv_rest_quiesce(struct srv_rest *r);
/* Returns the number of requests that have been read but not answered yet. */
int srv_rest_in_flight(struct srv_rest *r);
/* Stops the I/O loops and frees `r`. Must be called after every job has been completed. */
void srv_rest_stop(struct srv_rest *r);

#endif
