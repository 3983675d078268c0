/*
 * The ops that the runtime itself implements (core/control.c).
 *
 * Threads: rt_register_control is called once for each registry, when the registry is made.
 */
#ifndef RT_CONTROL_H
#define RT_CONTROL_H

#include "runtime/core/registry.h"

/* Registers calls, branches, loops, placeholders and constants. Returns false if rt_registry_add_op
 * fails. */
bool rt_register_control(struct rt_registry *r);

#endif
