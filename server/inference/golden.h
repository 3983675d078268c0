/*
 * Goldens: requests with the answers that they must have, which a version brings along. One that
 * answers otherwise is refused like one that cannot be loaded, and the one before serves on.
 *
 * The file is of the same form as a warm-up file (warmup.h), records without a response being only
 * played; how far numbers may be off stands in a file beside it, else in --golden_tolerance.
 */
#ifndef SRV_GOLDEN_H
#define SRV_GOLDEN_H

#include "server/server.h"

#define SRV_GOLDEN_FILE           "assets.extra/slipway_golden_requests"
#define SRV_GOLDEN_TOLERANCE_FILE "assets.extra/slipway_golden_tolerance"

/* Load thread. FAILED_PRECONDITION names record, output, index and both values. */
enum rt_status srv_golden_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* The number in the tolerance file's text: at least 0, with blanks around it. */
bool srv_golden_read_tolerance(struct rt_span text, double *out);

#endif
