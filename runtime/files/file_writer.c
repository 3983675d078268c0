#include "runtime/files/file_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/file.h"

enum rt_status rt_file_writer_open(struct rt_file_writer *f, const char *path,
                                   const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct rt_error why = {0};

    f->fd = -1;
    f->n = f->n_checked = 0;
    f->run = run;
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        return rt_fail_errno_as_tensorflow(err, path, ENAMETOOLONG);
    f->fd = rt_file_temp(f->path, f->temp, sizeof f->temp, &why);
    if (f->fd >= 0)
        return RT_OK;
    rt_error_copy(err, &why);
    return why.code;
}

/* Checks that the file system has space for the next n bytes, at most RT_FILE_WRITER_PIECE. Queries
 * the system once per piece, because the caller may write a few bytes at a time. */
static enum rt_status check_space(struct rt_file_writer *f, size_t n, struct rt_error *err)
{
    if (f->n + (int64_t)n <= f->n_checked)
        return RT_OK;
    const enum rt_status st = rt_file_check_space(f->temp, RT_FILE_WRITER_PIECE, err);
    if (!st)
        f->n_checked = f->n + RT_FILE_WRITER_PIECE;
    return st;
}

enum rt_status rt_file_writer_put(struct rt_file_writer *f, const void *p, size_t n,
                                  struct rt_error *err)
{
    for (size_t done = 0; done < n;) {
        const size_t left = n - done;
        const size_t piece = left < RT_FILE_WRITER_PIECE ? left : RT_FILE_WRITER_PIECE;
        enum rt_status st = rt_checkpoint_run_check(f->run, err);
        if (!st)
            st = check_space(f, piece, err);
        if (st)
            return st;
        const ssize_t k = write(f->fd, (const char *)p + done, piece);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return rt_fail_errno(err, f->path, errno);
        done += (size_t)k;
        f->n += k;
    }
    return RT_OK;
}

enum rt_status rt_file_writer_close(struct rt_file_writer *f, enum rt_status st,
                                    struct rt_error *err)
{
    const int fd = f->fd;

    f->fd = -1;
    if (close(fd) && !st)
        st = rt_fail_errno(err, f->path, errno);
    return st;
}

enum rt_status rt_file_writer_publish(const struct rt_file_writer *f, enum rt_status st,
                                      struct rt_error *err)
{
    if (!st)
        st = rt_file_rename(f->temp, f->path, err);
    if (st)
        unlink(f->temp);
    return st;
}
