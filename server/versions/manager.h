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
#include "server/versions/status.h"

struct srv_model_calls; /* loader.h; the server gives srv_model_calls */

/* Reads flags and the config file; refuses what TensorFlow Serving refuses at start. The server's
 * nets are there already: the first map is published here. */
enum rt_status srv_manager_start(struct srv_server *server, const struct srv_model_calls *calls,
                                 struct srv_manager **out, struct rt_error *err);
/*
 * As tensorflow_model_server: blocks until every configured model is AVAILABLE or one has failed
 * (its error), or until a missing one's time is over.
 */
enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err);
/* Shows the available versions, in the order of their models' names, until `look` says true; the
 * version is valid only inside the call, which must be short. False: none made it say so. */
bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg);
/*
 * Takes a new list of models in place of the one of flags and config file: a serialized
 * tensorflow.serving.ModelServerConfig. Refused, or taken and then `done` is called once, on the
 * manager's thread, when each new model is AVAILABLE or has failed. Reloads are carried out one
 * after the other; one whose *cancelled (valid until `done`; NULL: never) is true when its turn
 * comes changes nothing, and is CANCELLED. Any thread.
 */
enum rt_status
srv_manager_reload(struct srv_manager *m, struct rt_span message, const _Atomic bool *cancelled,
                   void (*done)(void *arg, enum rt_status status, const struct rt_error *err),
                   void *arg, struct rt_error *err);
/* Has the config file read again, as if it were time for it. Any thread. */
void srv_manager_reread(struct srv_manager *m);
/* There is a connection: the manager looks at them once in a while until all have closed. Any
 * thread; costs nothing while it is known. */
void srv_manager_expect_close(struct srv_server *server);
/* Stops watching and loading, unloads everything. The nets must still run (they answer mail), and
 * may go on asking for states. */
void srv_manager_stop(struct srv_manager *m);
void srv_manager_free(struct srv_manager *m); /* when no net runs any more; NULL is fine */

#endif
