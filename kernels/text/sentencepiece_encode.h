/*
 * Divides text into the pieces of a SentencePiece model: normalises the text, and finds the best
 * pieces, the n best lists of pieces, or a random list.
 *
 * Owner: the kernel; kn_sp_end frees the memory, which counts towards the run's limit. Threads: all
 * data belongs to a single run.
 */
#ifndef KN_TEXT_SENTENCEPIECE_ENCODE_H
#define KN_TEXT_SENTENCEPIECE_ENCODE_H

#include "kernels/random/philox.h"
#include "kernels/string/text.h"
#include "kernels/text/sentencepiece_model.h"

/* A piece: the next n bytes of the normalised text, and their id. */
struct kn_sp_part {
    size_t n;
    uint32_t id;
};

/* A list of pieces among several: it ends before element `end` of kn_sp_coder.parts. */
struct kn_sp_list {
    size_t end;
    float score; /* sum of the scores of its pieces */
};

struct kn_sp_coder {
    const struct kn_sp_model *m;
    /* NULL in tests without a run, where memory is limited to KN_SP_TEST_BYTES for each buffer. */
    struct rt_run *r;
    int64_t left;           /* countdown of rt_run_spend */
    struct rt_bytes text;   /* the normalised text */
    struct rt_bytes origin; /* for each byte of `text` and for its end, a size_t: the offset of the
                             * text from which it was made; empty if has_origin is not set */
    bool has_origin;
    struct rt_bytes parts;           /* an array of struct kn_sp_part */
    struct rt_bytes lists;           /* an array of struct kn_sp_list; see kn_sp_nbest */
    struct rt_bytes cells, pairs;    /* memory of the algorithms */
    struct rt_bytes splits, pending; /* memory of models of byte pairs; see add_merged */
    struct rt_bytes places, agenda;  /* memory of sentencepiece_lattice.c */
    struct kn_singles random;
};

enum {
    KN_SP_TEST_BYTES = 1 << 28,
    KN_SP_MAX_SAMPLE = 512, /* maximum number of best lists from which one is drawn */
    KN_SP_MAX_BEST = 1024,  /* maximum number of best lists that are found */
    KN_SP_TICK = 1 << 14,   /* number of steps of a loop between two checks of the deadline */
};
#define KN_SP_NO_ID UINT32_MAX

void kn_sp_begin(struct kn_sp_coder *c, const struct kn_sp_model *m, struct rt_run *r);
void kn_sp_end(struct kn_sp_coder *c);

/* The functions below return false on failure, with the reason in c->r->err if there is a run. */

/* Normalises a string by `rules`, and sets c->text and c->origin. Symbols that the user defined
 * stay as they are if `keeps_symbols` is set. */
bool kn_sp_normalize(struct kn_sp_coder *c, const struct kn_sp_rules *rules, bool keeps_symbols,
                     struct rt_span in);
/* Sets c->parts to the best pieces of c->text. */
bool kn_sp_encode(struct kn_sp_coder *c);
/* Sets c->parts to pieces that are drawn by chance. In a unigram model, the probability of a list
 * of pieces is proportional to the exponential of alpha times the sum of its scores. In a model of
 * byte pairs, alpha is the probability that two pieces are not merged. Models of other kinds cannot
 * be sampled. */
bool kn_sp_sample(struct kn_sp_coder *c, float alpha);
/* Finds the n best lists of pieces in a unigram model, or fewer if there are fewer, the best first.
 * Sets c->lists, and c->parts to the pieces of all lists. n is at most KN_SP_MAX_BEST. */
bool kn_sp_nbest(struct kn_sp_coder *c, int64_t n);
/* Merges the pairs of a model of byte pairs, each of which is skipped with the probability `skip`.
 */
bool kn_sp_merge(struct kn_sp_coder *c, float skip);

