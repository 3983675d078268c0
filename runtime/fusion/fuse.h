/*
 * Fusion passes. Each pass replaces a pattern of nodes with one node that a single kernel computes
 * faster. A pass has its own file, matches one kind of pattern, and works on the graph of one plan.
 * passes/pipeline.c defines the order of the passes.
 *
 * Rules of a fusion pass: a node stays if its value is fetched, if it has a control edge, or if a
 * node outside the pattern reads it. The new node takes the place of the last node of the pattern
 * (rewrite.h); the other nodes of the pattern become PL_GONE.
 */
#ifndef RT_FUSE_H
#define RT_FUSE_H

#include "runtime/fusion/activation.h"
#include "runtime/ir/rewrite.h"

/*
 * Finds an activation function that the model computes from output 0 of node `x` in several nodes
 * (fuse_activation.c). Only these nodes may read `x`. The last of these nodes computes the
 * function's value, and only its value may be read by other nodes. If a function is found, returns
 * true and sets *out.
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

/* Splits the equation of a two-operand Einsum, "x,w->out", at "," and "->" (fuse_einsum.c). Returns
 * false if the equation does not have this form, contains characters other than letters, or repeats
 * a letter within one of its three parts. */
bool pl_einsum_letters(const struct pl_node *n, struct rt_span part[3]);

/* Turns node `at` into the matmul of x, which has `rank` axes, and the constant matrix w. */
enum rt_status pl_put_dense(struct pl_graph *g, int at, struct pl_edge x, struct pl_edge w,
                            int rank, struct rt_error *err);

/* Removes targets that are pure and have readers. Runs before all other passes in this header. */
enum rt_status pl_drop_targets(struct pl_graph *g, struct rt_error *err);
/* Fuses padding into convolutions and pooling ops. Runs before pl_fuse_epilogues. */
enum rt_status pl_fuse_pads(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_epilogues(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_simplify_algebra(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_einsums(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_dense(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_embeddings(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_pools(struct pl_graph *g, struct rt_error *err);
/* Simplifies attention masks. Runs before pl_fuse_attention. */
enum rt_status pl_fuse_masks(struct pl_graph *g, struct rt_error *err);
/* Fuses softmaxes that the model computes in separate nodes. Runs before pl_fuse_attention. */
enum rt_status pl_fuse_softmaxes(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_attention(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_norms(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_rotaries(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_elementwise(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_concats(struct pl_graph *g, struct rt_error *err);

/*
 * pl_fuse_rnn_frames and pl_fuse_rnn_whiles replace recurrent layers that are written as loops.
 * pl_fuse_rnn_frames handles frames made of Enter and Exit nodes, and runs after the Switches of
 * all branches have been removed. pl_fuse_rnn_whiles handles While nodes, and runs before the
 * sub-plans of the remaining loops are made.
 */
enum rt_status pl_fuse_rnn_frames(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_fuse_rnn_whiles(struct pl_graph *g, struct rt_error *err);

#endif
