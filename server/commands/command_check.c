#include "server/commands/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/print.h"
#include "runtime/select/autotune.h"
#include "server/base/precision.h"
#include "server/config/batching.h"
#include "server/grpc/grpc.h"
#include "server/http/rest_tls.h"
#include "server/protocol/admin.h"
#include "server/config/otel_environment.h"
#include "server/config/settings.h"
#include "server/tracing/tracer_options.h"
#include "server/triton/triton.h"
#include "server/versions/source.h"

static const char usage[] =
    "usage: slipway check-config [--kind=KIND] [flags as serve takes them] [FILE]\n"
    "  Reads a configuration without serving it: prints what would be served, or the error.\n"
    "  KIND of FILE: models (if not said), platform, session, batching, monitoring, threads, ssl\n"
    "exit status: 0 it is fine, 1 it is not, 2 wrong arguments\n";

static const struct kind {
    /* another flag without which the server ignores the file, or NULL */
    const char *name, *flag, *more;
} kinds[] = {
    {"models", "model_config_file", NULL},
    {"platform", "platform_config_file", NULL},
    {"session", "tensorflow_session_config_file", NULL},
    {"batching", "batching_parameters_file", "--enable_batching=true"},
    {"monitoring", "monitoring_config_file", NULL},
    {"threads", "thread_pool_factory_config_file", NULL},
    {"ssl", "ssl_config_file", NULL},
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

struct check {
    struct rt_arena *arena;
    struct srv_options options;
    const struct kind *kind;
};

/* Parses the command line. Returns -1 if the command should continue, and otherwise the exit
 * status. */
static int parse_args(struct check *c, int argc, const char *const *argv)
{
    struct srv_args a = {.argc = argc, .argv = argv};
    const char **flags = rt_arena_array(c->arena, (size_t)argc + 3, sizeof(*flags));
    const char *file = NULL, *name = "models", *v;
    /* whether the previous argument was "--flag", whose value may be the current argument */
    bool wants_value = false;
    int n = 0;
    if (!flags)
        return SRV_EXIT_FAILED;
    flags[n++] = "check-config";
    for (a.i = 1; a.i < argc; a.i++) {
        if (argv[a.i][0] != '-' && !wants_value && !file) {
            file = argv[a.i];
            continue;
        }
        if (srv_args_is(&a, "--help") || srv_args_is(&a, "-h")) {
            fputs(usage, stdout);
            return SRV_EXIT_OK;
        }
        if ((v = srv_args_value(&a, "--kind"))) {
            name = v;
        } else if (!a.missing) {
            flags[n++] = argv[a.i];
            wants_value = strncmp(argv[a.i], "--", 2) == 0 && !strchr(argv[a.i], '=');
        }
    }
    c->kind = find_kind(name);
    if (a.missing || !c->kind || argc == 1) {
        fputs("slipway check-config: ", stderr);
        if (a.missing)
            fputs("--kind wants a value\n", stderr);
        else if (c->kind)
            fputs("no file and no flag is given\n", stderr);
        else
            rt_print(stderr, "there is no kind %s, only those below\n", name);
        fputs(usage, stderr);
        return SRV_EXIT_USAGE;
    }
    if (file) {
        flags[n++] = rt_arena_printf(c->arena, "--%s=%s", c->kind->flag, file);
        if (!flags[n - 1])
            return SRV_EXIT_FAILED;
        if (c->kind->more)
            flags[n++] = c->kind->more;
    }
    switch (srv_options_parse(&c->options, false, n, flags, stderr)) {
    case SRV_PARSE_RUN:
        if (file && access(file, R_OK)) {
            rt_print(stderr, "slipway check-config: %s: %s\n", file, strerror(errno));
            return SRV_EXIT_FAILED;
        }
        srv_otel_environment(&c->options, getenv);
        return -1;
    case SRV_PARSE_EXIT_0:
        return SRV_EXIT_OK;
    case SRV_PARSE_EXIT_USAGE:
        break;
    }
    return SRV_EXIT_USAGE;
}

/* ---- models ---- */

static void print_policy(const struct srv_model_config *m)
{
    switch (m->policy) {
    case SRV_POLICY_LATEST:
        rt_print(stdout, "latest %lld", (long long)m->n_latest);
        break;
    case SRV_POLICY_ALL:
        rt_print(stdout, "all");
        break;
    case SRV_POLICY_SPECIFIC:
        rt_print(stdout, "specific");
        for (int i = 0; i < m->n_specific; i++)
            rt_print(stdout, " %lld", (long long)m->specific[i]);
        break;
    }
}

static bool is_there(const struct srv_scan *scan, int64_t version)
{
    for (int i = 0; i < scan->n; i++)
        if (scan->found[i].version == version)
            return true;
    return false;
}

static void print_gpu(const struct srv_gpu_config *g)
{
    if (g->gpus)
        rt_print(stdout, "  gpus      %s\n", g->gpus);
    if (g->full_precision)
        rt_print(stdout, "  on a GPU  precision %s\n",
                 srv_gpu_precision(g->full_precision == SRV_YES));
    if (g->memory_bytes)
        rt_print(stdout, "  on a GPU  at most %lld bytes of memory\n", (long long)g->memory_bytes);
    if (g->instances)
        rt_print(stdout, "  on a GPU  at most %d batch%s at a time\n", g->instances,
                 g->instances == 1 ? "" : "es");
}

/* Reads config.pbtxt of a Triton repository, with the labels of outputs, if the version `name` lies
 * as in one. Sets *out to NULL if there is no such file. */
static enum rt_status read_triton(const struct srv_model_config *m, const char *name,
                                  struct srv_triton **out, struct rt_error *err)
{
    char *dir = srv_source_version_dir(m->base_path, name);
    const enum rt_status st =
        dir ? srv_triton_read_for(dir, out, err) : rt_fail_memory(err, "a path", 0);

    free(dir);
    return st;
}

/* Prints a model. Fails if its config.pbtxt is refused, which is printed too. */
static enum rt_status print_model(struct check *c, const struct srv_model_config *stated,
                                  struct rt_error *refused)
{
    struct srv_scan scan;
    struct rt_error err = {.arena = c->arena};
    struct srv_model_config config = *stated, *m = &config;
    struct srv_triton *t = NULL;
    bool readable = !srv_source_scan(m, SRV_SCAN_MAX_NAMES, c->arena, &scan, &err);
    const enum rt_status st =
        readable && scan.n ? read_triton(m, scan.found[0].name, &t, refused) : RT_OK;
    if (t && !m->has_policy) {
        srv_triton_policy(t, m);
        readable = !srv_source_scan(m, SRV_SCAN_MAX_NAMES, c->arena, &scan, &err);
    }
    rt_print(stdout, "model %s\n  path      %s\n  policy    ", m->name, m->base_path);
    print_policy(m);
    rt_print(stdout, "\n  versions  ");
    for (int i = 0; readable && i < scan.n; i++)
        rt_print(stdout, "%s%lld", i ? ", " : "", (long long)scan.found[i].version);
    rt_print(stdout, "%s\n",
             !readable ? "none: the path cannot be read"
             : scan.n  ? ""
                       : "none is there");
    for (int i = 0; i < m->n_labels; i++)
        rt_print(stdout, "  label     %s is %lld%s\n", m->labels[i].label,
                 (long long)m->labels[i].version,
                 readable && is_there(&scan, m->labels[i].version) ? "" : ", which is not there");
    if (m->n_labels &&
        !srv_options_is_given(&c->options, "allow_version_labels_for_unavailable_models"))
        rt_print(stdout, "  note      tensorflow_model_server refuses labels at its start without "
                         "--allow_version_labels_for_unavailable_models\n");
    if (m->bf16)
        rt_print(stdout, "  precision %s\n", srv_cpu_precision(m->bf16 == SRV_YES));
    print_gpu(&m->gpu);
    if (m->logging)
        rt_print(stdout, "  logging   %g of the requests to %s\n", m->logging->sampling_rate,
                 *m->logging->filename_prefix ? m->logging->filename_prefix : "nowhere");
    if (!readable)
        rt_print(stdout, "  warning   %s\n", rt_error_text(&err));
    else if (scan.warning)
        rt_print(stdout, "  warning   %s\n", scan.warning);
    if (st)
        rt_print(stdout, "  refused   %s\n", rt_error_text(refused));
    else if (t && t->ignored)
        rt_print(stdout, "  note      without effect in %s: %s\n", t->path, t->ignored);
    srv_triton_free(t);
    return st;
}

/* Checks the version labels as the server does at startup, when no version is available. Labels are
 * then accepted only with allow_version_labels_for_unavailable_models. */
static enum rt_status check_labels(const struct srv_options *o, const struct srv_config *config,
                                   struct rt_error *err)
{
    for (int i = 0; i < config->n_models && !o->allow_version_labels_for_unavailable_models; i++) {
        const struct srv_model_config *m = &config->models[i];
        if (m->n_labels)
            return rt_fail(err, RT_FAILED_PRECONDITION, SRV_LABEL_UNAVAILABLE,
                           (long long)m->labels[0].version, m->name);
    }
    return RT_OK;
}

/* Prints all models. Then fails if any of them is refused, with the first reason. */
static enum rt_status print_models(struct check *c, const struct srv_config *base,
                                   const struct srv_config *folder, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (int i = 0; i < base->n_models + (folder ? folder->n_models : 0); i++) {
        const bool is_of_folder = i >= base->n_models;
        const struct srv_model_config *m =
            is_of_folder ? &folder->models[i - base->n_models] : &base->models[i];
        struct rt_error refused = {.arena = c->arena};
        if (is_of_folder && srv_config_find(base, m->name))
            rt_print(stdout, "note: model %s is served as above, and not from %s\n", m->name,
                     m->base_path);
        else if (print_model(c, m, &refused) && !st)
            st = rt_fail(err, refused.code, "model %s: %s", m->name, rt_error_text(&refused));
    }
    if (folder && folder->warning)
        rt_print(stdout, "warning: %s\n", folder->warning);
    if (!base->n_models && (!folder || !folder->n_models))
        rt_print(stdout, "no models\n");
    return st;
}

static enum rt_status check_models(struct check *c, struct rt_error *err)
{
    const struct srv_options *o = &c->options;
    struct srv_config *base = NULL, *folder = NULL;
    enum rt_status st = srv_config_from_options(o, &base, err);
    if (!st)
        st = check_labels(o, base, err);
    if (!st)
        st = srv_config_check_platforms(NULL, base, err);
    if (!st && *o->models)
        st = srv_config_from_folder(o->models, &folder, err);
    if (!st)
        st = print_models(c, base, folder, err);
    srv_config_free(folder);
    srv_config_free(base);
    return st;
}

/* ---- transports, autotune cache, batching ---- */

/* Checks the options that the REST or gRPC transport might refuse: certificates, keys, token files,
 * addresses, and channel arguments. */
static enum rt_status check_transports(const struct srv_options *o, struct rt_error *err)
{
    struct srv_rest_tls tls = {0};
    enum rt_status st = srv_settings_check_addresses(o, err);
    if (!st && srv_settings_wants_http(o))
        st = srv_rest_tls_read(&tls, o, err);
    srv_rest_tls_clear(&tls);
    if (!st && srv_settings_wants_grpc(o))
        st = srv_grpc_check(o, err);
    return st ? st : srv_admin_check_files(o, err);
}

/* Checks the collector of traces, which the environment may name too. */
static enum rt_status check_tracer(struct check *c, struct rt_error *err)
{
    struct srv_tracer_options t;

    if (!*c->options.otlp_endpoint)
        return RT_OK;
    const enum rt_status st = srv_tracer_options(&c->options, c->arena, &t, err);
    return st ? st : srv_tracer_check(&t, err);
}

static enum rt_status check_autotune(const struct srv_options *o, struct rt_error *err)
{
    struct rt_error why = {.arena = NULL};
    const enum rt_status st = rt_autotune_check_file(o->autotune_cache, &why);

    if (st == RT_INVALID_ARGUMENT)
        return rt_fail(err, st, "autotune_cache: %s", rt_error_text(&why));
    if (st)
        rt_print(stdout, "warning: autotune_cache: %s\n", rt_error_text(&why));
    return RT_OK;
}

static void print_batching(const struct srv_batching *b)
{
    static const char *const modes[] = {"off", "where it is proved harmless",
                                        "every signature that writes nothing"};
    rt_print(stdout, "batching: %s\n", modes[b->mode]);
    if (b->mode != SRV_BATCHING_ALL)
        return;
    rt_print(stdout,
             "  max_batch_size %lld, batch_timeout_micros %lld, max_enqueued_batches %lld\n",
             (long long)b->max_batch_size, (long long)b->batch_timeout_micros,
             (long long)b->max_enqueued_batches);
    if (b->num_batch_threads)
        rt_print(stdout, "  num_batch_threads %lld\n", (long long)b->num_batch_threads);
    if (b->splits_large)
        rt_print(stdout, "  enable_large_batch_splitting, max_execution_batch_size %lld\n",
                 (long long)b->max_execution_batch_size);
    if (b->pads)
        rt_print(stdout, "  pad_variable_length_inputs\n");
    for (int i = 0; i < b->n_sizes; i++)
        rt_print(stdout, "%s%lld", i ? ", " : "  allowed_batch_sizes ", (long long)b->sizes[i]);
    if (b->n_sizes)
        rt_print(stdout, "\n");
}

static enum rt_status check(struct check *c, struct rt_error *err)
{
    struct srv_options *o = &c->options;
    struct srv_batching batching;
    const bool has_models = *o->model_config_file || *o->model_base_path || *o->models;
    enum rt_status st = srv_settings_resolve(o, c->arena, err);
    if (!st)
        st = has_models ? srv_settings_check(o, err) : srv_settings_check_batching(o, err);
    if (!st)
        st = srv_batching_of_server(&batching, o, err);
    if (!st)
        st = srv_settings_check_quota(o, err);
    if (!st)
        st = check_transports(o, err);
    if (!st)
        st = check_tracer(c, err);
    if (!st)
        st = check_autotune(o, err);
    if (!st && has_models)
        st = check_models(c, err);
    if (st)
        return st;
    if (*o->platform_config_file || *o->batching_parameters_file || o->enable_batching)
        print_batching(&batching);
    if (*o->platform_config_file || *o->tensorflow_session_config_file || o->num_workers)
        rt_print(stdout,
                 o->num_workers ? "threads that run models: %lld\n"
                                : "threads that run models: one per usable core\n",
                 (long long)o->num_workers);
    if (*o->monitoring_config_file)
        rt_print(stdout, "Prometheus page: %s\n",
                 *o->prometheus_path ? o->prometheus_path : "none");
    return RT_OK;
}

int srv_command_check_config(int argc, const char *const *argv, const struct rt_registry *registry)
{
    (void)registry;
    struct check c = {.arena = rt_arena_new(SIZE_MAX)};
    struct rt_error err = {.arena = c.arena};
    int code = c.arena ? parse_args(&c, argc, argv) : SRV_EXIT_FAILED;
    if (code < 0)
        code = check(&c, &err) ? srv_command_failed("check-config", &err) : SRV_EXIT_OK;
    rt_arena_free(c.arena);
    return code;
}
