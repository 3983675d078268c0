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
    bool has_pieces;   /* whether kn_wordpiece_text finds pieces by their ids */
    struct kn_flat_table table;
    struct kn_vector pieces, suffix_marks; /* for each id, the piece's text and whether it is a
                                              suffix */
};

struct kn_piece_text {
    struct rt_span text; /* without the suffix indicator */
    bool is_suffix;
};

struct kn_piece {
    uint32_t id;
    bool is_suffix;  /* whether the vocabulary has the piece with the suffix indicator before it */
    size_t begin, n; /* the piece's bytes in the word */
};

/* What receives the pieces of a word in order. */
struct kn_piece_sink {
    bool (*add)(void *arg, const struct kn_piece *p);
    /* Called when n further bytes have been read, at most 64 KiB, whether or not they have become
     * pieces. If it returns false, the word is not read on. */
    bool (*has_read)(void *arg, size_t n);
    void *arg;
};

enum kn_word_result {
    KN_WORD_SPLIT,   /* the sink has all pieces */
    KN_WORD_UNKNOWN, /* the vocabulary cannot form the word; pieces that the sink has do not count
                      */
    KN_WORD_FAILED,  /* the sink returned false */
    KN_WORD_DAMAGED, /* the model contradicts itself */
};

/* Reads a model. Returns NULL, or what is wrong with the bytes. */
const char *kn_wordpiece_open(struct rt_span bytes, struct kn_wordpiece_model *out);
/* Finds a piece by its id. Returns false if the model does not contain it. */
bool kn_wordpiece_text(const struct kn_wordpiece_model *m, int64_t id, struct kn_piece_text *out);
/* Splits a word of n bytes, which is not empty, and gives its pieces to `to`. */
enum kn_word_result kn_wordpiece_split(const struct kn_wordpiece_model *m,
                                       const unsigned char *word, size_t n,
                                       const struct kn_piece_sink *to);

#endif
