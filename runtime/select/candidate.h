/* Declares a function that the choice of a node's kernel (choose.c) and the benchmark of its
 * candidates (benchmark.c) share. Threads: the thread of the caller, which owns `prep`. */
#ifndef RT_CANDIDATE_H
#define RT_CANDIDATE_H

#include "runtime/core/kernel.h"

enum { PL_MOST_KERNELS = 16 };

/* Runs the prepare function of kernel k. Sets kernel, state, release and scratch_bytes of
 * prep->self. If the function fails, releases everything that it has made. */
enum rt_status pl_prepare_candidate(struct rt_prep *prep, const struct rt_kernel *k);

#endif
