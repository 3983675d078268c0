/* Reads and writes whole files, with a limit that is checked before anything is allocated. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/regular_file.h"

/*
 * *out: the bytes, for free(), followed by a NUL. RT_NOT_FOUND ("PATH; No such file or
 * directory"); other errors by the text of errno; RT_RESOURCE_EXHAUSTED: larger than `limit`. Only
 * regular files are read (rt_open_regular).
 */
enum rt_status rt_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct rt_error *err);
/* Reads n bytes from `offset` on. Returns the number of bytes read, which is less than n only at
 * the end of the file; -1: an error, in errno. */
ssize_t rt_file_read_at(int fd, void *dst, size_t n, int64_t offset);
/* Writes a temporary file beside PATH and renames it, so that PATH is never incomplete. */
enum rt_status rt_file_write(const char *path, const void *p, size_t n, struct rt_error *err);
/* Creates a file with a new name beside `path` and opens it for writing. The name is written into
 * `buffer`. Returns the descriptor; -1: err says why. */
int rt_file_temp(const char *path, char *buffer, size_t n, struct rt_error *err);
/* Makes the directory and all missing directories above it. */
enum rt_status rt_file_make_dirs(const char *dir, struct rt_error *err);
#endif
