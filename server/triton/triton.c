#include "server/triton/triton.h"
#include "server/triton/triton_labels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference/model_config.pb-c.h"
#include "proto/text.h"
#include "proto/unpack.h"
#include "runtime/base/bytes.h"
#include "runtime/files/file.h"

enum {
    MAX_BYTES = 1 << 20,         /* maximum size of a file */
    MAX_MESSAGE_BYTES = 8 << 20, /* maximum memory of a parsed message */
    MAX_PLACES = 4096,           /* maximum number of recorded positions */
    MAX_IGNORED_BYTES = 4096,
};

#define CONFIG   &inference__model_config__descriptor
#define INPUT    &inference__model_input__descriptor
#define OUTPUT   &inference__model_output__descriptor
#define BATCHING &inference__model_dynamic_batching__descriptor
#define QUEUE    &inference__model_queue_policy__descriptor
#define GROUP    &inference__model_instance_group__descriptor
#define WARMUP   &inference__model_warmup__descriptor

/* What is done about a field when its name is read: it is refused with the sentence `why`, or, if
 * `why` is NULL, it is listed as a field without effect. */
struct rule {
    const ProtobufCMessageDescriptor *type;
    const char *name;
    const char *why;
};

static const struct rule rules[] = {
    {CONFIG, "sequence_batching", "this server has no sequences"},
    {CONFIG, "ensemble_scheduling", "this server has no ensembles"},
    {CONFIG, "batch_input", "this server makes no inputs from the sizes of requests"},
    {CONFIG, "batch_output", "this server cuts no outputs by the sizes of requests"},
    {CONFIG, "cc_model_filenames", "the SavedModel is always in model.savedmodel"},
    {CONFIG, "model_operations", "this server loads no libraries of ops"},
    {CONFIG, "model_repository_agents", "this server has no agents that change a model's files"},
    {INPUT, "reshape", "requests have the shapes of the SavedModel's signature"},
    {OUTPUT, "reshape", "responses have the shapes of the SavedModel's signature"},
    {CONFIG, "runtime", NULL},
    {CONFIG, "optimization", NULL},
    {CONFIG, "metric_tags", NULL},
    {CONFIG, "response_cache", NULL},
    {CONFIG, "model_metrics", NULL},
    {BATCHING, "preserve_ordering", NULL},
    {QUEUE, "allow_timeout_override", NULL},
    {GROUP, "rate_limiter", NULL},
    {GROUP, "secondary_devices", NULL},
    {GROUP, "profile", NULL},
    {GROUP, "passive", NULL},
    {GROUP, "host_policy", NULL},
    {INPUT, "format", NULL},
};

/* ---- positions ---- */

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

static const struct srv_triton_place *find_place(const struct srv_triton *t,
                                                 const ProtobufCFieldDescriptor *f, size_t n)
{
    for (int i = 0; i < t->n_places; i++)
        if (t->places[i].field == f && n-- == 0)
            return &t->places[i];
    return NULL;
}

enum rt_status srv_triton_fail(const struct srv_triton *t, const void *type, const char *name,
                               size_t n, struct rt_error *err, const char *fmt, ...)
{
    const struct srv_triton_place *at = find_place(t, find_field(type, name), n);
    char why[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (!at)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s: %s", t->path, name, why);
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s:%lld:%lld: %s: %s", t->path, (long long)at->line,
                   (long long)at->column, name, why);
}

struct reader {
    struct srv_triton *t;
    struct rt_bytes ignored;
};

static void ignore(struct rt_bytes *ignored, const char *name, int64_t line)
{
    rt_bytes_addf(ignored, "%s%s (line %lld)", ignored->n ? ", " : "", name, (long long)line);
}

static enum rt_status take_field(void *arg, const ProtobufCFieldDescriptor *f,
                                 const struct pb_text_place *at, struct rt_error *err)
{
    struct reader *r = arg;
    struct srv_triton *t = r->t;

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, f->name) != 0 || find_field(rules[i].type, rules[i].name) != f)
            continue;
        if (rules[i].why)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s", f->name, rules[i].why);
        ignore(&r->ignored, f->name, at->line);
    }
    if (t->n_places < MAX_PLACES)
        t->places[t->n_places++] = (struct srv_triton_place){f, at->line, at->column};
    return RT_OK;
}

