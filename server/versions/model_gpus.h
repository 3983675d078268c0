/*
 * What models may use of the server's GPUs: checks the settings of a configuration, and chooses the
 * GPUs of each version.
 *
 * Threads: any.
 */
#ifndef SRV_MODEL_GPUS_H
#define SRV_MODEL_GPUS_H

#include "server/config/config.h"
#include "server/server.h"

/* Checks that the server has the GPUs that the models of the configuration name, and that each of
 * these GPUs has the memory that the model may use. If the server uses no GPU at all, only logs
 * which models name GPUs, so that a configuration suits machines without GPUs too. */
enum rt_status srv_model_gpus_check(const struct srv_server *s, const struct srv_config *config,
                                    struct rt_error *err);
/* Returns what a version may use of the GPUs. `m` has passed srv_model_gpus_check, or is NULL for a
 * model without a configuration. */
struct srv_gpu_use srv_model_gpus_use(const struct srv_server *s, const struct srv_model_config *m);
/* Changes *use to what the instance groups of a model's config.pbtxt say, unless the model's
 * configuration says something else. `t` may be NULL. Fails if a group names a GPU that the server
 * does not use, unless the server uses no GPU at all. Logs what the groups say in vain. */
enum rt_status srv_model_gpus_add_triton(const struct srv_server *s, const char *model,
                                         const struct srv_triton *t, struct srv_gpu_use *use,
                                         struct rt_error *err);
/* Chooses the GPUs for a version: all that it may use and that have not failed. The session removes
 * those that have no memory for its constants (rt_session_reserve). */
void srv_model_gpus_choose(const struct srv_server *s, const struct srv_gpu_use *use, uint64_t load,
                           struct rt_session_accelerators *out);
/* Logs that a model does not use a GPU, or not yet, as rt_session_reserve reports. */
void srv_model_gpus_log_no_room(const char *model, bool waits, const struct rt_error *why);
/* Withdraws what versions have promised to a load that has ended (rt_device_end_promises). */
void srv_model_gpus_end_promises(const struct srv_server *s, uint64_t load);

#endif
