/*
 * Distributions over classes from which candidate samplers draw: one that counts the true classes
 * of earlier runs, and one that an attribute or a file gives. Both belong to a node and live as
 * long as the session. With equal seeds, the classes are those of TensorFlow.
 *
 * Threads: any. The functions lock the distribution.
 */
#ifndef KN_RANDOM_UNIGRAM_H
#define KN_RANDOM_UNIGRAM_H

#include "kernels/random/philox.h"
#include "runtime/core/op.h"

/* The distribution of LearnedUnigramCandidateSampler. Each class has a weight of 1 plus the number
 * of times that it was a true class. */
struct kn_learned;

/* Sets *out to a reference to the node's distribution. The caller drops the reference with
 * kn_learned_unref. */
enum rt_status kn_learned_of(struct rt_run *r, struct kn_learned **out);
void kn_learned_unref(struct kn_learned *u);
int64_t kn_learned_draw(struct kn_learned *u, struct kn_singles *random);
float kn_learned_probability(struct kn_learned *u, int64_t id);
/* Counts the classes in `ids`, which must be valid. Stops at a total weight of 2^31 - 1. */
enum rt_status kn_learned_update(struct rt_run *r, struct kn_learned *u,
                                 const struct rt_tensor *ids);

/* The distribution of FixedUnigramCandidateSampler. */
struct kn_fixed;

/* Sets *out to a reference to the node's distribution, which is read at first use. The caller drops
 * the reference with kn_fixed_unref. */
enum rt_status kn_fixed_of(struct rt_run *r, struct kn_fixed **out);
void kn_fixed_unref(struct kn_fixed *u);
int64_t kn_fixed_draw(const struct kn_fixed *u, struct kn_singles *random);
float kn_fixed_probability(const struct kn_fixed *u, int64_t id);

#endif
