#include "tests/support/test.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"
#include "server/batching/io_loop.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "tests/support/folder.h"

/*
 * The manager with models that are text files: saved_model.pb holds "ok", "bad" (fails for good),
 * "flaky" (fails for now) or "huge"; a version is whole when it is there.
 */

static atomic_int n_loaded, n_freed, n_attached, n_detached, n_events, n_loads;
static atomic_int n_held;
static atomic_int n_cancelled_loads; /* loads that have seen that they are cancelled */
static atomic_bool load_held;        /* loads wait until it is false, */
static atomic_bool load_deaf;        /* also those that are cancelled */

static enum rt_status read_word(const char *dir, char *word, size_t capacity, struct rt_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    FILE *f = fopen(path, "r");
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "Could not find SavedModel in %s", dir);
    size_t n = fread(word, 1, capacity - 1, f);
    word[n] = '\0';
    fclose(f);
    return RT_OK;
}

static enum rt_status fake_is_complete(const char *dir, const char *const *tags, int n_tags,
                                       int64_t *weight_bytes, struct rt_error *err)
{
    (void)tags, (void)n_tags;
    char word[64];
    enum rt_status st = read_word(dir, word, sizeof word, err);
    *weight_bytes = !st && strcmp(word, "huge") == 0 ? INT64_C(1) << 60 : 1000;
    return st;
}

static enum rt_status fake_load(struct rt_model **out, const char *dir,
                                const struct rt_model_options *options, struct rt_error *err)
{
    char word[64];
    atomic_fetch_add(&n_loads, 1);
    enum rt_status st = read_word(dir, word, sizeof word, err);
    if (st)
        return st;
    atomic_fetch_add(&n_held, atomic_load(&load_held));
    for (bool told = false; atomic_load(&load_held); usleep(1000)) {
        if (!told && atomic_load(options->session.cancelled)) {
            atomic_fetch_add(&n_cancelled_loads, 1);
            told = true;
        }
        if (told && !atomic_load(&load_deaf))
            break;
    }
    if (atomic_load(options->session.cancelled) && !atomic_load(&load_deaf))
        return rt_fail(err, RT_CANCELLED, "cancelled");
    if (strcmp(word, "bad") == 0)
        return rt_fail(err, RT_UNIMPLEMENTED, "op Nonsense is missing");
    if (strcmp(word, "flaky") == 0)
        return rt_fail(err, RT_UNAVAILABLE, "not now");
    *out = calloc(1, sizeof **out);
    atomic_fetch_add(&n_loaded, 1);
    return RT_OK;
}

static void fake_free(struct rt_model *model)
{
    free(model);
    atomic_fetch_add(&n_freed, 1);
}

static enum rt_status fake_attach(struct srv_server *s, struct srv_version *v, struct rt_error *err)
{
    (void)s, (void)v, (void)err;
    atomic_fetch_add(&n_attached, 1);
    return RT_OK;
}

static void fake_detach(struct srv_server *s, struct srv_version *v)
{
    (void)s, (void)v;
    atomic_fetch_add(&n_detached, 1);
}

static void fake_count_load(struct srv_server *s, const char *model, const char *dir, bool ok,
                            int64_t ns)
{
    (void)s, (void)model, (void)dir, (void)ok, (void)ns;
}

static void fake_count_event(struct srv_server *s, const char *name)
{
    (void)s, (void)name;
    atomic_fetch_add(&n_events, 1);
}

static int64_t fake_free_memory(void)
{
    return INT64_C(1) << 40;
}

static const struct srv_model_calls fakes = {
    .is_complete = fake_is_complete,
    .load = fake_load,
    .free = fake_free,
    .attach = fake_attach,
    .detach = fake_detach,
    .count_load = fake_count_load,
    .count_event = fake_count_event,
    .free_memory = fake_free_memory,
};

/* ---- a network thread that only answers its mail ---- */

