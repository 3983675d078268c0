/*
 * Readers: resources of a session that take the names of files from a queue, one after the other,
 * and give the records of these files.
 *
 *   reader.c         the resource, and the ops that make, read and inspect readers
 *   reader_record.c  how each kind of reader begins a file and reads a record
 *   source.h         the bytes of a file
 *
 * Threads: a run holds the reader while it reads, also while it waits for a name. Other runs wait
 * for the reader.
 */
#ifndef KN_IO_READER_H
#define KN_IO_READER_H

#include "kernels/io/source.h"
#include "runtime/base/thread.h"
#include "runtime/core/object.h"

enum kn_reader_kind {
    KN_TEXT_LINES,
    KN_WHOLE_FILES,
    KN_NAMES,
    KN_FIXED_LENGTH,
    KN_TF_RECORDS,
    KN_N_READER_KINDS
};

struct kn_file_reader {
    struct rt_object o;
    enum kn_reader_kind kind;
    char *name; /* name of the node that made the reader */
    enum kn_compression compression;
    int64_t header_lines; /* number of lines to skip at the start of a text file */
    /* sizes in bytes of the parts of a file of records of a fixed length; `hop` is the distance
     * from one record to the next */
    int64_t header_bytes, record_bytes, footer_bytes, hop_bytes;
    struct rt_mutex mu;
    struct rt_cond released;
    bool is_held; /* guarded by mu */
    /* The members from here on belong to the run that holds the reader. */
    struct rt_str work; /* the name that was taken last */
    int64_t n_started, n_finished, n_produced;
    struct kn_source source;
    int64_t n_read; /* number of lines or records of the file so far */
    int64_t offset; /* offset of the next TFRecord in the inflated file */
};

/* Begins the file rd->work. If the call fails, the reader has no file. */
enum rt_status kn_file_reader_begin(struct rt_run *r, struct kn_file_reader *rd);
/*
 * Reads the next record into *key and *value, which are empty strings. At the end of the file, sets
 * *is_end, and *has_record to whether there is a last record. A failed call consumes nothing.
 */
enum rt_status kn_file_reader_next(struct rt_run *r, struct kn_file_reader *rd, struct rt_str *key,
                                   struct rt_str *value, bool *has_record, bool *is_end);

#endif
