#include "server/config/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/core/device.h"
#include "runtime/core/device/device_list.h"
#include "runtime/files/file.h"
#include "server/config/text_file.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"

static const char TENSORFLOW[] = "tensorflow";

enum {
    MAX_CONFIG_BYTES = 64 << 20,
    MAX_MODELS = 100000,
    MAX_NAME = 4096, /* maximum length of a model's name in bytes */
    MAX_VERSIONS = 100000,
    MAX_LABELS = 10000
};

static struct srv_config *config_new(int n_models)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_config *c = arena ? rt_arena_alloc(arena, sizeof *c) : NULL;
    if (c) {
        c->arena = arena;
        c->models = rt_arena_array(arena, (size_t)n_models + 1, sizeof *c->models);
    }
    if (!c || !c->models) {
        rt_arena_free(arena);
        return NULL;
    }
    return c;
}

void srv_config_free(struct srv_config *c)
{
    if (c)
        rt_arena_free(c->arena);
}

static enum rt_status no_memory(struct rt_error *err)
{
    return rt_fail_memory(err, "the model configuration", 0);
}

enum rt_status srv_config_at_place(const struct srv_config *c, const struct srv_model_config *m,
                                   struct rt_error *err)
{
    if (!c->file || !m->line || !err)
        return err ? err->code : RT_INVALID_ARGUMENT;
    struct rt_error was = *err;
    return rt_fail(err, was.code, "%s (%s:%lld:%lld)", rt_error_text(&was), c->file,
                   (long long)m->line, (long long)m->column);
}

/* Returns the length of the URL scheme in a path, for example 2 for "s3://bucket/m". Returns 0 if
 * the path has none. */
static size_t scheme_length(const char *path)
{
    const char *end = strstr(path, "://");
    return end ? (size_t)(end - path) : 0;
}

static enum rt_status set_base_path(struct srv_config *c, struct srv_model_config *m,
                                    const char *path, struct rt_error *err)
{
    size_t scheme = scheme_length(path);
    if (scheme == 4 && memcmp(path, "file", 4) == 0)
        path += 7;
    else if (scheme)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "model %s: base path %s is on the file system \"%.*s\", only local "
                       "directories can be served",
                       m->name, path, (int)scheme, path);
    if (path[0] != '/')
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected model %s to have an absolute path or URI; got base_path()=%s",
                       m->name, path);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    m->base_path = rt_arena_strndup(c->arena, path, n);
    return m->base_path ? RT_OK : no_memory(err);
}

static int by_name(const void *a, const void *b)
{
    const struct srv_model_config *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Orders models by name, and models with the same name by their position in the file. */
static int by_name_and_place(const void *a, const void *b)
{
    const struct srv_model_config *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    if (c)
        return c;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : (x->column > y->column) - (x->column < y->column);
}

static enum rt_status sort_and_check(struct srv_config *c, struct rt_error *err)
{
    qsort(c->models, (size_t)c->n_models, sizeof *c->models, by_name_and_place);
    /* An answer with another name could not be decoded, because protobuf strings are UTF-8. */
    for (int i = 0; i < c->n_models; i++)
        if (!rt_utf8_is_valid(c->models[i].name)) {
            rt_fail(err, RT_INVALID_ARGUMENT, "the name of model \"%s\" is not UTF-8",
                    c->models[i].name);
            return srv_config_at_place(c, &c->models[i], err);
        }
    for (int i = 1; i < c->n_models; i++)
        if (strcmp(c->models[i - 1].name, c->models[i].name) == 0) {
            rt_fail(err, RT_INVALID_ARGUMENT,
                    "Illegal to list model %s multiple times in config list", c->models[i].name);
            return srv_config_at_place(c, &c->models[i], err);
        }
    return RT_OK;
}

/* ---- comparing configs ---- */

const struct srv_model_config *srv_config_find(const struct srv_config *c, const char *name)
{
    const struct srv_model_config key = {.name = name};
    return c ? bsearch(&key, c->models, (size_t)c->n_models, sizeof *c->models, by_name) : NULL;
}

const struct srv_label *srv_config_find_label(const struct srv_model_config *c, const char *label)
{
    for (int i = 0; c && i < c->n_labels; i++)
        if (strcmp(c->labels[i].label, label) == 0)
            return &c->labels[i];
    return NULL;
}

static bool same_logging(const struct srv_logging_config *a, const struct srv_logging_config *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a->type, b->type) == 0 && strcmp(a->filename_prefix, b->filename_prefix) == 0 &&
           a->sampling_rate == b->sampling_rate;
}

