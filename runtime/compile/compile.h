/*
 * Compilation of a plan's segments for exact shapes. rt_session_compile (session.h) is the only
 * entry point. It takes the compilations that runs and callables have put into a session's queue
 * (specialisation.h), and publishes the specialisations. The compiler's thread and the thread that
 * loads a version call it. A run calls it only if the session's option compiles_inline is set, by
 * tools or tests. No request waits for a compilation.
 *
 * Owner: a specialisation has a reference count; the caller of a function that makes a
 * specialisation owns one reference. Threads: any; plans are only read. Errors: if a specialisation
 * cannot be made, runs with its shapes continue to execute node by node.
 */
#ifndef RT_COMPILE_H
#define RT_COMPILE_H

#include "runtime/plan/specialisation.h"

/* Creates a specialisation of the segment that begins at node `begin`, for the given live values
 * and the session's accelerator with the given index. The specialisation has a copy of `live`, in
 * which this function sets `patch` and `n_patch`. */
enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, int accelerator, struct rt_specialisation **out,
                                     struct rt_error *err);
/* Plans memory: sets the offsets of n extents so that extents in use at the same step do not
 * overlap. Returns the size of the activation buffer, or SIZE_MAX if it is too large or memory runs
 * out. */
size_t rt_memory_plan_place(struct rt_extent *e, int n, bool on_device);

/* Returns how many rows a micro-batch of this specialisation should have, or 0 if the batch should
 * not be split. */
int64_t rt_micro_batch_rows(const struct rt_specialisation *l);
/* Makes the two specialisations that run a batch in micro-batches: *whole replaces `l` and has no
 * steps of its own, and *micro_batch runs `rows` rows at a time. */
enum rt_status rt_micro_batches_new(const struct rt_specialisation *l, int64_t rows,
                                    struct rt_specialisation **whole,
                                    struct rt_specialisation **micro_batch, struct rt_error *err);

#endif
