/*
 * Embeddings that are looked up to be summed, as two ops: fuse_embedding.c puts them into a graph,
 * kernels/fused/embedding_sum.c and kernels/sparse/sparse_segment.c compute them. Neither
 * materialises the tensor of all rows that are looked up.
 *
 * "_EmbedSum" looks up the rows of a table that indices name, each optionally multiplied by a
 * weight or excluded by a mask, and sums them along one axis of the tensor that the lookup would
 * make, or takes their mean.
 *
 * "_EmbedBag" looks up the rows of a table that ids name, and sums them per segment.
 *
 * The attributes gather, scaled and unique are the names of the nodes that were replaced, for error
 * messages.
 */
#ifndef RT_EMBEDDING_HEADER
#define RT_EMBEDDING_HEADER

#include "runtime/core/fused_op.h"

/* The meaning of the input `by` of an embedding sum. */
enum rt_embedding_by {
    RT_EMBEDDING_BY_NOTHING,       /* the input is left out */
    RT_EMBEDDING_BY_WEIGHTS,       /* weights, the second factor of a Mul with the rows */
    RT_EMBEDDING_BY_WEIGHTS_FIRST, /* weights, the first factor of a Mul with the rows */
    RT_EMBEDDING_BY_MASK           /* bool: true for a row that is summed */
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

/* The divisor of a segment's sum. */
enum rt_embedding_bag_how {
    RT_EMBEDDING_BAG_SUM,
    RT_EMBEDDING_BAG_MEAN,  /* the number of the segment's rows */
    RT_EMBEDDING_BAG_SQRT_N /* the square root of the number of the segment's rows */
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