static bool same_gpu(const struct srv_gpu_config *a, const struct srv_gpu_config *b)
{
    return strcmp(a->gpus ? a->gpus : "all", b->gpus ? b->gpus : "all") == 0 &&
           a->full_precision == b->full_precision && a->memory_bytes == b->memory_bytes &&
           a->instances == b->instances;
}

static bool same_model(const struct srv_model_config *a, const struct srv_model_config *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->base_path, b->base_path) != 0 ||
        strcmp(a->platform, b->platform) != 0 || a->policy != b->policy ||
        a->has_policy != b->has_policy || a->n_latest != b->n_latest ||
        a->n_specific != b->n_specific || a->n_labels != b->n_labels)
        return false;
    for (int i = 0; i < a->n_specific; i++)
        if (a->specific[i] != b->specific[i])
            return false;
    for (int i = 0; i < a->n_labels; i++)
        if (strcmp(a->labels[i].label, b->labels[i].label) != 0 ||
            a->labels[i].version != b->labels[i].version)
            return false;
    return a->bf16 == b->bf16 && same_gpu(&a->gpu, &b->gpu) && same_logging(a->logging, b->logging);
}

bool srv_config_eq(const struct srv_config *a, const struct srv_config *b)
{
    if (a->is_list != b->is_list || a->n_models != b->n_models)
        return false;
    for (int i = 0; i < a->n_models; i++)
        if (!same_model(&a->models[i], &b->models[i]))
            return false;
    return true;
}

enum rt_status srv_config_check_platforms(const struct srv_config *old,
                                          const struct srv_config *config, struct rt_error *err)
{
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *m = &config->models[i];
        const struct srv_model_config *before = srv_config_find(old, m->name);
        if (before && strcmp(before->platform, m->platform) != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Illegal to change a model's platform. For model %s platform was %s and "
                           "new platform requested is %s",
                           m->name, before->platform, m->platform);
    }
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *m = &config->models[i];
        if (strcmp(m->platform, TENSORFLOW) == 0)
            continue;
        rt_fail(err, RT_INVALID_ARGUMENT, "Model %s requests unsupported platform %s", m->name,
                m->platform);
        return srv_config_at_place(config, m, err);
    }
    return RT_OK;
}

enum rt_status srv_config_check_transition(const struct srv_config *old,
                                           const struct srv_config *config, struct rt_error *err)
{
    if (old && old->is_list && !config->is_list)
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "Cannot transition to requested config. It is only legal to transition from "
                       "one ModelConfigList to another.");
    return RT_OK;
}

/* ---- messages ---- */

typedef Tensorflow__Serving__ModelConfig model_message;
typedef Tensorflow__Serving__FileSystemStoragePathSourceConfig__ServableVersionPolicy
    policy_message;

static int model_type_of(const model_message *m)
{
    /* model_type is deprecated, but configs may still set it */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return (int)m->model_type;
#pragma GCC diagnostic pop
}

static enum rt_status read_platform(struct srv_config *c, struct srv_model_config *out,
                                    const model_message *m, struct rt_error *err)
{
    bool has_platform = m->model_platform && *m->model_platform;
    int type = model_type_of(m);
    bool has_type = type != TENSORFLOW__SERVING__MODEL_TYPE__MODEL_TYPE_UNSPECIFIED;
    if (has_platform && has_type)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Illegal setting both ModelServerConfig::model_type (deprecated) and "
                       "ModelServerConfig::model_platform.");
    if (!has_platform && !has_type)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
                       "ModelServerConfig::model_platform.");
    if (has_type && type != TENSORFLOW__SERVING__MODEL_TYPE__TENSORFLOW)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ModelServerConfig::model_type choice %d not supported.", type);
    if (has_type)
        RT_LOG(RT_LOG_WARNING, "model %s: model_type is deprecated, model_platform takes its place",
               out->name);
    out->platform = has_type ? TENSORFLOW : rt_arena_strdup(c->arena, m->model_platform);
    return out->platform ? RT_OK : no_memory(err);
}

