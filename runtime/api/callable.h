/*
 * Declares the internal functions of callables (api/callable.c). Programs use the functions in
 * session.h.
 *
 * Owner: a callable belongs to its session. Threads: only the thread that frees the session frees
 * its callables.
 */
#ifndef RT_CALLABLE_H
#define RT_CALLABLE_H

#include "runtime/base/map.h"
#include "runtime/session/session.h"

void rt_callable_free(struct rt_callable *c);
/* Returns whether the callable's plan assigns at least one node to the session's accelerators. */
bool rt_callable_is_accelerated(const struct rt_callable *c);
/* Adds to *bytes the size of the constants that the steps of the callable's plan read on
 * accelerators, except those in `seen`, and adds them to `seen`. */
void rt_callable_add_constants(const struct rt_callable *c, struct rt_map *seen, int64_t *bytes);

#endif