static struct fake_io_loop {
    struct srv_io_loop io_loop;
    pthread_t thread;
    struct rt_mutex mu;
    struct srv_message *mailbox; /* guarded by mu */
    bool stop;                   /* guarded by mu */
    atomic_bool holds;           /* answers nothing about versions */
} io_loops[2];

void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message)
{
    message->next = io_loop->retiring;
    io_loop->retiring = message;
}

void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message)
{
    struct fake_io_loop *f = io_loop->loop;
    rt_mutex_lock(&f->mu);
    message->next = f->mailbox;
    f->mailbox = message;
    rt_mutex_unlock(&f->mu);
}

static void *io_loop_thread(void *arg)
{
    struct fake_io_loop *f = arg;
    for (;;) {
        rt_mutex_lock(&f->mu);
        struct srv_message *message = f->mailbox;
        bool stop = f->stop && !message;
        f->mailbox = NULL;
        rt_mutex_unlock(&f->mu);
        for (struct srv_message *next; message; message = next) {
            next = message->next;
            message->receive(&f->io_loop, message);
        }
        if (stop && !f->io_loop.retiring)
            return NULL;
        const struct srv_map *map = atomic_load(&f->io_loop.server->map);
        int n = 0;
        for (int i = 0; i < map->n_models; i++)
            for (int k = 0; k < map->models[i].n_versions; k++)
                n += map->models[i].versions[k]->version > 0;
        f->io_loop.inline_ns = n;
        struct srv_message *waiting = f->io_loop.retiring;
        f->io_loop.retiring = NULL;
        for (struct srv_message *next; waiting; waiting = next) {
            struct srv_retirement *r = (struct srv_retirement *)waiting;
            next = waiting->next;
            if (r->version && atomic_load(&f->holds))
                srv_retirement_receive(&f->io_loop, waiting);
            else
                r->confirm(r);
        }
        usleep(1000);
    }
}

/* ---- set-up ---- */

static struct srv_server server;
static struct srv_manager *manager;
static struct rt_error err;

static int set_up(void **state)
{
    (void)state;
    folder_new();
    atomic_store(&rt_log_level, -1);
    atomic_store(&n_loaded, 0);
    atomic_store(&n_freed, 0);
    atomic_store(&n_attached, 0);
    atomic_store(&n_detached, 0);
    atomic_store(&n_events, 0);
    atomic_store(&n_loads, 0);
    atomic_store(&load_held, false);
    atomic_store(&load_deaf, false);
    atomic_store(&n_held, 0);
    atomic_store(&n_cancelled_loads, 0);
    return 0;
}

