/*
 * Slipway's side of the conformance tests: reads graphs and feeds from standard input and writes
 * results to standard output. All numbers are little-endian; strings and graphs are preceded by
 * their length (int64). The commands are:
 *
 *   'G' graph                    opens a session on a serialized GraphDef
 *   'R' feeds fetches targets    runs the graph; the arguments are three counts (int32), a name and
 *                                a tensor per feed, and the names of the fetches and the targets
 *   'I' as 'R'                   runs the graph like 'R', but as a part of loading
 *   'S'                          ends loading
 *   'C'                          removes all files and folders in the working directory
 *
 *   'L'    returns status 0, unless LeakSanitizer is linked and has found a leak
 *   'D'    returns status 0 and, as the message, the microseconds of CPU time that the last run
 *          used after its deadline (0 if it met the deadline)
 *   'M'    returns status 0 and, as the message, the bytes by which the peak of the resident memory
 *          in the last run exceeded the resident memory before the run
 *   'W'    returns status 0 and, as the message, the longest CPU time in microseconds for
 *          which the last run did not check its deadline
 *   'N'    returns status 0 and, as the message, the numbers (int32) of the places of the code that
 *          were reached for the first time since the last 'N' (tests/opfuzz/coverage.h)
 *
 * The response to a command is a status (int32) and a message. If the status of 'R' or 'I' is 0,
 * the fetched tensors follow.
 * The arguments no_fusion, no_winograd, no_autotune and no_specialise switch off parts of
 * rt_tuning, and bf16 switches bfloat16 on. Without no_specialise, a run uses the compiled plan
 * wherever the fed shapes allow one. measure_memory permits 'M'. memory_mb=N is the memory limit of
 * one run, and deadline_ms=N is its time limit. remove_files permits 'C', and analyse_rows makes
 * every run begin with the row-wise analysis of its feeds. Ops may read and write
 * files below the working directory and below TMPDIR (/tmp).
 *
 * A tensor is its dtype and rank (int32), its dims (int64), and its bytes or, for strings, each
 * string with its length.
 */
#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"
#include "tests/opfuzz/coverage.h"

#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256 };

/* Settings given by the command-line arguments. */
struct settings {
    struct rt_tuning tuning;
    size_t memory_bytes; /* 0 means no limit */
    int64_t deadline_ns; /* time limit, counted from the start of a run; 0 means no deadline */
    bool measures_memory, removes_files, analyses_rows;
    char file_dirs[8192]; /* for struct rt_file_access */
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "op_runner: %s\n", what);
        exit(2);
    }
}

static void get(void *p, size_t n)
{
    must(n == 0 || fread(p, 1, n, stdin) == n, "standard input ends early");
}

static void put(const void *p, size_t n)
{
    must(n == 0 || fwrite(p, 1, n, stdout) == n, "standard output is closed");
}

static int32_t get_int(void)
{
    int32_t v;
    get(&v, sizeof v);
    return v;
}

static void put_int(int32_t v)
{
    put(&v, sizeof v);
}

/* Reads a string and returns it with a terminating NUL that is not included in *n. The caller frees
 * it. */
static char *get_text(int64_t *n)
{
    get(n, sizeof *n);
    must(*n >= 0 && *n < (INT64_C(1) << 32), "a length out of range");
    char *s = malloc((size_t)*n + 1);
    must(s != NULL, "out of memory");
    get(s, (size_t)*n);
    s[*n] = '\0';
    return s;
}

static void put_text(const char *p, size_t n)
{
    const int64_t len = (int64_t)n;
    put(&len, sizeof len);
    put(p, n);
}

/* Reads a tensor. Fails if rt_tensor_new refuses the dimensions of a tensor without elements. Any
 * other refusal ends the process. */
static enum rt_status get_tensor(struct rt_tensor *t, struct rt_error *err)
{
    const int32_t dtype = get_int(), rank = get_int();
    int64_t dim[RT_MAX_RANK];
    bool is_empty = false;
    must(rank >= 0 && rank <= RT_MAX_RANK, "a rank out of range");
    get(dim, (size_t)rank * sizeof *dim);
    for (int i = 0; i < rank; i++)
        is_empty |= dim[i] == 0;
    if (rt_tensor_new(t, NULL, (enum rt_dtype)dtype, rank, dim, err) != RT_OK) {
        must(is_empty, err->msg);
        return err->code;
    }
    if (dtype != RT_STRING) {
        get(t->data, rt_tensor_bytes(t));
        return RT_OK;
    }
    struct rt_str *strs = t->data;
    const int64_t count = rt_tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        int64_t n;
        char *s = get_text(&n);
        must(rt_str_set(&strs[i], NULL, s, (size_t)n, NULL), "out of memory");
        free(s);
    }
    return RT_OK;
}

