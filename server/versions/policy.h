/*
 * Which version of one model to load or unload next. Pure: no clock, no locks, no files; the
 * manager asks again after every change, so that tests step it with plain values.
 */
#ifndef SRV_POLICY_H
#define SRV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/versions/status.h"

/* The table of legal moves. END may become START: a version that failed is tried again, one that
 * was unloaded may be wanted again. */
bool srv_state_may_become(enum srv_state from, enum srv_state to);

struct srv_version_view {
    int64_t version;
    enum srv_state state;
    bool wanted;   /* by the model's version policy */
    bool may_load; /* START: its directory is whole and stable, and no retry is waited for */
};

enum srv_move { SRV_MOVE_NONE, SRV_MOVE_LOAD, SRV_MOVE_UNLOAD };
struct srv_decision {
    enum srv_move move;
    int index; /* in the array given */
};

/*
 * Availability-preserving: a version that is no longer wanted goes only when nothing is wanted any
 * more, when a wanted one is available, or when another unwanted one is available too (the lowest
 * goes first). Else the highest wanted one that may be loaded is. Any order of `v`.
 *
 * unload_before_load, resource-preserving: two versions are never in memory because of a change. As
 * soon as a wanted version may be loaded, all that are not wanted go, and it is loaded when they
 * are gone. Until then, and if none ever comes, the old ones serve on.
 */
struct srv_decision srv_policy_decide(const struct srv_version_view *v, int n,
                                      bool unload_before_load);

#endif