/* Returns b->p as memory for n elements of `size` bytes, or NULL on failure. b->n becomes 0. */
void *kn_sp_array(struct kn_sp_coder *c, struct rt_bytes *b, size_t n, size_t size);
/* Appends a piece to c->parts, whose work the caller charges. */
bool kn_sp_add_part(struct kn_sp_coder *c, size_t n, uint32_t id);
/* Reverses c->parts. */
bool kn_sp_reverse(struct kn_sp_coder *c);
/* The score of the unknown piece in a unigram model. */
static inline float kn_sp_unknown_score(const struct kn_sp_model *m)
{
    const float penalty = 10;

    return m->min_score - penalty;
}
/* Makes room for n more bytes. Returns false, with the reason in the run's error, if there is none.
 */
bool kn_sp_reserve(struct kn_sp_coder *c, struct rt_bytes *b, size_t n);
/* Appends n bytes to a buffer. */
bool kn_sp_add(struct kn_sp_coder *c, struct rt_bytes *b, const void *p, size_t n);
/* Charges work to the run's deadline. */
static inline bool kn_sp_spend(struct kn_sp_coder *c, int64_t work)
{
    return !c->r || !rt_run_spend(c->r, &c->left, work);
}
/* Charges work, which the next call of kn_sp_spend looks at. */
static inline void kn_sp_charge(struct kn_sp_coder *c, size_t work)
{
    c->left -= (int64_t)work;
}
/* Checks the deadline at every KN_SP_TICK-th index of a loop whose length the text or the model
 * decides. */
static inline bool kn_sp_tick(struct kn_sp_coder *c, size_t i)
{
    return (i & (KN_SP_TICK - 1)) != KN_SP_TICK - 1 || !c->r || !rt_run_check(c->r);
}

/*
 * The functions below read a trie or a text of any length. They charge the bytes that they have
 * read (kn_sp_charge), of which there may be many more than the result shows, and check the
 * deadline meanwhile: the nodes of a malformed trie may form a loop.
 */

/* Sets *n to the length of the longest key of a trie with which the bytes from p to `end` begin,
 * and *value to its value. Sets *n to 0 if there is no such key. */
static inline bool kn_sp_longest(struct kn_sp_coder *c, const struct kn_vector *trie,
                                 const unsigned char *p, const unsigned char *end, size_t *n,
                                 uint32_t *value)
{
    int64_t node = 0;
    size_t i = 0;

    *n = 0;
    if (trie->n == 0)
        return true;
    for (; p + i < end && p[i]; i++) {
        node = kn_trie_child(trie, node, p[i]);
        if (node == KN_NO_NODE)
            break;
        if (kn_trie_value(trie, node, value))
            *n = i + 1;
        if (!kn_sp_tick(c, i))
            return false;
    }
    kn_sp_charge(c, i);
    return true;
}
/* Sets *id to the id of a piece in one of the model's tries, or to KN_SP_NO_ID if there is none. */
static inline bool kn_sp_find(struct kn_sp_coder *c, const struct kn_vector *trie,
                              struct rt_span text, uint32_t *id)
{
    int64_t node = 0;
    size_t i = 0;

    *id = KN_SP_NO_ID;
    if (trie->n == 0 || text.n == 0)
        return true;
    while (text.p[i] && (node = kn_trie_child(trie, node, text.p[i])) != KN_NO_NODE) {
        if (++i == text.n) {
            kn_trie_value(trie, node, id);
            break;
        }
        if (!kn_sp_tick(c, i))
            return false;
    }
    kn_sp_charge(c, i);
    return true;
}
/* Sets *id to the id of a piece, or to the unknown piece's id if there is no such piece. */
bool kn_sp_id(struct kn_sp_coder *c, struct rt_span text, uint32_t *id);
/* Sets *out to the bytes of `text` before its first NUL. */
bool kn_sp_until_nul(struct kn_sp_coder *c, struct rt_span text, struct rt_span *out);

#endif
