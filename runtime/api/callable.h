/*
 * Declares the internal functions of callables (api/callable.c). The functions that programs call
 * are in session.h.
 *
 * Owner: the session. Threads: the thread that frees the session.
 */
#ifndef RT_CALLABLE_H
#define RT_CALLABLE_H

#include "runtime/session/session.h"

void rt_callable_free(struct rt_callable *c);

#endif
