/* Checks files for the autotune cache, so that a mistyped path never causes a user's file to be
 * overwritten. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/select/autotune.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"

/* The beginning of the first line of an autotune file of any version. */
#define FIRST_WORDS "slipway autotune "

/* Fails with the system's message for errno `number` and the status of rt_fail_errno. */
static enum rt_status fail(struct rt_error *err, const char *path, const char *what, int number)
{
    char words[128];
    const enum rt_status st = rt_fail_errno(NULL, path, number);
    return rt_fail(err, st, "%s %s: %s", path, what, strerror_r(number, words, sizeof words));
}

/* Checks that the file's directory is writable, because saving creates a new file there and renames
 * it. */
static enum rt_status check_folder(const char *path, struct rt_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    enum rt_status st = RT_OK;

    if (!folder)
        return rt_fail_memory(err, path, strlen(path));
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
        st = fail(err, path, "cannot be written", errno);
    free(folder);
    return st;
}

static enum rt_status check_first_words(const char *path, struct rt_error *err)
{
    char text[sizeof FIRST_WORDS - 1];
    int fd;
    const enum rt_status st = rt_open_regular(path, &fd, NULL, err);

    if (st)
        return rt_fail_prefix(err, "cannot be read: ");
    const ssize_t n = read(fd, text, sizeof text);
    const int number = errno;
    close(fd);
    if (n < 0)
        return fail(err, path, "cannot be read", number);
    if (n == 0 || ((size_t)n == sizeof text && memcmp(text, FIRST_WORDS, sizeof text) == 0))
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "%s is there and is no autotune cache: it is neither used nor replaced; name "
                   "another file, or remove it",
                   path);
}

enum rt_status rt_autotune_check_file(const char *path, struct rt_error *err)
{
    struct stat s;

    if (!path || !*path)
        return RT_OK;
    if (stat(path, &s)) {
        if (errno != ENOENT)
            return fail(err, path, "cannot be written", errno);
        if (path[strlen(path) - 1] == '/')
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s is the name of a directory", path);
        return check_folder(path, err);
    }
    enum rt_status st = rt_check_regular(path, &s, err);
    if (!st)
        st = check_first_words(path, err);
    return st ? st : check_folder(path, err);
}

enum rt_status rt_autotune_open(struct rt_autotune **out, const char *path, struct rt_error *err)
{
    struct rt_error why = {.arena = NULL};
    const enum rt_status st = rt_autotune_check_file(path, &why);

    *out = NULL;
    /* The file is not an autotune cache. */
    if (st == RT_INVALID_ARGUMENT || st == RT_FAILED_PRECONDITION)
        return rt_fail(err, st, "autotune_cache: %s", rt_error_text(&why));
    if (st)
        RT_LOG(RT_LOG_WARNING, "autotune_cache: %s; what timing finds is not kept",
               rt_error_text(&why));
    *out = rt_autotune_new(path);
    return *out ? RT_OK : rt_fail_memory(err, "autotune", 0);
}
