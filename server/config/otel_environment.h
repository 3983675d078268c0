/*
 * The environment variables of OpenTelemetry that set the defaults of the flags for traces. A flag
 * on the command line overrides its variable.
 *
 * Threads: called on the main thread.
 */
#ifndef SRV_OTEL_ENVIRONMENT_H
#define SRV_OTEL_ENVIRONMENT_H

#include "server/config/options.h"

/* Sets the options that were not given as flags. `get` returns the value of a variable, or NULL.
 * Values that are malformed are ignored, and logged. The options keep pointers to the values. */
void srv_otel_environment(struct srv_options *o, char *(*get)(const char *name));

#endif
