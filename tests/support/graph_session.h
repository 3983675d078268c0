/*
 * Sessions of graphs that a test has written (tests/support/graph_def.h). Every call fails the test
 * if the runtime returns an error.
 */
#ifndef TESTS_SUPPORT_GRAPH_SESSION_H
#define TESTS_SUPPORT_GRAPH_SESSION_H

#include "runtime/base/bytes.h"
#include "runtime/session/session.h"

/* A session of the graph; the caller frees it. The ops are those of options->registry. */
struct rt_session *gs_open(struct rt_span graph, const struct rt_session_options *options);

/* The callable belongs to the session. */
struct rt_callable *gs_prepare(struct rt_session *s, const struct rt_call_spec *spec);
/* From one feed to one fetch; NULL: none. */
struct rt_callable *gs_call(struct rt_session *s, const char *feed, const char *fetch);

/* Runs a node that initialises state, as loading a model does. */
void gs_load(struct rt_session *s, const char *target);

#endif
