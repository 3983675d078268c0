/*
 * Resolves the flags together with the files that they name: monitoring_config_file,
 * tensorflow_session_config_file, platform_config_file, thread_pool_factory_config_file. Afterwards
 * the options are plain values, and nothing else reads those files.
 *
 * Threads: call before any other thread starts.
 */
#ifndef SRV_SETTINGS_H
#define SRV_SETTINGS_H

#include "runtime/base/arena.h"
#include "server/config/options.h"

/*
 * Reads the files into the options. Refuses what TensorFlow Serving refuses, with its texts; logs
 * the fields of a file that have no effect. Memory that the options then point to lives in `arena`.
 */
enum rt_status srv_settings_resolve(struct srv_options *o, struct rt_arena *arena,
                                    struct rt_error *err);
/* Refuses flags that exclude each other or are missing, with TensorFlow Serving's checks and
 * texts. */
enum rt_status srv_settings_check(const struct srv_options *o, struct rt_error *err);
/* The part of srv_settings_check that concerns batching, which applies whatever is served. */
enum rt_status srv_settings_check_batching(const struct srv_options *o, struct rt_error *err);
/* Checks that --bind_address is an address of this machine. A transport that fails to listen later
 * cannot distinguish a foreign address from a port in use. */
enum rt_status srv_settings_check_address(const struct srv_options *o, struct rt_error *err);
bool srv_settings_wants_rest(const struct srv_options *o);
bool srv_settings_wants_grpc(const struct srv_options *o);
/* Replaces the numbers of threads that are 0 by those for `n_cores` cores, so that all parts of the
 * server use the same numbers. */
void srv_settings_threads(struct srv_options *o, int n_cores);

#endif
