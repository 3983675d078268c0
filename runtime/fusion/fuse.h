/*
 * Fusion: passes that replace nodes by one node that a single kernel computes better. Each pass
 * stands in a file of its own, knows one kind of pattern, and works on the graph of one plan, on
 * the CPU only. passes/pipeline.c has their order.
 *
 * The rules of a pass: a node whose value is fetched, has a reader outside the pattern or a control
 * edge stays. A node that replaces others takes the place of the last of them (rewrite.h); the
 * nodes before it become PL_GONE.
 */
#ifndef RT_FUSE_H
#define RT_FUSE_H

#include "runtime/fusion/activation.h"
#include "runtime/ir/rewrite.h"

/*
 * Finds an activation function of output 0 of node `x` that a network writes out in several nodes
 * (fuse_activation.c). Only these nodes read the value of `x`, and only one of their values is read
 * by others. Returns true with the function and its nodes; the last node makes the function's
 * value.
 */
enum { PL_MOST_ACTIVATION = 12 };
struct pl_activation {
    enum rt_activation act;
    bool has_number;
    float number;
    int n, node[PL_MOST_ACTIVATION];
};
bool pl_find_activation(const struct pl_graph *g, const struct pl_uses *u,
                        const struct pl_readers *r, int x, struct pl_activation *out);

/* Splits the equation "x,w->out" of an Einsum of two operands at "," and "->" (fuse_einsum.c).
 * False: the equation has another form, holds other characters than letters, or repeats a letter in
 * one of the three parts. */
bool pl_einsum_letters(const struct pl_node *n, struct rt_span part[3]);

/* Makes node `at` the matrix product of x, which has `rank` axes, with the constant matrix w. */
enum rt_status pl_put_dense(struct pl_graph *g, int at, struct pl_edge x, struct pl_edge w,
                            int rank, struct rt_error *err);

/* Runs before all other passes of this header. */
enum rt_status pl_drop_targets(struct pl_graph *g, struct rt_error *err);
/* Runs before pl_fuse_epilogues. */
enum rt_status pl_fuse_pads(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_epilogues(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_simplify_algebra(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_einsums(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_dense(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_embeddings(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_pools(struct pl_graph *g, struct rt_error *err);
/* Runs before pl_fuse_attention. */
enum rt_status pl_fuse_masks(struct pl_graph *g, struct rt_error *err);
/* Runs before pl_fuse_attention. */
enum rt_status pl_fuse_softmaxes(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_attention(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_norms(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_rotaries(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_elementwise(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_concats(struct pl_graph *g, struct rt_error *err);

/* Recurrent layers from loops: from frames of Enter and Exit, when no Switch of a branch is left;
 * and from While, before the plans of the remaining loops are made. */
enum rt_status pl_fuse_rnn_frames(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_fuse_rnn_whiles(struct pl_graph *g, struct rt_error *err);

#endif
