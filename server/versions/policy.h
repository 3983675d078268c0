/*
 * Decides which version of one model to load or unload next. The functions are pure and use no
 * clock, locks or files. The manager asks for a new decision after every change; tests pass plain
 * values. SRV_MOVE_UNLOAD begins the retirement of a version (server/base/serving_map.h): the
 * version leaves the serving map, and its memory is freed when no I/O loop holds it. Which versions
 * are wanted is decided by srv_source (source.h) and set by manager_watch.c.
 */
#ifndef SRV_POLICY_H
#define SRV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/versions/status.h"

/* Returns whether the state change is legal. END may become START, because a failed version is
 * tried again, and an unloaded version may be wanted again. */
bool srv_state_may_become(enum srv_state from, enum srv_state to);

struct srv_version_view {
    int64_t version;
    enum srv_state state;
    bool wanted; /* whether the model's version policy selects the version */
    /* whether a version in the state START may be loaded, that is, its files are stable and no
     * pause before a retry is running */
    bool may_load;
};

enum srv_move { SRV_MOVE_NONE, SRV_MOVE_LOAD, SRV_MOVE_UNLOAD };
struct srv_decision {
    enum srv_move move;
    int index; /* index of the version in the array of versions */
};

/*
 * Decides the next move for the n versions of one model, which may be in any order.
 *
 * If the transition is availability-preserving, a version that is no longer wanted is unloaded only
 * when no version is wanted any more, when a wanted one is available, or when another unwanted one
 * is available too; the lowest unwanted version is unloaded first. Otherwise the highest wanted
 * version that may be loaded is loaded.
 *
 * If it is resource-preserving (unload_before_load), an old and a new version are never in memory
 * at the same time. As soon as a wanted version may be loaded, all unwanted ones are unloaded, and
 * the load starts when they are gone. Until then the old versions continue to serve, even if no
 * wanted version can ever be loaded.
 */
struct srv_decision srv_policy_decide(const struct srv_version_view *v, int n,
                                      bool unload_before_load);

#endif