static void put_tensor(const struct rt_tensor *t)
{
    put_int(t->dtype);
    put_int(t->rank);
    put(t->dim, (size_t)t->rank * sizeof *t->dim);
    if (t->dtype == RT_STRING) {
        const int64_t count = rt_tensor_count(t);
        for (int64_t i = 0; i < count; i++)
            put_text(rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n);
    } else if (rt_dtype_is_plain((enum rt_dtype)t->dtype)) {
        put(t->data, rt_tensor_bytes(t));
    }
}

static void put_status(enum rt_status st, const struct rt_error *err)
{
    const char *text = st ? rt_error_text(err) : "";
    put_int((int32_t)st);
    put_text(text, strlen(text));
}

static struct rt_session *open_session(const struct rt_registry *registry,
                                       const struct settings *settings)
{
    struct rt_error err = {0};
    struct rt_library *library = NULL;
    struct rt_session *session = NULL;
    int64_t n;
    char *graph = get_text(&n);
    enum rt_status st = rt_library_import(&library, rt_span_of(graph, (size_t)n), registry, &err);
    if (st == RT_OK) {
        const struct rt_session_options options = {
            .registry = registry,
            .tuning = settings->tuning,
            .run_memory_limit = settings->memory_bytes,
            .files = {.read_dirs = settings->file_dirs, .write_dirs = settings->file_dirs},
            .compiles_inline = true};
        st = rt_session_new(&session, library, &options, &err);
        if (st)
            rt_library_free(library);
    }
    free(graph);
    put_status(st, &err);
    return session;
}

/*
 * The overrun of a deadline is measured in CPU time, which other processes of a busy machine do not
 * increase. When the deadline passes, a signal handler stores the CPU time that this process has
 * used.
 */
/* CPU time when the deadline passed, or -1 if the deadline has not passed. */
static volatile int64_t cpu_at_deadline_ns = -1;
static int64_t late_us;

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void deadline_passed(int signal_number)
{
    (void)signal_number;
    cpu_at_deadline_ns = cpu_ns();
}

static void set_timer(int64_t ns)
{
    const struct itimerval timer = {
        .it_value = {.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000}};
    must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "no timer");
}

/*
 * Every deadline check calls rt_run_options_check. The linker redirects these calls to
 * __wrap_rt_run_options_check.
 */
/* Total CPU time and user-mode CPU time of the process at the last deadline check or, before the
 * first check, at the start of the run. */
static int64_t checked_ns, checked_user_ns;
static int64_t longest_unchecked_ns;

static int64_t user_ns(void)
{
    struct rusage used;
    must(getrusage(RUSAGE_SELF, &used) == 0, "no CPU times");
    return (int64_t)used.ru_utime.tv_sec * 1000000000 + (int64_t)used.ru_utime.tv_usec * 1000;
}

static void begin_checks(void)
{
    longest_unchecked_ns = 0;
    checked_ns = cpu_ns();
    checked_user_ns = user_ns();
}

static void note_unchecked(int64_t ns)
{
    if (ns > longest_unchecked_ns)
        longest_unchecked_ns = ns;
}

static void note_check(void)
{
    const int64_t now = cpu_ns();
    note_unchecked(now - checked_ns);
    checked_ns = now;
    checked_user_ns = user_ns();
}

/* After its last deadline check, a run returns its memory to the system. The kernel needs about 100
 * ms per gigabyte for this, so only the process's user time is measured after the last check. */
static void end_checks(void)
{
    note_unchecked(user_ns() - checked_user_ns);
}

enum rt_status __real_rt_run_options_check(const struct rt_run_options *o, struct rt_error *err);
enum rt_status __wrap_rt_run_options_check(const struct rt_run_options *o, struct rt_error *err);
enum rt_status __wrap_rt_run_options_check(const struct rt_run_options *o, struct rt_error *err)
{
    note_check();
    return __real_rt_run_options_check(o, err);
}

