/*
 * Benchmarks of kernels (select/benchmark.c): times the kernels that can run a node, on made-up
 * inputs of the node's shapes.
 *
 * Owner: the caller keeps the made-up constants from one benchmark to the next.
 * Threads: any; one benchmark at a time has the list of constants.
 */
#ifndef RT_BENCHMARK_H
#define RT_BENCHMARK_H

#include "runtime/core/kernel.h"

struct rt_pack;

/*
 * Benchmarks the kernels of a node and returns the index of the best. The first kernel is the one
 * that the rule chose. -1: the node cannot be benchmarked. The time used is subtracted from
 * *left_ns. `ns` gets the time of each kernel for the batch given, or -1 for a kernel that did not
 * run. *packs holds the made-up constants, NULL at first, which later benchmarks reuse.
 */
int pl_benchmark(const struct rt_prep *prep, const struct rt_kernel *const *kernels, int n,
                 struct rt_pack **packs, int64_t *left_ns, int64_t *ns);
void pl_benchmark_packs_free(struct rt_pack *packs); /* NULL is fine */
/* rt_prep_pack for a kernel that is prepared for a benchmark. */
enum rt_status pl_benchmark_pack(struct rt_prep *p, int input, size_t bytes,
                                 const struct rt_pack **out);

#endif
