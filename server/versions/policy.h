/*
 * Decides which versions of one model to load and unload. The functions are pure and use no clock,
 * locks or files. The manager asks for new decisions after every change. SRV_MOVE_UNLOAD begins the
 * retirement of a version (server/base/serving_map.h): the version leaves the serving map, and its
 * memory is freed when no I/O loop uses it. The version policy (source.h) selects the wanted
 * versions, and manager_watch.c marks them.
 */
#ifndef SRV_POLICY_H
#define SRV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/versions/status.h"

/* Returns whether the state change is legal. END may become START, because a failed version may be
 * retried, and an unloaded version may be wanted again. */
bool srv_state_may_become(enum srv_state from, enum srv_state to);

struct srv_version_view {
    int64_t version;
    enum srv_state state;
    bool wanted; /* whether the model's version policy selects the version */
    /* Whether a version in the state START may be loaded. Its files must be stable, and no pause
     * before a retry may be running. */
    bool may_load;
};

enum srv_move { SRV_MOVE_NONE, SRV_MOVE_LOAD, SRV_MOVE_UNLOAD };

/*
 * Decides the moves of one model's n versions and writes them to `moves`. The versions must be
 * sorted, highest first. The caller should perform all unloads before the loads, and begin the
 * loads of higher versions first. The time that a decision takes is proportional to n.
 *
 * If the transition is availability-preserving, unwanted versions are unloaded, and wanted versions
 * that may be loaded are loaded. If no wanted version is available, the highest available unwanted
 * version continues to serve.
 *
 * If the transition is resource-preserving (unload_before_load), an old and a new version are never
 * in memory at the same time. As soon as a wanted version may be loaded, all unwanted versions are
 * unloaded, and the load starts after they are gone. Until a wanted version may be loaded, at least
 * one unwanted version continues to serve.
 */
void srv_policy_decide(const struct srv_version_view *v, int n, bool unload_before_load,
                       enum srv_move *moves);

#endif
