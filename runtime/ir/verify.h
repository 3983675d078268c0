/*
 * Whether a compiler graph is what every pass may rely on. Of the nodes that fetches, targets and
 * control edges reach:
 *
 *   - an edge names a node of the graph and one of its outputs, and no node that was removed;
 *   - what an edge carries has the type that its reader declares, or is the handle of a variable
 *     whose value the reader takes;
 *   - there is no cycle but through NextIteration;
 *   - a feed has its number, and every sub-plan is there.
 *
 * Owner: the graph stays the caller's. Threads: that which makes the plan. Errors: RT_INTERNAL
 * names the node and the fault, which is one of our own. What has no memory to be found is not
 * found.
 */
#ifndef RT_VERIFY_H
#define RT_VERIFY_H

#include "runtime/base/sanitizer.h"
#include "runtime/ir/ir.h"

/* Whether the pipeline verifies each graph behind each pass: builds for debugging (CMakeLists.txt)
 * and those with a sanitizer. */
#if RT_HAS_SANITIZER || defined(RT_VERIFY_GRAPHS)
enum { PL_VERIFIES = 1 };
#else
enum { PL_VERIFIES = 0 };
#endif

/* Without `types` all but those: the functions of a model may be of other types than their calls,
 * which the runs of their nodes refuse. */
enum rt_status pl_verify(const struct pl_graph *g, bool types, struct rt_error *err);

#endif
