/*
 * Computes the own time of each node in a trace. A node that contains others, such as a loop,
 * ends after them. Their times are subtracted from its time.
 *
 * Threads: the function is pure.
 */
#ifndef SRV_OWN_TIMES_H
#define SRV_OWN_TIMES_H

#include "runtime/exec/trace.h"

/* Calls `visit` for each node, in the order in which the nodes ended, with the time that it ran
 * without the nodes that ran between its start and its end. Stops if `visit` returns false. Returns
 * false if it did, or if the trace's arena has no memory left. */
bool srv_own_times(const struct rt_trace *t,
                   bool (*visit)(void *arg, const struct rt_trace_node *n, int64_t own_ns),
                   void *arg);

#endif
