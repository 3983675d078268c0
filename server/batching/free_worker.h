/*
 * A free worker that asks the scheduler core for a batch (scheduler_core.h). Workers form groups;
 * those of a group run batches on the same device.
 */
#ifndef SRV_FREE_WORKER_H
#define SRV_FREE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

enum { SRV_CORE_GROUPS = 32 };

struct srv_core;

struct srv_core_worker {
    int group; /* less than SRV_CORE_GROUPS */
    /* number of free workers among which a batch may be divided, including this one */
    int n_free;
    /* whether the group has other workers that should be free soon, and all of them are busy */
    bool is_last;
    /* Mask of groups. The worker leaves the batches that these groups may run to them, because its
     * own device has failed. */
    uint32_t avoided;
    /* Free workers of other groups that will be free earlier than this worker's group. The worker
     * leaves the batches that one of them may take to it. */
    int n_sooner;
    const struct srv_core_worker *sooner;
};

/* Returns the expected time at which the device of the group will have done its running batches, or
 * `now` if it should have done them already. */
int64_t srv_core_free_at(const struct srv_core *c, int group, int64_t now);
/* Returns whether the device of group a, of whose workers busy_a are busy, will be free before that
 * of group b. Among devices that are free at the same time, this is the one whose latest batch
 * began first, so that idle devices take turns. */
bool srv_core_is_sooner(const struct srv_core *c, int a, int busy_a, int b, int busy_b,
                        int64_t now);

#endif
