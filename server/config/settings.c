#include "server/config/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/field.h"
#include "proto/unpack.h"
#include "runtime/base/log.h"
#include "server/base/number.h"
#include "server/config/batching.h"
#include "server/config/text_file.h"
#include "server/page/page.h"
#include "tensorflow/core/protobuf/config.pb-c.h"
#include "tensorflow_serving/config/monitoring_config.pb-c.h"
#include "tensorflow_serving/config/platform_config.pb-c.h"
#include "tensorflow_serving/servables/tensorflow/saved_model_bundle_source_adapter.pb-c.h"
#include "tensorflow_serving/servables/tensorflow/session_bundle_source_adapter.pb-c.h"
#include "tensorflow_serving/servables/tensorflow/thread_pool_factory_config.pb-c.h"

typedef Tensorflow__ConfigProto session_message;
typedef Tensorflow__Serving__SessionBundleConfig bundle_message;

static const char default_prometheus_path[] = "/monitoring/prometheus/metrics";

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the smaller of `n` and `wanted`. If `wanted` is 0, returns `n`. */
static int64_t at_most(int64_t n, int64_t wanted)
{
    return wanted > 0 && wanted < n ? wanted : n;
}

/* ---- fields without effect ---- */

/* Logs, in one line, the fields that are set in message `m` but have no effect. `known` is a
 * NULL-terminated list of the fields that have an effect. */
static void log_without_effect(const char *where, const ProtobufCMessage *m,
                               const char *const *known)
{
    char list[512] = "";
    size_t used = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        bool is_known = !pb_field_is_set(m, f);
        for (const char *const *k = known; *k; k++)
            is_known = is_known || strcmp(*k, f->name) == 0;
        if (!is_known && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     f->name);
    }
    if (used)
        RT_LOG(RT_LOG_INFO, "%s: without effect here: %s", where, list);
}

/* ---- sessions ---- */

/* Thread counts from TensorFlow's settings. They are used if Slipway's own flags are not set. 0
 * means that a count is not set. */
struct threads {
    int64_t all;
    int64_t run;
};

/* Takes the counts over, at most as many as Slipway's own flags permit. */
static void use_threads(struct srv_options *o, const struct threads *t)
{
    if (!o->num_workers && t->all > 0)
        o->num_workers = at_most(SRV_MAX_WORKERS, t->all);
    if (!o->cores_per_run && t->run > 0)
        o->cores_per_run = at_most(SRV_MAX_WORKERS, t->run);
    if (larger(t->all, t->run) > SRV_MAX_WORKERS)
        RT_LOG(RT_LOG_WARNING, "%lld threads are configured for TensorFlow; at most %d are started",
               (long long)larger(t->all, t->run), SRV_MAX_WORKERS);
}

static void read_session(struct srv_options *o, const session_message *m, const char *where,
                         struct threads *threads)
{
    static const char *const known[] = {"intra_op_parallelism_threads",
                                        "inter_op_parallelism_threads", "log_device_placement",
                                        "allow_soft_placement", NULL};
    threads->all = larger(m->intra_op_parallelism_threads, m->inter_op_parallelism_threads);
    threads->run = m->intra_op_parallelism_threads;
    if (m->log_device_placement)
        o->log_device_placement = true;
    log_without_effect(where, &m->base, known);
}

static enum rt_status read_session_file(struct srv_options *o, struct threads *threads,
                                        struct rt_error *err)
{
    ProtobufCMessage *m = NULL;
    enum rt_status st = srv_text_file_read(&m, &tensorflow__config_proto__descriptor, o,
                                           "tensorflow_session_config_file",
                                           o->tensorflow_session_config_file, err);
    if (st)
        return st;
    read_session(o, (const session_message *)m, "--tensorflow_session_config_file", threads);
    pb_free(m);
    return RT_OK;
}

