/*
 * Requests that load or unload a model (srv_manager_switch). Only the manager's files include this
 * header.
 *
 * Threads: these functions run on the manager's thread.
 */
#ifndef SRV_MANAGER_SWITCH_H
#define SRV_MANAGER_SWITCH_H

#include <stdint.h>

struct srv_manager;

/* Begins the requests that have arrived since the last call. Called before base paths are
 * scanned. */
void srv_mgr_take_switches(struct srv_manager *m);
/* Ends the requests that are complete. Returns the latest time at which this function must be
 * called again. */
int64_t srv_mgr_check_switches(struct srv_manager *m, int64_t now);
/* Ends all requests because the server stops. */
void srv_mgr_end_switches(struct srv_manager *m);

#endif
