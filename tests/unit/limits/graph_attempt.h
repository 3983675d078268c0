/*
 * Graphs that are small in bytes and large in what they name: deep, wide or self-referring
 * functions, branches, loops and attributes. Each is imported, searched for missing ops, prepared,
 * run and freed in a process of its own, on a thread with a small stack. It may be refused, with
 * the limit in the text of the error, but must stay within bounds of memory and processor time.
 *
 * A graph has an input "x", a bool, and an output "y".
 */
#ifndef TESTS_UNIT_LIMITS_GRAPH_ATTEMPT_H
#define TESTS_UNIT_LIMITS_GRAPH_ATTEMPT_H

#include "tests/support/test.h"

#include "tests/support/graph_def.h"

/* Builds a graph in a child process, loads and runs it there, and fails the test where the process
 * dies or leaves its bounds. `words`: a part of the error that it must end with; NULL: the graph
 * must run. Needs test_registry. */
void ga_attempt(const char *name, void (*build)(struct rt_bytes *g), const char *words);
#define GA_TRY(graph, words) ga_attempt(#graph, graph, words)

enum { GA_CHAIN = 12000 }; /* far more than the 200 calls that may be nested */

/* Adds a function from bool "a" to bool. It returns the first output of one node of this op. */
void ga_function(struct rt_bytes *g, const char *name, const char *op, const char *inputs,
                 const char *attrs);
/* Adds "x" and "y", which calls function `f` with it. */
void ga_main_call(struct rt_bytes *g, const char *f);
/* Functions f0 to fn, each but the last with one node that calls the next, and a call of f0. '#' in
 * `attrs` stands for the number of the next function. */
void ga_chain(struct rt_bytes *g, int n, const char *op, const char *inputs, const char *attrs);
#define GA_CALL "Tin=[bool] Tout=[bool] f=@f#"
/* Writes `text` to `out`, with `number` for each '#'. */
void ga_numbered(const char *text, int number, char *out);

#endif
