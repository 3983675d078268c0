/*
 * Compiling a segment of a plan for exact shapes. rt_session_compile (session.h) is the only entry:
 * it takes from a session's queue what runs and callables want (layout.h) and publishes the
 * layouts. It is called by the compiler's thread and by the thread that loads a version, and by a
 * run only where the session's options say so (compiles_inline: tools and tests). No request waits
 * for it.
 *
 * Owner: a layout is counted by references; *out has one. Threads: any; plans are only read.
 * Errors: what prevents a layout is the reason why its shapes go on being run node by node.
 */
#ifndef RT_COMPILE_H
#define RT_COMPILE_H

#include "runtime/plan/specialisation.h"

/* The layout of the segment that begins at `begin`, for these live values (with room for their
 * patches, which it fills in). */
enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, struct rt_specialisation **out,
                                     struct rt_error *err);
/* Two that are in use at one step do not overlap. The size of the whole; SIZE_MAX: no memory, or
 * too large. */
size_t rt_memory_plan_place(struct rt_extent *e, int n);

/* How many rows of a layout's feeds are better run at a time; 0: all. */
int64_t rt_micro_batch_rows(const struct rt_specialisation *l);
/* The layouts for that: *whole takes the place of `l`, *portion runs so many rows. */
enum rt_status rt_micro_batches_new(const struct rt_specialisation *l, int64_t rows,
                                    struct rt_specialisation **whole,
                                    struct rt_specialisation **micro_batch, struct rt_error *err);

#endif