/* ---- checks ---- */

static enum rt_status check_encoding(const struct srv_triton *t, struct rt_error *err)
{
    const unsigned char *p = (const unsigned char *)t->message->name;
    int n = 0;

    while (*p && (n = rt_utf8_length(p)) > 0)
        p += n;
    return *p ? srv_triton_fail(t, CONFIG, "name", 0, err, "the name is not UTF-8") : RT_OK;
}

static enum rt_status check_platform(const struct srv_triton *t, struct rt_error *err)
{
    const Inference__ModelConfig *m = t->message;

    if (*m->platform && strcmp(m->platform, "tensorflow_savedmodel") != 0)
        return srv_triton_fail(t, CONFIG, "platform", 0, err,
                               "this server serves tensorflow_savedmodel, not %s", m->platform);
    if (*m->backend && strcmp(m->backend, "tensorflow") != 0)
        return srv_triton_fail(t, CONFIG, "backend", 0, err,
                               "this server serves models of the backend tensorflow, not %s",
                               m->backend);
    if (*m->default_model_filename && strcmp(m->default_model_filename, "model.savedmodel") != 0)
        return srv_triton_fail(t, CONFIG, "default_model_filename", 0, err,
                               "the SavedModel is always in model.savedmodel");
    if (m->model_transaction_policy && m->model_transaction_policy->decoupled)
        return srv_triton_fail(t, CONFIG, "model_transaction_policy", 0, err,
                               "each request has one response");
    if (m->max_batch_size < 0 || m->max_batch_size > SRV_MAX_BATCH_ROWS)
        return srv_triton_fail(t, CONFIG, "max_batch_size", 0, err, "%d is not between 0 and %d",
                               m->max_batch_size, (int)SRV_MAX_BATCH_ROWS);
    return RT_OK;
}

static enum rt_status check_inputs(const struct srv_triton *t, struct rt_error *err)
{
    static const char *const names[] = {"is_shape_tensor", "allow_ragged_batch", "optional"};

    for (size_t i = 0; i < t->message->n_input; i++) {
        const Inference__ModelInput *in = t->message->input[i];
        const bool set[] = {in->is_shape_tensor, in->allow_ragged_batch, in->optional};
        for (int k = 0; k < 3; k++)
            if (set[k])
                return srv_triton_fail(t, INPUT, names[k], 0, err,
                                       "this server does not have it, for input \"%.100s\"",
                                       in->name);
    }
    return RT_OK;
}

static enum rt_status check_batching(struct reader *r, struct rt_error *err)
{
    const struct srv_triton *t = r->t;
    const Inference__ModelConfig *m = t->message;
    if (m->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
        return RT_OK;
    const Inference__ModelDynamicBatching *b = m->dynamic_batching;
    if (b->n_preferred_batch_size > SRV_MAX_PREFERRED_SIZES)
        return srv_triton_fail(t, BATCHING, "preferred_batch_size", 0, err,
                               "there are %zu sizes, at most %d are taken",
                               b->n_preferred_batch_size, (int)SRV_MAX_PREFERRED_SIZES);
    for (size_t i = 0; i < b->n_preferred_batch_size; i++)
        if (b->preferred_batch_size[i] < 1 || b->preferred_batch_size[i] > m->max_batch_size)
            return srv_triton_fail(t, BATCHING, "preferred_batch_size", 0, err,
                                   "%d is not between 1 and max_batch_size, %d",
                                   b->preferred_batch_size[i], m->max_batch_size);
    if (b->priority_levels > UINT32_MAX)
        return srv_triton_fail(t, BATCHING, "priority_levels", 0, err, "at most %lld are taken",
                               (long long)UINT32_MAX);
    if (b->priority_levels &&
        (b->default_priority_level < 1 || b->default_priority_level > b->priority_levels))
        return srv_triton_fail(t, BATCHING, "priority_levels", 0, err,
                               "default_priority_level, %llu, is not between 1 and %llu",
                               (unsigned long long)b->default_priority_level,
                               (unsigned long long)b->priority_levels);
    const Inference__ModelQueuePolicy *q = b->default_queue_policy;
    if (q && q->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY) {
        const struct srv_triton_place *at = find_place(t, find_field(QUEUE, "timeout_action"), 0);
        ignore(&r->ignored, "timeout_action: DELAY", at ? at->line : 0);
    }
    if (!m->max_batch_size) {
        const struct srv_triton_place *at =
            find_place(t, find_field(CONFIG, "dynamic_batching"), 0);
        ignore(&r->ignored, "dynamic_batching without max_batch_size", at ? at->line : 0);
    }
    if (b->n_priority_queue_policy)
        return srv_triton_fail(t, BATCHING, "priority_queue_policy", 0, err,
                               "all levels of priority have default_queue_policy");
    return RT_OK;
}

static enum rt_status check_version_policy(const struct srv_triton *t, struct rt_error *err)
{
    const Inference__ModelVersionPolicy *p = t->message->version_policy;

