#include "server/commands/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/base/number.h"
#include "server/versions/source.h"
#include "runtime/base/print.h"

enum { MAX_TIMEOUT_MS = 86400000 };

bool srv_args_is(const struct srv_args *a, const char *name)
{
    return strcmp(a->argv[a->i], name) == 0;
}

const char *srv_args_value(struct srv_args *a, const char *name)
{
    size_t n = strlen(name);
    const char *arg = a->argv[a->i];
    if (strncmp(arg, name, n) != 0)
        return NULL;
    if (arg[n] == '=')
        return arg + n + 1;
    if (arg[n] != '\0')
        return NULL;
    if (a->i + 1 >= a->argc) {
        a->missing = name;
        return NULL;
    }
    return a->argv[++a->i];
}

static bool has_model(const char *dir)
{
    static const char *const names[] = {"saved_model.pb", "saved_model.pbtxt"};
    char path[4096];
    for (int i = 0; i < 2; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, names[i]) < sizeof path &&
            access(path, F_OK) == 0)
            return true;
    return false;
}

/* Fails if saved_model.pb is empty. Otherwise an empty file would be parsed as a SavedModel without
 * graphs, and the error would be about missing tags. */
static enum rt_status check_model(const char *dir, struct rt_error *err)
{
    char path[4096];
    struct stat s;
    if ((size_t)snprintf(path, sizeof path, "%s/saved_model.pb", dir) < sizeof path &&
        stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s is empty", path);
    return RT_OK;
}

/* Returns srv_source_model_dir(dir), allocated in `arena`, or NULL if memory runs out. */
static const char *model_dir(const char *dir, struct rt_arena *arena)
{
    char *found = dir ? srv_source_model_dir(dir) : NULL;
    const char *copy = found ? rt_arena_strdup(arena, found) : NULL;

    free(found);
    return copy;
}

enum rt_status srv_find_version(const char *dir, struct rt_arena *arena, const char **out,
                                struct rt_error *err)
{
    *out = has_model(dir) ? dir : model_dir(dir, arena);
    if (!*out)
        return rt_fail_memory(err, "a path", 0);
    if (has_model(*out))
        return check_model(*out, err);
    struct srv_model_config config = {
        .name = dir, .base_path = dir, .policy = SRV_POLICY_LATEST, .n_latest = 1};
    struct srv_scan scan;
    struct stat s;
    if (stat(dir, &s) != 0)
        return rt_fail(err, RT_NOT_FOUND,
                       errno == ENOENT ? "there is no folder %s" : "the folder %s cannot be read",
                       dir);
    if (!S_ISDIR(s.st_mode))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s is not a directory: give a version's directory, which holds a "
                       "saved_model.pb, or a model's",
                       dir);
    enum rt_status st = srv_source_scan(&config, SRV_SCAN_MAX_NAMES, arena, &scan, err);
    if (st)
        return st;
    if (!scan.n)
        return rt_fail(err, RT_NOT_FOUND,
                       "%s holds neither a saved_model.pb nor a numeric version directory", dir);
    *out = model_dir(rt_arena_printf(arena, "%s/%s", dir, scan.found[0].name), arena);
    return *out ? check_model(*out, err) : rt_fail_memory(err, "a path", 0);
}

bool srv_parse_timeout(const char *text, int64_t *out_ms)
{
    return srv_parse_seconds(text, out_ms) && *out_ms <= MAX_TIMEOUT_MS;
}

static _Atomic bool is_time_over;

static void end_time(int signal)
{
    (void)signal;
    atomic_store_explicit(&is_time_over, true, memory_order_relaxed);
}

const _Atomic bool *srv_limit_time(int64_t ms)
{
    struct sigaction action = {.sa_handler = end_time, .sa_flags = SA_RESTART};
    const struct itimerval timer = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000 * 1000)}};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    return &is_time_over;
}

int srv_command_failed(const char *command, const struct rt_error *err)
{
    rt_print(stderr, "slipway %s: %s: %s\n", command, rt_status_name(err->code),
             rt_error_text(err));
    return SRV_EXIT_FAILED;
}
