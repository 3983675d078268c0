/*
 * The REST transport: libmicrohttpd daemons without threads of their own, driven by our loops.
 * Everything of libmicrohttpd stands behind this file and those that rest_parts.h lists.
 */
#ifndef SRV_REST_H
#define SRV_REST_H

#include "server/server.h"

struct srv_rest_request; /* rest_request.h */
/* Answers a request that is whole. True: a job was submitted and answers later; false: the answer
 * is set. `browser`: it came from a page that may read answers of this server (CORS). */
typedef bool srv_rest_handler(struct srv_rest_request *r, bool browser);
srv_rest_handler srv_rest_route; /* all that this server answers (rest_routes.c) */

/*
 * Starts the threads (they take part in the map from now on); listens when `listen` is called.
 * start registers its nets in server->nets.
 */
enum rt_status srv_rest_start(struct srv_server *server, srv_rest_handler *handle,
                              struct srv_rest **out, struct rt_error *err);
/* Binds and begins to accept. *port: the port bound (for 0). UNAVAILABLE names the address. */
enum rt_status srv_rest_listen(struct srv_rest *r, const char *address, int port, int *bound,
                               struct rt_error *err);
/* Drain: no new connections, `Connection: close` on replies. Any thread. */
void srv_rest_quiesce(struct srv_rest *r);
/* Requests read but not answered yet. */
int srv_rest_in_flight(struct srv_rest *r);
/* Stops the loops and frees. Every job has been answered by then. */
void srv_rest_stop(struct srv_rest *r);

#endif
