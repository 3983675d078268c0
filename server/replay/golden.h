/*
 * Goldens are recorded requests with the responses that a version must return. They are stored in
 * the version's directory. A version that responds differently is rejected, as if it could not be
 * loaded, and the previous version continues to serve.
 *
 * A golden file has the format of a warm-up file (warmup.h). Records without a response are
 * replayed, but nothing is compared. The tolerance for numbers is read from a file beside the
 * golden file. If there is no such file, the tolerance is --golden_tolerance.
 */
#ifndef SRV_GOLDEN_H
#define SRV_GOLDEN_H

#include "server/server.h"

#define SRV_GOLDEN_FILE           "assets.extra/slipway_golden_requests"
#define SRV_GOLDEN_TOLERANCE_FILE "assets.extra/slipway_golden_tolerance"

/* Replays a version's goldens on a load thread. Fails with FAILED_PRECONDITION if a response
 * differs from the recorded one. The error message names the record, the output, the index and both
 * values. */
enum rt_status srv_golden_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* Parses a tolerance file, which contains one number that is not negative. Blanks before and after
 * the number are permitted. */
bool srv_golden_read_tolerance(struct rt_span text, double *out);

#endif
