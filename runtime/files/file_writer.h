/*
 * Writes a file piece by piece under a temporary name, so that no reader finds an incomplete file
 * under its final name. The file is not synchronised with the disk, so it may be incomplete after a
 * crash of the system.
 *
 * Threads: a writer is used by one thread at a time. Owner: the caller owns the struct.
 */
#ifndef RT_FILE_WRITER_H
#define RT_FILE_WRITER_H

#include <stdint.h>

#include "runtime/files/checkpoint.h"

struct rt_file_writer {
    int fd;            /* -1 if the file is not open */
    int64_t n;         /* number of bytes written so far */
    int64_t n_checked; /* file size for which the file system is known to have space */
    const struct rt_checkpoint_run *run; /* the run for which the file is written; may be NULL */
    char path[4200], temp[4300];
};

/* Creates the temporary file in the directory of `path`. A failed call leaves no file. */
enum rt_status rt_file_writer_open(struct rt_file_writer *f, const char *path,
                                   const struct rt_checkpoint_run *run, struct rt_error *err);
/* Appends n bytes. Calls the run's check before each write of at most RT_FILE_WRITER_PIECE bytes.
 * Fails if the file system would not keep its reserve (rt_file_check_space). */
enum { RT_FILE_WRITER_PIECE = 1 << 20 };
enum rt_status rt_file_writer_put(struct rt_file_writer *f, const void *p, size_t n,
                                  struct rt_error *err);
/* Closes the temporary file. Returns `st` if it is a failure, and otherwise the status of the
 * close. */
enum rt_status rt_file_writer_close(struct rt_file_writer *f, enum rt_status st,
                                    struct rt_error *err);
/* Gives a closed file its final name if `st` is RT_OK, and otherwise removes the file. Returns `st`
 * if it is a failure, and otherwise the status of the renaming, which removes the file if it
 * fails. */
enum rt_status rt_file_writer_publish(const struct rt_file_writer *f, enum rt_status st,
                                      struct rt_error *err);

#endif
