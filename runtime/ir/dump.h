/*
 * A compiler graph as text, for people: one node a line, with its index, name, op, inputs and the
 * types of its outputs. Removed nodes are left out.
 *
 *   7 dense/BiasAdd: BiasAdd(4:0, 6:0, ^2) -> float32
 *
 * Input "4:0" is output 0 of node 4, "^2" a control edge from node 2.
 *
 * Owner and threads: the caller's.
 */
#ifndef RT_DUMP_H
#define RT_DUMP_H

#include "runtime/base/bytes.h"
#include "runtime/ir/ir.h"

/* Appends to `out`: first a line that names the pass which has just run and the roots of the graph:
 * its fetches, and its targets as "^2". A dump that exceeds the buffer's capacity is truncated
 * (rt_bytes.failed). */
void pl_dump(const struct pl_graph *g, const char *pass, struct rt_bytes *out);

#endif
