/*
 * The edits of a Unicode normalisation: which bytes of the normalised text come from which bytes of
 * the source. An edit replaces the shortest run of characters that can be normalised by itself, as
 * far as ICU, which TensorFlow Text uses, finds such runs: its rules decide how large an edit is.
 *
 * Threads: any; all data belongs to a single run.
 */
#ifndef KN_TEXT_NORMAL_EDITS_H
#define KN_TEXT_NORMAL_EDITS_H

#include "kernels/text/normal.h"

/* Bytes begin, ..., begin + n - 1 of a text. */
struct kn_byte_range {
    int64_t begin, n;
};

/* The bytes `to` of the normalised text replace the bytes `from` of the source. */
struct kn_normal_edit {
    struct kn_byte_range from, to;
};

/* The state of a normalisation to NFC, NFD, NFKC or NFKD that records its edits. */
struct kn_edited {
    struct kn_normal normal;          /* normalises one run of characters, to a buffer of its own */
    const unsigned char *begin, *end; /* the source */
    const unsigned char *last;        /* end of the last edit; the text from here to p is equal */
    const unsigned char *p;           /* the next character */
    struct rt_bytes *out;   /* normalised text is appended here, which is empty at first */
    struct rt_bytes *edits; /* array of struct kn_normal_edit, in order; appended to */
};

/* Begins with a text. The form and the buffers of `e` must be set. */
void kn_edited_begin(struct kn_edited *e, const unsigned char *begin, const unsigned char *end);
/* Normalises about n_bytes bytes. Returns whether text is left. Returns false if memory runs out or
 * the check of e->normal fails, and a buffer has then failed. */
bool kn_edited_add(struct kn_edited *e, size_t n_bytes);
/* Completes the normalised text. */
void kn_edited_end(struct kn_edited *e);

#endif
