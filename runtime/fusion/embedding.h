/*
 * Two fused ops that look up rows of an embedding table and sum them. fuse_embedding.c puts them
 * into a graph; kernels/fused/embedding_sum.c and kernels/sparse/sparse_segment.c compute them.
 * Neither op materialises the tensor of all rows that are looked up.
 *
 * "_EmbedSum" looks up the table rows given by `indices`, and computes their sum or mean along one
 * axis of the tensor that the lookup would make. Each row may first be multiplied by a weight or
 * excluded by a mask.
 *
 * "_EmbedBag" looks up the table rows given by `ids`, and sums them per segment.
 *
 * The attributes `gather`, `scaled` and `unique` hold the names of the replaced nodes, for error
 * messages.
 */
#ifndef RT_EMBEDDING_HEADER
#define RT_EMBEDDING_HEADER

#include "runtime/core/fused_op.h"

/* Values of the attribute `how` of "_EmbedSum". They define the meaning of the input `by`. */
enum rt_embedding_by {
    RT_EMBEDDING_BY_NOTHING,
    RT_EMBEDDING_BY_WEIGHTS,       /* weights, the second operand of the Mul with the rows */
    RT_EMBEDDING_BY_WEIGHTS_FIRST, /* weights, the first operand of the Mul with the rows */
    RT_EMBEDDING_BY_MASK           /* a bool mask that is true for each row to be summed */
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

/* divisor of a segment's sum in "_EmbedBag" */
enum rt_embedding_bag_how {
    RT_EMBEDDING_BAG_SUM,
    RT_EMBEDDING_BAG_MEAN,  /* number of rows in the segment */
    RT_EMBEDDING_BAG_SQRT_N /* square root of the number of rows in the segment */
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
