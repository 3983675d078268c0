/*
 * The verifier checks invariants on which every pass relies. It checks these rules for all nodes of
 * a compiler graph on which fetches and targets depend:
 *
 *   - an edge names an output of a node that is in the graph and has not been removed;
 *   - a value has the type that its reader declares, or is the handle of a variable whose value
 *     the reader accepts;
 *   - every cycle contains a NextIteration;
 *   - every feed has an index below the number of feeds, and every node has its sub-plans.
 *
 * Owner: the graph remains the caller's. Threads: only the thread that makes the plan. Errors:
 * RT_INTERNAL, with a message that names the node and the violation. A violation is a compiler bug.
 * If there is no memory for the traversal, violations are not found.
 */
#ifndef RT_VERIFY_H
#define RT_VERIFY_H

#include "runtime/base/sanitizer.h"
#include "runtime/ir/ir.h"

/* 1 if the pipeline verifies the graph after each pass, as in debug builds (CMakeLists.txt) and
 * builds with a sanitizer. */
#if RT_HAS_SANITIZER || defined(RT_VERIFY_GRAPHS)
enum { PL_VERIFIES = 1 };
#else
enum { PL_VERIFIES = 0 };
#endif

/* Verifies the graph. Types are not checked if `types` is false. Models may contain functions whose
 * types differ from those of their calls; nodes with such types fail when they run. */
enum rt_status pl_verify(const struct pl_graph *g, bool types, struct rt_error *err);

#endif