static enum rt_status read_logging(struct srv_config *c, struct srv_model_config *out,
                                   const model_message *m, struct rt_error *err)
{
    const Tensorflow__Serving__LoggingConfig *from = m->logging_config;
    if (!from)
        return RT_OK;
    const Tensorflow__Serving__LogCollectorConfig *to = from->log_collector_config;
    struct srv_logging_config *l = rt_arena_alloc(c->arena, sizeof *l);
    if (!l)
        return no_memory(err);
    l->type = rt_arena_strdup(c->arena, to ? to->type : "");
    l->filename_prefix = rt_arena_strdup(c->arena, to ? to->filename_prefix : "");
    l->sampling_rate = from->sampling_config ? from->sampling_config->sampling_rate : 0;
    if (!l->type || !l->filename_prefix)
        return no_memory(err);
    if (!(l->sampling_rate >= 0 && l->sampling_rate <= 1))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: logging_config: sampling_rate %g is not between 0 and 1",
                       out->name, l->sampling_rate);
    out->logging = l;
    return RT_OK;
}

static enum rt_status read_precision(struct srv_model_config *out, const model_message *m,
                                     struct rt_error *err)
{
    const char *is = m->precision ? m->precision : "";
    if (*is && strcmp(is, "float32") != 0 && strcmp(is, "bf16") != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: precision is \"float32\" or \"bf16\", not \"%s\"", out->name, is);
    out->bf16 = !*is ? SRV_UNSET : *is == 'b' ? SRV_YES : SRV_NO;
    return RT_OK;
}

/* Checks that the model's list of GPUs is empty, "all", "none", or a list of numbers and UUIDs. */
static enum rt_status check_gpu_list(const struct srv_model_config *m, const char *gpus,
                                     struct rt_error *err)
{
    if (!*gpus || strcmp(gpus, "all") == 0 || strcmp(gpus, "none") == 0 ||
        !rt_device_list_check(gpus, err))
        return RT_OK;
    return rt_fail_prefix(
        err,
        "model %s: gpus is \"%s\", but must be none, all, or the numbers or UUIDs "
        "of GPUs, separated by commas: ",
        m->name, gpus);
}

/* Whether the model's GPUs exist is checked by srv_model_gpus_check. */
static enum rt_status read_gpu(struct srv_config *c, struct srv_model_config *out,
                               const model_message *m, struct rt_error *err)
{
    const char *precision = m->gpu_precision ? m->gpu_precision : "";
    struct srv_gpu_config *g = &out->gpu;
    if (*precision && strcmp(precision, "float32") != 0 && strcmp(precision, "tf32") != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: gpu_precision is \"tf32\" or \"float32\", not \"%s\"", out->name,
                       precision);
    if (m->gpu_memory_bytes < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: gpu_memory_bytes is %lld, but must be at least 0", out->name,
                       (long long)m->gpu_memory_bytes);
    if (m->gpu_instances < 0 || m->gpu_instances > RT_MAX_STREAMS)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: gpu_instances is %d, but must be between 0 and %d", out->name,
                       m->gpu_instances, RT_MAX_STREAMS);
    const enum rt_status st = m->gpus ? check_gpu_list(out, m->gpus, err) : RT_OK;
    if (st)
        return st;
    if (m->gpus && *m->gpus && !(g->gpus = rt_arena_strdup(c->arena, m->gpus)))
        return no_memory(err);
    g->full_precision = !*precision ? SRV_UNSET : *precision == 'f' ? SRV_YES : SRV_NO;
    g->memory_bytes = m->gpu_memory_bytes;
    g->instances = m->gpu_instances;
    return RT_OK;
}

static enum rt_status read_policy(struct srv_config *c, struct srv_model_config *out,
                                  const policy_message *p, struct rt_error *err)
{
    out->policy = SRV_POLICY_LATEST;
    out->n_latest = 1;
    if (!p)
        return RT_OK;
    /* Shorter names for the field numbers of the oneof policy_choice. The generated names do not
     * fit into a line. */
    enum { LATEST = 100, ALL = 101, SPECIFIC = 102 };
    int choice = (int)p->policy_choice_case;
    out->has_policy = choice != 0;
    if (choice == ALL) {
        out->policy = SRV_POLICY_ALL;
    } else if (choice == SPECIFIC) {
        size_t n = p->specific->n_versions;
        if (n > MAX_VERSIONS)
            return rt_fail(err, RT_INVALID_ARGUMENT, "model %s: %zu specific versions, at most %d",
                           out->name, n, MAX_VERSIONS);
        int64_t *copy = rt_arena_array(c->arena, n + 1, sizeof *copy);
        if (!copy)
            return no_memory(err);
        if (n)
            memcpy(copy, p->specific->versions, n * sizeof *copy);
        out->policy = SRV_POLICY_SPECIFIC;
        out->n_specific = (int)n;
        out->specific = copy;
    } else if (choice == LATEST && p->latest->num_versions) {
        out->n_latest = p->latest->num_versions;
    }
    return RT_OK;
}

