#include "runtime/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int rt_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    return (int)limit.rlim_cur;
}

int rt_file_most_kept(void)
{
    enum { MOST = 1024, SHARE = 8 };
    const int share = rt_file_limit() / SHARE;
    return share < MOST ? share : MOST;
}

int rt_file_unreserved(int limit)
{
    enum { RESERVED = 64 };
    return limit > 2 * RESERVED ? limit - RESERVED : limit / 2;
}

enum rt_status rt_file_check_unreserved(int fd, const char *what, struct rt_error *err)
{
    if (fd < rt_file_unreserved(rt_file_limit()))
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "the limit of open files leaves no descriptor for %s", what);
}

/* number of bytes that are read or written between two checks */
enum { PIECE = 1 << 20 };

/* Reads exactly n bytes from the file's current position. */
static enum rt_status read_all(int fd, const char *path, const struct rt_check *check, char *dst,
                               size_t n, struct rt_error *err)
{
    for (size_t have = 0; have < n;) {
        const enum rt_status st = rt_check_call(check, err);
        if (st) {
            rt_fail_prefix(err, "%s: ", path);
            return st;
        }
        const ssize_t k = read(fd, dst + have, n - have < PIECE ? n - have : PIECE);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return rt_fail_errno(err, path, errno);
        if (k == 0)
            return rt_fail(err, RT_DATA_LOSS, "%s became shorter while it was read", path);
        have += (size_t)k;
    }
    return RT_OK;
}

enum rt_status rt_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct rt_error *err)
{
    return rt_file_read_checked(path, limit, NULL, out, n, err);
}

enum rt_status rt_file_read_checked(const char *path, size_t limit, const struct rt_check *check,
                                    char **out, size_t *n, struct rt_error *err)
{
    struct stat s;
    char *p = NULL;
    size_t size;
    int fd;
    enum rt_status st = rt_open_regular(path, &fd, &s, err);

    if (st)
        return st;
    if ((uint64_t)s.st_size > limit) {
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s has %lld bytes, more than the limit of %zu",
                     path, (long long)s.st_size, limit);
        goto out;
    }
    size = (size_t)s.st_size;
    p = malloc(size + 1);
    if (!p) {
        st = rt_fail_memory(err, path, size);
        goto out;
    }
    st = read_all(fd, path, check, p, size, err);
    if (st)
        goto out;
    p[size] = 0;
    *out = p;
    *n = size;
    p = NULL;
out:
    free(p);
    close(fd);
    return st;
}

