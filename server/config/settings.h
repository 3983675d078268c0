/*
 * What the flags mean together with the files that they name: monitoring_config_file,
 * tensorflow_session_config_file, platform_config_file, thread_pool_factory_config_file. Afterwards
 * the options are plain values, and nothing else reads those files.
 *
 * Threads: before any starts.
 */
#ifndef SRV_SETTINGS_H
#define SRV_SETTINGS_H

#include "runtime/base/arena.h"
#include "server/config/options.h"

/*
 * Refuses what TensorFlow Serving refuses, with its texts; tells in the log what a file says
 * without effect here. What the options point to afterwards lives in `arena`.
 */
enum rt_status srv_settings_resolve(struct srv_options *o, struct rt_arena *arena,
                                    struct rt_error *err);
/* Flags that cannot stand together, or are missing: TensorFlow Serving's checks and texts. */
enum rt_status srv_settings_check(const struct srv_options *o, struct rt_error *err);
/* Of these the one that speaks of batching alone: whatever is served. */
enum rt_status srv_settings_check_batching(const struct srv_options *o, struct rt_error *err);
/* --bind_address must be an address of this machine: what listens later cannot tell another one
 * from a port in use. */
enum rt_status srv_settings_check_address(const struct srv_options *o, struct rt_error *err);
bool srv_settings_wants_rest(const struct srv_options *o);
bool srv_settings_wants_grpc(const struct srv_options *o);
/* Puts numbers in place of "as many as fit" `n_cores`, so that every part counts the same. */
void srv_settings_threads(struct srv_options *o, int n_cores);

#endif
