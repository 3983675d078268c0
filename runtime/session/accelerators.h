/*
 * The accelerators of a session (runtime/core/device.h). All are of one type, and each run uses one
 * of them (rt_run_options.accelerator). The session's constants are on every accelerator that has
 * run them. Specialisations with regions exist per accelerator; all else is shared.
 *
 * Owner: the accelerators must outlive the tensors of all runs.
 */
#ifndef RT_ACCELERATORS_H
#define RT_ACCELERATORS_H

#include "runtime/core/device.h"

struct rt_session_accelerators {
    int n; /* 0: all nodes run on the CPU */
    struct rt_device *device[RT_MAX_ACCELERATORS];
    /* Maximum number of bytes of each accelerator's memory for the session's constants and for the
     * activations of the runs that may be on it at a time, or 0 for no limit. Shapes that need more
     * run on the CPU. */
    size_t limit;
    /* Bit k is set if accelerator k had too little memory for the session's constants when it was
     * chosen, because it still holds another session that is about to end. Until it has room for
     * constant_bytes bytes, the CPU runs the session's nodes. */
    uint32_t waits;
    int64_t constant_bytes;
    /* maximum number of runs on each accelerator at a time, or 0 for the number of its streams */
    int max_runs;
    /* Whether all nodes that the accelerators can run are assigned to them. Otherwise, only nodes
     * whose device string names an accelerator are assigned to them. */
    bool run_all;
};

/* Returns a session's only accelerator, which runs all nodes that it can run. `d` may be NULL. */
static inline struct rt_session_accelerators rt_one_accelerator(struct rt_device *d)
{
    return (struct rt_session_accelerators){.n = d != NULL, .device = {d}, .run_all = d != NULL};
}

#endif