struct label_entry {
    const char *key;
    /* Index of the entry in the message. It orders entries that have the same key. */
    size_t at;
};

static int by_key(const void *a, const void *b)
{
    const struct label_entry *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Reads the version labels. If a key occurs more than once, its last value counts, as in any
 * protobuf map, but the label has the position of the first occurrence. The entries are sorted, so
 * that reading n labels takes O(n log n) time. */
static enum rt_status read_labels(struct srv_config *c, struct srv_model_config *out,
                                  const model_message *m, struct rt_error *err)
{
    const size_t n = m->n_version_labels;
    if (n > MAX_LABELS)
        return rt_fail(err, RT_INVALID_ARGUMENT, "model %s: %zu version labels, at most %d",
                       out->name, n, MAX_LABELS);
    struct label_entry *entry = calloc(n + 1, sizeof *entry);
    struct srv_label *labels = rt_arena_array(c->arena, n + 1, sizeof *labels);
    enum rt_status st = entry && labels ? RT_OK : no_memory(err);

    for (size_t i = 0; i < n && !st; i++) {
        const char *key = m->version_labels[i]->key;
        entry[i] = (struct label_entry){key ? key : "", i};
    }
    if (!st)
        qsort(entry, n, sizeof *entry, by_key);
    for (size_t i = 0, next; i < n && !st; i = next) {
        for (next = i + 1; next < n && strcmp(entry[next].key, entry[i].key) == 0; next++)
            ;
        struct srv_label *l = &labels[entry[i].at];
        l->label = rt_arena_strdup(c->arena, entry[i].key);
        l->version = m->version_labels[entry[next - 1].at]->value;
        st = l->label ? RT_OK : no_memory(err);
    }
    for (size_t i = 0; i < n && !st; i++)
        if (labels[i].label)
            labels[out->n_labels++] = labels[i];
    out->labels = labels;
    free(entry);
    return st;
}

/* Sets a model's name. An overlong name would be repeated in every metric, message and response
 * about the model. */
static enum rt_status set_name(struct srv_config *c, struct srv_model_config *m, const char *name,
                               struct rt_error *err)
{
    const size_t n = strlen(name);

    m->name = rt_arena_strdup(c->arena, name);
    if (!m->name)
        return no_memory(err);
    if (n > MAX_NAME)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the model name \"%.40s...\" has %zu bytes, at most %d are accepted", name,
                       n, MAX_NAME);
    return RT_OK;
}

static enum rt_status read_model(struct srv_config *c, struct srv_model_config *out,
                                 const model_message *m, struct rt_error *err)
{
    enum rt_status st = set_name(c, out, m->name ? m->name : "", err);
    if (st)
        return st;
    if (!*out->name)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a model in the config list has no name");
    st = set_base_path(c, out, m->base_path ? m->base_path : "", err);
    if (!st)
        st = read_policy(c, out, m->model_version_policy, err);
    if (!st)
        st = read_logging(c, out, m, err);
    if (!st)
        st = read_precision(out, m, err);
    if (!st)
        st = read_gpu(c, out, m, err);
    if (st)
        return st;
    return read_labels(c, out, m, err);
}

/* Converts a ModelServerConfig message. `places` contains the positions of the models in `file`.
 * Both are NULL if the message was not read from a file. */
