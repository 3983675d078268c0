/*
 * The functions that the compiler calls for an op: shape inference, and row rules for batching.
 * Both use only properties of a node's tensors that are known before the node has run.
 *
 * Owner: all data to which the structs of this header point belongs to the caller. Threads: any;
 * infer functions and row rules are pure.
 */
#ifndef RT_INFER_H
#define RT_INFER_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

/* The properties of a tensor that are known at compile time. */
struct rt_info {
    enum rt_dtype dtype;
    struct rt_shape shape; /* -1 means an unknown rank or dimension */
    /* The value, in host memory, if the tensor is a constant or a small tensor that the compiler
     * has evaluated; NULL if the value is not known. If the tensor is an input in shape_in, its
     * value is not lazy. */
    const struct rt_tensor *value;
};

/* ---- shape inference ---- */

struct rt_infer {
    const struct rt_node *node;
    int n_in, n_out;
    const struct rt_info *in;
    /* The outputs, which `infer` fills in. Before the call, their dtypes are those of the node, and
     * their shapes are unknown. */
    struct rt_info *out;
    /* `alias[o]` is initially -1, and output o then has its own memory. `infer` may set it to an
     * input k. Output o may then overwrite input k if this is the last use of input k and both have
     * the same size, so `run` must work with `out.data == in[k].data`. */
    int8_t *alias;
    struct rt_error *err;
};

/* ---- row rules ---- */

/*
 * Row-wise analysis determines how each tensor depends on the rows of the batch. Batching requires
 * this analysis. The analysis (runtime/passes/rows.c) runs `infer` with several batch sizes and
 * applies each op's row rule.
 */
enum rt_dep_kind {
    RT_DEP_NONE, /* the tensor does not depend on the batch */
    RT_DEP_SIZE, /* integers of the form `a + b * n`, where n is the number of rows */
    /* The tensor has n slices along `axis`. Slice i depends only on row i, and not on n. */
    RT_DEP_ROWS,
    RT_DEP_MIXED, /* rows depend on each other, or have not been shown to be independent */
};
struct rt_dep {
    enum rt_dep_kind kind;
    int axis;
};
struct rt_rows {
    const struct rt_node *node;
    int64_t n_rows; /* batch size for which the shapes are inferred */
    int n_in, n_out;
    const struct rt_info *in, *out; /* exact shapes, except where `infer` cannot determine them */
    const struct rt_dep *in_dep;
    /* how the outputs depend on the batch; initially RT_DEP_MIXED */
    struct rt_dep *out_dep;
};
/*
 * Row rules that many ops share (row_rules.c). A rule must return the same result for every batch
 * size. A rule receives an input of kind RT_DEP_SIZE only if `infer` reads its value (shape_in) and
 * each element is a constant or the number of rows. The outputs of an op without a rule are
 * RT_DEP_MIXED.
 */
/* Rule for element-wise ops with broadcasting and any number of inputs. */
void rt_rows_each(struct rt_rows *r);
/* Rule for ops that compute output row i from row i of input 0, along axis 0. No other input may
 * depend on the batch. */
void rt_rows_first(struct rt_rows *r);
/* Rule for ops whose outputs have the shape of input 0, where element k of each output depends on
 * element k of input 0. The row axis does not change. */
void rt_rows_same(struct rt_rows *r);
/* Rule for row-major views of input 0. The row axis is preserved if its length and the product of
 * the dimensions before it are unchanged. */
void rt_rows_reshape(struct rt_rows *r);
/* Rule for ops that depend only on the shapes of their inputs (Shape, Size, Rank). */
void rt_rows_shape(struct rt_rows *r);

#endif
