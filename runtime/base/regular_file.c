#include "runtime/base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool rt_errno_is_absence(int number)
{
    return number == ENOENT || number == ENOTDIR;
}

enum rt_status rt_fail_errno(struct rt_error *err, const char *path, int number)
{
    char words[128];
    enum rt_status st = RT_UNKNOWN;

    switch (number) {
    case ENOENT:
    case ENOTDIR:
        st = RT_NOT_FOUND;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
        st = RT_PERMISSION_DENIED;
        break;
    case EEXIST:
        st = RT_ALREADY_EXISTS;
        break;
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        st = RT_RESOURCE_EXHAUSTED;
        break;
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
        st = RT_FAILED_PRECONDITION;
        break;
    case EIO:
        st = RT_DATA_LOSS;
        break;
    default:
        break;
    }
    return rt_fail(err, st, "%s; %s", path, strerror_r(number, words, sizeof words));
}

enum rt_status rt_fail_errno_as_tensorflow(struct rt_error *err, const char *path, int number)
{
    const enum rt_status st = rt_fail_errno(err, path, number);

    if (number != ENOTDIR && number != ENAMETOOLONG)
        return st;
    err->code = number == ENOTDIR ? RT_FAILED_PRECONDITION : RT_INVALID_ARGUMENT;
    return err->code;
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "something else";
    }
}

enum rt_status rt_check_regular(const char *path, const struct stat *info, struct rt_error *err)
{
    if (S_ISREG(info->st_mode))
        return RT_OK;
    return rt_fail(err, RT_FAILED_PRECONDITION, "%s is %s, not a regular file", path,
                   kind_of(info->st_mode));
}

/* Checks the file's type before opening the file, because opening a device may have side effects
 * and a socket cannot be opened. Checks the type again afterwards, because the path may name
 * another file by then. */
enum rt_status rt_open_regular(const char *path, int *fd, struct stat *info, struct rt_error *err)
{
    struct stat own, *s = info ? info : &own;

    *fd = -1;
    if (stat(path, s))
        return rt_fail_errno(err, path, errno);
    enum rt_status st = rt_check_regular(path, s, err);
    if (st)
        return st;
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0)
        return rt_fail_errno(err, path, errno);
    st = fstat(opened, s) ? rt_fail_errno(err, path, errno) : rt_check_regular(path, s, err);
    if (st)
        close(opened);
    else
        *fd = opened;
    return st;
}

bool rt_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

enum rt_status rt_open_regular_stream(const char *path, FILE **out, struct rt_error *err)
{
    int fd;
    enum rt_status st = rt_open_regular(path, &fd, NULL, err);

    *out = st ? NULL : fdopen(fd, "rb");
    if (!st && !*out) {
        st = rt_fail_errno(err, path, errno);
        close(fd);
    }
    return st;
}
