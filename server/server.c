#include "server/gpus.h"
#include "server/base/shared_memory.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/base/print.h"
#include "runtime/select/autotune.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/thread.h"
#include "runtime/session/compiler.h"
#include "runtime/session/idle_cache.h"
#include "runtime/exec/parallel.h"
#include "server/inference/sample_body.h"
#include "server/grpc/grpc.h"
#include "server/grpc/grpc_methods.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"
#include "server/metrics/metrics.h"
#include "server/request_log/request_log.h"
#include "server/protocol/admin.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer_options.h"
#include "server/http/rest.h"
#include "server/batching/scheduler.h"
#include "server/config/settings.h"
#include "server/base/quota.h"

enum {
    LONGEST_HINT = 1000, /* maximum size in bytes of the example request that the server prints */
    /* A signal within this time after the first one does not count as a second signal. */
    SAME_SIGNAL_NS = 100000000,
    /* maximum time in milliseconds for sending the responses to refused requests */
    REFUSED_WAIT_MS = 1000,
    /* Time limit in milliseconds for stopping the components of the server. Afterwards the process
     * ends even if threads are still running. */
    STOP_LIMIT_MS = 8000,
    EXIT_START_FAILED = 255,
    LOG_QUEUE_BYTES = 64 << 20,
};

/* ---- signals ---- */