/* A first flag "--" stands for the name tensorflow_model_server. */
static enum rt_status start_with(const char *const *flags, int n)
{
    static const struct srv_map empty;
    const char *argv[16] = {"slipway"};
    for (int i = 0; i < n; i++)
        argv[i + 1] = flags[i];
    memset(&server, 0, sizeof server);
    err = (struct rt_error){0};
    bool as_tensorflow = n && strcmp(flags[0], "--") == 0;
    assert_int_equal(srv_options_parse(&server.options, as_tensorflow, as_tensorflow ? n : n + 1,
                                       as_tensorflow ? argv + 1 : argv, stderr),
                     SRV_PARSE_RUN);
    atomic_store(&server.map, &empty);
    server.n_io_loops = 2;
    for (int i = 0; i < 2; i++) {
        memset(&io_loops[i], 0, sizeof io_loops[i]);
        io_loops[i].io_loop.server = &server;
        io_loops[i].io_loop.loop = &io_loops[i];
        rt_mutex_init(&io_loops[i].mu);
        server.io_loops[i] = &io_loops[i].io_loop;
        assert_int_equal(rt_thread_start(&io_loops[i].thread, "net", io_loop_thread, &io_loops[i]),
                         0);
    }
    manager = NULL;
    return srv_manager_start(&server, &fakes, &manager, &err);
}
#define START(...)                                                                                 \
    start_with((const char *const[]){__VA_ARGS__},                                                 \
               (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void stop_io_loops(void)
{
    for (int i = 0; i < 2; i++) {
        rt_mutex_lock(&io_loops[i].mu);
        io_loops[i].stop = true;
        rt_mutex_unlock(&io_loops[i].mu);
        pthread_join(io_loops[i].thread, NULL);
    }
}

static int tear_down(void **state)
{
    (void)state;
    if (manager) {
        srv_manager_stop(manager);
        manager = NULL;
        stop_io_loops();
        srv_manager_free(server.manager);
        assert_int_equal(atomic_load(&n_loaded), atomic_load(&n_freed));
        assert_int_equal(atomic_load(&n_attached), atomic_load(&n_detached));
    }
    folder_remove();
    return 0;
}

static enum srv_state state_of(const char *model, int64_t version, char *text, size_t capacity)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s = NULL;
    int n = 0;
    struct rt_error e = {0};
    enum srv_state st = SRV_STATE_UNKNOWN;
    if (!srv_status_of(manager, rt_span_str(model), true, version, arena, &s, &n, &e)) {
        st = s[0].state;
        if (text)
            snprintf(text, capacity, "%s", s[0].message);
    }
    rt_arena_free(arena);
    return st;
}

enum { SAFETY_LIMIT_MS = 60000 }; /* for what must come */

static bool comes_to(const char *model, int64_t version, enum srv_state want)
{
    int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    do {
        if (state_of(model, version, NULL, 0) == want)
            return true;
        usleep(5000);
    } while (rt_now_ns() < end);
    return false;
}

static void version(const char *dir, const char *word)
{
    folder_write("staging/saved_model.pb", word);
    char parent[256];
    snprintf(parent, sizeof parent, "%s", dir);
    *strrchr(parent, '/') = '\0';
    folder_make(parent);
    folder_rename("staging", dir);
}

static const char *flag(const char *name, const char *path)
{
    static char capacity[4][600];
    static int next;
    char *text = capacity[next++ & 3];
    snprintf(text, sizeof capacity[0], "--%s=%s", name, folder_path(path));
    return text;
}

/* ---- tests ---- */

static void a_version_is_served_and_a_newer_one_takes_over(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    assert_true(srv_is_ready(manager));
    assert_int_equal(atomic_load(&server.map)->n_models, 1);
    version("m/2", "ok");
    assert_true(comes_to("m", 2, SRV_AVAILABLE));
    assert_true(comes_to("m", 1, SRV_END));
    assert_int_equal(state_of("m", 2, NULL, 0), SRV_AVAILABLE);
    assert_int_equal(atomic_load(&server.map)->models[0].n_versions, 1);
    assert_int_equal(atomic_load(&server.map)->models[0].versions[0]->version, 2);
}

static void resource_preserving_holds_one_version_at_a_time(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m"),
                    "--version_transition=resource_preserving", "--num_unload_threads=2"),
              &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    atomic_store(&load_held, true);
    version("m/2", "ok");
    assert_true(comes_to("m", 2, SRV_LOADING));
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_END);
    assert_int_equal(atomic_load(&n_freed), 1);
    atomic_store(&load_held, false);
    assert_true(comes_to("m", 2, SRV_AVAILABLE));
}

