/*
 * Decides which version of one model to load or unload next. Pure: no clock, no locks, no files.
 * The manager calls again after every change; tests pass plain values. SRV_MOVE_UNLOAD begins the
 * retirement of a version (server/base/serving_map.h): it leaves the serving map, and its memory is
 * freed when no I/O loop holds it.
 */
#ifndef SRV_POLICY_H
#define SRV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/versions/status.h"

/* The table of legal state changes. END may become START: a failed version is tried again, and an
 * unloaded version may be wanted again. */
bool srv_state_may_become(enum srv_state from, enum srv_state to);

struct srv_version_view {
    int64_t version;
    enum srv_state state;
    bool wanted; /* wanted by the model's version policy */
    /* for a version in START: its files are stable, and no retry pause is running */
    bool may_load;
};

enum srv_move { SRV_MOVE_NONE, SRV_MOVE_LOAD, SRV_MOVE_UNLOAD };
struct srv_decision {
    enum srv_move move;
    int index; /* index into the given array */
};

/*
 * Availability-preserving: a version that is no longer wanted is unloaded only when no version is
 * wanted any more, when a wanted one is available, or when another unwanted one is available too;
 * the lowest goes first. Otherwise the highest wanted version that may be loaded is loaded. `v` is
 * in any order.
 *
 * Resource-preserving (unload_before_load): a version change never has two versions in memory. As
 * soon as a wanted version may be loaded, all unwanted ones are unloaded, and the load starts when
 * they are gone. Until then, and if no such version ever comes, the old versions go on serving.
 */
struct srv_decision srv_policy_decide(const struct srv_version_view *v, int n,
                                      bool unload_before_load);

#endif
