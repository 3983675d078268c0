/*
 * The resource of the SentencePiece ops, a model, and what those ops share.
 *
 * Owner: the session owns the resource. Threads: a model is not changed once it is made.
 */
#ifndef KN_TEXT_SENTENCEPIECE_H
#define KN_TEXT_SENTENCEPIECE_H

#include "kernels/text/sentencepiece_encode.h"

/* What the inputs add_bos, add_eos and reverse ask for. */
struct kn_sp_options {
    bool adds_begin, adds_end, reverses;
    uint32_t begin, end; /* ids of the pieces that are added */
};

/* Returns the model of input 0. If input 0 is not a model, returns NULL and sets r->err. */
const struct kn_sp_model *kn_sp_model_of(struct rt_run *r);
/* Reads the options from input `first` and the two after it. */
enum rt_status kn_sp_read_options(struct kn_sp_coder *c, int first, struct kn_sp_options *out);
/* Fails because a piece has no such id. */
enum rt_status kn_sp_fail_id(struct rt_error *err, int64_t id);

#endif
