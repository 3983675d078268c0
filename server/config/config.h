/*
 * Which models are wanted, as flags, config file or a reload request say it: checked by TensorFlow
 * Serving's rules and with its texts, as plain data.
 *
 * Owner: a config lives in its own arena. Threads: immutable once made.
 */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include "runtime/base/arena.h"
#include "server/base/map.h"
#include "server/config/options.h"

/* TensorFlow Serving's sentence, of a version and a model's name. */
#define SRV_LABEL_UNAVAILABLE                                                                      \
    "Request to assign label to version %lld of model %s, which is not currently available for "   \
    "inference"

enum srv_policy { SRV_POLICY_LATEST, SRV_POLICY_ALL, SRV_POLICY_SPECIFIC };

/* What of a model's requests is to be logged, and where to. */
struct srv_logging_config {
    const char *type; /* of the collector; "" is the default one */
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
    enum srv_maybe bf16;                      /* unsaid: as --precision says */
    int64_t line, column;                     /* in srv_config.file */
};

struct srv_config {
    struct rt_arena *arena;
    const char *file; /* whose text it was; NULL: there is none. Errors end in the place in it */
    bool is_list; /* false: an empty file, which says nothing, not even that there are no models */
    int n_models;
    struct srv_model_config *models; /* sorted by name, no name twice */
    const char *warning;             /* of srv_config_from_folder: a sentence, or NULL */
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
/*
 * The platforms of the models: only "tensorflow" can be served, and none may change from `old`
 * (NULL: there is none) to `config`. Apart from the rest, for that is how TensorFlow Serving orders
 * its errors.
 */
enum rt_status srv_config_check_platforms(const struct srv_config *old,
                                          const struct srv_config *config, struct rt_error *err);
/* `config` may take the place of `old`: an empty file may not take that of a list. */
enum rt_status srv_config_check_transition(const struct srv_config *old,
                                           const struct srv_config *config, struct rt_error *err);
/* They say the same. */
bool srv_config_eq(const struct srv_config *a, const struct srv_config *b);
const struct srv_model_config *srv_config_find(const struct srv_config *c, const char *name);
/* The label's entry, NULL: none. `c` may be NULL. */
const struct srv_label *srv_config_find_label(const struct srv_model_config *c, const char *label);
/* Every sub-directory of `dir` is a model, hidden ones are not. A directory that cannot be read is
 * an error, not an empty one. Links to nothing are no models; `warning` names them. */
enum rt_status srv_config_from_folder(const char *dir, struct srv_config **out,
                                      struct rt_error *err);

#endif
