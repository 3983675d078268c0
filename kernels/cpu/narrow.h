/*
 * Constant float matrices in 28 bits a weight, nothing lost: a product with few rows reads its
 * matrix from memory or the last cache at their speed, whatever the loop does, so that an eighth
 * fewer bytes are an eighth less time. (More often than not: a matrix that lies in the nearest
 * caches is read faster than it is unpacked.)
 *
 * Nearly all weights of a matrix have one of 15 neighbouring exponents; four bits say which, or
 * that the exponent is 0 (zeros, subnormals). What has another one, up to 1 in NARROW_ODD, is kept
 * apart.
 */
#ifndef KN_CPU_NARROW_H
#define KN_CPU_NARROW_H

#include "runtime/op.h"

enum {
    KN_NARROW_ODD = 512,
    KN_NARROW_ROWS = 4, /* of a product, at most: with more, reading is no longer what takes time */
};

struct kn_narrow {
    int64_t k, n; /* at least 1, below INT32_MAX */
};
/* Whether there is a loop for this processor. */
bool kn_narrow_here(void);
/* Whether it is faster here than reading weights as they are; measured, once. */
bool kn_narrow_pays(void);
/* -1: too large. */
int64_t kn_narrow_bytes(const struct kn_narrow *f);
/* b: [k, n], `turned`: [n, k]. False: too many weights have odd exponents. */
bool kn_narrow_pack(const struct kn_narrow *f, const float *b, bool turned, void *packed);
/* c [m, n] = a [m, k] times the matrix, dense; m at most KN_NARROW_ROWS. */
enum rt_status kn_narrow_product(const struct kn_narrow *f, int64_t m, const float *a,
                                 const void *packed, float *c, struct rt_run *r);

#endif
