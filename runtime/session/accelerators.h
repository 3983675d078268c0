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
    /* Number of the load that makes the session, to which other sessions may have promised memory
     * (core/device/device_ledger.h), or 0. */
    uint64_t load;
    /* Bit k is set if accelerator k had too little memory for the session's constants when they
     * were reserved. Until the sessions that have promised their memory have freed it, the CPU runs
     * the session's nodes. Set by rt_session_reserve. */
    uint32_t waits;
    /* maximum number of runs on each accelerator at a time, or 0 for the number of its streams */
    int max_runs;
    /* Whether all nodes that the accelerators can run are assigned to them. Otherwise, only nodes
     * whose device string names an accelerator are assigned to them. */
    bool run_all;
};

struct rt_session;

/* Receives the reason why an accelerator has no room for the session's constants. `waits` says
 * whether it will have room when other sessions have freed their memory. */
typedef void rt_no_room(void *arg, bool waits, const struct rt_error *why);
/*
 * Reserves memory for the constants that the session's plans read on its accelerators
 * (core/device/device_ledger.h). Removes accelerators without room from the session, unless it
 * waits for memory there. Returns true if it has removed all of them; the plans must then be made
 * again. Called once, when the plans have been made and nothing has been compiled. `no_room` may be
 * NULL.
 */
bool rt_session_reserve(struct rt_session *s, rt_no_room *no_room, void *arg);
/* Gives back what is reserved for constants that have not been uploaded, except where the session
 * waits for memory. Called when everything known has been compiled. */
void rt_session_end_reservations(struct rt_session *s);
/* Promises the memory of the session's constants to a load. Called when the session is to end. */
void rt_session_promise(struct rt_session *s, uint64_t load);

/* Returns a session's only accelerator, which runs all nodes that it can run. `d` may be NULL. */
static inline struct rt_session_accelerators rt_one_accelerator(struct rt_device *d)
{
    return (struct rt_session_accelerators){.n = d != NULL, .device = {d}, .run_all = d != NULL};
}

#endif
