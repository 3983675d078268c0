/* Whole files, with a limit known before anything is allocated. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/regular_file.h"

/*
 * *out: the bytes, for free(), with a NUL behind them. NOT_FOUND ("PATH; No such file or
 * directory"), other errnos by their words; RESOURCE_EXHAUSTED above `limit`; what is no regular
 * file is refused (rt_open_regular).
 */
enum rt_status rt_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct rt_error *err);
/* Reads n bytes from `offset` on. The bytes that were read, fewer only where the file ends; -1:
 * errno says why not. */
ssize_t rt_file_read_at(int fd, void *dst, size_t n, int64_t offset);
/* Writes PATH by way of a file beside it, so that PATH is whole or not there. */
enum rt_status rt_file_write(const char *path, const void *p, size_t n, struct rt_error *err);
/* Creates a file of a new name beside `path` for writing; the name is in room. -1: err says why. */
int rt_file_temp(const char *path, char *buffer, size_t n, struct rt_error *err);
/* Makes the directory and those above it. */
enum rt_status rt_file_make_dirs(const char *dir, struct rt_error *err);
#endif
