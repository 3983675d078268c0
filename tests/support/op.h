/*
 * Runs one op in its own graph, in a session with all of Slipway's kernels.
 *
 *   struct op_call c = {.op = "AddV2", .attrs = "T=float", .n_in = 2, .n_out = 1};
 *   c.in[0] = op_floats(3, (float[]){1, 2, 3});
 *   assert_ok(op_run(&c), &c.err);
 *   ... c.out[0] ...
 *   op_clear(&c);
 */
#ifndef TESTS_SUPPORT_OP_H
#define TESTS_SUPPORT_OP_H

#include "runtime/session/session.h"

enum { OP_MOST = 8 };

struct op_call {
    const char *op, *attrs; /* attributes in the notation of graph_def.h */
    int n_in, n_out;
    struct rt_tensor in[OP_MOST], out[OP_MOST];
    /* before[i] is an op that is inserted in front of input i, or NULL, and before_attrs[i] has its
     * attributes. Only the op under test reads the output of the inserted op, so the op under test
     * may overwrite this output. */
    const char *before[OP_MOST], *before_attrs[OP_MOST];
    size_t run_memory_limit; /* 0 means no limit */
    int64_t deadline_ms;     /* deadline, counted from the start of the run; 0 means no deadline */
    struct rt_error err;
};
enum rt_status op_run(struct op_call *c);
/* Returns whether requests with inputs of the given shapes may be merged along dimension 0 of every
 * input. */
bool op_is_rowwise(struct op_call *c, const struct rt_shape *shapes);
void op_clear(struct op_call *c); /* clears the inputs and the outputs of the call */

/* The functions below return new tensors, which the caller clears. */
struct rt_tensor op_tensor(enum rt_dtype dtype, int rank, const int64_t *dim, const void *values);
struct rt_tensor op_floats(int64_t n, const float *values);
struct rt_tensor op_ints(int64_t n, const int32_t *values);
struct rt_tensor op_int(int32_t value); /* returns an int32 scalar */

#endif
