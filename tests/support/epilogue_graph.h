/*
 * Parts of graphs for tests of epilogues: heads (the convolution or matmul that an epilogue
 * follows) and activations (written as the nodes that frameworks export).
 */
#ifndef TESTS_SUPPORT_EPILOGUE_GRAPH_H
#define TESTS_SUPPORT_EPILOGUE_GRAPH_H

#include "tests/support/fused_graph.h"

enum ep_head {
    EP_CONV_1X1,
    EP_CONV_3X3,
    EP_CONV_STRIDE,
    EP_WINOGRAD,
    EP_DEPTHWISE,
    EP_MATMUL,
    EP_SMALL_MATMUL,
    EP_N_HEADS
};
extern const char *const ep_head_name[EP_N_HEADS];

/* Adds the feed "x", the weights "w" and the node "head". Writes the shape of the head's output to
 * `dim`, which has 4 elements, and returns its rank. */
int ep_add_head(struct fused_graph *x, enum ep_head h, int64_t batch, int64_t *dim);
/* Adds a constant vector with one value per output channel of the head, each within 1/2 of
 * `middle`. */
void ep_channels(struct fused_graph *x, const char *name, enum ep_head h, float middle);

enum ep_activation {
    EP_RELU,
    EP_RELU6,
    EP_SIGMOID,
    EP_TANH,
    EP_ELU,
    EP_LEAKY_RELU,
    EP_SWISH,
    EP_SWISH_BETA, /* x * sigmoid(beta * x), as Keras 2 writes Swish */
    EP_HARD_SIGMOID,
    EP_HARD_SWISH,
    EP_GELU,        /* tf.nn.gelu */
    EP_GELU_KERAS3, /* tf.nn.gelu(approximate=False), computed with Erfc */
    EP_GELU_TANH,   /* tf.nn.gelu(approximate=True), computed with Tanh */
    EP_N_ACTIVATIONS
};
/* Adds the nodes that compute the activation of the tensor `in`, and returns their number. The last
 * node is "out". */
int ep_add_activation(struct fused_graph *x, enum ep_activation kind, const char *in);
/* Adds one node of an activation, with the attributes that its op needs. */
void ep_step(struct fused_graph *x, const char *name, const char *op, const char *inputs);

#endif
