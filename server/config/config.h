/*
 * The configuration of the models to serve, which comes from flags, a config file or a reload
 * request. The checks and the error messages are those of TensorFlow Serving.
 *
 * Owner: a config lives in its own arena. Threads: a config is immutable once it is created.
 */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include "runtime/base/arena.h"
#include "server/base/serving_map.h"
#include "server/config/options.h"

/* TensorFlow Serving's error message for a label whose version is not available. Its arguments are
 * a version number and a model name. */
#define SRV_LABEL_UNAVAILABLE                                                                      \
    "Request to assign label to version %lld of model %s, which is not currently available for "   \
    "inference"

enum srv_policy { SRV_POLICY_LATEST, SRV_POLICY_ALL, SRV_POLICY_SPECIFIC };

/* How a model's requests are logged: the collector, the log files and the sampling rate. */
struct srv_logging_config {
    const char *type; /* type of the log collector; "" means the default type */
    const char *filename_prefix;
    double sampling_rate; /* fraction of the requests that are logged, from 0 to 1 */
};

/* What a model may use of the server's GPUs. Zeroed members mean the values of the flags. */
struct srv_gpu_config {
    const char *gpus; /* "none", "all" or a list as in --gpus; NULL means "all" */
    enum srv_maybe full_precision;
    int64_t memory_bytes; /* maximum number of bytes on each GPU, or 0 */
    int instances;        /* maximum number of batches that run on each GPU at a time, or 0 */
};

/* A configured model. Every field must also be in ModelConfig in proto/, in same_model in config.c,
 * and in print_model in server/commands/command_check.c. A field that requests use must also be in
 * struct srv_map_model, which make_map in server/versions/manager_map.c fills. */
struct srv_model_config {
    const char *name;
    const char *base_path; /* absolute path without a trailing slash */
    const char *platform;
    enum srv_policy policy;
    /* whether the configuration states the policy; otherwise the model's config.pbtxt may */
    bool has_policy;
    int64_t n_latest; /* number of versions to serve under SRV_POLICY_LATEST, at least 1 */
    int n_specific;
    const int64_t *specific;
    int n_labels;
    const struct srv_label *labels;
    const struct srv_logging_config *logging; /* how requests are logged, or NULL for no log */
    enum srv_maybe bf16; /* whether to use bf16; SRV_UNSET means the value of --precision */
    struct srv_gpu_config gpu;
    int64_t line, column; /* position of the model in srv_config.file */
};

struct srv_config {
    struct rt_arena *arena;
    /* path of the config file, for error messages; NULL if there is no file */
    const char *file;
    /* whether the config contains a list of models, even an empty one */
    bool is_list;
    int n_models;
    struct srv_model_config *models; /* sorted by name, without duplicate names */
    const char *warning;             /* warning from srv_config_from_folder, or NULL */
};

void srv_config_free(struct srv_config *c); /* `c` may be NULL */

/* Reads the config from --model_config_file. If this flag is not set, the config contains the model
 * of --model_name and --model_base_path. If --model_base_path is not set either, the config
 * contains no models. */
enum rt_status srv_config_from_options(const struct srv_options *o, struct srv_config **out,
                                       struct rt_error *err);
/* Parses a ModelServerConfig in protobuf's text format. `name` is the file's name, used only in
 * errors. */
enum rt_status srv_config_from_text(struct rt_span text, const char *name, struct srv_config **out,
                                    struct rt_error *err);
/* Converts an unpacked message of the type Tensorflow__Serving__ModelServerConfig. */
enum rt_status srv_config_from_message(const void *message, struct srv_config **out,
                                       struct rt_error *err);
/*
 * Checks the platform of each model in `config`. It must be "tensorflow", the only supported
 * platform, and the same as in `old`, which may be NULL. This is a separate function so that errors
 * are reported in TensorFlow Serving's order.
 */
enum rt_status srv_config_check_platforms(const struct srv_config *old,
                                          const struct srv_config *config, struct rt_error *err);
/* Checks that `config` may replace `old`. An empty config file may not replace a list of models. */
enum rt_status srv_config_check_transition(const struct srv_config *old,
                                           const struct srv_config *config, struct rt_error *err);
/* Appends the model's position in the config file, if there is one, to the error `err`. Returns the
 * error's code. */
enum rt_status srv_config_at_place(const struct srv_config *c, const struct srv_model_config *m,
                                   struct rt_error *err);
bool srv_config_eq(const struct srv_config *a, const struct srv_config *b);
const struct srv_model_config *srv_config_find(const struct srv_config *c, const char *name);
/* Returns the model's entry for a label, or NULL if there is none. `c` may be NULL. */
const struct srv_label *srv_config_find_label(const struct srv_model_config *c, const char *label);
/* Creates a config with one model per sub-directory of `dir` that is not hidden. Fails if `dir`
 * cannot be read. Dangling symbolic links and directories whose names are not UTF-8 are not models,
 * but the config's `warning` lists them. */
enum rt_status srv_config_from_folder(const char *dir, struct srv_config **out,
                                      struct rt_error *err);

#endif
