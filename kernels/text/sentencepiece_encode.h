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
};

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
/* Appends a piece to c->parts, and reverses c->parts. */
bool kn_sp_add_part(struct kn_sp_coder *c, size_t n, uint32_t id);
void kn_sp_reverse(struct kn_sp_coder *c);
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

#endif
