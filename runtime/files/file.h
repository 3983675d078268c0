/* Reads and writes complete files. The size limit is checked before memory is allocated. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"
#include "runtime/base/regular_file.h"

/*
 * Reads a regular file (rt_open_regular). Sets *out to the file's bytes, followed by a NUL; the
 * caller must free *out. Returns RT_NOT_FOUND ("PATH; No such file or directory") if the file is
 * missing, and RT_RESOURCE_EXHAUSTED if it is larger than `limit`. Any other error has the system's
 * message for errno.
 */
enum rt_status rt_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct rt_error *err);
/* Reads a file as rt_file_read does, but calls `check` before each megabyte, and fails if the check
 * fails. `check` may be NULL. */
enum rt_status rt_file_read_checked(const char *path, size_t limit, const struct rt_check *check,
                                    char **out, size_t *n, struct rt_error *err);
/* Reads n bytes at `offset`. Returns the number of bytes read, which is less than n only at the end
 * of the file. On an error, returns -1 and sets errno. */
ssize_t rt_file_read_at(int fd, void *dst, size_t n, int64_t offset);
/* Reads n bytes at `offset`. Used as the `read` function of a struct rt_sstable_source whose `arg`
 * points to the file's descriptor. Returns RT_DATA_LOSS if the file ends too early. */
enum rt_status rt_file_read_exactly(void *fd, uint64_t offset, void *dst, size_t n,
                                    struct rt_error *err);
/* Renames the file `from` to `to`. An existing file `to` is replaced, but a device, FIFO or socket
 * is refused with RT_FAILED_PRECONDITION: a rename would replace it as well. */
enum rt_status rt_file_rename(const char *from, const char *to, struct rt_error *err);
/* Returns the error of a rename that must fail: the file `from` or the directory of `to` is
 * missing, `to` cannot be replaced, a directory may not be changed, or the file systems differ. */
enum rt_status rt_file_check_rename(const char *from, const char *to, struct rt_error *err);
/* Writes a temporary file in the directory of `path` and renames it to `path`, so that the file is
 * never incomplete. */
enum rt_status rt_file_write(const char *path, const void *p, size_t n, struct rt_error *err);
/* Writes a temporary file as rt_file_write does, but does not rename it to `path`. Writes the
 * temporary file's name into `temp`. If `check` fails, returns its status. `check` may be NULL. A
 * failed call leaves no file. */
enum rt_status rt_file_write_temp(const char *path, const void *p, size_t n,
                                  const struct rt_check *check, char *temp, size_t capacity,
                                  struct rt_error *err);
/* Creates a file with an unused name in the directory of `path` and opens it for writing. Writes
 * the name into `buffer`. Returns the descriptor. On failure, returns -1 and sets err, with the
 * codes of rt_fail_errno_as_tensorflow. */
int rt_file_temp(const char *path, char *buffer, size_t n, struct rt_error *err);
/*
 * Checks that a file system keeps a reserve if n more bytes are written to it. The reserve is a
 * twentieth of the file system's space, at most 1 GiB, and a twentieth of its files, at most
 * 10,000. Returns RT_RESOURCE_EXHAUSTED if the write would use a part of the reserve. The file
 * system is that of `path`, or of its nearest parent directory that exists. The space that the
 * system reserves for root counts as in use. A file system that reports no blocks (ramfs, and some
 * FUSE and network file systems) or no files does not know its limit, so only a failed write shows
 * that it is full.
 */
enum rt_status rt_file_check_space(const char *path, size_t n, struct rt_error *err);
/*
 * Appends the pieces to a file of *size bytes that is open for appending, and adds their size to
 * *size. Keeps a reserve of space (rt_file_check_space). Calls `check`, which may be NULL, before
 * each megabyte. If the call fails, it truncates the file to *size bytes, so that no part of the
 * pieces stays. `name` is the file's name for messages.
 */
enum rt_status rt_file_append(int fd, const char *name, int64_t *size, const struct rt_span *pieces,
                              int n_pieces, const struct rt_check *check, struct rt_error *err);
/* Returns how many files of one kind (shards of checkpoints, event files, regions of shared memory)
 * the process may keep open: an eighth of RLIMIT_NOFILE, at most 1,024. */
int rt_file_most_kept(void);
/* Returns how many of `limit` descriptors connections and files that stay open may use. The
 * remaining descriptors (64, or half of `limit` if it is small) are reserved for the files of model
 * loads. */
int rt_file_unreserved(int limit);
/* Refuses the descriptor `fd` of a file that would stay open, if it is one of the reserved ones.
 * `what` names the file, for example "an event file". */
enum rt_status rt_file_check_unreserved(int fd, const char *what, struct rt_error *err);
/* Returns RLIMIT_NOFILE. */
int rt_file_limit(void);
/* Creates the directory and all missing parent directories. */
enum rt_status rt_file_make_dirs(const char *dir, struct rt_error *err);
#endif
