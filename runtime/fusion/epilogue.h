/*
 * The epilogue of a matrix multiplication or a convolution (rt_op.epilogue): steps on its output
 * that are done while the output is in the cache,
 *
 *     y = activation(x * mul + add + residual)
 *
 * fuse_epilogue.c finds them, kernels/fused/epilogue.c computes them. The node's extra attribute
 * RT_EPILOGUE lists them as words separated by blanks: the operands first and then the activation,
 * with "=NUMBER" if it has an alpha. This text is part of the key in the autotune cache on disk.
 * The operands are inputs of the node behind those of its schema.
 */
#ifndef RT_EPILOGUE_HEADER
#define RT_EPILOGUE_HEADER

#include "runtime/core/graph.h"
#include "runtime/fusion/activation.h"

struct rt_arena;

#define RT_EPILOGUE "_tail"

/* The operands, in the order in which they are applied and stand among the inputs. X(ID, word) */
#define RT_EPILOGUE_OPERANDS(X)                                                                    \
    X(MUL, mul)           /* a constant vector along the output's last axis, all finite */         \
    X(ADD, add)           /* likewise */                                                           \
    X(RESIDUAL, residual) /* a tensor that is broadcast to the output */

enum rt_epilogue_operand {
#define X(id, word) RT_EPILOGUE_##id,
    RT_EPILOGUE_OPERANDS(X)
#undef X
        RT_EPILOGUE_N_IN
};

struct rt_epilogue {
    int in[RT_EPILOGUE_N_IN]; /* the index among the node's inputs; 0: none */
    bool residual_first;      /* the residual is the first operand of its addition */
    enum rt_activation act;
    bool has_alpha;
    float alpha; /* of the activation */
};

/* Reads the epilogue of a node; a node without one gets an epilogue without steps. INTERNAL: the
 * text or the inputs are not as rt_epilogue_text makes them. */
enum rt_status rt_epilogue_read(const struct rt_node *n, struct rt_epilogue *e,
                                struct rt_error *err);
/* The attribute for an epilogue with the operands whose `in` is not 0. NULL: out of memory, or the
 * epilogue has no step. */
const char *rt_epilogue_text(const struct rt_epilogue *e, struct rt_arena *arena);

#endif
