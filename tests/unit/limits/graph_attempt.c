#include "tests/unit/limits/graph_attempt.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/api/describe.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"
#include "tests/support/registry.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* STACK is a sixteenth of 8 MB, the stack size of the server's threads (glibc's default). Stack
 * frames of sanitizer builds are several times larger. */
enum { STACK = 512 << 10, STACK_SANITIZED = 4 << 20, MAX_MB = 256, MAX_S = 5, TEXT = 2000 };

/* The graph of the child process. It is built before the child's thread starts. */
static struct rt_bytes graph;

struct outcome {
    enum rt_status status;
    char text[TEXT];
};

static void *work(void *arg)
{
    static char buffer[TEXT];
    struct outcome *o = arg;
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_error err = {.arena = rt_arena_new(1 << 20)};
    const char *feed = "x:0", *fetch = "y:0";
    struct rt_call_spec spec = {.feeds = &feed, .fetches = &fetch, .n_feeds = 1, .n_fetches = 1};
    struct rt_session_options options = {.registry = test_registry, .run_memory_limit = 64 << 20};
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct rt_missing *missing;
    struct rt_callable *call;
    int n_missing = 0;
    bool yes = true;
    struct rt_tensor in = {.dtype = RT_BOOL, .data = &yes}, out = {0};

    o->status = rt_library_import(&l, gd_span(&graph), test_registry, &err);
    if (!o->status)
        o->status = rt_session_new(&s, l, &options, &err);
    if (o->status)
        rt_library_free(l);
    if (!o->status)
        o->status = rt_session_missing(s, &spec, arena, &missing, &n_missing, &err);
    if (!o->status || (s && getenv("SKIP_MISSING")))
        o->status = rt_session_prepare(s, &spec, &call, &err);
    /* The first run is executed node by node, and the later runs are compiled. */
    for (int turn = 0; turn < 3 && !o->status; turn++) {
        struct rt_run_options run = {.deadline_ns = rt_now_ns() + INT64_C(20000000000)};
        rt_tensor_clear(&out);
        o->status = rt_callable_run(call, &in, &out, &run, &err);
        rt_session_compile(s);
    }
    if (!o->status) {
        const struct rt_shape rows = {.rank = 1, .dim = {-1}};
        struct rt_described_plan plan;
        struct rt_error ignored = {0};
        (void)rt_callable_is_rowwise(call, &rows, &ignored);
        o->status = rt_callable_describe(call, arena, &plan, &err);
    }
    rt_tensor_clear(&out);
    if (o->status)
        snprintf(buffer, sizeof buffer, "%s", rt_error_text(&err));
    memcpy(o->text, buffer, sizeof buffer);
    rt_session_free(s);
    rt_arena_free(arena);
    rt_arena_free(err.arena);
    return NULL;
}

static void child(void (*build)(struct rt_bytes *g), int to)
{
    static struct outcome o;
    pthread_attr_t attr;
    pthread_t thread;

    rt_bytes_init(&graph, 1 << 26);
    build(&graph);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SANITIZED ? STACK_SANITIZED : STACK);
    if (pthread_create(&thread, &attr, work, &o) || pthread_join(thread, NULL) ||
        write(to, &o, sizeof o) != (ssize_t)sizeof o)
        _exit(2);
    rt_bytes_clear(&graph);
    _exit(0);
}

void ga_attempt(const char *name, void (*build)(struct rt_bytes *g), const char *words)
{
    struct outcome o = {0};
    struct rusage use;
    int pipes[2], status;
    const int64_t start = rt_now_ns();

    assert_int_equal(pipe(pipes), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(build, pipes[1]);
    close(pipes[1]);
    const ssize_t n = read(pipes[0], &o, sizeof o);
    close(pipes[0]);
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    const double seconds = (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec / 1e6 +
                           (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec / 1e6;
    print_message("%-24s %4ld MB %5.2f s (wall %.2f) %s\n", name, use.ru_maxrss >> 10, seconds,
                  (double)(rt_now_ns() - start) / 1e9, o.text);
    if (n != (ssize_t)sizeof o || status)
        fail_msg("%s: the process died with %#x", name, status);
    if (words && (!o.status || !strstr(o.text, words)))
        fail_msg("%s: \"%s\" does not hold \"%s\"", name, o.text, words);
    if (!words && o.status)
        fail_msg("%s: %s", name, o.text);
    if (!SANITIZED && use.ru_maxrss >> 10 > MAX_MB)
        fail_msg("%s: took %ld MB, at most %d", name, use.ru_maxrss >> 10, MAX_MB);
    if (seconds > MAX_S * (SANITIZED ? 10 : 1))
        fail_msg("%s: took %.1f s, at most %d", name, seconds, MAX_S);
}

void ga_main_call(struct rt_bytes *g, const char *f)
{
    char attrs[200];
    snprintf(attrs, sizeof attrs, "Tin=[bool] Tout=[bool] f=@%s", f);
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", attrs);
}

void ga_function(struct rt_bytes *g, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", op, inputs, attrs);
    gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:output:0", "");
    rt_bytes_clear(&nodes);
}

void ga_numbered(const char *text, int number, char *out)
{
    for (; *text; text++)
        if (*text == '#')
            out += snprintf(out, 12, "%d", number);
        else
            *out++ = *text;
    *out = '\0';
}

void ga_chain(struct rt_bytes *g, int n, const char *op, const char *inputs, const char *attrs)
{
    char name[20], text[300];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "f%d", i);
        ga_numbered(attrs, i + 1, text);
        ga_function(g, name, op, inputs, text);
    }
    snprintf(name, sizeof name, "f%d", n);
    ga_function(g, name, "Identity", "a", "T=bool");
    ga_main_call(g, "f0");
}