ssize_t rt_file_read_at(int fd, void *dst, size_t n, int64_t offset)
{
    size_t done = 0;

    while (done < n) {
        ssize_t k = pread(fd, (char *)dst + done, n - done, offset + (int64_t)done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        done += (size_t)k;
    }
    return (ssize_t)done;
}

enum rt_status rt_file_read_exactly(void *fd, uint64_t offset, void *dst, size_t n,
                                    struct rt_error *err)
{
    const ssize_t got = rt_file_read_at(*(const int *)fd, dst, n, (int64_t)offset);

    if (got == (ssize_t)n)
        return RT_OK;
    return rt_fail(err, RT_DATA_LOSS, "%s",
                   got < 0 ? strerror(errno) : "it became shorter while it was read");
}

int rt_file_temp(const char *path, char *buffer, size_t n, struct rt_error *err)
{
    static atomic_uint counter;
    int len = snprintf(buffer, n, "%s.tempstate%ld.%u", path, (long)getpid(),
                       atomic_fetch_add(&counter, 1));
    if (len < 0 || (size_t)len >= n) {
        rt_fail_errno_as_tensorflow(err, path, ENAMETOOLONG);
        return -1;
    }
    int fd = open(buffer, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        rt_fail_errno_as_tensorflow(err, path, errno);
    return fd;
}

/* Writes a piece at the end of a file. Calls `check` before each megabyte. */
static enum rt_status write_piece(int fd, const char *name, struct rt_span piece,
                                  const struct rt_check *check, struct rt_error *err)
{
    while (piece.n) {
        const enum rt_status st = rt_check_call(check, err);
        if (st)
            return st;
        const ssize_t k = write(fd, piece.p, piece.n < PIECE ? piece.n : PIECE);
        if (k >= 0)
            piece = rt_span_of(piece.p + k, piece.n - (size_t)k);
        else if (errno != EINTR)
            return rt_fail_errno(err, name, errno);
    }
    return RT_OK;
}

enum rt_status rt_file_write_temp(const char *path, const void *p, size_t n,
                                  const struct rt_check *check, char *temp, size_t capacity,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct rt_error why = {0};
    int fd = rt_file_temp(path, temp, capacity, &why);

    if (fd < 0) {
        rt_error_copy(err, &why);
        return why.code;
    }
    st = write_piece(fd, path, rt_span_of(p, n), check, err);
    if (close(fd) && !st)
        st = rt_fail_errno(err, path, errno);
    if (st)
        unlink(temp);
    return st;
}

static bool is_replaceable(mode_t mode)
{
    return S_ISREG(mode) || S_ISLNK(mode) || S_ISDIR(mode);
}

static enum rt_status fail_replace(const char *path, struct rt_error *err)
{
    return rt_fail(err, RT_FAILED_PRECONDITION, "%s exists, and is no regular file", path);
}

enum rt_status rt_file_rename(const char *from, const char *to, struct rt_error *err)
{
    struct stat old;

    if (!lstat(to, &old) && !is_replaceable(old.st_mode))
        return fail_replace(to, err);
    return rename(from, to) ? rt_fail_errno(err, errno == ENOENT ? from : to, errno) : RT_OK;
}

/* Checks that the directory of `path` may be changed, and sets *info to its attributes. */
static enum rt_status check_directory(const char *path, struct stat *info, struct rt_error *err)
{
    char at[4300];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;

    if (n >= sizeof at)
        return rt_fail_errno(err, path, ENAMETOOLONG);
    memcpy(at, path, n);
    memcpy(at + n, n ? "" : slash ? "/" : ".", n ? 1 : 2);
    if (stat(at, info) || access(at, W_OK | X_OK))
        return rt_fail_errno(err, path, errno);
    return RT_OK;
}

enum rt_status rt_file_check_rename(const char *from, const char *to, struct rt_error *err)
{
    struct stat file, old, directory;

    if (lstat(from, &file))
        return rt_fail_errno(err, from, errno);
    if (!lstat(to, &old)) {
        if (!is_replaceable(old.st_mode))
            return fail_replace(to, err);
        if (S_ISDIR(old.st_mode) != S_ISDIR(file.st_mode))
            return rt_fail_errno(err, to, S_ISDIR(old.st_mode) ? EISDIR : ENOTDIR);
    }
    enum rt_status st = check_directory(from, &directory, err);
    if (!st)
        st = check_directory(to, &directory, err);
    if (!st && directory.st_dev != file.st_dev)
        st = rt_fail_errno(err, to, EXDEV);
    return st;
}

enum rt_status rt_file_write(const char *path, const void *p, size_t n, struct rt_error *err)
{
    char temp[4200];
    enum rt_status st = rt_file_write_temp(path, p, n, NULL, temp, sizeof temp, err);

    if (st)
        return st;
    st = rt_file_rename(temp, path, err);
    if (st)
        unlink(temp);
    return st;
}

/* Queries the file system of `path`, or of its nearest parent that exists. */
static enum rt_status find_file_system(const char *path, struct statvfs *v, struct rt_error *err)
{
    char at[4300];
    size_t n = strlen(path);

    if (n >= sizeof at)
        return rt_fail_errno(err, path, ENAMETOOLONG);
    memcpy(at, path, n + 1);
    while (statvfs(at, v)) {
        char *slash = strrchr(at, '/');
        if (strcmp(at, "/") == 0 || strcmp(at, ".") == 0)
            return rt_fail_errno(err, path, errno);
        if (!slash)
            memcpy(at, ".", 2);
        else
            slash[slash == at] = '\0'; /* Does not remove the slash of the root directory. */
    }
    return RT_OK;
}

enum { PART = 20 }; /* the reserve of a file system is at most this fraction of it */

/* Checks that a file system keeps its reserve of bytes if n more are written. */
static enum rt_status check_bytes(const struct statvfs *v, const char *path, size_t n,
                                  struct rt_error *err)
{
    enum { MOST_BYTES = 1 << 30 };
    const uint64_t block = v->f_frsize ? v->f_frsize : v->f_bsize;
    const uint64_t part = (uint64_t)v->f_blocks / PART * block;
    const uint64_t reserve = part < MOST_BYTES ? part : MOST_BYTES;
    const uint64_t is_free = (uint64_t)v->f_bavail * block;
    const bool is_known = v->f_blocks && block;

    if (!is_known || (is_free >= reserve && n <= is_free - reserve))
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "%s: the file system has %llu bytes left, of which %llu are kept free", path,
                   (unsigned long long)is_free, (unsigned long long)reserve);
}

enum rt_status rt_file_check_space(const char *path, size_t n, struct rt_error *err)
{
    enum { MOST_FILES = 10000 };
    struct statvfs v;
    enum rt_status st = find_file_system(path, &v, err);

    if (!st)
        st = check_bytes(&v, path, n, err);
    if (st)
        return st;
    const uint64_t files = (uint64_t)v.f_files / PART;
    if (v.f_favail < (files < MOST_FILES ? files : MOST_FILES))
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%s: the file system has room for %llu more files, which are kept free",
                       path, (unsigned long long)v.f_favail);
    return RT_OK;
}

enum rt_status rt_file_append(int fd, const char *name, int64_t *size, const struct rt_span *pieces,
                              int n_pieces, const struct rt_check *check, struct rt_error *err)
{
    struct statvfs v;
    size_t n = 0;

    for (int i = 0; i < n_pieces; i++)
        n += pieces[i].n;
    enum rt_status st =
        fstatvfs(fd, &v) ? rt_fail_errno(err, name, errno) : check_bytes(&v, name, n, err);
    for (int i = 0; i < n_pieces && !st; i++)
        st = write_piece(fd, name, pieces[i], check, err);
    if (!st)
        *size += (int64_t)n;
    else if (ftruncate(fd, *size))
        st = rt_fail(err, RT_DATA_LOSS, "%s; a part of a failed write stays in the file", name);
    return st;
}

enum rt_status rt_file_make_dirs(const char *dir, struct rt_error *err)
{
    char buffer[4096];
    size_t n = strlen(dir);
    struct stat s;

    if (n >= sizeof buffer)
        return rt_fail_errno(err, dir, ENAMETOOLONG);
    memcpy(buffer, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (buffer[i] != '/' && buffer[i] != 0)
            continue;
        char was = buffer[i];
        buffer[i] = 0;
        if (mkdir(buffer, 0777) && errno != EEXIST && (stat(buffer, &s) || !S_ISDIR(s.st_mode)))
            return rt_fail_errno(err, buffer, errno);
        buffer[i] = was;
    }
    return RT_OK;
}
