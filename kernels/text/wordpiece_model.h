/*
 * The model of FastWordpieceTokenizeWithOffsets, and its algorithm for one word, LinMaxMatch (Song
 * et al., "Fast WordPiece Tokenization", 2021). It walks a trie of the vocabulary. Where a node has
 * no child for the next byte, its failure link leads to the node at which the walk goes on, and its
 * failure pops are the pieces that the word then begins with.
 *
 * Models come from outside. An index of a model is checked before it is used, and pieces may not be
 * longer than the bytes that were read, so a walk always ends.
 *
 * Owner: the views belong to the caller's bytes. Threads: any; all functions are pure.
 */
#ifndef KN_TEXT_WORDPIECE_MODEL_H
#define KN_TEXT_WORDPIECE_MODEL_H

#include "kernels/text/model.h"

struct kn_wordpiece_model {
    struct kn_vector trie;
    struct kn_vector failures;         /* for each node, a failure link and a range of `pops` */
    struct kn_vector pops;             /* encoded pieces */
    struct kn_vector suffix, unknown;  /* the suffix indicator and the unknown token, as bytes */
    struct kn_vector suffix_pieces;    /* encoded pieces of the word that equals the indicator */
    uint32_t suffix_root, punctuation; /* nodes that end a word: no piece is pending */
    uint32_t unknown_id;
    int64_t max_bytes; /* of a word */
    bool splits_text;  /* whether the op splits text into words first */
};

struct kn_piece {
    uint32_t id;
    bool is_suffix;  /* whether the vocabulary has the piece with the suffix indicator before it */
    size_t begin, n; /* the piece's bytes in the word */
};

enum kn_word_result {
    KN_WORD_SPLIT,   /* the pieces were given to `add` */
    KN_WORD_UNKNOWN, /* the vocabulary cannot form the word; pieces given to `add` do not count */
    KN_WORD_FAILED,  /* `add` returned false */
    KN_WORD_DAMAGED, /* the model contradicts itself */
};

/* Reads a model. Returns NULL, or what is wrong with the bytes. */
const char *kn_wordpiece_open(struct rt_span bytes, struct kn_wordpiece_model *out);
/* Splits a word of n bytes, which is not empty, and gives its pieces in order to `add`. */
enum kn_word_result kn_wordpiece_split(const struct kn_wordpiece_model *m,
                                       const unsigned char *word, size_t n,
                                       bool (*add)(void *arg, const struct kn_piece *p), void *arg);

#endif
