/*
 * The tokens that the tokenizers of TensorFlow Text produce: strings, optionally with ids, their
 * offsets in the string that they come from, and the ragged dimension that they form.
 *
 * Owner: the kernel that collects the tokens; kn_tokens_end frees the memory, which counts towards
 * the run's limit. Threads: all data belongs to a single run.
 */
#ifndef KN_TEXT_TOKENS_H
#define KN_TEXT_TOKENS_H

#include "kernels/string/text.h"

/* One token. Its text consists of the n bytes at p, after kn_tokens.prefix if has_prefix is set. */
struct kn_token {
    const char *p;
    size_t n;
    int64_t begin, end; /* offsets of the token in its string */
    uint32_t id;
    bool has_prefix;
};

struct kn_tokens {
    struct rt_run *r;
    struct rt_span prefix;  /* the suffix indicator ("##") of wordpieces; empty at first */
    struct rt_bytes list;   /* an array of struct kn_token */
    struct rt_bytes splits; /* for each string, an int64: the number of tokens up to its end */
    int64_t left;           /* countdown of rt_run_spend */
};

/* Where the members of the tokens go. An output of -1 does not exist. */
struct kn_token_outputs {
    int text, id, splits, begin, end;
    bool has_lengths; /* whether the output `splits` contains row lengths instead of row splits */
};

void kn_tokens_begin(struct kn_tokens *t, struct rt_run *r);
void kn_tokens_end(struct kn_tokens *t);
/* Adds a token to the current string. On failure, returns false and sets t->r->err. */
bool kn_tokens_add(struct kn_tokens *t, const struct kn_token *token);
/* Ends the current string. On failure, returns false and sets t->r->err. */
bool kn_tokens_next(struct kn_tokens *t);
int64_t kn_tokens_count(const struct kn_tokens *t);
/* Makes the outputs. Offsets are written in the types of the outputs, int32 or int64. */
enum rt_status kn_tokens_emit(struct kn_tokens *t, const struct kn_token_outputs *to);

/* Sets *n to the number of strings that TensorFlow Text reads from input 0, which is the first
 * dimension, and refuses a tensor that has fewer elements or no dimension. TensorFlow Text would
 * read beyond such a tensor. */
enum rt_status kn_token_strings(struct rt_run *r, int64_t *n);

/* The text of a row that kn_join_rows makes. */
struct kn_joined {
    struct rt_run *r;
    const void *model;
    struct rt_bytes text;
    int64_t left; /* the countdown of rt_run_spend */
};
/* Joins the ids of each row to a string of output 0. Input 0 has the ids (int32), and input 1 the
 * row splits (int64). `add` appends the text of an id, and must spend its work. Refuses a row that
 * does not lie within the ids. */
enum rt_status kn_join_rows(struct rt_run *r, const void *model,
                            enum rt_status (*add)(struct kn_joined *j, int32_t id, bool is_first));
/* Fails because a model has no texts for ids. */
enum rt_status kn_fail_no_texts(struct rt_run *r);

/* Infers the output of ops that join the tokens of each row to a string: input 2 has the row
 * splits, and the output is a vector with a string for each row. */
enum rt_status kn_infer_joined(struct rt_infer *x);

#endif
