/*
 * One file of a request log. It is created under an unused name. Only complete records are
 * appended. After a failure, the file is closed, and no new file is opened for several seconds.
 *
 * Threads: only one thread uses a file; the functions do not lock.
 */
#ifndef SRV_REQUEST_FILE_H
#define SRV_REQUEST_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

struct srv_request_file {
    int fd; /* -1 if the file is closed or suspended */
    bool is_suspended;
    /* identity of the file on the disk, while the file is open or suspended */
    dev_t device;
    ino_t inode;
    int64_t size; /* size of the file, up to the last complete record */
    int64_t opened_ns, not_before_ns;
    unsigned n_opened;
    char path[512];
};

void srv_request_file_init(struct srv_request_file *f);
/* Returns whether the file is open or suspended. */
static inline bool srv_request_file_is_open(const struct srv_request_file *f)
{
    return f->fd >= 0 || f->is_suspended;
}
/* Opens a new file PREFIX-TIME-PID-N.tfrecord, or PREFIX/MODEL-TIME-PID-N.tfrecord if PREFIX is a
 * directory. Missing directories are created. */
enum rt_status srv_request_file_open(struct srv_request_file *f, const char *prefix,
                                     const char *model, struct rt_error *err);
/* Closes the descriptor of an open file, which srv_request_file_resume opens again. */
void srv_request_file_suspend(struct srv_request_file *f);
/* Opens the descriptor of a suspended file again. Has no effect if the file is not suspended.
 * Returns RT_NOT_FOUND if the file was deleted or replaced; the file is then still suspended. After
 * any other failure the file is closed. */
enum rt_status srv_request_file_resume(struct srv_request_file *f, struct rt_error *err);
/* Returns whether the open file was deleted. The file must not be suspended. Records written to a
 * deleted file are lost. */
bool srv_request_file_is_removed(const struct srv_request_file *f);
/* Appends one TFRecord. The file must not be suspended. After a failure, truncates the file to its
 * complete records, or deletes the file if there are none. */
enum rt_status srv_request_file_add(struct srv_request_file *f, struct rt_span record,
                                    struct rt_error *err);
void srv_request_file_close(struct srv_request_file *f);

#endif
