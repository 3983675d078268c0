/*
 * The words of a text that white space separates, as TensorFlow Text's tokenizers find them. A word
 * that white space ends reaches up to the last byte of that white space, so it contains the first
 * bytes of a white-space character that is longer than a byte.
 *
 * Owner: the views belong to the caller's bytes. Threads: any; all functions are pure.
 */
#ifndef KN_TEXT_WHITESPACE_H
#define KN_TEXT_WHITESPACE_H

#include <stdbool.h>

#include "runtime/base/span.h"

struct kn_words {
    struct rt_span spaces; /* a bitmap: bit c % 8 of byte c / 8 is set if character c is white
                            * space */
    const unsigned char *p, *end; /* the text that has not been read */
    const unsigned char *word;    /* the beginning of the word that p continues, or NULL */
};

/* Reads on up to the end of a word, but at most about 64 KiB, so that the caller can check its
 * deadline. Returns whether a word has ended, and sets *out to it. After the last word, w->p equals
 * w->end. */
bool kn_words_next(struct kn_words *w, struct rt_span *out);

#endif
