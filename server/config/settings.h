/*
 * Completes the options with the values in the files that the flags name: monitoring_config_file,
 * tensorflow_session_config_file, platform_config_file and thread_pool_factory_config_file.
 * Afterwards the options contain all values, and no other code reads these files.
 *
 * Threads: the function must be called before any other thread starts.
 */
#ifndef SRV_SETTINGS_H
#define SRV_SETTINGS_H

#include "runtime/base/arena.h"
#include "server/config/options.h"

/*
 * Reads the files into the options. If TensorFlow Serving refuses a setting, fails with the same
 * error message. Logs the fields of the files that have no effect. Memory for the options is
 * allocated in `arena`.
 */
enum rt_status srv_settings_resolve(struct srv_options *o, struct rt_arena *arena,
                                    struct rt_error *err);
/* Fails if required flags are missing or if given flags exclude each other. The checks and error
 * messages are those of TensorFlow Serving. */
enum rt_status srv_settings_check(const struct srv_options *o, struct rt_error *err);
/* Performs the checks of srv_settings_check that concern batching. These checks do not depend on
 * the configured models. */
enum rt_status srv_settings_check_batching(const struct srv_options *o, struct rt_error *err);
/* Checks that --bind_address is an address of this machine. Called before the server listens,
 * because a failure to listen does not show whether the address belongs to another machine or the
 * port is in use. */
enum rt_status srv_settings_check_address(const struct srv_options *o, struct rt_error *err);
bool srv_settings_wants_rest(const struct srv_options *o);
bool srv_settings_wants_grpc(const struct srv_options *o);
/* Replaces thread counts of 0 with the defaults for `n_cores` cores, so that the whole server uses
 * the same counts. */
void srv_settings_threads(struct srv_options *o, int n_cores);

#endif