static enum rt_status threads_of_flags(struct srv_options *o, struct rt_error *err)
{
    int64_t both = o->tensorflow_session_parallelism, intra = o->tensorflow_intra_op_parallelism,
            inter = o->tensorflow_inter_op_parallelism;
    struct threads threads = {0};
    if (both > 0 && intra > 0 && inter > 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Either configure server_options.tensorflow_session_parallelism or "
                       "(server_options.tensorflow_intra_op_parallelism, "
                       "server_options.tensorflow_inter_op_parallelism) separately. You cannot "
                       "configure all.");
    if (*o->tensorflow_session_config_file) {
        enum rt_status st = read_session_file(o, &threads, err);
        if (st)
            return st;
    }
    if (larger(intra, inter) > 0)
        threads = (struct threads){.all = larger(intra, inter), .run = intra};
    else if (both > 0)
        threads = (struct threads){.all = both, .run = both};
    use_threads(o, &threads);
    return RT_OK;
}

/* ---- platforms ---- */

static bool has_type(const Google__Protobuf__Any *any, const char *type)
{
    const char *slash = any ? strrchr(any->type_url, '/') : NULL;
    return slash && strcmp(slash + 1, type) == 0;
}

static void read_warmup(struct srv_options *o, const Tensorflow__Serving__ModelWarmupOptions *m)
{
    if (m && m->num_request_iterations)
        o->num_request_iterations_for_warmup = m->num_request_iterations->value;
    if (m && m->num_model_warmup_threads && m->num_model_warmup_threads->value > 0)
        o->num_model_warmup_threads = m->num_model_warmup_threads->value;
}

static enum rt_status read_bundle(struct srv_options *o, const bundle_message *m,
                                  struct rt_arena *arena, struct rt_error *err)
{
    static const char where[] = "--platform_config_file";
    static const char *const known[] = {"session_config",
                                        "batching_parameters",
                                        "saved_model_tags",
                                        "enable_model_warmup",
                                        "model_warmup_options",
                                        "enable_per_model_batching_params",
                                        "remove_unused_fields_from_bundle_metagraph",
                                        NULL};
    if (m->n_experimental_fixed_input_tensors)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "%s: experimental_fixed_input_tensors are not available", where);
    log_without_effect(where, &m->base, known);
    struct threads threads = {0};
    if (m->session_config)
        read_session(o, m->session_config, "--platform_config_file: session_config", &threads);
    use_threads(o, &threads);
    o->enable_batching = m->batching_parameters ? SRV_YES : SRV_UNSET;
    o->enable_model_warmup = m->enable_model_warmup;
    o->enable_per_model_batching_parameters = m->enable_per_model_batching_params;
    read_warmup(o, m->model_warmup_options);
    o->saved_model_tags = m->n_saved_model_tags ? "" : "serve";
    for (size_t i = 0; i < m->n_saved_model_tags && o->saved_model_tags; i++)
        o->saved_model_tags = rt_arena_printf(arena, "%s%s%s", o->saved_model_tags, i ? "," : "",
                                              m->saved_model_tags[i]);
    struct srv_batching *batching = rt_arena_alloc(arena, sizeof *batching);
    if (!o->saved_model_tags || !batching)
        return rt_fail_memory(err, "the platform configuration", 0);
    if (!m->batching_parameters)
        return RT_OK;
    o->platform_batching = batching;
    return srv_batching_from_message(batching, m->batching_parameters, err);
}

