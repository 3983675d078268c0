/*
 * The model of PhraseTokenize, a FlatBuffer, and how it divides text into phrases: from each word
 * on, the longest sequence of words that is a phrase of the vocabulary. White space separates
 * words; phrases are compared with the words and one space between each two. If the model says so,
 * the ending of a word is a word by itself: one of . , ? ! 'd 'm 's 't 'll 're 've.
 *
 * Models come from outside: every index is checked before it is used.
 *
 * Owner: the views belong to the caller's bytes. Threads: any; a struct kn_phrases belongs to one
 * thread.
 */
#ifndef KN_TEXT_PHRASE_MODEL_H
#define KN_TEXT_PHRASE_MODEL_H

#include "kernels/random/philox.h"
#include "kernels/text/model.h"
#include "runtime/base/bytes.h"

struct kn_phrase_model {
    struct kn_vector trie; /* the phrases; the value of a phrase is its id */
    struct rt_span spaces,
        unknown; /* the bitmap of white space (kn_words), and the unknown token */
    int32_t unknown_id;
    /* The probability in percent with which a phrase is taken although it may be the beginning of
     * a longer one. */
    int32_t percent;
    bool splits_endings; /* whether the ending of a word is a word by itself */
    bool has_texts;      /* whether kn_phrase_text finds phrases by their ids */
    struct kn_flat_table table;
    struct kn_vector texts; /* the text of each id */
};

/* Reads a model. Returns NULL, or what is wrong with the bytes. */
const char *kn_phrase_open(struct rt_span bytes, struct kn_phrase_model *out);
/* Finds a phrase by its id. Returns false if the model does not contain it. */
bool kn_phrase_text(const struct kn_phrase_model *m, int64_t id, struct rt_span *out);
/* Returns the size in bytes of the ending of a word that models may split from it, or 0. */
size_t kn_phrase_ending(struct rt_span word);

struct kn_phrase {
    const struct rt_span *words; /* valid until the next call of kn_phrases_begin */
    size_t n_words;
    int32_t id;
    bool is_unknown; /* whether this is one word that begins no phrase */
};

/* The state of dividing texts, one after the other. */
struct kn_phrases {
    const struct kn_phrase_model *m;
    struct rt_bytes words; /* an array of struct rt_span; the caller initialises and frees it */
    size_t at;             /* the index of the next phrase's first word */
    struct kn_singles random;
    /* Called with the work that was done (rt_run_spend) at intervals of a few milliseconds. If it
     * returns false, the text is not read on. May be NULL. */
    bool (*spend)(void *arg, int64_t work);
    void *arg;
};

/* Finds the words of a text. Returns false if `spend` does, or if p->words.failed is set. */
bool kn_phrases_begin(struct kn_phrases *p, struct rt_span text);
/* Returns whether the text contains a further phrase. */
static inline bool kn_phrases_more(const struct kn_phrases *p)
{
    return p->at < p->words.n / sizeof(struct rt_span);
}
/* Finds the next phrase, which must exist. Returns false if `spend` does. */
bool kn_phrases_next(struct kn_phrases *p, struct kn_phrase *out);

#endif
