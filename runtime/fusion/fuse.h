/*
 * Fusion: nodes that one kernel does better together. Each pass stands in a file of its own, knows
 * one kind of pattern, and works on the nodes of one plan, on the CPU only. Their order is that of
 * passes/pipeline.c.
 *
 * What a pass must keep: a value that is fetched, has another reader or a control edge stays; a
 * node that replaces others stands where the last of them was (rewrite.h), those before it become
 * PL_GONE.
 */
#ifndef RT_FUSE_H
#define RT_FUSE_H

#include "runtime/fusion/activation.h"
#include "runtime/ir/rewrite.h"

/*
 * Activation functions of one value, as networks spell them out in nodes (fuse_activation.c): what
 * node `x` makes is read by these nodes only, and all that leaves them is one value. True: which,
 * and the nodes; the last of them makes the value.
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

/* Makes node `at` the product of x, of `rank` axes, with the constant matrix w. */
enum rt_status pl_put_dense(struct pl_graph *g, int at, struct pl_edge x, struct pl_edge w,
                            int rank, struct rt_error *err);

enum rt_status pl_drop_targets(struct pl_graph *g, struct rt_error *err); /* before all others */
enum rt_status pl_fuse_pads(struct pl_graph *g, struct rt_error *err);    /* before tails */
enum rt_status pl_fuse_epilogues(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_simplify_algebra(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_einsums(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_dense(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_embeddings(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_pools(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_masks(struct pl_graph *g, struct rt_error *err);     /* before attention */
enum rt_status pl_fuse_softmaxes(struct pl_graph *g, struct rt_error *err); /* before attention */
enum rt_status pl_fuse_attention(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_norms(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_rotaries(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_elementwise(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_fuse_concats(struct pl_graph *g, struct rt_error *err);

/* Loops that are recurrent layers: frames of Enter and Exit, where no Switch is left that chooses a
 * branch; and those of While, before plans are made of the loops that are left. */
enum rt_status pl_fuse_rnn_frames(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_fuse_rnn_whiles(struct pl_graph *g, struct rt_error *err);

#endif
