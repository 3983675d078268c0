/*
 * Compares a version's response with a recorded one. Both are serialized responses of the same API.
 * The comparison uses their contents, because a message can be encoded in several ways.
 * Floating-point numbers may differ by `tolerance` times the largest recorded magnitude in the same
 * output (runtime/base/tolerance.h). All scores in a response count as one output. NaN equals NaN.
 * Everything else must be equal. Outputs that were not recorded are ignored, and so are the names
 * and versions of models. clients/cli/compare.h compares replayed logs by the same rules.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_GOLDEN_COMPARE_H
#define SRV_GOLDEN_COMPARE_H

#include "runtime/base/span.h"
#include "server/base/budget.h"
#include "server/base/api.h"

struct rt_tensor;

/* Compares the response `got` with the recorded response `want`. If they differ, fails with
 * FAILED_PRECONDITION, and the error names the output, the index and both values. If `want` is
 * malformed, fails with INVALID_ARGUMENT. The tensors of both are charged to `growth`, which may be
 * NULL, while they are compared. If `growth` reports a cancellation, the status is undefined. */
enum rt_status srv_golden_compare(enum srv_api api, struct rt_span got, struct rt_span want,
                                  double tolerance, struct srv_growth *growth,
                                  struct rt_error *err);

enum rt_status srv_golden_tensor(const char *name, const struct rt_tensor *got,
                                 const struct rt_tensor *want, double tolerance,
                                 struct rt_error *err);

#endif