    if (!p || p->policy_choice_case != INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST)
        return RT_OK;
    return p->latest->num_versions ? RT_OK
                                   : srv_triton_fail(t, CONFIG, "version_policy", 0, err,
                                                     "latest: num_versions is not at least 1");
}

static enum rt_status check_warmup(const struct srv_triton *t, struct rt_error *err)
{
    const Inference__ModelConfig *m = t->message;
    size_t n = 0;

    for (size_t i = 0; i < m->n_model_warmup; i++) {
        const Inference__ModelWarmup *w = m->model_warmup[i];
        if (m->max_batch_size && w->batch_size > (uint32_t)m->max_batch_size)
            return srv_triton_fail(t, WARMUP, "batch_size", i, err,
                                   "%u is more than max_batch_size, %d", w->batch_size,
                                   m->max_batch_size);
        for (size_t k = 0; k < w->n_inputs; k++, n++) {
            const Inference__ModelWarmup__Input *in = w->inputs[k]->value;
            if (!in || in->input_data_type_case ==
                           INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET)
                return srv_triton_fail(t, WARMUP, "inputs", n, err,
                                       "input \"%.100s\" has no zero_data, random_data or "
                                       "input_data_file",
                                       w->inputs[k]->key);
            if (!in->data_type)
                return srv_triton_fail(t, WARMUP, "inputs", n, err,
                                       "input \"%.100s\" has no data_type", w->inputs[k]->key);
        }
    }
    return RT_OK;
}

/* ---- instances and parameters ---- */

static enum rt_status read_instances(struct srv_triton *t, struct rt_error *err)
{
    const Inference__ModelConfig *m = t->message;
    size_t n_cpu = 0, n_gpus = 0;

    for (size_t i = 0; i < m->n_instance_group; i++) {
        const Inference__ModelInstanceGroup *g = m->instance_group[i];
        if (g->count < 0)
            return srv_triton_fail(t, GROUP, "count", i, err, "%d is negative", g->count);
        const bool has_no_gpus = g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU ||
                                 g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL;
        if (has_no_gpus && g->n_gpus)
            return srv_triton_fail(t, GROUP, "gpus", n_gpus, err,
                                   "only groups of KIND_GPU or KIND_AUTO have GPUs");
        n_gpus += g->n_gpus != 0;
        if (!g->passive)
            t->n_instances += g->count;
        n_cpu += g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
    }
    t->on_cpu = n_cpu && n_cpu == m->n_instance_group;
    return RT_OK;
}

static enum rt_status read_parameters(struct reader *r, struct rt_error *err)
{
    struct srv_triton *t = r->t;
    const Inference__ModelConfig *m = t->message;
    const ProtobufCFieldDescriptor *field = find_field(CONFIG, "parameters");
    int at = 0; /* index of the parameter's position, or n_places */

