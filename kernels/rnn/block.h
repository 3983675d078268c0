/*
 * Functions that the ops of LSTM and GRU blocks share. These ops compute one step (or all steps) of
 * a cell and return every gate for their gradients. Half-precision tensors are computed in float.
 */
#ifndef KN_RNN_BLOCK_H
#define KN_RNN_BLOCK_H

#include "runtime/core/op.h"

enum { KN_BLOCK_MEMORY = 64 };

/* Memory blocks of a run, which kn_block_end frees together. */
struct kn_block {
    struct rt_run *r;
    void *memory[KN_BLOCK_MEMORY];
    int n_memory;
};

/* Returns zeroed memory for n floats, or NULL with the reason in r->err. */
float *kn_block_floats(struct kn_block *b, int64_t n);
/* Returns the elements of input k as floats: the input itself or a converted copy. */
const float *kn_block_in(struct kn_block *b, int k);
/* Makes output k, and returns zeroed floats for its elements. If the output has another type,
 * kn_block_end converts and writes them. */
float *kn_block_out(struct kn_block *b, int k, int rank, const int64_t *dim);
/* If st is RT_OK, converts the floats at out[k] to the type of output k, for each output k that is
 * not float, and writes them to the output.
 * Frees all memory. Returns `st`, or the status of a failed write. */
enum rt_status kn_block_end(struct kn_block *b, float *const *out, enum rt_status st);

/* Computes the product of row-major matrices and stores it in C, or adds it to C if `adds` is set
 * (kernels/matmul/gemm.h). */
enum rt_status kn_block_product(struct kn_block *b, bool adds, bool ta, bool tb, int64_t m,
                                int64_t n, int64_t k, const float *x, int64_t ldx, const float *y,
                                int64_t ldy, float *out, int64_t ldout);

/* Checks that dimension d of input k is `want`. `rule` describes the required value in error
 * messages. */
enum rt_status kn_block_dim(struct rt_run *r, int k, int d, int64_t want, const char *rule);
/* Checks the ranks of the inputs. Digit k of `ranks` is the rank of input k. */
enum rt_status kn_block_ranks(struct rt_run *r, const char *ranks);

#endif
