/*
 * Completes the options with the values in the files that the flags name: monitoring_config_file,
 * tensorflow_session_config_file, platform_config_file and thread_pool_factory_config_file. No
 * other code reads these files.
 *
 * Threads: srv_settings_resolve must be called before any other thread starts.
 */
#ifndef SRV_SETTINGS_H
#define SRV_SETTINGS_H

#include "runtime/base/arena.h"
#include "server/config/options.h"

enum { SRV_MAX_HOST = 256 }; /* capacity for the host of an address */

/*
 * Reads the files into the options. Fails if TensorFlow Serving refuses a setting, with the same
 * error message. Logs the fields that are set but have no effect. Memory for the options is
 * allocated in `arena`.
 */
enum rt_status srv_settings_resolve(struct srv_options *o, struct rt_arena *arena,
                                    struct rt_error *err);
/* Fails if required flags are missing or given flags exclude each other. The checks and error
 * messages are TensorFlow Serving's. */
enum rt_status srv_settings_check(const struct srv_options *o, struct rt_error *err);
/* Performs those checks of srv_settings_check that concern batching. They do not depend on the
 * configured models. */
enum rt_status srv_settings_check_batching(const struct srv_options *o, struct rt_error *err);
/* Checks the addresses of the listeners: that two of them are not the same, and that --bind_address
 * is an address of this machine. Without this check, a failure to listen would not show whether the
 * address or the port is at fault. */
enum rt_status srv_settings_check_addresses(const struct srv_options *o, struct rt_error *err);
/* Fails if the flags of quotas do not fit each other or the flags of TLS. */
enum rt_status srv_settings_check_quota(const struct srv_options *o, struct rt_error *err);
/* Fails if quotas are by certificate, but no client has one. `grpc_verifies` is whether the gRPC
 * port asks for certificates, which srv_settings_check_quota assumes of each --ssl_config_file. */
enum rt_status srv_settings_check_quota_tls(const struct srv_options *o, bool grpc_verifies,
                                            struct rt_error *err);
/* Splits the HOST:PORT of a flag; IPv6 addresses are enclosed in brackets. The host has less
 * than `capacity` bytes. */
enum rt_status srv_settings_split_address(const char *flag, const char *value, char *host,
                                          size_t capacity, int64_t *port, struct rt_error *err);
/* Returns TensorFlow Serving's message that there is no REST port because gRPC has the same port,
 * or NULL if the ports differ. srv_settings_check_addresses refuses equal ports of `slipway serve`.
 */
const char *srv_settings_port_warning(const struct srv_options *o);
/* Returns whether there is a REST port. */
bool srv_settings_wants_rest(const struct srv_options *o);
/* Returns whether there is a listener of HTTP/1: the REST port or --page_address. */
bool srv_settings_wants_http(const struct srv_options *o);
bool srv_settings_wants_grpc(const struct srv_options *o);
/* Replaces thread counts of 0 with the defaults for `n_cores` cores. */
void srv_settings_threads(struct srv_options *o, int n_cores);

#endif
