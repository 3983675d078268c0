/*
 * Opens files that an operator or a model names. Only regular files are opened: opening or reading
 * a FIFO without a writer, a terminal or a device could block the thread for ever, and none of
 * these has a size that bounds the reading.
 *
 * Threads: any; there is no state.
 */
#ifndef RT_BASE_REGULAR_FILE_H
#define RT_BASE_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/status.h"

/*
 * Opens `path` for reading. *fd: for close(); -1 on failure. *info (may be NULL): its fstat.
 * RT_NOT_FOUND and other errors of system calls: "PATH; No such file or directory" (rt_fail_errno).
 * RT_FAILED_PRECONDITION: "PATH is a FIFO, not a regular file".
 */
enum rt_status rt_open_regular(const char *path, int *fd, struct stat *info, struct rt_error *err);

/* As rt_open_regular; *out: a stream, for fclose(). */
enum rt_status rt_open_regular_stream(const char *path, FILE **out, struct rt_error *err);

/* RT_FAILED_PRECONDITION, with rt_open_regular's text, unless `info` is of a regular file. */
enum rt_status rt_check_regular(const char *path, const struct stat *info, struct rt_error *err);

/* Whether errno `number` of a system call on a path means that no file is there. Other errors, such
 * as EACCES, EIO or ENOMEM, do not: a file in use that cannot be examined now must not be taken for
 * removed. */
bool rt_errno_is_absence(int number);

/* Whether two stats are of one file that was not written in between: inode, size, times agree. */
bool rt_same_file(const struct stat *a, const struct stat *b);

/* The error for errno `number` of a system call on `path`: "PATH; No such file or directory". */
enum rt_status rt_fail_errno(struct rt_error *err, const char *path, int number);

#endif