    for (size_t i = 0; i < m->n_parameters; i++, at += at < t->n_places) {
        const char *key = m->parameters[i]->key;
        const char *value = m->parameters[i]->value ? m->parameters[i]->value->string_value : "";
        while (at < t->n_places && t->places[at].field != field)
            at++;
        if (strcmp(key, "TF_INIT_OPS_FILE") == 0 && *value)
            return srv_triton_fail(t, CONFIG, "parameters", i, err,
                                   "TF_INIT_OPS_FILE: only the SavedModel's own init op runs");
        if (strcmp(key, "TF_GRAPH_TAG") == 0)
            t->graph_tag = *value ? value : NULL;
        else if (strcmp(key, "TF_SIGNATURE_DEF") == 0)
            t->signature = *value ? value : NULL;
        else {
            char name[80];
            snprintf(name, sizeof name, "parameters \"%.60s\"", key);
            ignore(&r->ignored, name, at < t->n_places ? t->places[at].line : 0);
        }
    }
    return RT_OK;
}

static enum rt_status check(struct reader *r, struct rt_error *err)
{
    enum rt_status st = check_encoding(r->t, err);
    if (!st)
        st = check_platform(r->t, err);
    if (!st)
        st = check_inputs(r->t, err);
    if (!st)
        st = check_batching(r, err);
    if (!st)
        st = check_version_policy(r->t, err);
    if (!st)
        st = check_warmup(r->t, err);
    if (!st)
        st = read_instances(r->t, err);
    return st ? st : read_parameters(r, err);
}

/* ---- reading ---- */

static enum rt_status parse(struct srv_triton *t, struct rt_span text, struct rt_error *err)
{
    struct reader r = {.t = t};
    const struct pb_text_watch watch = {take_field, &r};
    ProtobufCMessage *message = NULL;

    rt_bytes_init(&r.ignored, MAX_IGNORED_BYTES);
    enum rt_status st =
        pb_text_parse_watched(&message, CONFIG, text, MAX_MESSAGE_BYTES, &watch, err);
    if (st)
        rt_fail_prefix(err, "%s:", t->path);
    t->message = (Inference__ModelConfig *)message;
    t->has_warmup = !st && t->message->n_model_warmup > 0;
    if (!st)
        st = check(&r, err);
    if (!st && r.ignored.n) {
        t->ignored = rt_arena_strndup(t->arena, r.ignored.p, r.ignored.n);
        if (!t->ignored)
            st = rt_fail_memory(err, "a model's configuration", 0);
    }
    rt_bytes_clear(&r.ignored);
    return st;
}

enum rt_status srv_triton_parse(struct rt_span text, const char *path, struct srv_triton **out,
                                struct rt_error *err)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_triton *t = arena ? rt_arena_alloc(arena, sizeof *t) : NULL;

    if (t) {
        t->arena = arena;
        t->path = rt_arena_strdup(arena, path);
        t->places = rt_arena_array(arena, MAX_PLACES, sizeof *t->places);
    }
    if (!t || !t->path || !t->places) {
        rt_arena_free(arena);
        return rt_fail_memory(err, "a model's configuration", 0);
    }
    const enum rt_status st = parse(t, text, err);
    if (st)
        srv_triton_free(t);
    else
        *out = t;
    return st;
}

static enum rt_status read_in(const char *base_path, size_t n, struct srv_triton **out,
                              struct rt_error *err)
{
    char path[4096];
    char *text = NULL;
    size_t n_text = 0;

    *out = NULL;
    if ((size_t)snprintf(path, sizeof path, "%.*s/" SRV_TRITON_FILE, (int)n, base_path) >=
        sizeof path)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: the path is too long", base_path);
    struct rt_error why = {0};
    enum rt_status st = rt_file_read(path, MAX_BYTES, &text, &n_text, &why);
    if (st == RT_NOT_FOUND)
        return RT_OK;
    if (st) {
        rt_error_copy(err, &why);
        return st;
    }
    st = srv_triton_parse(rt_span_of(text, n_text), path, out, err);
    free(text);
    return st;
}

enum rt_status srv_triton_read(const char *base_path, struct srv_triton **out, struct rt_error *err)
{
    return read_in(base_path, strlen(base_path), out, err);
}

