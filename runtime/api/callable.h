/*
 * Callables, for the session that holds them (api/callable.c). What programs call is in session.h.
 *
 * Owner: the session. Threads: the one that frees the session.
 */
#ifndef RT_CALLABLE_H
#define RT_CALLABLE_H

#include "runtime/session/session.h"

void rt_callable_free(struct rt_callable *c);

#endif
