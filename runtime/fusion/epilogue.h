/*
 * The epilogue of a matrix multiplication or a convolution (rt_op.tail): steps on its output that
 * are done while that is in the cache,
 *
 *     y = activation(x * mul + add + residual)
 *
 * fuse_tail.c finds them, kernels/fused/epilogue.c does them. They stand in the node's extra
 * attribute RT_EPILOGUE as words with blanks between them, the operands first and then the
 * activation, perhaps with "=NUMBER"; this text is part of what the autotune cache on disk is
 * looked up by. The operands are inputs of the node behind those of its schema.
 */
#ifndef RT_EPILOGUE_HEADER
#define RT_EPILOGUE_HEADER

#include "runtime/core/graph.h"
#include "runtime/fusion/activation.h"

struct rt_arena;

#define RT_EPILOGUE "_tail"

/* The operands, in the order in which they are applied and stand among the inputs. X(ID, word) */
#define RT_EPILOGUE_OPERANDS(X)                                                                    \
    X(MUL, mul)           /* a constant as long as the output's last axis, all finite */           \
    X(ADD, add)           /* likewise */                                                           \
    X(RESIDUAL, residual) /* a tensor that is broadcast with the output */

enum rt_epilogue_operand {
#define X(id, word) RT_EPILOGUE_##id,
    RT_EPILOGUE_OPERANDS(X)
#undef X
        RT_EPILOGUE_N_IN
};

struct rt_epilogue {
    int in[RT_EPILOGUE_N_IN]; /* which input of the node; 0: not there */
    bool residual_first;      /* the residual is the first operand of its addition */
    enum rt_activation act;
    bool has_alpha;
    float alpha; /* of the activation */
};

/* The epilogue of a node, none being one without any step. INTERNAL: its text or its inputs are not
 * as rt_epilogue_text makes them. */
enum rt_status rt_epilogue_read(const struct rt_node *n, struct rt_epilogue *e,
                                struct rt_error *err);
/* The attribute of an epilogue that has those operands whose `in` is not 0. NULL: no memory, or it
 * has no step. */
const char *rt_epilogue_text(const struct rt_epilogue *e, struct rt_arena *arena);

#endif