static enum rt_status read_adapter(struct srv_options *o, const Google__Protobuf__Any *any,
                                   struct rt_arena *arena, struct rt_error *err)
{
    bool is_bundle = has_type(any, "tensorflow.serving.SessionBundleSourceAdapterConfig");
    if (!is_bundle && !has_type(any, "tensorflow.serving.SavedModelBundleSourceAdapterConfig"))
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "--platform_config_file: source_adapter_config of platform tensorflow is "
                       "\"%s\", only tensorflow.serving.SavedModelBundleSourceAdapterConfig is "
                       "known",
                       any && any->type_url ? any->type_url : "");
    ProtobufCMessage *m = pb_unpack(
        is_bundle ? &tensorflow__serving__session_bundle_source_adapter_config__descriptor
                  : &tensorflow__serving__saved_model_bundle_source_adapter_config__descriptor,
        rt_span_of(any->value.data, any->value.len), "--platform_config_file", err);
    if (!m)
        return pb_unpack_failed(err, RT_INVALID_ARGUMENT);
    bundle_message nothing;
    tensorflow__serving__session_bundle_config__init(&nothing);
    const bundle_message *bundle =
        is_bundle
            ? ((const Tensorflow__Serving__SessionBundleSourceAdapterConfig *)m)->config
            : ((const Tensorflow__Serving__SavedModelBundleSourceAdapterConfig *)m)->legacy_config;
    enum rt_status st = read_bundle(o, bundle ? bundle : &nothing, arena, err);
    pb_free(m);
    return st;
}

/* Logs the given flags that have no effect because of --platform_config_file. */
static void log_flags_of_platform(const struct srv_options *o)
{
    static const char *const flags[] = {"enable_batching",
                                        "batching_parameters_file",
                                        "enable_per_model_batching_parameters",
                                        "tensorflow_session_config_file",
                                        "tensorflow_session_parallelism",
                                        "tensorflow_intra_op_parallelism",
                                        "tensorflow_inter_op_parallelism",
                                        "saved_model_tags",
                                        "enable_model_warmup",
                                        "num_request_iterations_for_warmup"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (srv_options_is_given(o, flags[i]))
            RT_LOG(RT_LOG_WARNING, "--%s has no effect beside --platform_config_file", flags[i]);
}

static enum rt_status read_platforms(struct srv_options *o, struct rt_arena *arena,
                                     struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    enum rt_status st =
        srv_text_file_read(&message, &tensorflow__serving__platform_config_map__descriptor, o,
                           "platform_config_file", o->platform_config_file, err);
    if (st)
        return st;
    const Tensorflow__Serving__PlatformConfigMap *map =
        (const Tensorflow__Serving__PlatformConfigMap *)message;
    const Tensorflow__Serving__PlatformConfig *tensorflow = NULL;
    for (size_t i = 0; i < map->n_platform_configs; i++) {
        const char *name = map->platform_configs[i]->key;
        if (strcmp(name, "tensorflow") == 0)
            /* the last entry for "tensorflow" takes precedence */
            tensorflow = map->platform_configs[i]->value;
        else
            RT_LOG(RT_LOG_WARNING,
                   "--platform_config_file: platform %s is not available, models of it are refused",
                   name);
    }
    log_flags_of_platform(o);
    /* --batching_parameters_file has no effect with --platform_config_file */
    o->batching_parameters_file = "";
    st = tensorflow ? read_adapter(o, tensorflow->source_adapter_config, arena, err)
                    : rt_fail(err, RT_FAILED_PRECONDITION,
                              "PlatformConfigMap has no entry for platform tensorflow");
    pb_free(message);
    return st;
}

/* ---- monitoring, thread pools, checks ---- */

static bool is_at_or_below(const char *path, const char *root)
{
    const size_t n = strlen(root);

    return strncmp(path, root, n) == 0 && (!path[n] || path[n] == '/');
}

/* Refuses a path of the metrics page that no request can have, or at which the page would hide the
 * answers to orchestrators. Warns of a path at which the page hides a model's. */
static enum rt_status check_metrics_path(const char *path, const char *file, struct rt_error *err)
{
    if (*path != '/')
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--monitoring_config_file=%s: path \"%s\" does not begin with a slash", file,
                       path);
    for (const char *p = path; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '?' || *p == '#')
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "--monitoring_config_file=%s: path \"%s\" cannot be requested: a path "
                           "has no spaces, control characters, \"?\", \"#\" or characters beyond "
                           "ASCII",
                           file, path);
    if (strcmp(path, "/healthz") == 0 || is_at_or_below(path, "/readyz"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--monitoring_config_file=%s: path \"%s\" would hide the server's own "
                       "/healthz or /readyz",
                       file, path);
    if (is_at_or_below(path, "/v1/models") || is_at_or_below(path, "/v2"))
        RT_LOG(RT_LOG_WARNING,
               "--monitoring_config_file=%s: at path \"%s\" the metrics page hides a path of the "
               "models' API",
               file, path);
    return RT_OK;
}