size_t srv_triton_base_length(const char *dir)
{
    static const char nested[] = "/model.savedmodel";
    size_t n = strlen(dir);

    if (n < sizeof nested || strcmp(dir + n - (sizeof nested - 1), nested) != 0)
        return 0;
    n -= sizeof nested - 1;
    while (n && dir[n - 1] != '/')
        n--;
    return n ? n - 1 : 0;
}

const char *srv_triton_signature(const struct srv_triton *t)
{
    return t && t->signature ? t->signature : "serving_default";
}

enum rt_status srv_triton_read_for(const char *dir, struct srv_triton **out, struct rt_error *err)
{
    const size_t n = srv_triton_base_length(dir);

    *out = NULL;
    enum rt_status st = n ? read_in(dir, n, out, err) : RT_OK;
    if (!st && *out)
        st = srv_triton_read_labels(*out, dir, n, err);
    if (st) {
        srv_triton_free(*out);
        *out = NULL;
    }
    return st;
}

enum rt_status srv_triton_check_name(const struct srv_triton *t, const char *model,
                                     struct rt_error *err)
{
    const char *name = t->message->name, *end = strrchr(t->path, '/');
    const char *begin = end ? end : t->path;

    while (begin > t->path && begin[-1] != '/')
        begin--;
    const struct rt_span directory = rt_span_of(begin, end ? (size_t)(end - begin) : 0);
    if (!*name || strcmp(name, model) == 0 || rt_span_is(directory, name))
        return RT_OK;
    return srv_triton_fail(
        t, CONFIG, "name", 0, err,
        "the configuration is that of \"%.100s\", but its directory is \"%.*s\": "
        "both names must be the same",
        name, (int)(directory.n < 100 ? directory.n : 100), (const char *)directory.p);
}

void srv_triton_free(struct srv_triton *t)
{
    if (!t)
        return;
    pb_free((ProtobufCMessage *)t->message);
    rt_arena_free(t->arena);
}

/* ---- what the configuration sets ---- */

void srv_triton_policy(const struct srv_triton *t, struct srv_model_config *m)
{
    const Inference__ModelVersionPolicy *p = t->message->version_policy;

    switch (p ? p->policy_choice_case : INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE__NOT_SET) {
    case INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST:
        m->policy = SRV_POLICY_LATEST;
        m->n_latest = p->latest->num_versions;
        break;
    case INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL:
        m->policy = SRV_POLICY_ALL;
        break;
    case INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC:
        m->policy = SRV_POLICY_SPECIFIC;
        m->n_specific = (int)p->specific->n_versions;
        m->specific = p->specific->versions;
        break;
    default:
        break;
    }
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t limited(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void set_queue(const Inference__ModelDynamicBatching *d, struct srv_batching *b)
{
    const Inference__ModelQueuePolicy *q = d->default_queue_policy;

    b->n_levels = (uint32_t)d->priority_levels;
    b->default_level = d->priority_levels ? (uint32_t)d->default_priority_level : 0;
    if (!q)
        return;
    b->max_queue_jobs = q->max_queue_size;
    if (q->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__REJECT)
        b->max_queue_micros = limited(q->default_timeout_microseconds);
}

void srv_triton_batching(const struct srv_triton *t, struct srv_batching *b)
{
    const Inference__ModelConfig *m = t->message;

    b->max_running = t->n_instances;
    if (!m->max_batch_size)
        return;
    b->signature = srv_triton_signature(t);
    b->limits_rows = true;
    b->max_batch_size = b->max_execution_batch_size = m->max_batch_size;
    b->n_sizes = 0;
    b->splits_large = false;
    if (m->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
        return;
    const Inference__ModelDynamicBatching *d = m->dynamic_batching;
    set_queue(d, b);
    if (b->mode == SRV_BATCHING_OFF)
        return;
    b->mode = SRV_BATCHING_ALL;
    b->pads = false;
    b->batch_timeout_micros = limited(d->max_queue_delay_microseconds);
    b->max_enqueued_batches = 0;
    b->n_preferred = (int)d->n_preferred_batch_size;
    for (int i = 0; i < b->n_preferred; i++)
        b->preferred[i] = d->preferred_batch_size[i];
    qsort(b->preferred, (size_t)b->n_preferred, sizeof *b->preferred, ascending);
}
