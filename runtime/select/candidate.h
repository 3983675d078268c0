/* What choosing a node's kernel (choose.c) and trying candidates for it (trial.c) share. */
#ifndef RT_CANDIDATE_H
#define RT_CANDIDATE_H

#include "runtime/core/op.h"

enum { PL_MOST_KERNELS = 16 }; /* of one node */

/* This kernel's prepare: kernel, state, release and scratch_bytes of prep->self. What a failed one
 * has handed out is released. */
enum rt_status pl_prepare_candidate(struct rt_prep *prep, const struct rt_kernel *k);

#endif
