/* Reads and writes complete files. The size limit is checked before memory is allocated. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/regular_file.h"

/*
 * Reads a regular file (rt_open_regular). Sets *out to the file's bytes, followed by a NUL; the
 * caller must free *out. Returns RT_NOT_FOUND ("PATH; No such file or directory") if the file is
 * missing, and RT_RESOURCE_EXHAUSTED if it is larger than `limit`. Other errors have the text of
 * errno.
 */
enum rt_status rt_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct rt_error *err);
/* Reads n bytes from offset `offset`. Returns the number of bytes read, or -1 on an error, with
 * errno set. The number is less than n only at the end of the file. */
ssize_t rt_file_read_at(int fd, void *dst, size_t n, int64_t offset);
/* Reads n bytes as the `read` of a rt_sstable_source whose `arg` points to the file's descriptor.
 * Returns RT_DATA_LOSS if the file ends before. */
enum rt_status rt_file_read_exactly(void *fd, uint64_t offset, void *dst, size_t n,
                                    struct rt_error *err);
/* Replaces the file PATH by writing a temporary file beside it and renaming that file, so that PATH
 * is never incomplete. */
enum rt_status rt_file_write(const char *path, const void *p, size_t n, struct rt_error *err);
/* Creates a file with a new name in the directory of `path` and opens it for writing. Writes the
 * name into `buffer`. Returns the descriptor, or -1 with the reason in err. */
int rt_file_temp(const char *path, char *buffer, size_t n, struct rt_error *err);
/* Makes the directory and all missing parent directories. */
enum rt_status rt_file_make_dirs(const char *dir, struct rt_error *err);
#endif
