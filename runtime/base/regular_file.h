/*
 * Opens files that an operator or a model names, but only if they are regular files. Opening or
 * reading a FIFO without a writer, a terminal or a device could block the thread forever, and none
 * of these has a size that bounds the read.
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
 * Opens `path` for reading. Sets *fd to the descriptor, or to -1 on failure. The caller must close
 * the descriptor. If `info` is not NULL, sets *info to the result of fstat on the descriptor. If
 * the file is not regular, returns RT_FAILED_PRECONDITION with a text like "PATH is a FIFO, not a
 * regular file". If a system call fails, returns RT_NOT_FOUND or another status with a text like
 * "PATH; No such file or directory" (rt_fail_errno).
 */
enum rt_status rt_open_regular(const char *path, int *fd, struct stat *info, struct rt_error *err);

/* Opens `path` as rt_open_regular does, but as a stream. The caller closes the stream with
 * fclose(). */
enum rt_status rt_open_regular_stream(const char *path, FILE **out, struct rt_error *err);

/* Returns RT_FAILED_PRECONDITION, with the error text of rt_open_regular, unless `info` describes a
 * regular file. */
enum rt_status rt_check_regular(const char *path, const struct stat *info, struct rt_error *err);

/* Returns whether errno `number` of a system call on a path means that the file does not exist.
 * EACCES, EIO, ENOMEM and other errors have a different meaning. A file in use that temporarily
 * cannot be examined must not be treated as removed. */
bool rt_errno_is_absence(int number);

/* Returns whether two stats have equal inodes, sizes and times. Equal stats describe one file that
 * was not written in between. */
bool rt_same_file(const struct stat *a, const struct stat *b);

/* Reports the error of a system call on `path` whose errno is `number`, with a text like "PATH; No
 * such file or directory". */
enum rt_status rt_fail_errno(struct rt_error *err, const char *path, int number);

#endif
