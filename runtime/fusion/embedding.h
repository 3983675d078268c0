/*
 * Embeddings that are looked up to be added up, as two ops: fuse_embed.c finds them,
 * kernels/fused/embedding_sum.c and kernels/sparse/sparse_segment.c compute them. Neither makes the
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
enum rt_embedding_by {
    RT_EMBEDDING_BY_NOTHING,       /* not there */
    RT_EMBEDDING_BY_WEIGHTS,       /* the second factor of a product with the rows */
    RT_EMBEDDING_BY_WEIGHTS_FIRST, /* the first */
    RT_EMBEDDING_BY_MASK           /* bool: whether a row counts */
};

#define RT_EMBEDDING_SUM_INPUTS(IN, op)                                                            \
    IN(op, TABLE, table, ONE)                                                                      \
    IN(op, INDICES, indices, ONE)                                                                  \
    IN(op, BY, by, OPTIONAL)
#define RT_EMBEDDING_SUM_OUTPUTS(OUT) OUT(y)
#define RT_EMBEDDING_SUM_ATTRS(ATTR)                                                               \
    ATTR(INT, axis)                                                                                \
    ATTR(BOOL, keep_dims)                                                                          \
    ATTR(BOOL, mean)                                                                               \
    ATTR(ENUM, how) /* enum rt_embedding_by */                                                     \
    ATTR(STRING, gather)                                                                           \
    ATTR(STRING, scaled)
RT_FUSED_OP(RT_EMBEDDING_SUM, rt_embedding_sum, "_EmbedSum");

/* What a segment's sum is divided by. */
enum rt_embedding_bag_how {
    RT_EMBEDDING_BAG_SUM,
    RT_EMBEDDING_BAG_MEAN,  /* the number of its rows */
    RT_EMBEDDING_BAG_SQRT_N /* the square root of that */
};

#define RT_EMBEDDING_BAG_INPUTS(IN, op)                                                            \
    IN(op, TABLE, table, ONE)                                                                      \
    IN(op, IDS, ids, ONE)                                                                          \
    IN(op, SEGMENTS, segments, ONE)
#define RT_EMBEDDING_BAG_OUTPUTS(OUT) OUT(y)
#define RT_EMBEDDING_BAG_ATTRS(ATTR)                                                               \
    ATTR(ENUM, how) /* enum rt_embedding_bag_how */                                                \
    ATTR(STRING, gather)                                                                           \
    ATTR(STRING, unique)
RT_FUSED_OP(RT_EMBEDDING_BAG, rt_embedding_bag, "_EmbedBag");

#endif
