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
/* Adds to bytes[k] how many bytes of GPU k's memory the model's weights take. */
void srv_model_gpus_add_held(const struct srv_server *s, const struct rt_model *m, int64_t *bytes);
/*
 * Chooses the GPUs for a version whose weights have `bytes` bytes: all that it may use, that have
 * not failed, and that have so much memory left. Reserves this memory until srv_model_gpus_end_load
 * is called, which must be called once the load has ended. Also chooses a GPU that will have so
 * much memory when the versions that the load replaces have freed their weights, leaving[k] bytes
 * of GPU k; the processor runs the version until then. Logs which GPUs lack memory. Without any
 * GPU, the processor runs the version.
 */
void srv_model_gpus_choose(struct srv_server *s, const char *model, const struct srv_gpu_use *use,
                           int64_t bytes, const int64_t *leaving,
                           struct rt_session_accelerators *out);
void srv_model_gpus_end_load(struct srv_server *s, const struct rt_session_accelerators *chosen,
                             int64_t bytes);

#endif
