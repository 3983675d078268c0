/*
 * The parameter of the device kernel for "_Attention" (runtime/fusion/attention.h).
 *
 * Each block computes tiles of KC_ATTENTION_ROWS rows and KC_ATTENTION_COLUMNS columns of a head's
 * context. A block reads the keys in groups. For each row, the block stores the maximum of the
 * scores so far and the sum of their exponentials (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018). The scores are therefore never written to device memory.
 */
#ifndef KC_ATTENTION_H
#define KC_ATTENTION_H

#include <stdint.h>

enum {
    KC_ATTENTION_MOST_STEPS = 6, /* maximum number of steps */
    KC_ATTENTION_ROWS = 64,
    KC_ATTENTION_COLUMNS = 128,
};

/* Strides, in elements, along the axes of batches, heads and rows. They are 0 along an axis that is
 * broadcast. */
struct kc_attention_places {
    int64_t batch, head, row;
};

struct kc_attention_step {
    const void *operand; /* floats, or bools for RT_ATTENTION_KEEP and RT_ATTENTION_REPLACE */
    /* the scores that RT_ATTENTION_KEEP and RT_ATTENTION_REPLACE set, or NULL */
    const float *other;
    int64_t stride[4]; /* strides of `operand` along the axes of batches, heads, rows and keys */
    int64_t op;        /* an enum rt_attention_op */
};

struct kc_attention {
    float *out;
    const float *q, *k, *v;
    struct kc_attention_places q_at, k_at, v_at, out_at;
    /* the shape of the scores, and the lengths of a query (or key) and of a value */
    int64_t batches, heads, rows, keys, h, d;
    int64_t n_steps;
    struct kc_attention_step step[KC_ATTENTION_MOST_STEPS];
};

#endif