/* Each fake version is taken for 8 MiB and a little. */
static void models_share_a_limit_of_memory(void **state)
{
    (void)state;
    version("a/1", "ok");
    version("b/1", "ok");
    folder_write("config", "");
    char text[1024];
    snprintf(text, sizeof text,
             "model_config_list { config { name: 'a' base_path: '%s' model_platform: 'tensorflow' }"
             " config { name: 'b' base_path: '%s' model_platform: 'tensorflow' } }",
             folder_path("a"), folder_path("b"));
    folder_write("config", text);
    assert_ok(START(flag("model_config_file", "config"), "--total_model_memory_limit_bytes=10M",
                    "--max_num_load_retries=0", "--num_load_threads=1"),
              &err);
    while (state_of("a", 1, NULL, 0) != SRV_AVAILABLE && state_of("b", 1, NULL, 0) != SRV_AVAILABLE)
        usleep(5000);
    bool a_serves = state_of("a", 1, NULL, 0) == SRV_AVAILABLE;
    const char *one = a_serves ? "a" : "b", *other = a_serves ? "b" : "a";
    assert_true(comes_to(other, 1, SRV_END));
    state_of(other, 1, text, sizeof text);
    assert_non_null(strstr(text, "Insufficient resources to load servable {name: "));
    /* What goes makes room. */
    folder_delete(a_serves ? "a/1" : "b/1");
    assert_true(comes_to(one, 1, SRV_END));
    version(a_serves ? "b/2" : "a/2", "ok");
    assert_true(comes_to(other, 2, SRV_AVAILABLE));
}

static void a_version_that_is_overtaken_says_so(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m"), "--num_load_threads=1"), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    folder_write("m/2/part", "x"); /* not whole yet */
    assert_true(comes_to("m", 2, SRV_START));
    version("m/3", "ok");
    assert_true(comes_to("m", 2, SRV_END));
    char text[200];
    state_of("m", 2, text, sizeof text);
    assert_string_equal(text, "a higher version came before this one was loaded");
    assert_true(comes_to("m", 3, SRV_AVAILABLE));
}

static void a_failed_version_leaves_the_old_one_and_tells_why(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    version("m/2", "bad");
    assert_true(comes_to("m", 2, SRV_END));
    char text[200];
    state_of("m", 2, text, sizeof text);
    assert_string_equal(text, "op Nonsense is missing");
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    /* Other files: another try. */
    folder_write("m/2/saved_model.pb", "ok");
    assert_true(comes_to("m", 2, SRV_AVAILABLE));
    assert_true(comes_to("m", 1, SRV_END));
}

static void a_failure_that_may_pass_is_tried_again(void **state)
{
    (void)state;
    version("m/1", "flaky");
    assert_ok(START("--model_name=m", flag("model_base_path", "m"), "--max_num_load_retries=2",
                    "--load_retry_interval_micros=1000"),
              &err);
    int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    while (atomic_load(&n_loads) < 3 && rt_now_ns() < end)
        usleep(10000);
    usleep(500000);
    assert_int_equal(atomic_load(&n_loads), 3);
    assert_true(comes_to("m", 1, SRV_END));
}

static void a_version_is_freed_only_when_no_thread_holds_it(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    atomic_store(&io_loops[1].holds, true);
    version("m/2", "ok");
    assert_true(comes_to("m", 1, SRV_UNLOADING));
    usleep(100000);
    assert_int_equal(atomic_load(&n_freed), 0);
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_UNLOADING);
    atomic_store(&io_loops[1].holds, false);
    assert_true(comes_to("m", 1, SRV_END));
    assert_int_equal(atomic_load(&n_freed), 1);
}

static void a_half_written_version_is_waited_for(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    folder_make("m/2");
    for (int i = 0; i < 8; i++) { /* never still for a second */
        char name[64];
        snprintf(name, sizeof name, "m/2/part%d", i);
        folder_write(name, "x");
        usleep(250000);
    }
    assert_int_equal(state_of("m", 2, NULL, 0), SRV_START);
    folder_write("m/2/saved_model.pb", "ok");
    assert_true(comes_to("m", 2, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&n_loads), 2);
}

static void files_that_change_during_a_load_are_loaded_again(void **state)
{
    (void)state;
    atomic_store(&load_held, true);
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_LOADING));
    folder_write("m/1/variables/new", "x");
    atomic_store(&load_held, false);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&n_loads), 2);
    assert_int_equal(atomic_load(&n_freed), 1);
}

static bool comes_above_0(atomic_int *n)
{
    const int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!atomic_load(n) && rt_now_ns() < end)
        usleep(1000);
    return atomic_load(n) > 0;
}

