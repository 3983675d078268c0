/*
 * What the compiler asks of an op: shape inference, and row rules for batching. Both see of a
 * node's tensors what is known before the node has run.
 *
 * Owner: everything that these structs point to belongs to the caller.
 * Threads: any; infer functions and row rules are pure.
 */
#ifndef RT_INFER_H
#define RT_INFER_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

/* What is known of a tensor at compile time. */
struct rt_info {
    enum rt_dtype dtype;
    struct rt_shape shape; /* rank -1, dim -1: unknown */
    /* The value, in host memory, of a constant or of a small tensor that the compiler evaluated.
     * NULL: not known. Not lazy where infer gets it for an input in shape_in. */
    const struct rt_tensor *value;
};

/* ---- shape inference ---- */

struct rt_infer {
    const struct rt_node *node;
    int n_in, n_out;
    const struct rt_info *in;
    struct rt_info *out; /* preset: the node's dtypes, unknown shapes */
    int8_t *alias;       /* per output, preset to -1: memory of its own. k >= 0: the output may be
                            written over input k if this is the input's last use and their bytes
                            are equal; run must then work with out.data == in[k].data */
    struct rt_error *err;
};

/* ---- row rules ---- */

/*
 * Row-wise analysis, for batching: how a tensor depends on the rows of the batch. The analysis
 * (runtime/passes/rows.c) runs `infer` with several batch sizes and applies each op's row rule.
 */
enum rt_dep_kind {
    RT_DEP_NONE,  /* independent of the batch */
    RT_DEP_SIZE,  /* integers, each of which is a + b * n, n being the number of rows */
    RT_DEP_ROWS,  /* n slices along `axis`; slice i depends on row i alone, equally for all n */
    RT_DEP_MIXED, /* rows are mixed, or nothing is proved */
};
struct rt_dep {
    enum rt_dep_kind kind;
    int axis;
};
struct rt_rows {
    const struct rt_node *node;
    int64_t n_rows; /* the batch size for which the shapes are inferred */
    int n_in, n_out;
    const struct rt_info *in, *out; /* shapes are exact where `infer` knows them */
    const struct rt_dep *in_dep;
    struct rt_dep *out_dep; /* preset to RT_DEP_MIXED */
};
/*
 * Row rules that many ops share (row_rules.c). The outputs of an op without a rule are
 * RT_DEP_MIXED. A rule must give the same answer for every batch size. A rule sees an input of kind
 * RT_DEP_SIZE only if infer reads its value (shape_in) and each element is a constant or n itself.
 */
void rt_rows_each(struct rt_rows *r);    /* element-wise with broadcasting, any number of inputs */
void rt_rows_first(struct rt_rows *r);   /* output row i depends on row i (axis 0) of input 0; other
                                            inputs must not depend on the batch */
void rt_rows_same(struct rt_rows *r);    /* element k of every output depends on element k of input
                                            0, of the same shape: the axis passes through */
void rt_rows_reshape(struct rt_rows *r); /* row-major view of input 0: the axis is kept if its
                                            length and the dimensions' product before it are */
void rt_rows_shape(struct rt_rows *r);   /* depends on inputs' shapes only (Shape, Size, Rank) */

#endif
