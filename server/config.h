/*
 * Which models are wanted, as flags, config file or a reload request say it: checked by TensorFlow
 * Serving's rules and with its texts, as plain data.
 *
 * Owner: a config lives in its own arena. Threads: immutable once made.
 */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include "runtime/base/arena.h"
#include "server/map.h"
#include "server/options.h"

enum srv_policy { SRV_POLICY_LATEST, SRV_POLICY_ALL, SRV_POLICY_SPECIFIC };

struct srv_model_config {
    const char *name;
    const char *base_path; /* absolute, without a trailing slash */
    enum srv_policy policy;
    int64_t n_latest; /* LATEST: at least 1 */
    int n_specific;
    const int64_t *specific;
    int n_labels;
    const struct srv_label *labels;
};

struct srv_config {
    struct rt_arena *arena;
    int n_models;
    struct srv_model_config *models; /* sorted by name, no name twice */
};

void srv_config_free(struct srv_config *c); /* NULL is fine */

/* What the flags name: --model_config_file (its text is read), else --model_name and
 * --model_base_path, else none. */
enum rt_status srv_config_from_options(const struct srv_options *o, struct srv_config **out,
                                       struct rt_error *err);
/* A text ModelServerConfig. `name`: of the file, for errors. */
enum rt_status srv_config_from_text(struct rt_span text, const char *name, struct srv_config **out,
                                    struct rt_error *err);
/* An unpacked tensorflow.serving.ModelServerConfig (a Tensorflow__Serving__ModelServerConfig). */
enum rt_status srv_config_from_message(const void *message, struct srv_config **out,
                                       struct rt_error *err);
/* Every sub-directory of `dir` is a model, hidden ones are not. A directory that cannot be read is
 * an error, not an empty one. */
enum rt_status srv_config_from_folder(const char *dir, struct srv_config **out,
                                      struct rt_error *err);

#endif
