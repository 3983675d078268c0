/*
 * Opens files that an operator or a model names, but only regular files. Opening or reading a
 * terminal, a device, or a FIFO without a writer could block the thread forever. A device could
 * also supply unlimited data.
 *
 * Threads: any.
 */
#ifndef RT_BASE_REGULAR_FILE_H
#define RT_BASE_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/status.h"

/*
 * Opens `path` for reading. Sets *fd to the descriptor, which the caller must close, or to -1 on
 * failure. If `info` is not NULL, sets *info to the result of fstat on the descriptor. If the file
 * is not regular, returns RT_FAILED_PRECONDITION with a message such as "PATH is a FIFO, not a
 * regular file". If a system call fails, returns the error that rt_fail_errno sets.
 */
enum rt_status rt_open_regular(const char *path, int *fd, struct stat *info, struct rt_error *err);

/* Opens `path` as rt_open_regular does, but as a stream. The caller closes the stream with
 * fclose(). */
enum rt_status rt_open_regular_stream(const char *path, FILE **out, struct rt_error *err);

/* Returns RT_OK if `info` describes a regular file, and otherwise RT_FAILED_PRECONDITION with the
 * error message of rt_open_regular. */
enum rt_status rt_check_regular(const char *path, const struct stat *info, struct rt_error *err);

/* Returns whether errno `number` of a system call means that the file does not exist. After another
 * error, such as EACCES, EIO or ENOMEM, the file must not be treated as removed, because it may
 * become accessible again. */
bool rt_errno_is_absence(int number);

/* Returns whether two results of stat() describe the same unmodified file: device, inode, size and
 * times are equal. */
bool rt_same_file(const struct stat *a, const struct stat *b);

/* Sets *err for a system call on `path` that failed with errno `number`. The message has the form
 * "PATH; No such file or directory". */
enum rt_status rt_fail_errno(struct rt_error *err, const char *path, int number);
/* Sets the error as rt_fail_errno does, but with the codes of TensorFlow's file system for ENOTDIR
 * and ENAMETOOLONG, for ops whose errors are compared with TensorFlow's. */
enum rt_status rt_fail_errno_as_tensorflow(struct rt_error *err, const char *path, int number);

#endif
