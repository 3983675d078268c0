/*
 * Reads a text file line by line, for ops that read vocabularies. As in TensorFlow, a line ends at
 * a newline or at the end of the file, and all carriage returns are dropped.
 *
 * Threads: all data belongs to a single run.
 */
#ifndef KN_IO_LINES_H
#define KN_IO_LINES_H

#include <stdio.h>

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

struct kn_lines {
    struct rt_run *r;
    FILE *file;
    char path[4096];
    int64_t n;            /* number of lines read so far */
    struct rt_bytes line; /* the current line */
};

/* Opens a regular file. Only after success, the caller must call kn_lines_close. */
enum rt_status kn_lines_open(struct kn_lines *l, struct rt_run *r, struct rt_span path);
/* Reads the next line. Sets *any to false at the end of the file. Refuses a line of more than
 * 64 MiB. */
enum rt_status kn_lines_next(struct kn_lines *l, bool *any);
void kn_lines_close(struct kn_lines *l);

#endif
