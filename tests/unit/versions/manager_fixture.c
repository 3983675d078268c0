#include "tests/unit/versions/manager_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/session/account.h"
#include "server/batching/io_loop.h"
#include "server/versions/loader.h"
#include "tests/support/folder.h"

struct manager_fixture fixture;

/* ---- the models ---- */

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
                                       const struct rt_check *check, int64_t *weight_bytes,
                                       struct rt_error *err)
{
    (void)tags, (void)n_tags, (void)check;
    char word[64];
    enum rt_status st = read_word(dir, word, sizeof word, err);
    *weight_bytes = !st && strcmp(word, "huge") == 0 ? INT64_C(1) << 60 : 1000;
    return st;
}

static enum rt_status fake_load(struct rt_model **out, const char *dir,
                                const struct rt_model_options *options, struct rt_error *err)
{
    char word[64];
    atomic_fetch_add(&fixture.n_loads, 1);
    enum rt_status st = read_word(dir, word, sizeof word, err);
    if (st)
        return st;
    atomic_fetch_add(&fixture.n_counted, strcmp(word, "counted") == 0);
    atomic_fetch_add(&fixture.n_held, atomic_load(&fixture.load_held));
    for (bool told = false; atomic_load(&fixture.load_held); usleep(1000)) {
        if (!told && atomic_load(options->session.cancelled)) {
            atomic_fetch_add(&fixture.n_cancelled_loads, 1);
            told = true;
        }
        if (told && !atomic_load(&fixture.load_deaf))
            break;
    }
    if (atomic_load(options->session.cancelled) && !atomic_load(&fixture.load_deaf))
        return rt_fail(err, RT_CANCELLED, "cancelled");
    if (strcmp(word, "writer") == 0) {
        char path[512];
        snprintf(path, sizeof path, "%s/written%d", dir, atomic_load(&fixture.n_loads));
        fclose(fopen(path, "w"));
    }
    if (strcmp(word, "bad") == 0)
        return rt_fail(err, RT_UNIMPLEMENTED, "op Nonsense is missing");
    if (strcmp(word, "flaky") == 0)
        return rt_fail(err, RT_UNAVAILABLE, "not now");
    if (strcmp(word, "large") == 0 &&
        (st = rt_account_follow(options->session.account, MF_LARGE_BYTES, err)) != RT_OK)
        return st;
    *out = calloc(1, sizeof **out);
    atomic_fetch_add(&fixture.n_loaded, 1);
    return RT_OK;
}

static void fake_free(struct rt_model *model)
{
    char thread[16];
    free(model);
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    atomic_fetch_add(&fixture.n_freed_by_manager, strcmp(thread, "manager") == 0);
    atomic_fetch_add(&fixture.n_freed, 1);
}

static void fake_end(struct rt_model *model)
{
    (void)model;
    atomic_fetch_add(&fixture.n_ended, 1);
    mf_hold_handles(false);
}

static enum rt_status fake_attach(struct srv_server *s, struct srv_version *v, struct rt_error *err)
{
    (void)s, (void)v, (void)err;
    atomic_fetch_add(&fixture.n_attached, 1);
    return RT_OK;
}

static void fake_retire(struct srv_server *s, struct srv_version *v)
{
    (void)s, (void)v;
    atomic_fetch_add(&fixture.n_retired, 1);
}

static void fake_detach(struct srv_server *s, struct srv_version *v)
{
    (void)s, (void)v;
    atomic_fetch_add(&fixture.n_detached, 1);
}

static void fake_count_load(struct srv_server *s, const char *model, const char *dir, bool ok,
                            int64_t ns)
{
    (void)s, (void)model, (void)dir, (void)ok, (void)ns;
}

static void fake_count_event(struct srv_server *s, const char *name)
{
    (void)s, (void)name;
    atomic_fetch_add(&fixture.n_events, 1);
}

static void fake_model_gone(struct srv_server *s, const char *model)
{
    (void)s;
    snprintf(fixture.gone, sizeof fixture.gone, "%s", model);
    atomic_fetch_add(&fixture.n_gone, 1);
}

static int64_t fake_free_memory(void)
{
    return INT64_C(1) << 40;
}

static const struct srv_model_calls fakes = {
    .is_complete = fake_is_complete,
    .load = fake_load,
    .free = fake_free,
    .end = fake_end,
    .attach = fake_attach,
    .retire = fake_retire,
    .detach = fake_detach,
    .count_load = fake_count_load,
    .count_event = fake_count_event,
    .model_gone = fake_model_gone,
    .free_memory = fake_free_memory,
};

/* ---- the I/O loops ---- */