static enum rt_status read_monitoring(struct srv_options *o, struct rt_arena *arena,
                                      struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    enum rt_status st =
        srv_text_file_read(&message, &tensorflow__serving__monitoring_config__descriptor, o,
                           "monitoring_config_file", o->monitoring_config_file, err);
    if (st)
        return st;
    const Tensorflow__Serving__PrometheusConfig *p =
        ((const Tensorflow__Serving__MonitoringConfig *)message)->prometheus_config;
    if (p && p->enable && *p->path)
        st = check_metrics_path(p->path, o->monitoring_config_file, err);
    if (st)
        pb_free(message);
    if (st)
        return st;
    if (!p || !p->enable)
        o->prometheus_path = "";
    else if (*p->path)
        o->prometheus_path = rt_arena_strdup(arena, p->path);
    pb_free(message);
    return o->prometheus_path ? RT_OK : rt_fail_memory(err, "the monitoring configuration", 0);
}

static enum rt_status read_thread_pools(const struct srv_options *o, struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    enum rt_status st = srv_text_file_read(
        &message, &tensorflow__serving__thread_pool_factory_config__descriptor, o,
        "thread_pool_factory_config_file", o->thread_pool_factory_config_file, err);
    if (st)
        return st;
    const Google__Protobuf__Any *any =
        ((const Tensorflow__Serving__ThreadPoolFactoryConfig *)message)->thread_pool_factory_config;
    if (any)
        st = rt_fail(err, RT_NOT_FOUND,
                     "--thread_pool_factory_config_file: no thread pool factory of type \"%s\" is "
                     "registered; num_workers says how many threads run models",
                     any->type_url);
    else
        RT_LOG(RT_LOG_INFO, "--thread_pool_factory_config_file names no factory: no effect");
    pb_free(message);
    return st;
}

enum rt_status srv_settings_resolve(struct srv_options *o, struct rt_arena *arena,
                                    struct rt_error *err)
{
    enum rt_status st = RT_OK;
    o->prometheus_path = default_prometheus_path;
    o->platform_batching = NULL;
    if (*o->platform_config_file)
        st = read_platforms(o, arena, err);
    else
        st = threads_of_flags(o, err);
    if (!st && *o->thread_pool_factory_config_file)
        st = read_thread_pools(o, err);
    if (!st && *o->monitoring_config_file)
        st = read_monitoring(o, arena, err);
    return st;
}

enum rt_status srv_settings_check_batching(const struct srv_options *o, struct rt_error *err)
{
    if (*o->batching_parameters_file && o->enable_batching != SRV_YES)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "server_options.batching_parameters_file is set without setting "
                       "server_options.enable_batching to true.");
    return RT_OK;
}

enum rt_status srv_settings_check(const struct srv_options *o, struct rt_error *err)
{
    if (o->port == 0 && !*o->grpc_socket_path && (o->as_tensorflow || o->rest_api_port == 0))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "At least one of port or grpc_socket_path must be set");
    if (!*o->model_base_path && !*o->model_config_file && !*o->models)
        return o->as_tensorflow ? rt_fail(err, RT_INVALID_ARGUMENT,
                                          "Both server_options.model_base_path and "
                                          "server_options.model_config_file are empty!")
                                : rt_fail(err, RT_INVALID_ARGUMENT,
                                          "nothing to serve: give --models, --model_base_path or "
                                          "--model_config_file");
    const struct rt_span bad = srv_page_bad_host(o->page_hosts);
    if (bad.n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--page_hosts=%s: \"%.*s\" is no host name: names without ports are taken, "
                       "separated by commas",
                       o->page_hosts, (int)bad.n, (const char *)bad.p);
    return srv_settings_check_batching(o, err);
}