/* ---- how much memory a run takes ---- */

static int64_t grown_bytes;

/* Returns a field of /proc/self/status, in bytes. */
static int64_t status_bytes(const char *field)
{
    char line[256];
    int64_t kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    must(f, "no /proc/self/status");
    while (kb < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtoll(line + strlen(field), NULL, 10);
    fclose(f);
    must(kb >= 0, "no such field in /proc/self/status");
    return kb << 10;
}

/*
 * Returns to the system the memory that earlier runs left in the allocator, and resets the peak of
 * resident memory to the current size.
 */
static int64_t begin_peak(void)
{
    malloc_trim(0);
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && write(fd, "5", 1) == 1, "the peak of the memory cannot be reset");
    close(fd);
    return status_bytes("VmRSS:");
}

static enum rt_status timed_run(const struct settings *settings, struct rt_callable *callable,
                                const struct rt_tensor *feed, struct rt_tensor *fetch,
                                struct rt_error *err)
{
    const struct rt_run_options options = {
        .deadline_ns = settings->deadline_ns ? rt_now_ns() + settings->deadline_ns : 0};
    const int64_t before = settings->measures_memory ? begin_peak() : 0;
    cpu_at_deadline_ns = -1;
    set_timer(settings->deadline_ns);
    begin_checks();
    const enum rt_status st = rt_callable_run(callable, feed, fetch, &options, err);
    end_checks();
    set_timer(0);
    late_us = cpu_at_deadline_ns < 0 ? 0 : (cpu_ns() - cpu_at_deadline_ns) / 1000;
    grown_bytes = settings->measures_memory ? status_bytes("VmHWM:") - before : 0;
    return st;
}

/* The result says only whether requests may be merged, which a single run does not need. */
static void analyse_rows(struct rt_callable *callable, const struct rt_tensor *feed, int n)
{
    struct rt_error why = {0};
    struct rt_shape shape[MOST];
    for (int i = 0; i < n; i++) {
        shape[i].rank = feed[i].rank;
        memcpy(shape[i].dim, feed[i].dim, (size_t)feed[i].rank * sizeof *feed[i].dim);
    }
    (void)rt_callable_is_rowwise(callable, shape, &why);
}

static void run_once(struct rt_session *session, const struct settings *settings, bool is_load)
{
    struct rt_error err = {0};
    struct rt_callable *callable = NULL;
    struct rt_tensor feed[MOST] = {0}, fetch[MOST] = {0};
    char *name[MOST];
    int64_t n;
    const int n_feeds = get_int(), n_fetches = get_int(), n_targets = get_int();
    const int n_names = n_feeds + n_fetches + n_targets;
    must(n_feeds >= 0 && n_fetches >= 0 && n_targets >= 0 && n_names < MOST, "too many names");
    enum rt_status st = RT_OK;
    for (int i = 0; i < n_feeds; i++) {
        name[i] = get_text(&n);
        const enum rt_status refused = get_tensor(&feed[i], &err);
        st = st ? st : refused;
    }
    for (int i = n_feeds; i < n_names; i++)
        name[i] = get_text(&n);

    const char *const *names = (const char *const *)name;
    const struct rt_call_spec spec = {
        .feeds = names,
        .fetches = names + n_feeds,
        .targets = names + n_feeds + n_fetches,
        .n_feeds = n_feeds,
        .n_fetches = n_fetches,
        .n_targets = n_targets,
        .is_load = is_load,
    };
    if (st == RT_OK)
        st = session ? rt_session_prepare(session, &spec, &callable, &err)
                     : rt_fail(&err, RT_FAILED_PRECONDITION, "there is no session");
    if (st == RT_OK && settings->analyses_rows && n_feeds > 0)
        analyse_rows(callable, feed, n_feeds);
    if (st == RT_OK)
        st = timed_run(settings, callable, feed, fetch, &err);
    put_status(st, &err);
    for (int i = 0; i < n_fetches && st == RT_OK; i++)
        put_tensor(&fetch[i]);

    for (int i = 0; i < n_fetches; i++)
        rt_tensor_clear(&fetch[i]);
    for (int i = 0; i < n_feeds; i++)
        rt_tensor_clear(&feed[i]);
    for (int i = 0; i < n_names; i++)
        free(name[i]);
}

