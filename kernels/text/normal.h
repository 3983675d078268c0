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
#include "runtime/base/check.h"
#include "runtime/base/span.h"

/* maximum number of characters in the decomposition of a character */
enum { KN_MAX_DECOMPOSITION = 18 };
/* size of the buffer for the name of a form */
enum { KN_FORM_TEXT = 64 };

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
    /* Called at intervals of a few milliseconds, also within a segment. May be NULL. If it fails,
     * segment.failed is set and *err has the reason. */
    const struct rt_check *check;
    struct rt_error *err;
};

/* Normalises the next characters, beginning at *p, and advances *p past them. Stops at the first
 * character boundary after about `n_bytes` bytes. If memory runs out or the check fails,
 * n->segment.failed or n->out->failed is set. */
void kn_normal_add(struct kn_normal *n, const unsigned char **p, const unsigned char *end,
                   size_t n_bytes);
/* Appends the last segment to the output. Must follow the last call of kn_normal_add for a text;
 * afterwards, `n` may be used for another text. */
void kn_normal_end(struct kn_normal *n);

/* Calls the check. Returns false if the normalisation has failed. */
bool kn_normal_goes_on(struct kn_normal *n);

/* Finds NFC, NFD, NFKC or NFKD by its name, in upper or lower case. Sets `upper` to the beginning
 * of the name in upper case, also if there is no such form. */
bool kn_normal_find(struct rt_span name, enum kn_normal_form *form, char upper[KN_FORM_TEXT]);
/* Sets *state to the enum kn_normal_form that the node's attribute normalization_form names. If it
 * names none, fails with INVALID_ARGUMENT and the message `refusal`, a colon, and the name in upper
 * case. */
struct rt_prep;
enum rt_status kn_normal_prepare(struct rt_prep *p, void **state, const char *refusal);

/* ---- properties of characters ---- */

/* Returns the canonical combining class. */
int kn_normal_class(int32_t c);
/* Returns whether the class is 0 and the character may combine with its predecessor. */
bool kn_normal_joins(int32_t c);
/* Writes the complete decomposition of a character to `to`, and returns the number of characters in
 * it. A character that does not decompose is its own decomposition. */
size_t kn_normal_decompose(enum kn_normal_form form, int32_t c, int32_t to[KN_MAX_DECOMPOSITION]);
/* Returns the character that a and b compose to, or KN_BAD_CHAR. */
int32_t kn_normal_compose(int32_t a, int32_t b);
/* Returns whether the character composes with a later one whose class lies between `low` and
 * `high`, both exclusive. */
bool kn_normal_composes_with_class(int32_t c, int low, int high);

#endif
