/*
 * Compilation of a plan's segment for exact shapes. rt_session_compile (session.h) is the only
 * entry: it takes the pending compilations that runs and callables have put into a session's queue
 * (specialisation.h), and publishes the specialisations. The compiler's thread calls it, and the
 * thread that loads a version; a run calls it only where the session's options say so
 * (compiles_inline: tools and tests). No request waits for it.
 *
 * Owner: a specialisation is counted by references; *out holds one. Threads: any; plans are only
 * read.
 * Errors: when a specialisation cannot be made, runs of its shapes go on node by node.
 */
#ifndef RT_COMPILE_H
#define RT_COMPILE_H

#include "runtime/plan/specialisation.h"

/* Makes the specialisation of the segment that begins at `begin`, for these live values.
 * The specialisation holds a copy of them, in which `patch` and `n_patch` are filled in. */
enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, struct rt_specialisation **out,
                                     struct rt_error *err);
/* Memory planning: sets the offsets of n extents so that no two that are in use at the same step
 * overlap. Returns the size of the whole buffer; SIZE_MAX: out of memory, or too large. */
size_t rt_memory_plan_place(struct rt_extent *e, int n);

/* The number of rows that a micro-batch of this specialisation should have; 0: run all rows at
 * once. */
int64_t rt_micro_batch_rows(const struct rt_specialisation *l);
/* Makes both specialisations that run micro-batches: *whole replaces `l` and has no steps of its
 * own, *micro_batch runs `rows` rows at a time. */
enum rt_status rt_micro_batches_new(const struct rt_specialisation *l, int64_t rows,
                                    struct rt_specialisation **whole,
                                    struct rt_specialisation **micro_batch, struct rt_error *err);

#endif
