/*
 * Opening files that an operator or a model names. Only a regular file is opened: a FIFO without a
 * writer, a terminal or a device would hold the thread that opens or reads it for as long as it
 * likes, and has no size by which reading it could be bounded.
 *
 * Threads: no state; call from anywhere.
 */
#ifndef RT_BASE_REGULAR_FILE_H
#define RT_BASE_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/status.h"

/*
 * *fd: for reading, and for close(); -1 when it fails. *info (NULL is fine): what fstat says of it.
 * NOT_FOUND and others: "PATH; No such file or directory" (rt_fail_errno). FAILED_PRECONDITION:
 * "PATH is a FIFO, not a regular file".
 */
enum rt_status rt_open_regular(const char *path, int *fd, struct stat *info, struct rt_error *err);

/* The same as a stream, for fclose(). */
enum rt_status rt_open_regular_stream(const char *path, FILE **out, struct rt_error *err);

/* FAILED_PRECONDITION with the same words when `info` is not of a regular file. */
enum rt_status rt_check_regular(const char *path, const struct stat *info, struct rt_error *err);

/* Whether the errno `number` of a system call on a path says that nothing is there. Any other, such
 * as EACCES, EIO or ENOMEM, says nothing of what is there: what is in use and cannot be looked at
 * now must not be taken for removed. */
bool rt_errno_is_absence(int number);

/* Two looks at one file that was not written between them: inode, size and times are the same. */
bool rt_same_file(const struct stat *a, const struct stat *b);

/* The failure of a system call on `path`: "PATH; No such file or directory". */
enum rt_status rt_fail_errno(struct rt_error *err, const char *path, int number);

#endif
