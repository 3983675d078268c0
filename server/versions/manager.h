/*
 * The manager makes the served versions follow the configuration. It watches directories
 * (source.h). A pure policy and a table of legal state changes (policy.h) decide the moves. The
 * manager loads versions on low-priority threads (loader.h), publishes serving maps, and retires
 * and frees versions. A model that fails or never finishes loading does not delay other models.
 *
 * Threads: one manager thread and its load threads. The functions of status.h may be called on any
 * thread.
 */
#ifndef SRV_MANAGER_H
#define SRV_MANAGER_H

#include "server/server.h"
#include "server/versions/status.h"

struct srv_snapshot;    /* a snapshot that was written (snapshot.h) */
struct srv_model_calls; /* functions that load and free versions (loader.h) */

/* Starts the manager. Reads the flags and the config file, and fails if TensorFlow Serving would
 * refuse to start. The server's I/O loops must exist, because this call publishes the first serving
 * map. */
enum rt_status srv_manager_start(struct srv_server *server, const struct srv_model_calls *calls,
                                 struct srv_manager **out, struct rt_error *err);
/*
 * Blocks until every configured model is AVAILABLE, a model has failed, or the wait for a missing
 * model has ended. tensorflow_model_server blocks in the same way at startup. The error names the
 * models that are not available.
 */
enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err);
/* Calls `look` for each available version, in the order of the model names, until a call returns
 * true. Returns whether a call returned true. The calls run under the manager's lock and must be
 * short. The lock is released after every few versions, and models may come and go meanwhile. The
 * version is valid only during the call. */
bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg);
/*
 * Requests a new list of models instead of the list from the flags and the config file. `message`
 * is a serialized tensorflow.serving.ModelServerConfig. Reloads are performed one after another.
 * May be called on any thread.
 *
 * If the request succeeds, `done` is called once, on the manager's thread, when each new model is
 * AVAILABLE or has failed, or when the reload has been refused. With RT_OK, the message of `err`
 * names the models that continue to serve their previous versions because of a problem with their
 * new base path. It is "" if there are none.
 *
 * If *cancelled is already true when the reload is due, the reload changes nothing and ends with
 * RT_CANCELLED. `cancelled` may be NULL. Otherwise *cancelled must be valid until `done` is called.
 */
enum rt_status
srv_manager_reload(struct srv_manager *m, struct rt_span message, const _Atomic bool *cancelled,
                   void (*done)(void *arg, enum rt_status status, const struct rt_error *err),
                   void *arg, struct rt_error *err);
/*
 * Requests that a model be loaded or unloaded. A model that was unloaded has no versions until it
 * is loaded or is no longer configured. A load reads the base path again, tries failed versions
 * again, and finds new directories of --models. May be called on any thread.
 *
 * If the request succeeds, `done` is called once, on the manager's thread. For a load, `done` is
 * called when no wanted version remains to be loaded, and for an unload, when all versions are in
 * the state END, after their requests have ended and their memory has been freed. A load fails if
 * no version serves afterwards. A load or unload fails if the model is not configured. If
 * *cancelled becomes true, the request ends early. *cancelled must remain valid until `done` is
 * called. `err` is valid only during the call of `done`.
 */
enum rt_status srv_manager_switch(struct srv_manager *m, struct rt_span model, bool is_on,
                                  const _Atomic bool *cancelled,
                                  void (*done)(void *arg, enum rt_status status,
                                               const struct rt_error *err),
                                  void *arg, struct rt_error *err);
/*
 * Requests a snapshot (snapshot.h) of a model's version, or of its highest version if has_version
 * is not set. Snapshots are written one after another on a thread of their own. A version that is
 * to be unloaded meanwhile is freed after its snapshot. May be called on any thread.
 *
 * If the request succeeds, `done` is called once, on the thread of snapshots. `out` is valid only
 * with RT_OK, and, like `err`, only during the call. *cancelled must remain valid until `done` is
 * called; if it becomes true, the snapshot ends early. Fails with RT_RESOURCE_EXHAUSTED if many
 * snapshots wait.
 */
enum rt_status srv_manager_snapshot(struct srv_manager *m, const struct srv_model_spec *spec,
                                    struct rt_span output, const _Atomic bool *cancelled,
                                    void (*done)(void *arg, enum rt_status status,
                                                 const struct srv_snapshot *out, int64_t from,
                                                 const struct rt_error *err),
                                    void *arg, struct rt_error *err);
/* Makes the manager read the config file again as soon as possible. May be called on any thread. */
void srv_manager_reread(struct srv_manager *m);
/* Stops watching and loading, and unloads all versions. The I/O loops must still be running,
 * because they confirm retirements. They may also still query states. */
void srv_manager_stop(struct srv_manager *m);
/* Frees the manager, which may be NULL. Must be called after all I/O loops have ended. */
void srv_manager_free(struct srv_manager *m);

#endif