static enum rt_status from_message(const void *message, const struct pb_text_places *places,
                                   const char *file, struct srv_config **out, struct rt_error *err)
{
    const Tensorflow__Serving__ModelServerConfig *m = message;
    bool is_list =
        m->config_case == TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    if (!is_list && m->config_case != TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG__NOT_SET)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ModelServer does not yet support custom model config. Only ModelConfigList "
                       "is currently supported");
    size_t n = is_list ? m->model_config_list->n_config : 0;
    if (n > MAX_MODELS)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%zu models in the config list, at most %d", n,
                       MAX_MODELS);
    struct srv_config *c = config_new((int)n);
    if (!c)
        return no_memory(err);
    c->is_list = is_list;
    c->file = file ? rt_arena_strdup(c->arena, file) : NULL;
    for (size_t i = 0; places && i < places->n && i < n; i++) {
        c->models[i].line = places->at[i].line;
        c->models[i].column = places->at[i].column;
    }
    enum rt_status st = RT_OK;
    for (size_t i = 0; i < n && !st; i++) {
        struct srv_model_config *to = &c->models[c->n_models++];
        st = read_model(c, to, m->model_config_list->config[i], err);
        if (st)
            st = srv_config_at_place(c, to, err);
    }
    /* TensorFlow Serving checks the names and paths of all models before it checks any platform. */
    for (size_t i = 0; i < n && !st; i++) {
        st = read_platform(c, &c->models[i], m->model_config_list->config[i], err);
        if (st)
            st = srv_config_at_place(c, &c->models[i], err);
    }
    if (!st || st == RT_INVALID_ARGUMENT) {
        struct rt_error twice = {0};
        /* TensorFlow Serving reports duplicate names before other errors */
        if (sort_and_check(c, &twice)) {
            st = twice.code;
            rt_error_copy(err, &twice);
        }
    }
    if (st) {
        srv_config_free(c);
        return st;
    }
    *out = c;
    return RT_OK;
}

enum rt_status srv_config_from_message(const void *message, struct srv_config **out,
                                       struct rt_error *err)
{
    return from_message(message, NULL, NULL, out, err);
}

enum rt_status srv_config_from_text(struct rt_span text, const char *name, struct srv_config **out,
                                    struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    struct pb_text_places places = {.type = &tensorflow__serving__model_config__descriptor};
    /* each model in the text takes at least two bytes ("{}") */
    places.max = text.n / 2 < MAX_MODELS ? text.n / 2 + 1 : MAX_MODELS;
    places.at = calloc(places.max, sizeof *places.at);
    if (!places.at)
        return no_memory(err);
    enum rt_status st = srv_text_parse(
        &message, &tensorflow__serving__model_server_config__descriptor, text, name, &places, err);
    if (!st)
        st = from_message(message, &places, name, out, err);
    pb_free(message);
    free(places.at);
    return st;
}

/* ---- files ---- */

/* Returns a relative path as an absolute one, or NULL if there is no memory or no working
 * directory. The path need not exist, and symbolic links in it are kept, so that the server waits
 * for the path and notices changed links as it does with an absolute path. */
static char *absolute_path(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        for (path++; *path == '/';)
            path++;
    char *folder = getcwd(NULL, 0);
    char *absolute = NULL;
    if (folder && asprintf(&absolute, "%s/%s", folder, strcmp(path, ".") == 0 ? "" : path) < 0)
        absolute = NULL;
    free(folder);
    return absolute;
}

static enum rt_status from_flags(const struct srv_options *o, struct srv_config **out,
                                 struct rt_error *err)
{
    struct srv_config *c = config_new(1);
    if (!c)
        return no_memory(err);
    enum rt_status st = RT_OK;
    if (*o->model_base_path) {
        RT_LOG(RT_LOG_INFO,
               "Building single TensorFlow model file config:  model_name: %s model_base_path: %s",
               o->model_name, o->model_base_path);
        struct srv_model_config *m = &c->models[c->n_models++];
        *m = (struct srv_model_config){
            .platform = TENSORFLOW, .policy = SRV_POLICY_LATEST, .n_latest = 1};
        c->is_list = true;
        st = set_name(c, m, o->model_name, err);
        /* TensorFlow Serving accepts only absolute paths. `slipway serve` also accepts relative
         * ones. */
        char *absolute =
            !o->as_tensorflow && *o->model_base_path != '/' && !scheme_length(o->model_base_path)
                ? absolute_path(o->model_base_path)
                : NULL;
        if (!st)
            st = set_base_path(c, m, absolute ? absolute : o->model_base_path, err);
        free(absolute);
    }
    if (st) {
        srv_config_free(c);
        return st;
    }
    *out = c;
    return RT_OK;
}

enum rt_status srv_config_from_options(const struct srv_options *o, struct srv_config **out,
                                       struct rt_error *err)
{
    if (!*o->model_config_file)
        return from_flags(o, out, err);
    char *text = NULL;
    size_t n = 0;
    enum rt_status st = rt_file_read(o->model_config_file, MAX_CONFIG_BYTES, &text, &n, err);
    if (st)
        return srv_text_file_fail(o, "model_config_file", err);
    st = srv_config_from_text(rt_span_of(text, n), o->model_config_file, out, err);
    free(text);
    return st;
}