static struct fake_io_loop {
    struct srv_io_loop io_loop;
    pthread_t thread;
    struct rt_mutex mu;
    struct srv_message *mailbox; /* guarded by mu */
    bool stop;                   /* guarded by mu */
    atomic_bool holds;           /* while true, no retirement of a version is confirmed */
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
        /* Reads each version of the map, so that a sanitizer reports a version that was freed too
         * early. */
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

/* ---- the manager ---- */

int mf_set_up(void **state)
{
    (void)state;
    folder_new();
    atomic_store(&rt_log_level, -1);
    atomic_store(&fixture.n_loaded, 0);
    atomic_store(&fixture.n_freed, 0);
    atomic_store(&fixture.n_freed_by_manager, 0);
    atomic_store(&fixture.n_attached, 0);
    atomic_store(&fixture.n_retired, 0);
    atomic_store(&fixture.n_detached, 0);
    atomic_store(&fixture.n_events, 0);
    atomic_store(&fixture.n_gone, 0);
    atomic_store(&fixture.n_ended, 0);
    atomic_store(&fixture.n_loads, 0);
    atomic_store(&fixture.n_counted, 0);
    atomic_store(&fixture.load_held, false);
    atomic_store(&fixture.load_deaf, false);
    atomic_store(&fixture.n_held, 0);
    atomic_store(&fixture.n_cancelled_loads, 0);
    return 0;
}

enum rt_status mf_start_with(const char *const *flags, int n)
{
    static const struct srv_map empty;
    const char *argv[16] = {"slipway"};
    for (int i = 0; i < n; i++)
        argv[i + 1] = flags[i];
    memset(&fixture.server, 0, sizeof fixture.server);
    fixture.err = (struct rt_error){0};
    bool as_tensorflow = n && strcmp(flags[0], "--") == 0;
    assert_int_equal(srv_options_parse(&fixture.server.options, as_tensorflow,
                                       as_tensorflow ? n : n + 1, as_tensorflow ? argv + 1 : argv,
                                       stderr),
                     SRV_PARSE_RUN);
    atomic_store(&fixture.server.map, &empty);
    fixture.server.n_io_loops = 2;
    for (int i = 0; i < 2; i++) {
        memset(&io_loops[i], 0, sizeof io_loops[i]);
        io_loops[i].io_loop.server = &fixture.server;
        io_loops[i].io_loop.loop = &io_loops[i];
        rt_mutex_init(&io_loops[i].mu);
        fixture.server.io_loops[i] = &io_loops[i].io_loop;
        assert_int_equal(rt_thread_start(&io_loops[i].thread, "net", io_loop_thread, &io_loops[i]),
                         0);
    }
    fixture.manager = NULL;
    return srv_manager_start(&fixture.server, &fakes, &fixture.manager, &fixture.err);
}

void mf_stop_io_loops(void)
{
    for (int i = 0; i < 2; i++) {
        rt_mutex_lock(&io_loops[i].mu);
        io_loops[i].stop = true;
        rt_mutex_unlock(&io_loops[i].mu);
        pthread_join(io_loops[i].thread, NULL);
    }
}

void mf_hold_handles(bool hold)
{
    atomic_store(&io_loops[1].holds, hold);
}

int mf_tear_down(void **state)
{
    (void)state;
    if (fixture.manager) {
        srv_manager_stop(fixture.manager);
        fixture.manager = NULL;
        mf_stop_io_loops();
        srv_manager_free(fixture.server.manager);
        assert_int_equal(atomic_load(&fixture.n_loaded), atomic_load(&fixture.n_freed));
        assert_int_equal(atomic_load(&fixture.n_attached), atomic_load(&fixture.n_detached));
        assert_int_equal(atomic_load(&fixture.n_retired), atomic_load(&fixture.n_detached));
    }
    folder_remove();
    return 0;
}

enum srv_state mf_state_of(const char *model, int64_t version, char *text, size_t capacity)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s = NULL;
    int n = 0;
    struct rt_error e = {0};
    enum srv_state st = SRV_STATE_UNKNOWN;
    if (!srv_status_of(fixture.manager, rt_span_str(model), true, version, arena, &s, &n, &e)) {
        st = s[0].state;
        if (text)
            snprintf(text, capacity, "%s", s[0].message);
    }
    rt_arena_free(arena);
    return st;
}

bool mf_comes_to(const char *model, int64_t version, enum srv_state want)
{
    int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    do {
        if (mf_state_of(model, version, NULL, 0) == want)
            return true;
        usleep(5000);
    } while (rt_now_ns() < end);
    return false;
}

bool mf_comes_above_0(atomic_int *n)
{
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!atomic_load(n) && rt_now_ns() < end)
        usleep(1000);
    return atomic_load(n) > 0;
}

/* ---- files and flags ---- */

void mf_add_version(const char *dir, const char *word)
{
    folder_write("staging/saved_model.pb", word);
    char parent[256];
    snprintf(parent, sizeof parent, "%s", dir);
    *strrchr(parent, '/') = '\0';
    folder_make(parent);
    folder_rename("staging", dir);
}

const char *mf_flag(const char *name, const char *path)
{
    static char capacity[4][600];
    static int next;
    char *text = capacity[next++ & 3];
    snprintf(text, sizeof capacity[0], "--%s=%s", name, folder_path(path));
    return text;
}

void mf_write_config(const char *const *names, int n)
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
