/*
 * The ops that the runtime itself runs (core/control.c).
 *
 * Threads: called once for each registry, when it is made.
 */
#ifndef RT_CONTROL_H
#define RT_CONTROL_H

#include "runtime/core/registry.h"

/* Registers calls, branches, loops, placeholders and constants. False: as rt_registry_add_op. */
bool rt_register_control(struct rt_registry *r);

#endif
