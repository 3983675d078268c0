/*
 * Goldens are recorded requests with the responses that a version must return. They are stored in
 * the version's directory. If a version responds differently, it is rejected like a version that
 * cannot be loaded, and the previous version continues to serve.
 *
 * A golden file has the format of a warm-up file (warmup.h). A record without a response is
 * replayed without a comparison. The tolerance for numbers is in a file beside the golden file.
 * Without this file, the tolerance is --golden_tolerance.
 */
#ifndef SRV_GOLDEN_H
#define SRV_GOLDEN_H

#include "server/server.h"

#define SRV_GOLDEN_FILE           "assets.extra/slipway_golden_requests"
#define SRV_GOLDEN_TOLERANCE_FILE "assets.extra/slipway_golden_tolerance"

/* Replays a version's goldens on a load thread. Fails with FAILED_PRECONDITION if a response
 * differs from the recorded one. The error names the record, the output, the index and both
 * values. */
enum rt_status srv_golden_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* Parses a tolerance file: one non-negative number, with optional blanks before and after it. */
bool srv_golden_read_tolerance(struct rt_span text, double *out);

#endif
