/*
 * Effects of nodes that other runs see only if the whole run succeeds.
 *
 * Owner: a node that registers an effect owns the struct until `end` is called. Threads: `end` is
 * called on the run's thread.
 */
#ifndef RT_RUN_END_H
#define RT_RUN_END_H

#include <stdbool.h>

struct rt_run;

struct rt_run_end {
    struct rt_run_end *next;
    /* Called once, at the end of the run. Must not use the struct rt_run. May free the struct. */
    void (*end)(struct rt_run_end *e, bool has_succeeded);
};
void rt_run_at_end(struct rt_run *r, struct rt_run_end *e);

#endif
