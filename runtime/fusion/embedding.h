/*
 * Embeddings that are looked up to be added up, as two ops: fuse_embed.c finds them,
 * kernels/fused/embed_sum.c and kernels/sparse/sparse_segment.c compute them. Neither makes the
 * tensor of all the rows that are looked up.
 *
 * "_EmbedSum": rows of a table that indices name, perhaps each with a weight or left out by a mask,
 * added up along one axis of the tensor that the rows would make; or their mean.
 *
 * "_EmbedBag": rows of a table that ids name, added up per segment.
 *
 * gather, scaled and unique are the names of the nodes that were replaced, which stand in the texts
 * of errors.
 */
#ifndef RT_EMBEDDING_HEADER
#define RT_EMBEDDING_HEADER

#include "runtime/core/fused_op.h"

/* What the input `by` of an embedding sum is. */
enum rt_embed_by {
    RT_EMBED_BY_NOTHING,       /* not there */
    RT_EMBED_BY_WEIGHTS,       /* the second factor of a product with the rows */
    RT_EMBED_BY_WEIGHTS_FIRST, /* the first */
    RT_EMBED_BY_MASK           /* bool: whether a row counts */
};

#define RT_EMBED_SUM_INPUTS(IN, op)                                                                \
    IN(op, TABLE, table, ONE)                                                                      \
    IN(op, INDICES, indices, ONE)                                                                  \
    IN(op, BY, by, OPTIONAL)
#define RT_EMBED_SUM_OUTPUTS(OUT) OUT(y)
#define RT_EMBED_SUM_ATTRS(ATTR)                                                                   \
    ATTR(INT, axis)                                                                                \
    ATTR(BOOL, keep_dims)                                                                          \
    ATTR(BOOL, mean)                                                                               \
    ATTR(ENUM, how) /* enum rt_embed_by */                                                         \
    ATTR(STRING, gather)                                                                           \
    ATTR(STRING, scaled)
RT_FUSED_OP(RT_EMBED_SUM, rt_embed_sum, "_EmbedSum");

/* What a segment's sum is divided by. */
enum rt_embed_bag_how {
    RT_EMBED_BAG_SUM,
    RT_EMBED_BAG_MEAN,  /* the number of its rows */
    RT_EMBED_BAG_SQRT_N /* the square root of that */
};

#define RT_EMBED_BAG_INPUTS(IN, op)                                                                \
    IN(op, TABLE, table, ONE)                                                                      \
    IN(op, IDS, ids, ONE)                                                                          \
    IN(op, SEGMENTS, segments, ONE)
#define RT_EMBED_BAG_OUTPUTS(OUT) OUT(y)
#define RT_EMBED_BAG_ATTRS(ATTR)                                                                   \
    ATTR(ENUM, how) /* enum rt_embed_bag_how */                                                    \
    ATTR(STRING, gather)                                                                           \
    ATTR(STRING, unique)
RT_FUSED_OP(RT_EMBED_BAG, rt_embed_bag, "_EmbedBag");

#endif
