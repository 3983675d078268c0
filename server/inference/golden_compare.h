/*
 * Whether a version answers what was recorded: serialized responses of one API, compared by what
 * they say, whichever of its forms the message has. Numbers of a floating type may be off by what
 * runtime/base/tolerance.h allows: `tolerance` times the largest magnitude that was recorded in
 * that output (the scores of an answer being one output), NaN equal to NaN; all else is equal or
 * not. Outputs that were not recorded do not matter, nor do the names and versions of models.
 * clients/cli/compare.h holds a replayed log to the same.
 *
 * Threads: pure.
 */
#ifndef SRV_GOLDEN_COMPARE_H
#define SRV_GOLDEN_COMPARE_H

#include "runtime/base/span.h"
#include "server/batching/job.h"

/* FAILED_PRECONDITION: names output, index and both values. INVALID_ARGUMENT: `want` is no such
 * message. `got` is our own. */
enum rt_status srv_golden_compare(enum srv_api api, struct rt_span got, struct rt_span want,
                                  double tolerance, struct rt_error *err);

/* The same of two tensors. */
enum rt_status srv_golden_tensor(const char *name, const struct rt_tensor *got,
                                 const struct rt_tensor *want, double tolerance,
                                 struct rt_error *err);

#endif
