/*
 * A SentencePiece model: the vocabulary of pieces with their scores, the kind of model, and the
 * rules by which text is normalised. It is read from a serialized ModelProto.
 *
 * Models come from outside. SentencePiece's own library reads beyond the tries and strings of a
 * malformed model and ends the process, so Slipway reads models itself, and checks every index
 * before it is used.
 *
 * Owner: kn_sp_open copies the bytes to the pool it is given; kn_sp_close frees all memory.
 * Threads: a model is not changed after kn_sp_open, so any number of threads may read it.
 */
#ifndef KN_TEXT_SENTENCEPIECE_MODEL_H
#define KN_TEXT_SENTENCEPIECE_MODEL_H

#include "kernels/text/model.h"
#include "runtime/core/op.h"

/* The numbers of TrainerSpec.ModelType. */
enum kn_sp_kind { KN_SP_UNIGRAM = 1, KN_SP_BPE, KN_SP_WORD, KN_SP_CHAR };

/* The numbers of ModelProto.SentencePiece.Type. */
enum kn_sp_type {
    KN_SP_NORMAL = 1,
    KN_SP_UNKNOWN,
    KN_SP_CONTROL,
    KN_SP_USER_DEFINED, /* a symbol that is always one piece */
    KN_SP_UNUSED,
    KN_SP_BYTE, /* "<0x41>" and the like, into which unknown characters are divided */
};

struct kn_sp_piece {
    struct rt_span text;
    float score;
    enum kn_sp_type type;
};

/* How text is normalised. */
struct kn_sp_rules {
    struct kn_vector trie; /* strings that are replaced; a value is an offset in `text` */
    struct rt_span text;   /* replacements, each of which ends with a NUL */
    bool adds_space;       /* whether white space is put before the text, or behind it */
    bool removes_spaces; /* whether white space is removed at both ends, and repeated white space */
    bool escapes_spaces; /* whether a space becomes KN_SP_SPACE */
    bool space_is_suffix; /* whether the space that is added goes behind the text */
};

enum { KN_SP_BYTES = 256 };

struct kn_sp_model {
    unsigned char *bytes; /* the serialized model, to which the spans refer */
    struct kn_sp_piece *pieces;
    size_t n; /* number of pieces; an id is an index */
    enum kn_sp_kind kind;
    struct kn_vector found;    /* ids of normal, user-defined and unused pieces */
    struct kn_vector reserved; /* ids of the other pieces, which are not found in text */
    struct kn_vector symbols;  /* ids of user-defined pieces */
    uint32_t unknown;          /* id of the unknown piece */
    float min_score, max_score;
    bool has_bytes;  /* whether unknown characters are divided into bytes */
    bool has_unused; /* whether there are unused pieces */
    uint32_t byte_id[KN_SP_BYTES];
    struct rt_span unknown_surface, begin_piece, end_piece;
    struct kn_sp_rules rules, undo; /* of text that is encoded, and of text that was decoded */
    bool has_undo;
};

/* The character that stands for a space in pieces, U+2581. */
#define KN_SP_SPACE "\xe2\x96\x81"

/* Reads a model. `name` names the model in error messages. Allocates from make->pool, and calls
 * make->check meanwhile. Does not use the other members of `make` except `err`. Sets *out only if
 * it succeeds. */
enum rt_status kn_sp_open(const struct rt_make *make, struct rt_span bytes, const char *name,
                          struct kn_sp_model *out);
void kn_sp_close(struct kn_sp_model *m);

/* Returns the byte that a piece such as "<0x4F>" stands for, or -1 if it stands for none. */
int kn_sp_byte(struct rt_span text);
/* Returns the length of the character at p, of which only the first byte counts, at most end - p.
 */
static inline size_t kn_sp_char_length(const unsigned char *p, const unsigned char *end)
{
    static const unsigned char lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    const size_t n = lengths[*p >> 4];

    return n < (size_t)(end - p) ? n : (size_t)(end - p);
}

#endif
