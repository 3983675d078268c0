/*
 * Opens sessions on graphs that a test has written (tests/support/graph_def.h). Every function
 * fails the test if the runtime returns an error.
 */
#ifndef TESTS_SUPPORT_GRAPH_SESSION_H
#define TESTS_SUPPORT_GRAPH_SESSION_H

#include "runtime/base/bytes.h"
#include "runtime/session/session.h"

/* Opens a session on the graph with the ops of options->registry. The caller frees the session. */
struct rt_session *gs_open(struct rt_span graph, const struct rt_session_options *options);

/* Prepares a callable, which belongs to the session. */
struct rt_callable *gs_prepare(struct rt_session *s, const struct rt_call_spec *spec);
/* Prepares a callable from one feed to one fetch. NULL means no feed or no fetch. */
struct rt_callable *gs_call(struct rt_session *s, const char *feed, const char *fetch);

/* Runs a node that initialises state, as the server does when it loads a model. */
void gs_load(struct rt_session *s, const char *target);

#endif
