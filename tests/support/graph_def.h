/*
 * Writes GraphDefs for tests, node by node, in the binary format of model files.
 *
 *   gd_node(&g, "sum", "AddN", "x y ^after", "N=2 T=float");
 *
 * Attributes are KEY=VALUE, separated by blanks. Values: 7, 1.5f, true, 'text', float (a type),
 * <2,-1> (a shape), <?> (an unknown shape), $T (a placeholder), @f (a function; @f(T=float) with an
 * attribute), float<2>:1,2 (a tensor with these values), [..] (a list of values of one kind,
 * separated by commas), ! (no value). An op may be followed by '@' and the node's device.
 */
#ifndef TESTS_SUPPORT_GRAPH_DEF_H
#define TESTS_SUPPORT_GRAPH_DEF_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

void gd_node(struct rt_bytes *graph, const char *name, const char *op, const char *inputs,
             const char *attrs);

/* One row of a table of nodes: the arguments of gd_node. */
struct gd_line {
    const char *name, *op, *inputs, *attrs;
};
/* Adds the nodes of a table, which ends with a row without a name. Unless `other` is NULL, `other`
 * replaces the node of the same name. */
void gd_lines(struct rt_bytes *graph, const struct gd_line *lines, const struct gd_line *other);

/*
 * Adds a function. `args` and `outs` are lists such as "x:float y:N*T z:*Ts". After the colon comes
 * a type or the name of an attribute. A prefix N* means N tensors, where N is an attribute, and a
 * prefix * means a list of types. `nodes` holds nodes that gd_node wrote into a separate buffer.
 * `rets` is a list such as "out=node:y:0", and `ctrl_rets` a list such as "c=node".
 */
void gd_function(struct rt_bytes *graph, const char *name, const char *args, const char *outs,
                 const struct rt_bytes *nodes, const char *rets, const char *ctrl_rets);
struct rt_span gd_span(const struct rt_bytes *b);

#endif