/* What a directory entry below --models is. */
enum folder_kind { FOLDER_MODEL, FOLDER_DANGLING, FOLDER_NOT_UTF8, FOLDER_OTHER };

/* Returns what a directory entry is. Hidden names and names with control characters, which would
 * break log lines, are not models. A directory remains a model while its status cannot be read, so
 * that its served versions are not unloaded. */
static enum folder_kind kind_of_folder(const char *dir, const struct dirent *entry)
{
    const char *name = entry->d_name;
    char path[4096];
    struct stat s;
    if (name[0] == '.' || strcmp(name, "__pycache__") == 0 || strcmp(name, "lost+found") == 0 ||
        (size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return FOLDER_OTHER;
    const int missing = stat(path, &s) == 0 ? 0 : errno;
    if (missing && rt_errno_is_absence(missing))
        return lstat(path, &s) == 0 && S_ISLNK(s.st_mode) ? FOLDER_DANGLING : FOLDER_OTHER;
    if (missing ? entry->d_type == DT_REG : !S_ISDIR(s.st_mode))
        return FOLDER_OTHER;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return FOLDER_OTHER;
    return rt_utf8_is_valid(name) ? FOLDER_MODEL : FOLDER_NOT_UTF8;
}

/* A list of the entries of a directory that are no models for one reason. */
struct refused_folders {
    char text[2000];
    size_t used;
    int more; /* number of entries for which `text` has no room */
};

static void refuse(struct refused_folders *r, const char *dir, const char *name)
{
    const size_t n = strlen(dir) + strlen(name) + 3;

    if (r->more || r->used + n >= sizeof r->text) {
        r->more++;
        return;
    }
    r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "%s%s/%s",
                                r->used ? ", " : "", dir, name);
}

/* Appends a list to the warning of a configuration, if the list is not empty. */
static void warn_of(struct srv_config *c, const struct refused_folders *r, const char *why)
{
    const char *before = c->warning ? c->warning : "--models: ";

    if (!r->used && !r->more)
        return;
    const char *text = r->more
                           ? rt_arena_printf(c->arena, "%s%sno models, for %s: %s and %d more",
                                             before, c->warning ? "; " : "", why, r->text, r->more)
                           : rt_arena_printf(c->arena, "%s%sno models, for %s: %s", before,
                                             c->warning ? "; " : "", why, r->text);
    c->warning = text ? text : c->warning;
}

enum rt_status srv_config_from_folder(const char *dir, struct srv_config **out,
                                      struct rt_error *err)
{
    char *absolute = realpath(dir, NULL);
    struct dirent **names = NULL;
    int n = absolute ? scandir(absolute, &names, NULL, alphasort) : -1;
    if (n < 0) {
        enum rt_status code = errno == ENOENT ? RT_NOT_FOUND : RT_UNAVAILABLE;
        rt_fail(err, code, "--models: cannot read %s: %s", dir, strerror(errno));
        free(absolute);
        return code;
    }
    struct srv_config *c = config_new(n);
    enum rt_status st = c ? RT_OK : no_memory(err);
    struct refused_folders dangling = {.used = 0}, strange = {.used = 0};
    for (int i = 0; i < n; i++) {
        const enum folder_kind kind = st ? FOLDER_OTHER : kind_of_folder(absolute, names[i]);
        if (kind == FOLDER_DANGLING)
            refuse(&dangling, absolute, names[i]->d_name);
        else if (kind == FOLDER_NOT_UTF8)
            refuse(&strange, absolute, names[i]->d_name);
        if (kind == FOLDER_MODEL) {
            struct srv_model_config *m = &c->models[c->n_models++];
            m->platform = TENSORFLOW;
            m->policy = SRV_POLICY_LATEST;
            m->n_latest = 1;
            m->name = rt_arena_strdup(c->arena, names[i]->d_name);
            m->base_path = rt_arena_printf(c->arena, "%s/%s", absolute, names[i]->d_name);
            if (!m->name || !m->base_path)
                st = no_memory(err);
        }
        free(names[i]);
    }
    free(names);
    free(absolute);
    if (!st) {
        warn_of(c, &dangling, "their links lead to nothing");
        warn_of(c, &strange, "their names are not UTF-8");
        st = sort_and_check(c, err);
    }
    if (st) {
        srv_config_free(c);
        return st;
    }
    *out = c;
    return RT_OK;
}
