/*
 * Runs regions (plan/device_region.h) on the session's accelerator.
 *
 * Owner and threads: those of the context.
 */
#ifndef RT_REGION_RUN_H
#define RT_REGION_RUN_H

#include "runtime/exec/context.h"
#include "runtime/plan/specialisation.h"

/* Runs a region of specialisation `l` on a stream of the accelerator, and waits until the region
 * has finished. `arg` contains the arguments of the specialisation's execution instance. The
 * region's outputs are stored in the context's values. */
enum rt_status rt_region_run(struct rt_context *c, const struct rt_specialisation *l,
                             struct rt_region *r, const struct rt_tensor *arg,
                             struct rt_error *err);

/* Copies a loop's inputs to the accelerator if no iteration changes them and regions read them.
 * Iterations then need not copy them. `in` has the loop's inputs; the caller owns their references.
 * Does nothing if the session has no accelerator, or if the run's accelerator has failed. */
enum rt_status rt_region_copy_invariants(struct rt_context *c, const struct rt_plan_step *loop,
                                         struct rt_tensor *in, struct rt_error *err);

#endif
