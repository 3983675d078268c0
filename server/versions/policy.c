#include "server/versions/policy.h"

bool srv_state_may_become(enum srv_state from, enum srv_state to)
{
    switch (from) {
    case SRV_STATE_UNKNOWN:
        return to == SRV_START;
    case SRV_START:
        return to == SRV_LOADING || to == SRV_END;
    case SRV_LOADING:
        return to == SRV_AVAILABLE || to == SRV_END;
    case SRV_AVAILABLE:
        return to == SRV_UNLOADING;
    case SRV_UNLOADING:
        return to == SRV_END;
    case SRV_END:
        return to == SRV_START;
    }
    return false;
}

struct srv_decision srv_policy_decide(const struct srv_version_view *v, int n,
                                      bool unload_before_load)
{
    int n_wanted = 0, n_wanted_available = 0, n_spare = 0, n_going = 0;
    int lowest_spare = -1, highest_new = -1;
    for (int i = 0; i < n; i++) {
        bool available = v[i].state == SRV_AVAILABLE;
        n_wanted += v[i].wanted;
        n_going += v[i].state == SRV_UNLOADING;
        n_wanted_available += v[i].wanted && available;
        if (!v[i].wanted && available) {
            n_spare++;
            if (lowest_spare < 0 || v[i].version < v[lowest_spare].version)
                lowest_spare = i;
        }
        if (v[i].wanted && v[i].state == SRV_START && v[i].may_load &&
            (highest_new < 0 || v[i].version > v[highest_new].version))
            highest_new = i;
    }
    bool unloads_first = unload_before_load && highest_new >= 0;
    if (n_spare && (n_wanted == 0 || n_wanted_available > 0 || n_spare > 1 || unloads_first))
        return (struct srv_decision){SRV_MOVE_UNLOAD, lowest_spare};
    if (highest_new >= 0 && !(unload_before_load && n_going))
        return (struct srv_decision){SRV_MOVE_LOAD, highest_new};
    return (struct srv_decision){SRV_MOVE_NONE, -1};
}