static int signals_fd(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    /* blocks the signals before the first thread starts, so that all threads inherit the mask */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* A write beyond RLIMIT_FSIZE fails instead. */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Waits until a signal arrives, `wait_ms` milliseconds have passed (-1: no limit), or the
 * descriptor `other` (-1: none) becomes readable. Returns the signal, or 0 if none arrived. */
static int wait_signal(int fd, int other, int wait_ms)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    poll(fds, other >= 0 ? 2 : 1, wait_ms);
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

/* State of the server's shutdown, which begins with the first signal. */
struct stop {
    int signals; /* descriptor of the signalfd */
    int64_t begun_ns;
};

/* Returns whether a second signal arrives within `wait_ms` milliseconds. A second signal ends the
 * process immediately. SIGHUP does not count, because the config file is no longer read. Signals
 * shortly after the first one do not count either, because tools such as timeout(1) signal first
 * the process and then its process group. */
static bool wait_second(const struct stop *stop, int wait_ms)
{
    int64_t end = rt_now_ns() + (int64_t)wait_ms * 1000000;
    for (int64_t left = wait_ms; left >= 0; left = (end - rt_now_ns()) / 1000000 - 1) {
        int got = wait_signal(stop->signals, -1, (int)left);
        if (got && got != SIGHUP && rt_now_ns() - stop->begun_ns > SAME_SIGNAL_NS)
            return true;
    }
    return false;
}

/* ---- start ---- */

static void raise_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Returns the memory limit of all runs. Without --run_memory_total_bytes, it is half of the free
 * memory. The other half is for weights and for the tensors and messages of requests. */
static size_t run_memory(const struct srv_options *o)
{
    int64_t free_bytes = rt_machine_free_memory();
    if (o->run_memory_total_bytes)
        return (size_t)o->run_memory_total_bytes;
    return free_bytes == INT64_MAX ? SIZE_MAX : (size_t)(free_bytes / 2);
}

/* Determines the final settings from flags and files, and logs the flags that have no effect. */
static enum rt_status resolve_settings(struct srv_server *s, struct rt_error *err)
{
    const char *name, *reason;
    int i = 0;
    while (srv_options_next_note(&s->options, &i, &name, &reason))
        RT_LOG(RT_LOG_INFO, "--%s is accepted and has no effect here: %s", name, reason);
    s->settings = rt_arena_new(SIZE_MAX);
    if (!s->settings)
        return rt_fail_memory(err, "the settings", 0);
    enum rt_status st = srv_settings_resolve(&s->options, s->settings, err);
    srv_settings_threads(&s->options, rt_machine_cores());
    return st ? st : srv_settings_check_addresses(&s->options, err);
}

/* Starts the tracer if there is a collector. */
static enum rt_status start_tracer(struct srv_server *s, struct rt_error *err)
{
    struct srv_tracer_options t;

    if (!*s->options.otlp_endpoint)
        return RT_OK;
    const enum rt_status st = srv_tracer_options(&s->options, s->settings, &t, err);
    return st ? st : srv_tracer_start(&t, &s->tracer, err);
}

static enum rt_status open_quota(struct srv_server *s, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    const struct srv_quota_limits limits = {.requests_per_s = o->quota_requests_per_second,
                                            .bytes_per_s = (double)o->quota_bytes_per_second,
                                            .n_clients = o->quota_max_clients,
                                            .key_name = o->quota_client};
    const enum rt_status st = srv_settings_check_quota(o, err);

    if (st || !*o->quota_client)
        return st;
    s->quota = srv_quota_new(&limits);
    return s->quota ? RT_OK : rt_fail_memory(err, "quotas", 0);
}

static enum rt_status start_parts(struct srv_server *s, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    const char *warning = srv_settings_port_warning(o);
    if (warning)
        RT_LOG(RT_LOG_ERROR, "%s", warning);
    s->metrics = srv_metrics_new((int)(o->num_rest_threads + o->num_grpc_threads),
                                 srv_scheduler_n_workers(s));
    if (!s->metrics)
        return rt_fail_memory(err, "the server", sizeof *s);
    const struct srv_request_log_limits limits = {.queue_bytes = LOG_QUEUE_BYTES,
                                                  .file_bytes = o->request_log_file_bytes,
                                                  .file_ns = o->request_log_file_ms * 1000000};
    s->request_log = srv_request_log_new(&limits, s->metrics);
    if (!s->request_log)
        return rt_fail_memory(err, "the log of requests", 0);
    const int64_t cores = o->num_workers > o->cores_per_run ? o->num_workers : o->cores_per_run;
    s->parallel = rt_parallel_new((int)cores, (int)o->cores_per_run);
    if (!s->parallel)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%lld helper threads could not be started",
                       (long long)cores);
    s->idle_cache =
        rt_idle_cache_new((size_t)o->run_memory_idle_bytes, RT_IDLE_CACHE_SPECIALISATION_BYTES);
    if (!s->idle_cache)
        return rt_fail_memory(err, "the server", sizeof *s->idle_cache);
    s->compiler = o->specialise ? rt_compiler_new() : NULL;
    if (o->specialise && !s->compiler)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the compiling thread could not be started");
    enum rt_status st = srv_admin_check_files(o, err);
    if (!st)
        st = start_tracer(s, err);
    s->profile = s->options.page ? srv_profile_new() : NULL;
    if (!st && s->options.page && !s->profile)
        st = rt_fail_memory(err, "the page", 0);
    if (!st)
        st = srv_scheduler_new(s, &s->scheduler, err);
    if (!st && srv_settings_wants_http(o))
        st = srv_rest_start(s, srv_rest_route, &s->rest, err);
    if (!st && srv_settings_wants_grpc(o))
        st = srv_grpc_start(s, srv_grpc_methods(s->protocols), &s->grpc, err);
    if (!st)
        st = srv_manager_start(s, &srv_model_calls, &s->manager, err);
    return st;
}

static enum rt_status listen_grpc(struct srv_server *s, int *port, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    const char *address = *o->bind_address ? o->bind_address : "0.0.0.0";
    enum rt_status st = srv_grpc_listen(s->grpc, address, (int)o->port, port, err);
    if (!st && *port)
        RT_LOG(RT_LOG_INFO, "Running gRPC ModelServer at %s:%d ...", address, *port);
    return st;
}

