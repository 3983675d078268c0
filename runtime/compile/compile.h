/*
 * Compilation of a plan's segments for exact shapes. rt_session_compile (session.h) is the only
 * entry: it takes the pending compilations that runs and callables have put into a session's queue
 * (specialisation.h), and publishes the specialisations. It is called by the compiler's thread and
 * by the thread that loads a version. A run calls it only if the session's options say so
 * (compiles_inline, for tools and tests). No request waits for a compilation.
 *
 * Owner: a specialisation has a reference count; the caller of a function that makes one owns one
 * reference. Threads: any; plans are only read.
 * Errors: when a specialisation cannot be made, runs with its shapes continue to execute node by
 * node.
 */
#ifndef RT_COMPILE_H
#define RT_COMPILE_H

#include "runtime/plan/specialisation.h"

/* Makes the specialisation of the segment that begins at node `begin`, for the given live values.
 * The specialisation holds a copy of `live`, with `patch` and `n_patch` filled in. */
enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, struct rt_specialisation **out,
                                     struct rt_error *err);
/* Plans memory. Sets the offsets of n extents so that extents that are in use at the same step do
 * not overlap. Returns the size of the activation buffer, or SIZE_MAX if it is too large or memory
 * runs out. */
size_t rt_memory_plan_place(struct rt_extent *e, int n);

/* Returns the number of rows that a micro-batch of this specialisation should have, or 0 if the
 * batch should not be split. */
int64_t rt_micro_batch_rows(const struct rt_specialisation *l);
/* Makes the two specialisations that run micro-batches. *whole replaces `l` and has no steps of its
 * own; *micro_batch runs `rows` rows at a time. */
enum rt_status rt_micro_batches_new(const struct rt_specialisation *l, int64_t rows,
                                    struct rt_specialisation **whole,
                                    struct rt_specialisation **micro_batch, struct rt_error *err);

#endif
