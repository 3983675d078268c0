/*
 * The labels of an output's classes, from the file that config.pbtxt names in the output's
 * `label_filename`. Line i, counted from 0, is the label of class i. An empty line is no label.
 *
 * Owner: the configuration. Threads: labels are immutable once they are read.
 */
#ifndef SRV_TRITON_LABELS_H
#define SRV_TRITON_LABELS_H

#include "server/triton/triton.h"

struct srv_triton_labels {
    const char *output;   /* name of the output, or NULL after the last labels of a list */
    const char *filename; /* label_filename as config.pbtxt has it */
    int n;
    const struct rt_span *label;
};

/* Reads the files of all labels into t->labels. `base_path` is the model's directory and has
 * n_base bytes. A file outside of it is refused. */
enum rt_status srv_triton_read_labels(struct srv_triton *t, const char *base_path, size_t n_base,
                                      struct rt_error *err);
/* Splits the text of a file into labels, which are copied into `arena`. */
enum rt_status srv_triton_parse_labels(struct rt_span text, struct rt_arena *arena,
                                       struct srv_triton_labels *out, struct rt_error *err);
/* Returns the labels of an output of the signature that the model's name stands for, or NULL if it
 * has none. `t` may be NULL. */
const struct srv_triton_labels *srv_triton_labels(const struct srv_triton *t, const char *signature,
                                                  const char *output);
/* Returns the bytes of the names of all files, at most as many as config.pbtxt has. `t` may be
 * NULL. */
size_t srv_triton_label_file_bytes(const struct srv_triton *t);
/* Returns the label of a class, or an empty span. `l` may be NULL. */
static inline struct rt_span srv_triton_label(const struct srv_triton_labels *l, int64_t index)
{
    return l && index < l->n ? l->label[index] : rt_span_of(NULL, 0);
}

#endif
