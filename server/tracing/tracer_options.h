/*
 * Makes the options of the tracer from the server's options, for the server and for `slipway
 * check-config`.
 */
#ifndef SRV_TRACER_OPTIONS_H
#define SRV_TRACER_OPTIONS_H

#include "runtime/base/arena.h"
#include "server/config/options.h"
#include "server/tracing/tracer.h"

/* Sets *out. There must be a collector, --otlp_endpoint. Texts are those of the options, or are
 * allocated in `arena`. */
enum rt_status srv_tracer_options(const struct srv_options *o, struct rt_arena *arena,
                                  struct srv_tracer_options *out, struct rt_error *err);

#endif
