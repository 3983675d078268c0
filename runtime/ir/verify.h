/*
 * The verifier: checks that a compiler graph is what every pass may rely on. It checks these rules
 * for the nodes that fetches, targets and control edges reach:
 *
 *   - an edge names a node of the graph and one of its outputs, and no removed node;
 *   - a value has the type that its reader declares, or is the handle of a variable whose value
 *     the reader takes;
 *   - every cycle goes through NextIteration;
 *   - a feed has its number, and every sub-plan is there.
 *
 * Owner: the graph stays the caller's. Threads: only the thread that makes the plan. Errors:
 * RT_INTERNAL names the node and the fault, which is a bug of the compiler. Without memory for the
 * walk a fault is not found.
 */
#ifndef RT_VERIFY_H
#define RT_VERIFY_H

#include "runtime/base/sanitizer.h"
#include "runtime/ir/ir.h"

/* 1 if the pipeline verifies the graph behind each pass: in debug builds (CMakeLists.txt) and in
 * those with a sanitizer. */
#if RT_HAS_SANITIZER || defined(RT_VERIFY_GRAPHS)
enum { PL_VERIFIES = 1 };
#else
enum { PL_VERIFIES = 0 };
#endif

/* Without `types`, checks all rules except types: the functions of a model may have other types
 * than their calls, which the runs of their nodes refuse. */
enum rt_status pl_verify(const struct pl_graph *g, bool types, struct rt_error *err);

#endif
