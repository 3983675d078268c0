/*
 * The wanted models, as flags, config file or a reload request name them: plain data, checked by
 * TensorFlow Serving's rules and with its texts.
 *
 * Owner: a config lives in its own arena.
 * Threads: immutable once made.
 */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include "runtime/base/arena.h"
#include "server/base/serving_map.h"
#include "server/config/options.h"

/* TensorFlow Serving's text; takes a version and a model's name. */
#define SRV_LABEL_UNAVAILABLE                                                                      \
    "Request to assign label to version %lld of model %s, which is not currently available for "   \
    "inference"

enum srv_policy { SRV_POLICY_LATEST, SRV_POLICY_ALL, SRV_POLICY_SPECIFIC };

/* How a model's requests are logged: collector, files, sampling. */
struct srv_logging_config {
    const char *type; /* type of the collector; "" is the default one */
    const char *filename_prefix;
    double sampling_rate; /* 0 to 1 */
};

struct srv_model_config {
    const char *name;
    const char *base_path; /* absolute, without a trailing slash */
    const char *platform;
    enum srv_policy policy;
    int64_t n_latest; /* LATEST: at least 1 */
    int n_specific;
    const int64_t *specific;
    int n_labels;
    const struct srv_label *labels;
    const struct srv_logging_config *logging; /* NULL: none */
    enum srv_maybe bf16;                      /* SRV_UNSAID: --precision decides */
    int64_t line, column;                     /* position in srv_config.file */
};

struct srv_config {
    struct rt_arena *arena;
    /* path of the text file; NULL: none. Errors about a model end with its position in the file */
    const char *file;
    /* false: the file was empty; it states nothing, not even that there are no models */
    bool is_list;
    int n_models;
    struct srv_model_config *models; /* sorted by name, without duplicates */
    const char *warning;             /* a sentence from srv_config_from_folder, or NULL */
};

void srv_config_free(struct srv_config *c); /* NULL is allowed */

/* Reads the models that the flags name: --model_config_file, else --model_name and
 * --model_base_path, else none. */
enum rt_status srv_config_from_options(const struct srv_options *o, struct srv_config **out,
                                       struct rt_error *err);
/* Parses a text ModelServerConfig. `name` is the file's name, for errors. */
enum rt_status srv_config_from_text(struct rt_span text, const char *name, struct srv_config **out,
                                    struct rt_error *err);
/* Reads an unpacked tensorflow.serving.ModelServerConfig (a
 * Tensorflow__Serving__ModelServerConfig). */
enum rt_status srv_config_from_message(const void *message, struct srv_config **out,
                                       struct rt_error *err);
/*
 * Checks the platforms of the models: only "tensorflow" can be served, and none may change from
 * `old` (NULL: there is none) to `config`. The check is separate because TensorFlow Serving reports
 * its errors in that order.
 */
enum rt_status srv_config_check_platforms(const struct srv_config *old,
                                          const struct srv_config *config, struct rt_error *err);
/* Checks that `config` may replace `old`: an empty file may not replace a list. */
enum rt_status srv_config_check_transition(const struct srv_config *old,
                                           const struct srv_config *config, struct rt_error *err);
/* Returns whether both configs are equal. */
bool srv_config_eq(const struct srv_config *a, const struct srv_config *b);
const struct srv_model_config *srv_config_find(const struct srv_config *c, const char *name);
/* Returns the label's entry; NULL: none. `c` may be NULL. */
const struct srv_label *srv_config_find_label(const struct srv_model_config *c, const char *label);
/* Makes every sub-directory of `dir` a model, except hidden ones. A directory that cannot be read
 * is an error and not an empty one. Dangling links are no models; `warning` names them. */
enum rt_status srv_config_from_folder(const char *dir, struct srv_config **out,
                                      struct rt_error *err);

#endif
