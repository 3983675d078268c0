/*
 * Unicode normalisation of UTF-8: the forms NFC, NFD, NFKC and NFKD, and NFKC_Casefold, which also
 * folds case and removes ignorable characters. generate.py made the data (normal_table.inc) by
 * running TensorFlow Text, which uses ICU, on every character. The version of Unicode is therefore
 * the one of TensorFlow Text.
 *
 * Malformed bytes are copied unchanged, as ICU does, and combine with no character.
 *
 * Threads: any; a struct kn_normal belongs to one thread.
 */
#ifndef KN_TEXT_NORMAL_H
#define KN_TEXT_NORMAL_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

enum kn_normal_form { KN_NFC, KN_NFD, KN_NFKC, KN_NFKD, KN_NFKC_CASEFOLD };

/*
 * The state of a normalisation. Text is normalised in segments, which neither reorder nor combine
 * with each other: most consist of one character and the marks that follow it. The length of a
 * segment is not limited, so a growing buffer holds it.
 */
struct kn_normal {
    enum kn_normal_form form;
    struct rt_bytes segment; /* an array of struct normal_char (normal.c) */
    struct rt_bytes *out;    /* normalised text is appended here */
};

/* Normalises the next characters, beginning at *p, and advances *p past them. Stops at the first
 * character boundary after about `n_bytes` bytes. If memory runs out, n->segment.failed or
 * n->out->failed is set. */
void kn_normal_add(struct kn_normal *n, const unsigned char **p, const unsigned char *end,
                   size_t n_bytes);
/* Appends the last segment to the output. Must follow the last call of kn_normal_add for a text;
 * afterwards, `n` may be used for another text. */
void kn_normal_end(struct kn_normal *n);

#endif