static void a_load_ends_when_its_version_is_not_wanted_any_more(void **state)
{
    (void)state;
    char text[256];
    atomic_store(&load_held, true);
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_above_0(&n_held));
    folder_delete("m/1");
    assert_true(comes_to("m", 1, SRV_END));
    state_of("m", 1, text, sizeof text);
    assert_string_equal(text, "this version was not wanted any more while it was loaded");
    assert_int_equal(atomic_load(&n_loaded), 0);
    atomic_store(&load_held, false);
    version("m/1", "ok");
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
}

/* The manager looks at "z" after "m": it has seen both when "z" is being loaded. */
static void expect_one_more_load_of_m(int n_others)
{
    assert_true(comes_to("z", 1, SRV_LOADING));
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_LOADING);
    atomic_store(&load_held, false);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    assert_true(comes_to("z", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&n_loads), 2 + n_others);
}

static void a_version_that_comes_back_while_its_load_is_cancelled_is_loaded_again(void **state)
{
    (void)state;
    atomic_store(&load_held, true);
    atomic_store(&load_deaf, true);
    version("models/m/1", "ok");
    assert_ok(START(flag("models", "models")), &err);
    assert_true(comes_above_0(&n_held));
    folder_delete("models/m/1");
    assert_true(comes_above_0(&n_cancelled_loads));
    version("models/m/1", "ok");
    version("models/z/1", "ok");
    expect_one_more_load_of_m(1);
}

/* One is being loaded, the others wait for the thread. */
static void the_end_of_the_manager_waits_for_no_load(void **state)
{
    (void)state;
    atomic_store(&load_held, true);
    version("models/a/1", "ok");
    version("models/b/1", "ok");
    version("models/c/1", "ok");
    assert_ok(START(flag("models", "models"), "--num_load_threads=1"), &err);
    assert_true(comes_to("a", 1, SRV_LOADING));
    assert_true(comes_to("b", 1, SRV_LOADING));
    assert_true(comes_to("c", 1, SRV_LOADING));
    assert_true(comes_above_0(&n_held));
    srv_manager_stop(manager);
    for (int i = 0; i < 3; i++) {
        char text[256];
        assert_int_equal(state_of((const char[]){(char)('a' + i), '\0'}, 1, text, sizeof text),
                         SRV_END);
        assert_string_equal(text, "the server is stopping");
    }
    assert_int_equal(atomic_load(&n_loads), 1);
    manager = NULL;
    stop_io_loops();
    srv_manager_free(server.manager);
}

static void an_overwritten_version_is_told_and_not_reloaded(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    folder_write("m/1/saved_model.pb", "bad");
    int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!atomic_load(&n_events) && rt_now_ns() < end)
        usleep(10000);
    usleep(1200000);
    assert_int_equal(atomic_load(&n_events), 1);
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    assert_int_equal(atomic_load(&n_loads), 1);
}

static void a_folder_of_models_may_grow_and_shrink(void **state)
{
    (void)state;
    version("models/a/1", "ok");
    folder_make("models/.hidden/1");
    folder_write("models/make.py", "x");
    assert_ok(START(flag("models", "models")), &err);
    assert_true(comes_to("a", 1, SRV_AVAILABLE));
    version("models/b/7", "ok");
    assert_true(comes_to("b", 7, SRV_AVAILABLE));
    folder_delete("models/a");
    assert_true(comes_to("a", 1, SRV_END));
    assert_true(srv_model_is_ready(manager, rt_span_str("b")));
    assert_false(srv_model_is_ready(manager, rt_span_str("a")));
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const char *const *names;
    int n;
    assert_int_equal(srv_status_models(manager, arena, &names, &n), RT_OK);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "a");
    rt_arena_free(arena);
}

static void a_base_path_that_vanishes_changes_nothing(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    folder_rename("m", "gone");
    usleep(1500000);
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    folder_rename("gone", "m");
    folder_delete("m/1");
    assert_true(comes_to("m", 1, SRV_END));
}

