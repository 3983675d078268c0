/*
 * The model of FastSentencepieceTokenize, a FlatBuffer, and how it divides text: TensorFlow Text's
 * own normalisation, and the pieces with the largest sum of scores, byte by byte.
 *
 * Models come from outside: every index is checked before it is used.
 *
 * Owner: the views belong to the caller's bytes. Threads: any.
 */
#ifndef KN_TEXT_FAST_SENTENCEPIECE_H
#define KN_TEXT_FAST_SENTENCEPIECE_H

#include "kernels/text/sentencepiece_encode.h"

struct kn_fast_sp_model {
    struct kn_vector pieces, scores; /* a trie of ids, and the score of each id */
    struct kn_vector prefixes;       /* a trie of strings that are replaced */
    struct kn_vector replacements;   /* strings that end with a NUL */
    int32_t begin, end, unknown;     /* ids; `unknown` is negative if there is none */
    float unknown_score;             /* of one unknown byte */
    int32_t offset;                  /* added to the ids of pieces */
    bool removes_spaces, adds_space, escapes_spaces;
};

/* Reads a model. Returns NULL, or what is wrong with the bytes. */
const char *kn_fast_sp_open(struct rt_span bytes, struct kn_fast_sp_model *out);
/* Sets c->parts to the pieces of a string, the last one first; their ids include m->offset. c->m is
 * not used. Returns false on failure, with the reason in c->r->err if there is a run. */
bool kn_fast_sp_encode(struct kn_sp_coder *c, const struct kn_fast_sp_model *m, struct rt_span in);

#endif
