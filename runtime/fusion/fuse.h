/*
 * Fusion: nodes that one kernel does better together. Each pass stands in a file of its own, knows
 * one kind of pattern, and works on the nodes of one plan, on the CPU only.
 *
 * What a pass must keep: a value that is fetched, has another reader or a control edge stays; a
 * node that replaces others stands where the last of them was (pl_make_own), those before it become
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

/*
 * The passes, in their order. What is written out in many nodes comes before what takes single
 * ones: first what only stands in the way of the others, then attention, norms and rotary
 * embeddings, which contain steps that a tail could take, then tails, and chains, since they take
 * every element-wise node that is left. What is joined only to be read by chains shows when they
 * are there.
 */
#define PL_FUSIONS(X)                                                                              \
    X(pl_fuse_units)                                                                               \
    X(pl_fuse_embeds)                                                                              \
    X(pl_fuse_einsums)                                                                             \
    X(pl_fuse_dense)                                                                               \
    X(pl_fuse_pools)                                                                               \
    X(pl_fuse_masks)     /* before attention */                                                    \
    X(pl_fuse_softmaxes) /* before attention */                                                    \
    X(pl_fuse_attention)                                                                           \
    X(pl_fuse_norms)                                                                               \
    X(pl_fuse_rotaries)                                                                            \
    X(pl_fuse_pads) /* before tails */                                                             \
    X(pl_fuse_tails)                                                                               \
    X(pl_fuse_chains)                                                                              \
    X(pl_fuse_joins)

#define X(pass) enum rt_status pass(struct pl_graph *g, struct rt_error *err);
PL_FUSIONS(X)
#undef X

#endif