static enum rt_status listen_rest(struct srv_server *s, int *port, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    const int number = (int)o->rest_api_port;
    enum rt_status st;
    if (*o->bind_address) {
        st = srv_rest_bind(s->rest, SRV_REST_PORT, o->bind_address, number, port, err);
    } else {
        struct rt_error ignored = {0};
        st = srv_rest_bind(s->rest, SRV_REST_PORT, "::", number, port, &ignored);
        if (st) /* the machine may have only IPv4 */
            st = srv_rest_bind(s->rest, SRV_REST_PORT, "0.0.0.0", number, port, err);
    }
    if (!st)
        RT_LOG(RT_LOG_INFO, "Exporting HTTP/REST API at:%s:%d ...",
               *o->bind_address ? o->bind_address : "localhost", *port);
    if (!st && o->as_tensorflow) /* scripts wait for this line of TensorFlow Serving's log */
        RT_LOG(RT_LOG_INFO, "[evhttp_server.cc : 261] NET_LOG: Entering the event loop ...");
    return st;
}

static enum rt_status listen_page(struct srv_server *s, int *port, struct rt_error *err)
{
    const char *given = s->options.page_address;
    char host[SRV_MAX_HOST];
    int64_t number = 0;
    enum rt_status st =
        srv_settings_split_address("page_address", given, host, sizeof host, &number, err);

    if (!st)
        st = srv_rest_bind(s->rest, SRV_REST_PAGE, host, (int)number, port, err);
    if (!st)
        RT_LOG(RT_LOG_INFO, "the page is at %s:%d", host, *port);
    return st;
}

/* The ports that the kernel has given to the listeners, or 0. */
struct ports {
    int grpc, rest, page;
};

/* Returns whether the server runs without the REST port, as TensorFlow Serving does. */
static bool runs_without_rest(const struct srv_server *s, const struct rt_error *err)
{
    if (!s->options.as_tensorflow || !s->grpc)
        return false;
    RT_LOG(RT_LOG_ERROR, "Failed to start HTTP Server at localhost:%lld: %s",
           (long long)s->options.rest_api_port, rt_error_text(err));
    return true;
}

static enum rt_status listen_all(struct srv_server *s, struct ports *ports, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    enum rt_status st = s->grpc ? listen_grpc(s, &ports->grpc, err) : RT_OK;

    if (!st && *o->page_address)
        st = listen_page(s, &ports->page, err);
    if (!st && srv_settings_wants_rest(o)) {
        st = listen_rest(s, &ports->rest, err);
        if (st && runs_without_rest(s, err))
            st = RT_OK;
    }
    if (st || (!ports->rest && !ports->page))
        return st;
    st = srv_rest_listen(s->rest, err);
    return st && runs_without_rest(s, err) ? RT_OK : st;
}

/* A thread that waits for the initial models. Meanwhile, the main thread can receive signals. */
struct initial {
    struct srv_server *server;
    int event_fd;
    enum rt_status status;
    struct rt_error err;
};

static void *wait_initial_thread(void *arg)
{
    struct initial *w = arg;
    w->status = srv_manager_wait_initial(w->server->manager, &w->err);
    uint64_t one = 1;
    ssize_t ignored = write(w->event_fd, &one, sizeof one);
    (void)ignored;
    return NULL;
}

/* Waits until the initial models are loaded. Returns false if a signal that ends the process
 * arrives earlier. */
