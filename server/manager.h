/*
 * The manager: turns what should be served into what is served. It watches directories (source.h),
 * decides by a pure policy (policy.h) over a table of legal states, loads on its own low-priority
 * threads (loader.h), publishes maps, retires and frees versions. One bad model never holds
 * another.
 *
 * Threads: one manager thread and its loaders; status.h's functions from any thread.
 */
#ifndef SRV_MANAGER_H
#define SRV_MANAGER_H

#include "server/server.h"
#include "server/status.h"

/* Reads flags and the config file; refuses what TensorFlow Serving refuses at start. */
enum rt_status srv_manager_start(struct srv_server *server, struct srv_manager **out,
                                 struct rt_error *err);
/*
 * As tensorflow_model_server: blocks until every configured model is AVAILABLE or one has failed
 * (its error), or until a missing one's time is over.
 */
enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err);
/* Stops watching and loading, unloads everything. The nets must still run (they answer mail). */
void srv_manager_stop(struct srv_manager *m);

#endif
