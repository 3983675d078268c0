/*
 * The parameter of the device kernel that computes element-wise ops and "_Chain"
 * (runtime/fusion/elementwise.h). Each thread computes one or four neighbouring output elements at
 * a time, and performs all steps for them. Operands are broadcast by strides of 0.
 */
#ifndef KC_ELEMENTWISE_H
#define KC_ELEMENTWISE_H

#include <stdint.h>

enum {
    KC_ELEMENTWISE_MOST_IN = 16,
    KC_ELEMENTWISE_MOST_STEPS = 32,
    KC_ELEMENTWISE_MOST_RANK = 6, /* maximum number of dimensions after neighbours are merged */
    KC_ELEMENTWISE_MOST_PIECES = 60,
};

enum kc_type { KC_F32, KC_BOOL, KC_U8, KC_I32, KC_I64 };

struct kc_elementwise_in {
    const void *data;
    int64_t stride[KC_ELEMENTWISE_MOST_RANK]; /* strides in elements, innermost dimension first */
    int32_t type;                             /* an enum kc_type */
    int32_t unused;
};

/* A tensor that is concatenated with others to form input 0. The concatenation, which has the
 * output's shape, is a matrix of `pieces_row` columns. */
struct kc_elementwise_piece {
    const float *data;
    int64_t end; /* number of the column that follows the last column of the piece */
};

struct kc_elementwise_step {
    int32_t op; /* an enum rt_elementwise_op */
    /* The step's operands. A value k below n_in denotes input k, a larger value denotes the result
     * of step k - n_in, and -1 means that the step lacks the operand. */
    int16_t a, b, c;
    int16_t unused;
    float alpha; /* the parameter of LeakyRelu */
};

struct kc_elementwise {
    void *out;
    int64_t n; /* number of elements of the output */
    int64_t dim[KC_ELEMENTWISE_MOST_RANK];
    int32_t rank, n_in, n_steps;
    int32_t out_type; /* KC_F32 or KC_BOOL */
    int32_t width;    /* number of elements that a thread computes at a time: 4, or 1 */
    int32_t n_pieces; /* 0 if input 0 is one tensor */
    int64_t pieces_row;
    struct kc_elementwise_in in[KC_ELEMENTWISE_MOST_IN];
    struct kc_elementwise_step step[KC_ELEMENTWISE_MOST_STEPS];
    struct kc_elementwise_piece piece[KC_ELEMENTWISE_MOST_PIECES];
};

#endif