static bool wait_initial(struct srv_server *s, int signals, enum rt_status *status,
                         struct rt_error *err)
{
    struct initial w = {.server = s, .event_fd = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    if (w.event_fd < 0 || rt_thread_start(&thread, "initial", wait_initial_thread, &w)) {
        *status = rt_fail(err, RT_RESOURCE_EXHAUSTED, "a thread could not be started");
        return true;
    }
    int got = wait_signal(signals, w.event_fd, -1);
    /* SIGHUP only makes the manager read the config file again, and the wait continues */
    while (got == SIGHUP) {
        srv_manager_reread(s->manager);
        got = wait_signal(signals, w.event_fd, -1);
    }
    if (got) {
        rt_threads_raise();
        srv_manager_stop(s->manager);
        s->manager_stopped = true;
    }
    pthread_join(thread, NULL);
    close(w.event_fd);
    *status = w.status;
    rt_error_copy(err, &w.err);
    return !got;
}

/* ---- serving, and what is printed meanwhile ---- */

struct hint {
    struct rt_bytes text;
    const char *scheme, *address;
    int port;
};

/* Prints a curl command with an example request for a version. Returns true, which ends the
 * iteration, if the command is short enough. */
static bool make_hint(void *arg, const struct srv_version *v)
{
    struct hint *h = arg;
    const struct rt_model_signature *s = srv_sample_signature(v->loaded);
    if (!s || !srv_sample_is_plain_name(v->model))
        return false;
    rt_bytes_clear(&h->text);
    rt_bytes_adds(&h->text, "curl -d '");
    srv_sample_body(s->def, &h->text);
    rt_bytes_addf(&h->text, "' %s://%s:%d/v1/models/%s:predict", h->scheme, h->address, h->port,
                  v->model);
    return !h->text.failed && h->text.n < 200;
}

static const char *reachable(const struct srv_options *o)
{
    return *o->bind_address ? o->bind_address : "127.0.0.1";
}

static const char *rest_scheme(const struct srv_options *o)
{
    return *o->rest_tls_cert_file ? "https" : "http";
}

static bool is_json_log(const struct srv_options *o)
{
    return strcmp(o->log_format, "json") == 0;
}

static void print_where(const struct srv_server *s, const struct ports *ports)
{
    const struct srv_options *o = &s->options;
    const char *end = strrchr(o->page_address, ':');
    if (ports->rest)
        rt_print(stdout, "REST  %s://%s:%d/v1/models/\n", rest_scheme(o), reachable(o),
                 ports->rest);
    if (ports->grpc)
        rt_print(stdout, "gRPC  %s:%d\n", reachable(o), ports->grpc);
    if (ports->page && end)
        rt_print(stdout, "page  %s://%.*s:%d/\n", rest_scheme(o), (int)(end - o->page_address),
                 o->page_address, ports->page);
    fflush(stdout);
}

/* Prints that the server is ready, and an example request if `hint` is not empty. With
 * --log_format=json, both are a line of the log, so that standard output and standard error
 * together have only lines of JSON. */
static void print_ready(const struct srv_server *s, const char *hint)
{
    if (is_json_log(&s->options))
        RT_LOG(RT_LOG_INFO, "ready%s%s", *hint ? "; try: " : "", hint);
    else
        rt_print(stdout, *hint ? "ready; try:\n  %s\n" : "ready\n", hint);
    fflush(stdout);
}

/* Serves requests until a signal ends the process. When the server is ready, prints an example
 * request for the first model, unless clients need certificates. */
static void serve(struct srv_server *s, int signals, int rest_port)
{
    bool is_announced = s->options.as_tensorflow || !rest_port;
    for (;;) {
        int got = wait_signal(signals, -1, is_announced ? -1 : 50);
        if (got == SIGHUP) {
            RT_LOG(RT_LOG_INFO, "SIGHUP: the model configuration file is read again");
            srv_manager_reread(s->manager);
        } else if (got) {
            return;
        }
        if (is_announced || !srv_is_ready(s->manager))
            continue;
        struct hint h = {.scheme = rest_scheme(&s->options),
                         .address = reachable(&s->options),
                         .port = rest_port};
        rt_bytes_init(&h.text, 4096);
        /* A command would need the client's own certificate and key. */
        if (!*s->options.rest_tls_client_ca_file)
            srv_manager_look(s->manager, make_hint, &h);
        print_ready(s, h.text.n && !h.text.failed && h.text.n < LONGEST_HINT ? h.text.p : "");
        rt_bytes_clear(&h.text);
        is_announced = true;
    }
}

/* ---- stop ---- */

static int requests_in_flight(struct srv_server *s)
{
    return (s->rest ? srv_rest_in_flight(s->rest) : 0) +
           (s->grpc ? srv_grpc_in_flight(s->grpc) : 0);
}

/* A running request also has a job. A job may outlive the request of a client that has left. */
static int in_flight(struct srv_server *s)
{
    const int requests = requests_in_flight(s), jobs = srv_scheduler_jobs(s->scheduler);
    return requests > jobs ? requests : jobs;
}

static void exit_now(int code)
{
    fflush(stdout);
    rt_log_stop();
    _exit(code);
}

/* Waits until `count` returns at most n or the time limit has passed. A second signal ends the
 * process. */
static void wait_for_few(struct srv_server *s, int (*count)(struct srv_server *s), int n,
                         const struct stop *stop, int64_t limit_ms)
{
    int64_t end = rt_now_ns() + limit_ms * 1000000;
    while (count(s) > n && rt_now_ns() < end)
        if (wait_second(stop, 5))
            exit_now(1);
}

static void drain(struct srv_server *s, int signals)
{
    const struct srv_options *o = &s->options;
    const struct stop stop = {.signals = signals, .begun_ns = rt_now_ns()};
    RT_LOG(RT_LOG_INFO, "draining: not ready any more");
    atomic_store(&s->draining, true);
    int64_t delay = o->drain_delay_ms >= 0 ? o->drain_delay_ms : getpid() == 1 ? 5000 : 0;
    if (delay && wait_second(&stop, (int)delay))
        exit_now(1);
    if (s->rest)
        srv_rest_quiesce(s->rest);
    if (s->grpc)
        srv_grpc_quiesce(s->grpc);
    srv_scheduler_flush(s->scheduler);
    wait_for_few(s, in_flight, 0, &stop, o->drain_timeout_ms);
    rt_threads_raise();
    int n = in_flight(s);
    if (n) {
        RT_LOG(RT_LOG_WARNING, "%d requests were not answered in %lld ms and are refused", n,
               (long long)o->drain_timeout_ms);
        /* After the time limit, refuses the queued jobs, and only waits until the refusals are
         * sent. */
        int left = requests_in_flight(s);
        left -= srv_scheduler_refuse_all(s->scheduler, RT_UNAVAILABLE, "the server is stopping");
        wait_for_few(s, requests_in_flight, left > 0 ? left : 0, &stop, REFUSED_WAIT_MS);
        /* Otherwise runs that do not end by themselves would delay the stop until its limit. */
        if (s->rest)
            srv_rest_cancel_all(s->rest);
        if (s->grpc)
            srv_grpc_cancel_all(s->grpc);
    }
}

/* Ends the process unless `stopped` is signalled in time. The main thread does not cancel this
 * thread, because cancellation leaves stack frames that a sanitizer mistakes for live ones. */
static void *stop_limit(void *arg)
{
    struct pollfd stopped = {.fd = *(const int *)arg, .events = POLLIN};
    int64_t end = rt_now_ns() + STOP_LIMIT_MS * INT64_C(1000000), left;

    while ((left = end - rt_now_ns()) > 0)
        if (poll(&stopped, 1, (int)(left / 1000000) + 1) > 0)
            return NULL;
    RT_LOG(RT_LOG_WARNING, "something did not end in time; the process ends without it");
    exit_now(0);
    return NULL;
}

static void stop_parts(struct srv_server *s)
{
    if (s->manager && !s->manager_stopped)
        srv_manager_stop(s->manager);
    if (s->rest)
        srv_rest_stop(s->rest);
    if (s->grpc)
        srv_grpc_stop(s->grpc);
    if (s->scheduler)
        srv_scheduler_free(s->scheduler);
    srv_manager_free(s->manager);
    srv_request_log_free(s->request_log);
    srv_tracer_stop(s->tracer);
    srv_profile_free(s->profile);
    if (s->metrics)
        srv_metrics_free(s->metrics);
    rt_compiler_free(s->compiler);
    rt_idle_cache_free(s->idle_cache);
    rt_parallel_free(s->parallel);
    srv_gpus_close(s);
}

/* Reports why the server does not start: on standard output, as TensorFlow Serving does, or, with
 * --log_format=json, as a line of the log. No line of the log follows, not even of loads that are
 * still running. */
static int start_failed(bool is_json, enum rt_status st, const struct rt_error *err)
{
    atomic_store(&rt_log_level, RT_LOG_ERROR - 1);
    if (is_json)
        rt_log_write(RT_LOG_ERROR, "Failed to start server. Error: %s: %s", rt_status_name(st),
                     rt_error_text(err));
    rt_log_stop();
    if (!is_json)
        rt_print(stdout, "Failed to start server. Error: %s: %s\n", rt_status_name(st),
                 rt_error_text(err));
    /* loads may still be running, so the process ends without cleanup */
    exit_now(EXIT_START_FAILED);
    return EXIT_START_FAILED;
}

int srv_server_main(const struct srv_options *options, const struct rt_registry *registry)
{
    static const struct srv_map nothing;
    struct rt_error err = {0};
    int signals = signals_fd();
    struct ports ports = {0};
    atomic_store(&rt_log_level, (int)options->log_level);
    const bool is_json = is_json_log(options);
    rt_log_start(is_json ? RT_LOG_JSON : RT_LOG_TEXT);
    raise_open_files();
    struct srv_server *s = calloc(1, sizeof *s);
    if (!s || signals < 0)
        return start_failed(is_json, rt_fail_memory(&err, "the server", sizeof *s), &err);
    s->options = *options;
    s->registry = registry;
    s->protocols = &srv_protocols;
    s->run_memory.limit = run_memory(options);
    atomic_store(&s->map, &nothing);
    enum rt_status st = resolve_settings(s, &err);
    if (!st)
        st = rt_autotune_open(&s->autotune, options->autotune_cache, &err);
    if (!st)
        st = srv_gpus_open(s, &err);
    s->in_flight.limit = s->replays.limit = s->replayed_records.limit =
        s->options.max_bytes_in_flight;
    if (!st && s->options.system_shared_memory_bytes > 0) {
        s->shared_memory = srv_shared_memory_new((uint64_t)s->options.system_shared_memory_bytes);
        if (!s->shared_memory)
            st = rt_fail_memory(&err, "shared memory", 0);
    }
    if (!st)
        st = open_quota(s, &err);
    if (!st)
        st = start_parts(s, &err);
    bool go_on = true;
    if (!st && options->as_tensorflow)
        go_on = wait_initial(s, signals, &st, &err);
    if (!st && go_on)
        st = listen_all(s, &ports, &err);
    if (st && go_on)
        return start_failed(is_json, st, &err);
    if (go_on) {
        srv_admin_warn(options);
        /* Lines of the log have said where the listeners are. */
        if (!options->as_tensorflow && !is_json)
            print_where(s, &ports);
        serve(s, signals, ports.rest);
        drain(s, signals);
    }
    if (atomic_load(&s->gpu_failed)) {
        RT_LOG(RT_LOG_ERROR, "stopped because a GPU has failed");
        /* calls of the GPU's driver may not return, so the process ends without cleanup */
        exit_now(SRV_EXIT_GPU_FAILED);
    }
    pthread_t limit;
    int stopped = eventfd(0, EFD_CLOEXEC);
    bool limited = stopped >= 0 && rt_thread_start(&limit, "stop", stop_limit, &stopped) == 0;
    if (!limited)
        /* If the thread could not be started, the signal of alarm() ends the process when the
         * shutdown takes too long. */
        alarm(STOP_LIMIT_MS / 1000);
    stop_parts(s);
    alarm(0);
    if (limited) {
        eventfd_write(stopped, 1);
        pthread_join(limit, NULL);
    }
    if (stopped >= 0)
        close(stopped);
    srv_shared_memory_free(s->shared_memory);
    srv_quota_free(s->quota);
    rt_autotune_free(s->autotune);
    rt_arena_free(s->settings);
    free(s);
    close(signals);
    RT_LOG(RT_LOG_INFO, "stopped");
    rt_log_stop();
    return 0;
}