static void one_bad_model_holds_no_other(void **state)
{
    (void)state;
    version("models/bad/1", "bad");
    version("models/flaky/1", "flaky");
    version("models/huge/1", "huge");
    folder_make("models/empty");
    version("models/good/1", "ok");
    assert_ok(START(flag("models", "models"), "--model_wait_seconds=1"), &err);
    assert_true(comes_to("good", 1, SRV_AVAILABLE));
    assert_true(comes_to("huge", 1, SRV_END));
    char text[300];
    state_of("huge", 1, text, sizeof text);
    assert_non_null(strstr(text, "bytes of memory"));
    int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!srv_is_ready(manager) && rt_now_ns() < end)
        usleep(10000);
    assert_true(srv_is_ready(manager));
}

/* ---- reload requests beside the config file ---- */

/* The base path of a model is its name in the folder. */
static void write_config(const char *const *names, int n)
{
    char text[4096];
    int used = snprintf(text, sizeof text, "model_config_list {");
    for (int i = 0; i < n; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         " config { name: '%s' base_path: '%s' model_platform: 'tensorflow' }",
                         names[i], folder_path(names[i]));
    snprintf(text + used, sizeof text - (size_t)used, " }\n");
    folder_write("models.config", text);
}
#define CONFIG(...)                                                                                \
    write_config((const char *const[]){__VA_ARGS__},                                               \
                 (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static atomic_int reload_status; /* -1: none yet */
static char reload_text[512];

static void note_reload(void *arg, enum rt_status status, const struct rt_error *e)
{
    (void)arg;
    snprintf(reload_text, sizeof reload_text, "%s", status ? rt_error_text(e) : "");
    atomic_store(&reload_status, (int)status);
}

/* Asks for m and n. */
static void reload_m_and_n(void)
{
    char paths[2][600], names[2][2] = {"m", "n"}, platform[] = "tensorflow";
    snprintf(paths[0], sizeof paths[0], "%s", folder_path("m"));
    snprintf(paths[1], sizeof paths[1], "%s", folder_path("n"));
    Tensorflow__Serving__ModelConfig models[2], *all[2] = {&models[0], &models[1]};
    for (int i = 0; i < 2; i++) {
        tensorflow__serving__model_config__init(&models[i]);
        models[i].name = names[i];
        models[i].base_path = paths[i];
        models[i].model_platform = platform;
    }
    Tensorflow__Serving__ModelConfigList list;
    tensorflow__serving__model_config_list__init(&list);
    list.n_config = 2;
    list.config = all;
    Tensorflow__Serving__ModelServerConfig config;
    tensorflow__serving__model_server_config__init(&config);
    config.config_case = TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    config.model_config_list = &list;
    uint8_t bytes[2048];
    assert_true(protobuf_c_message_get_packed_size(&config.base) <= sizeof bytes);
    size_t n = protobuf_c_message_pack(&config.base, bytes);
    atomic_store(&reload_status, -1);
    assert_ok(srv_manager_reload(manager, rt_span_of(bytes, n), NULL, note_reload, NULL, &err),
              &err);
}

static int wait_for_reload(int within_ms)
{
    int64_t end = rt_now_ns() + (int64_t)within_ms * 1000000;
    while (atomic_load(&reload_status) < 0 && rt_now_ns() < end)
        usleep(5000);
    return atomic_load(&reload_status);
}

static void start_with_m_then_ask_for_n(void)
{
    version("m/1", "ok");
    folder_make("n");
    CONFIG("m");
    assert_ok(START(flag("model_config_file", "models.config")), &err);
    assert_true(comes_to("m", 1, SRV_AVAILABLE));
    reload_m_and_n();
    assert_int_equal(wait_for_reload(100), -1);
}

static void a_reload_waits_on_when_the_config_file_is_read_again(void **state)
{
    (void)state;
    version("x/1", "ok");
    start_with_m_then_ask_for_n();
    CONFIG("m", "n", "x");
    srv_manager_reread(manager);
    assert_true(comes_to("x", 1, SRV_AVAILABLE));
    assert_int_equal(wait_for_reload(0), -1);
    version("n/1", "ok");
    assert_int_equal(wait_for_reload(SAFETY_LIMIT_MS), RT_OK);
    assert_true(comes_to("n", 1, SRV_AVAILABLE));
}

static void a_reload_ends_when_the_config_file_takes_its_models_out(void **state)
{
    (void)state;
    version("x/1", "ok");
    start_with_m_then_ask_for_n();
    CONFIG("m", "x");
    srv_manager_reread(manager);
    assert_int_equal(wait_for_reload(SAFETY_LIMIT_MS), RT_UNKNOWN);
    assert_non_null(strstr(reload_text, "1 model(s) did not become available: {{{name: n} due to "
                                        "error: the model was taken out of the configuration}"));
}

static void
a_model_that_is_configured_again_while_its_load_is_cancelled_is_loaded_again(void **state)
{
    (void)state;
    atomic_store(&load_held, true);
    atomic_store(&load_deaf, true);
    version("m/1", "ok");
    version("x/1", "ok");
    version("z/1", "ok");
    CONFIG("m");
    assert_ok(START(flag("model_config_file", "models.config")), &err);
    assert_true(comes_above_0(&n_held));
    CONFIG("x");
    srv_manager_reread(manager);
    assert_true(comes_above_0(&n_cancelled_loads));
    CONFIG("m", "x", "z");
    srv_manager_reread(manager);
    expect_one_more_load_of_m(2);
    assert_true(comes_to("x", 1, SRV_AVAILABLE));
}

static void a_reload_that_waits_ends_with_the_manager(void **state)
{
    (void)state;
    start_with_m_then_ask_for_n();
    srv_manager_stop(manager);
    assert_int_equal(atomic_load(&reload_status), RT_UNAVAILABLE);
    stop_io_loops();
    srv_manager_free(manager);
    manager = NULL;
}

static void the_start_waits_for_every_model_or_a_failure(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--", "--model_name=m", flag("model_base_path", "m")), &err);
    assert_ok(srv_manager_wait_initial(manager, &err), &err);
    assert_int_equal(state_of("m", 1, NULL, 0), SRV_AVAILABLE);
}

static void the_start_fails_with_the_models_error(void **state)
{
    (void)state;
    version("m/1", "bad");
    assert_ok(START("--", "--model_name=m", flag("model_base_path", "m")), &err);
    assert_fails(srv_manager_wait_initial(manager, &err), RT_UNKNOWN, &err,
                 "1 servable(s) did not become available: {{{name: m version: 1} due to error: "
                 "UNIMPLEMENTED: op Nonsense is missing}");
}

static void a_start_without_models_is_refused(void **state)
{
    (void)state;
    assert_fails(START("--"), RT_INVALID_ARGUMENT, &err, "model_base_path");
    stop_io_loops();
    assert_fails(START("--model_base_path=s3://b/m"), RT_UNIMPLEMENTED, &err, "s3");
    stop_io_loops();
    assert_fails(START("--", "--model_base_path=m"), RT_INVALID_ARGUMENT, &err,
                 "Expected model default to have an absolute path or URI; got base_path()=m");
    stop_io_loops();
}

static void unknown_models_and_versions_are_told(void **state)
{
    (void)state;
    version("m/1", "ok");
    assert_ok(START("--model_name=m", flag("model_base_path", "m")), &err);
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s;
    int n;
    assert_fails(srv_status_of(manager, rt_span_str("x"), false, 0, arena, &s, &n, &err),
                 RT_NOT_FOUND, &err, "Could not find any versions of model x");
    assert_fails(srv_status_of(manager, rt_span_str("m"), true, 5, arena, &s, &n, &err),
                 RT_NOT_FOUND, &err, "Could not find version 5 of model m");
    rt_arena_free(arena);
}

/* A config file of n models of each prefix, whose base paths do not exist. */
static void write_many(const char *const *prefixes, int n_prefixes, int n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    fputs("model_config_list {", f);
    for (int p = 0; p < n_prefixes; p++)
        for (int i = 0; i < n; i++)
            fprintf(f, "config { name: '%s%05d' base_path: '%s' model_platform: 'tensorflow' }\n",
                    prefixes[p], i, folder_path("none"));
    fputs("}", f);
    assert_int_equal(fclose(f), 0);
    folder_write("models.config", text);
    free(text);
}

/* Waits until so many models are listed, and checks that their names ascend. */
static void expect_listed(int want)
{
    const int64_t end = rt_now_ns() + SAFETY_LIMIT_MS * INT64_C(1000000);
    int n = -1;
    bool ascend = true;
    while (n != want && rt_now_ns() < end) {
        struct rt_arena *arena = rt_arena_new(SIZE_MAX);
        const char *const *names;
        assert_int_equal(srv_status_models(manager, arena, &names, &n), RT_OK);
        for (int i = 1; i < n; i++)
            ascend = ascend && strcmp(names[i - 1], names[i]) < 0;
        rt_arena_free(arena);
        usleep(20000);
    }
    assert_int_equal(n, want);
    assert_true(ascend);
}

/* A list of models that come before, between and behind those that are there takes its place in
 * time proportional to both: with one insertion per model these took 10^9 comparisons under the
 * manager's lock, 4.3 s; the removal moved 10^9 pointers. */
static void many_models_come_and_go_at_once(void **state)
{
    (void)state;
    enum { MANY = 20000, GONE_LISTED = 1000 };
    write_many((const char *const[]){"m", "z"}, 2, MANY);
    assert_ok(START(flag("model_config_file", "models.config")), &err);
    expect_listed(2 * MANY);
    write_many((const char *const[]){"a", "m", "n", "z", "zz"}, 5, MANY);
    srv_manager_reread(manager);
    expect_listed(5 * MANY);
    write_many((const char *const[]){"n"}, 1, MANY);
    srv_manager_reread(manager);
    expect_listed(MANY + GONE_LISTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_version_is_served_and_a_newer_one_takes_over),
        TEST(resource_preserving_holds_one_version_at_a_time),
        TEST(models_share_a_limit_of_memory),
        TEST(a_version_that_is_overtaken_says_so),
        TEST(a_failed_version_leaves_the_old_one_and_tells_why),
        TEST(a_failure_that_may_pass_is_tried_again),
        TEST(a_version_is_freed_only_when_no_thread_holds_it),
        TEST(a_half_written_version_is_waited_for),
        TEST(files_that_change_during_a_load_are_loaded_again),
        TEST(a_load_ends_when_its_version_is_not_wanted_any_more),
        TEST(a_version_that_comes_back_while_its_load_is_cancelled_is_loaded_again),
        TEST(the_end_of_the_manager_waits_for_no_load),
        TEST(an_overwritten_version_is_told_and_not_reloaded),
        TEST(a_folder_of_models_may_grow_and_shrink),
        TEST(a_base_path_that_vanishes_changes_nothing),
        TEST(one_bad_model_holds_no_other),
        TEST(a_reload_waits_on_when_the_config_file_is_read_again),
        TEST(a_reload_ends_when_the_config_file_takes_its_models_out),
        TEST(a_model_that_is_configured_again_while_its_load_is_cancelled_is_loaded_again),
        TEST(a_reload_that_waits_ends_with_the_manager),
        TEST(the_start_waits_for_every_model_or_a_failure),
        TEST(the_start_fails_with_the_models_error),
        TEST(a_start_without_models_is_refused),
        TEST(unknown_models_and_versions_are_told),
        TEST(many_models_come_and_go_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