/* ---- quotas ---- */

/* Returns whether `name` can be the name of a header and the key of gRPC's metadata. */
static bool is_header_name(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

enum rt_status srv_settings_check_quota(const struct srv_options *o, struct rt_error *err)
{
    const bool has_limit = o->quota_requests_per_second > 0 || o->quota_bytes_per_second > 0 ||
                           o->quota_queue_share > 0;

    if (!*o->quota_client && !has_limit)
        return RT_OK;
    if (!has_limit)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--quota_client=%s needs a limit: --quota_requests_per_second, "
                       "--quota_bytes_per_second or --quota_queue_share",
                       o->quota_client);
    if (!*o->quota_client)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--%s needs --quota_client, which says what names the client of a request",
                       o->quota_requests_per_second > 0 ? "quota_requests_per_second"
                       : o->quota_bytes_per_second > 0  ? "quota_bytes_per_second"
                                                        : "quota_queue_share");
    if (!is_header_name(o->quota_client))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--quota_client=%s is neither tls nor the lower-case name of a header",
                       o->quota_client);
    return srv_settings_check_quota_tls(o, *o->ssl_config_file && srv_settings_wants_grpc(o), err);
}

enum rt_status srv_settings_check_quota_tls(const struct srv_options *o, bool grpc_verifies,
                                            struct rt_error *err)
{
    const bool rest_verifies = *o->rest_tls_client_ca_file && srv_settings_wants_http(o);

    if (strcmp(o->quota_client, "tls") != 0 || grpc_verifies || rest_verifies)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "--quota_client=tls needs the certificates of clients, and neither "
                   "--rest_tls_client_ca_file nor client_verify of --ssl_config_file asks for "
                   "them");
}

/* ---- listeners ---- */

enum rt_status srv_settings_split_address(const char *flag, const char *value, char *host,
                                          size_t capacity, int64_t *port, struct rt_error *err)
{
    const char *given = value;
    const char *colon = strrchr(given, ':');
    size_t n = colon ? (size_t)(colon - given) : 0;

    if (n >= 2 && given[0] == '[' && given[n - 1] == ']') {
        given++;
        n -= 2;
    }
    if (!n || n >= capacity || !srv_parse_int64(colon + 1, strlen(colon + 1), port) || *port < 0 ||
        *port > 65535)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--%s=%s is not HOST:PORT", flag, value);
    memcpy(host, given, n);
    host[n] = '\0';
    return RT_OK;
}

struct listener {
    const char *flag, *value; /* value is NULL if the flag contains only the port */
    char host[SRV_MAX_HOST];
    int64_t port;
};

static enum rt_status add_listener(struct listener *list, int *n, const char *flag,
                                   const char *value, struct rt_error *err)
{
    struct listener *l = &list[*n];

    if (!*value)
        return RT_OK;
    l->flag = flag;
    l->value = value;
    (*n)++;
    return srv_settings_split_address(flag, value, l->host, sizeof l->host, &l->port, err);
}

static void add_port(struct listener *list, int *n, const char *flag, const char *host,
                     int64_t port)
{
    struct listener *l = &list[(*n)++];

    *l = (struct listener){.flag = flag, .port = port};
    snprintf(l->host, sizeof l->host, "%s", *host ? host : "0.0.0.0");
}

/* Returns whether a listener at all addresses of the machine has the address `host` too. The
 * address "::" includes those of IPv4. */
static bool includes(const char *all, const char *host)
{
    struct in_addr v4;

    return strcmp(all, "::") == 0 ||
           (strcmp(all, "0.0.0.0") == 0 && inet_pton(AF_INET, host, &v4) == 1);
}

