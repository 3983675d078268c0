/*
 * The epilogue of a matmul or a convolution (rt_op.epilogue) is a list of steps that are applied to
 * the output while it is in the cache:
 *
 *     y = activation(x * mul + add + residual)
 *
 * fuse_epilogue.c finds epilogues, and kernels/fused/epilogue.c computes them. The extra attribute
 * RT_EPILOGUE of the node is a string that lists the steps as words separated by blanks. The words
 * of the operands come first, then the word of the activation, with "=NUMBER" appended if the
 * activation has an alpha. The string is part of the key in the autotune cache on disk. The
 * operands are additional inputs of the node. They follow the inputs that the schema declares.
 */
#ifndef RT_EPILOGUE_HEADER
#define RT_EPILOGUE_HEADER

#include "runtime/core/graph.h"
#include "runtime/fusion/activation.h"

struct rt_arena;

#define RT_EPILOGUE "_tail"

/* X(ID, word) for each operand of an epilogue, in the order in which operands are applied and
 * appended to the node's inputs. */
#define RT_EPILOGUE_OPERANDS(X)                                                                    \
    X(MUL, mul)           /* finite constant vector along the output's last axis */                \
    X(ADD, add)           /* finite constant vector along the output's last axis */                \
    X(RESIDUAL, residual) /* tensor that is broadcast to the output's shape */

enum rt_epilogue_operand {
#define X(id, word) RT_EPILOGUE_##id,
    RT_EPILOGUE_OPERANDS(X)
#undef X
        RT_EPILOGUE_N_IN
};

struct rt_epilogue {
    /* index of each operand among the node's inputs, or 0 if the operand is absent */
    int in[RT_EPILOGUE_N_IN];
    bool residual_first; /* whether the residual is the first operand of its addition */
    enum rt_activation act;
    bool has_alpha;
    float alpha;
};

/* Reads the epilogue of a node. If the node has none, the result has no steps. Returns RT_INTERNAL
 * if the RT_EPILOGUE attribute or the inputs of the node are invalid. */
enum rt_status rt_epilogue_read(const struct rt_node *n, struct rt_epilogue *e,
                                struct rt_error *err);
/* Returns the RT_EPILOGUE attribute for epilogue *e. Operand k is present if e->in[k] is not 0.
 * Returns NULL if memory runs out or the epilogue has no steps. */
const char *rt_epilogue_text(const struct rt_epilogue *e, struct rt_arena *arena);

#endif
