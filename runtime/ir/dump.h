/*
 * Text dumps of compiler graphs, for people. A dump has one line per node, with the node's index,
 * name, op, inputs and output types. Removed nodes are omitted. Example:
 *
 *   7 dense/BiasAdd: BiasAdd(4:0, 6:0, ^2) -> float32
 *
 * Input "4:0" is output 0 of node 4; "^2" is a control edge from node 2.
 *
 * Threads and owner: the graph and the buffer belong to the caller.
 */
#ifndef RT_DUMP_H
#define RT_DUMP_H

#include "runtime/base/bytes.h"
#include "runtime/ir/ir.h"

/* Appends a dump of the graph to `out`. The first line names the pass that has just run and the
 * roots of the graph, which are its fetches and targets. A target is written like "^2". A dump that
 * exceeds the buffer's capacity is truncated (rt_bytes.failed). */
void pl_dump(const struct pl_graph *g, const char *pass, struct rt_bytes *out);

#endif
