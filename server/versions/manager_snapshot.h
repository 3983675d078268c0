/*
 * The thread that writes snapshots of versions (srv_manager_snapshot). Only the manager's files
 * include this header.
 *
 * Threads: these functions run on the manager's thread.
 */
#ifndef SRV_MANAGER_SNAPSHOT_H
#define SRV_MANAGER_SNAPSHOT_H

#include <stdbool.h>

struct srv_manager;
struct srv_version;

/* Returns whether a snapshot of the version is being written or waits for its turn. When a snapshot
 * has ended, the manager is woken. */
bool srv_mgr_is_in_snapshot(struct srv_manager *m, const struct srv_version *v);
/* Ends all snapshots because the server stops, and frees the thread. */
void srv_mgr_end_snapshots(struct srv_manager *m);

#endif