/* Fails if two listeners cannot both have their addresses. Names of hosts are not looked up, so
 * that some conflicts are found only when the server listens. */
static enum rt_status check_listeners(const struct srv_options *o, struct rt_error *err)
{
    struct listener list[4];
    int n = 0, n_with_host;
    enum rt_status st = add_listener(list, &n, "page_address", o->page_address, err);

    if (!st)
        st = add_listener(list, &n, "admin_address", o->admin_address, err);
    if (st)
        return st;
    if (!o->as_tensorflow && o->port && o->port == o->rest_api_port)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--port and --rest_api_port are both %lld: gRPC and REST need a port each",
                       (long long)o->port);
    n_with_host = n;
    if (srv_settings_wants_rest(o))
        add_port(list, &n, "rest_api_port", o->bind_address, o->rest_api_port);
    add_port(list, &n, "port", o->bind_address, o->port);
    for (int i = 0; i < n_with_host; i++)
        for (int k = i + 1; k < n; k++)
            if (list[i].port > 0 && list[i].port == list[k].port &&
                (strcmp(list[i].host, list[k].host) == 0 || includes(list[i].host, list[k].host) ||
                 includes(list[k].host, list[i].host)))
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "--%s=%s and --%s listen at the same port, %lld", list[i].flag,
                               list[i].value, list[k].flag, (long long)list[k].port);
    return RT_OK;
}

const char *srv_settings_port_warning(const struct srv_options *o)
{
    return o->rest_api_port != 0 && o->rest_api_port == o->port
               ? "server_options.http_port cannot be same as grpc_port. Please use a different "
                 "port for HTTP/REST API. Skipped exporting HTTP/REST API."
               : NULL;
}

enum rt_status srv_settings_check_addresses(const struct srv_options *o, struct rt_error *err)
{
    const char *address = o->bind_address;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (*o->page_address && !o->page)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--page_address=%s needs --page", o->page_address);
    const enum rt_status st = check_listeners(o, err);
    if (st || !*address)
        return st;
    int failed = getaddrinfo(address, "0", &hints, &found);
    if (failed)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--bind_address=%s: %s", address,
                       gai_strerror(failed));
    int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
    int bound = fd < 0 ? -1 : bind(fd, found->ai_addr, found->ai_addrlen);
    int number = errno;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return bound ? rt_fail(err, RT_INVALID_ARGUMENT, "--bind_address=%s: %s", address,
                           strerror(number))
                 : RT_OK;
}

bool srv_settings_wants_rest(const struct srv_options *o)
{
    return o->rest_api_port != 0 && o->rest_api_port != o->port;
}

bool srv_settings_wants_http(const struct srv_options *o)
{
    return srv_settings_wants_rest(o) || *o->page_address;
}

bool srv_settings_wants_grpc(const struct srv_options *o)
{
    return o->port != 0 || *o->grpc_socket_path || *o->admin_address || *o->admin_socket;
}

void srv_settings_threads(struct srv_options *o, int n_cores)
{
    int share = n_cores / 4 > 1 ? n_cores / 4 : 1;
    if (!o->num_workers)
        o->num_workers = n_cores;
    if (!o->cores_per_run)
        o->cores_per_run = o->num_workers;
    if (!o->num_rest_threads)
        o->num_rest_threads = at_most(share, o->rest_api_num_threads);
    if (!o->num_grpc_threads)
        o->num_grpc_threads = at_most(share, o->grpc_max_threads);
    if (o->num_workers > n_cores || o->cores_per_run > n_cores)
        RT_LOG(RT_LOG_WARNING,
               "--num_workers=%lld and --cores_per_run=%lld, and %d core%s to run them: threads "
               "will wait for each other",
               (long long)o->num_workers, (long long)o->cores_per_run, n_cores,
               n_cores == 1 ? "" : "s");
}
