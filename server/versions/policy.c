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

void srv_policy_decide(const struct srv_version_view *v, int n, bool unload_before_load,
                       enum srv_move *moves)
{
    int n_wanted = 0, n_wanted_available = 0, n_new = 0, n_going = 0, highest_spare = -1;
    for (int i = 0; i < n; i++) {
        const bool available = v[i].state == SRV_AVAILABLE;
        n_wanted += v[i].wanted;
        n_going += v[i].state == SRV_UNLOADING;
        n_wanted_available += v[i].wanted && available;
        n_new += v[i].wanted && v[i].state == SRV_START && v[i].may_load;
        if (!v[i].wanted && available && highest_spare < 0)
            highest_spare = i;
    }
    const bool keeps_one =
        n_wanted > 0 && n_wanted_available == 0 && !(unload_before_load && n_new > 0);
    for (int i = 0; i < n; i++) {
        const bool spare = !v[i].wanted && v[i].state == SRV_AVAILABLE;
        moves[i] = spare && !(keeps_one && i == highest_spare) ? SRV_MOVE_UNLOAD : SRV_MOVE_NONE;
        n_going += moves[i] == SRV_MOVE_UNLOAD;
    }
    for (int i = 0; i < n && !(unload_before_load && n_going); i++)
        if (v[i].wanted && v[i].state == SRV_START && v[i].may_load)
            moves[i] = SRV_MOVE_LOAD;
}
