/*
 * The source of a random op's generator: the node's seed attributes, an input with two seeds,
 * inputs with a key and a counter, or a variable.
 *
 * Threads: a node's generator and a variable are locked; everything else belongs to a single run.
 */
#ifndef KN_RANDOM_SOURCE_H
#define KN_RANDOM_SOURCE_H

#include "kernels/random/philox.h"
#include "runtime/core/op.h"

enum kn_source {
    /* attributes seed and seed2, or none; the generator lives as long as the session */
    KN_FROM_NODE,
    KN_FROM_SEED,     /* input 1 holds two seeds */
    KN_FROM_KEY,      /* inputs 1, 2 and 3 are a key, a counter and an algorithm */
    KN_FROM_VARIABLE, /* input 0 is a variable that holds the state, input 1 an algorithm */
};

/* The numbers of random number algorithms. TensorFlow's CPU kernels implement only Philox. */
enum { KN_ALG_PHILOX = 1, KN_ALG_THREEFRY = 2, KN_ALG_AUTO = 3 };

/* Returns the input that holds the shape of the output. */
static inline int kn_shape_input(enum kn_source source)
{
    return source == KN_FROM_VARIABLE ? 2 : 0;
}
/* Gives output 0 the shape that input `input` contains. */
enum rt_status kn_random_infer(struct rt_infer *x, int input);
enum rt_status kn_read_shape(const struct rt_tensor *t, struct rt_shape *out, struct rt_error *err);
/* Fails if the seeds, the key or the algorithm that the node uses are invalid. As in TensorFlow,
 * the check is made even if the output has no elements. */
enum rt_status kn_source_check(struct rt_run *r, enum kn_source source);
/* Sets *out to the generator of this run. If the generator has a state, advances the state by
 * n_skipped counter values. */
enum rt_status kn_source_take(struct rt_run *r, enum kn_source source, uint64_t n_skipped,
                              struct kn_philox *out);
enum rt_status kn_check_algorithm(struct rt_run *r, int input, const char *unsupported);
/* Makes a generator from two seeds, as the stateless ops do. */
struct kn_philox kn_seeded_philox(const struct rt_tensor *seed);
/* Advances the generator in the variable of input 0 by n_skipped counter values. old[0], ...,
 * old[2] receive the previous state. */
enum rt_status kn_advance_variable(struct rt_run *r, uint64_t n_skipped, int64_t old[3]);

#endif