/* Returns N if the argument is "NAME=N" and NAME equals `name`, or -1 for any other argument. */
static int64_t number_of(const char *arg, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? strtoll(arg + n + 1, NULL, 10) : -1;
}

static void read_settings(struct settings *s, int n, char **args)
{
    const struct {
        const char *name;
        bool *flag;
    } all[] = {{"no_fusion", &s->tuning.no_fusion},
               {"no_winograd", &s->tuning.no_winograd},
               {"no_autotune", &s->tuning.no_autotune},
               {"no_specialise", &s->tuning.no_specialise},
               {"bf16", &s->tuning.bf16},
               {"measure_memory", &s->measures_memory},
               {"remove_files", &s->removes_files},
               {"analyse_rows", &s->analyses_rows}};
    for (int i = 0; i < n; i++) {
        const int64_t mb = number_of(args[i], "memory_mb"), ms = number_of(args[i], "deadline_ms");
        if (mb >= 0) {
            s->memory_bytes = (size_t)mb << 20;
        } else if (ms >= 0) {
            s->deadline_ns = ms * 1000000;
        } else {
            size_t k = 0;
            while (k < sizeof all / sizeof *all && strcmp(all[k].name, args[i]) != 0)
                k++;
            must(k < sizeof all / sizeof *all, "an unknown argument");
            *all[k].flag = true;
        }
    }
}

static void set_file_dirs(struct settings *s)
{
    char cwd[4000];
    const char *temp = getenv("TMPDIR");

    must(getcwd(cwd, sizeof cwd) != NULL, "no working directory");
    snprintf(s->file_dirs, sizeof s->file_dirs, "%s,%s", cwd, temp ? temp : "/tmp");
}

static void answer_serve(struct rt_session *session)
{
    struct rt_error err = {0};
    if (session)
        rt_session_serve(session);
    else
        rt_fail(&err, RT_FAILED_PRECONDITION, "there is no session");
    put_status(err.code, &err);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    return walk->level ? remove(path) : 0;
}

static void answer_remove(const struct settings *settings)
{
    struct rt_error err = {0};
    must(settings->removes_files, "files may not be removed");
    if (nftw(".", remove_one, 16, FTW_DEPTH | FTW_PHYS))
        rt_fail(&err, RT_INTERNAL, "not all files can be removed");
    put_status(err.code, &err);
}

/* This function of LeakSanitizer also prints the leaks to standard error. The symbol is NULL unless
 * LeakSanitizer is linked. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static void answer_leaks(void)
{
    const bool leaks = __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
    struct rt_error err = {0};
    put_status(leaks ? rt_fail(&err, RT_INTERNAL, "there are leaks") : RT_OK, &err);
}

static void answer_number(int64_t v)
{
    char text[24];
    put_int(RT_OK);
    put_text(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v));
}

static void answer_places(void)
{
    size_t n;
    const int32_t *place = coverage_new_places(&n);
    put_int(RT_OK);
    put_text((const char *)place, n * sizeof *place);
}

int main(int argc, char **argv)
{
    struct settings settings = {.memory_bytes = 0};
    read_settings(&settings, argc - 1, argv + 1);
    set_file_dirs(&settings);
    struct rt_registry *registry = rt_registry_new();
    struct rt_session *session = NULL;
    must(registry && kn_register(registry), "the kernels cannot be registered");
    mallopt(M_MMAP_THRESHOLD, 65536); /* the threshold for mmap that the server sets */
    must(signal(SIGALRM, deadline_passed) != SIG_ERR, "no signal handler");
    for (int c; (c = getchar()) != EOF;) {
        must(strchr("GRISCLDMWN", c) != NULL, "an unknown request");
        if (c == 'G') {
            rt_session_free(session);
            session = open_session(registry, &settings);
        } else if (c == 'R' || c == 'I') {
            run_once(session, &settings, c == 'I');
        } else if (c == 'S') {
            answer_serve(session);
        } else if (c == 'C') {
            answer_remove(&settings);
        } else if (c == 'D') {
            answer_number(late_us);
        } else if (c == 'M') {
            answer_number(grown_bytes);
        } else if (c == 'W') {
            answer_number(longest_unchecked_ns / 1000);
        } else if (c == 'N') {
            answer_places();
        } else {
            answer_leaks();
        }
        must(fflush(stdout) == 0, "standard output is closed");
    }
    rt_session_free(session);
    rt_registry_free(registry);
    return 0;
}
