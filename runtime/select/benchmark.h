/*
 * Benchmarks of kernels (select/benchmark.c). A benchmark times the kernels that can run a node, on
 * generated inputs with the node's shapes.
 *
 * Owner: the caller owns the generated constants between benchmarks. Threads: any; only one
 * benchmark at a time may use the list of generated constants.
 */
#ifndef RT_BENCHMARK_H
#define RT_BENCHMARK_H

#include "runtime/core/kernel.h"

struct rt_pack;

/*
 * Benchmarks the kernels of a node and returns the index of the best, or -1 if the node cannot be
 * benchmarked. The first kernel must be the one that the rule chooses (choose.c). Subtracts the
 * time used from *left_ns. Sets ns[i] to the time of kernel i in nanoseconds for the node's own
 * batch size, or to -1 if the kernel did not run. *packs holds the generated constants, which later
 * benchmarks reuse; *packs is NULL before the first benchmark.
 */
int pl_benchmark(const struct rt_prep *prep, const struct rt_kernel *const *kernels, int n,
                 struct rt_pack **packs, int64_t *left_ns, int64_t *ns);
void pl_benchmark_packs_free(struct rt_pack *packs); /* does nothing if `packs` is NULL */
/* Implements rt_prep_pack for a kernel that is prepared for a benchmark. */
enum rt_status pl_benchmark_pack(struct rt_prep *p, int input, size_t bytes,
                                 const struct rt_pack **out);

#endif
