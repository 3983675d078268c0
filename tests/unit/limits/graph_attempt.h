/*
 * Small graphs that expand to large structures, because their functions, branches, loops and
 * attributes are deep, wide or refer to themselves. Each graph is imported, searched for missing
 * ops, prepared, run and freed in its own process, on a thread with a small stack. It may be
 * refused with an error that states the exceeded limit, but the process must stay within limits on
 * memory and CPU time.
 *
 * A graph has an input "x", a bool, and an output "y".
 */
#ifndef TESTS_UNIT_LIMITS_GRAPH_ATTEMPT_H
#define TESTS_UNIT_LIMITS_GRAPH_ATTEMPT_H

#include "tests/support/test.h"

#include "tests/support/graph_def.h"

/* Builds, loads and runs a graph in a child process. Fails the test if the process dies or exceeds
 * its limits. `words` is part of the error with which the run must end, or NULL if the run must
 * succeed. Needs test_registry. */
void ga_attempt(const char *name, void (*build)(struct rt_bytes *g), const char *words);
#define GA_TRY(graph, words) ga_attempt(#graph, graph, words)

enum { GA_CHAIN = 12000 }; /* length of a chain of calls, far above the limit of 200 nested calls */

/* Adds a function with one bool argument "a" and one bool result, which is the first output of a
 * node with the op `op`. */
void ga_function(struct rt_bytes *g, const char *name, const char *op, const char *inputs,
                 const char *attrs);
/* Adds the input "x", and a node "y" that calls function `f` with "x" as its argument. */
void ga_main_call(struct rt_bytes *g, const char *f);
/* Adds functions f0 to fn and a node that calls f0. Each function except the last has one node,
 * which calls the next function. '#' in `attrs` stands for the number of the next function. */
void ga_chain(struct rt_bytes *g, int n, const char *op, const char *inputs, const char *attrs);
#define GA_CALL "Tin=[bool] Tout=[bool] f=@f#"
/* Writes `text` to `out` with `number` in place of each '#'. */
void ga_numbered(const char *text, int number, char *out);

#endif
