/*
 * The manager makes the served versions follow the configuration. It watches directories
 * (source.h), decides with a pure policy and a table of legal state changes (policy.h), loads
 * versions on its own low-priority threads (loader.h), publishes serving maps, and retires and
 * frees versions. A model that fails or never finishes loading does not delay other models.
 *
 * Threads: there is one manager thread, with its load threads. The functions of status.h may be
 * called on any thread.
 */
#ifndef SRV_MANAGER_H
#define SRV_MANAGER_H

#include "server/server.h"
#include "server/versions/status.h"

/* Defined in loader.h. The server passes its global object srv_model_calls to srv_manager_start. */
struct srv_model_calls;

/* Starts the manager: reads the flags and the config file, and fails where TensorFlow Serving
 * refuses to start. The server's I/O loops must exist, because the first serving map is published
 * here. */
enum rt_status srv_manager_start(struct srv_server *server, const struct srv_model_calls *calls,
                                 struct srv_manager **out, struct rt_error *err);
/*
 * Blocks, as tensorflow_model_server does at startup, until every configured model is AVAILABLE, a
 * model has failed, or the wait for a missing model has ended. The error names the models that did
 * not become available.
 */
enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err);
/* Calls `look` for each available version, in the order of the model names, until a call returns
 * true. Each call runs under the manager's lock and must be short. The version is valid only during
 * the call. Returns false if no call of `look` returned true. */
bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg);
/*
 * Requests a new list of models in place of the one from the flags and the config file. `message`
 * is a serialized tensorflow.serving.ModelServerConfig. Reloads are performed one after the other.
 * May be called on any thread.
 *
 * If the request succeeds, `done` is called once, on the manager's thread, when each new model is
 * AVAILABLE or has failed, or when the reload has been refused. With RT_OK, the message of `err`
 * names the models that continue to serve their previous versions because of a problem with their
 * new base path; it is "" if there are none. If *cancelled is already true when the reload is due,
 * the reload changes nothing and ends with RT_CANCELLED. `cancelled` may be NULL; otherwise
 * *cancelled must be valid until `done` is called.
 */
enum rt_status
srv_manager_reload(struct srv_manager *m, struct rt_span message, const _Atomic bool *cancelled,
                   void (*done)(void *arg, enum rt_status status, const struct rt_error *err),
                   void *arg, struct rt_error *err);
/* Makes the manager read the config file again as soon as possible. May be called on any thread. */
void srv_manager_reread(struct srv_manager *m);
/* Reports to the manager that connections exist. Until no connection is left, the manager
 * periodically counts closed connections and trims the heap. May be called on any thread; repeated
 * calls cost one atomic load. */
void srv_manager_expect_close(struct srv_server *server);
/* Stops watching and loading, and unloads all versions. The I/O loops must still be running,
 * because they confirm retirements. They may also still query states. */
void srv_manager_stop(struct srv_manager *m);
/* Frees the manager. Must be called after all I/O loops have ended. The argument may be NULL. */
void srv_manager_free(struct srv_manager *m);

#endif
