#include "runtime/fusion/rnn/cell_match.h"

#include <string.h>

bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c)
{
    static bool (*const match[RT_N_CELLS])(struct pl_match *, struct pl_edge, struct pl_edge) = {
#define X(name, ...) pl_match_##name,
        RT_CELLS(X)
#undef X
    };
    struct pl_match m = {g, c};

    for (int id = 0; id < RT_N_CELLS; id++) {
        *c = (struct pl_cell){.kind = rt_cell(id), .made = {h_new, {-1, 0}}};
        for (int k = 0; k < RT_RNN_LIMIT; k++)
            c->in[k] = (struct pl_edge){-1, 0};
        for (int k = 0; k < PL_BY_GATE; k++)
            for (int i = 0; i < 4; i++)
                c->gate[k][i] = (struct pl_edge){-1, 0};
        if (match[id](&m, h_new, h)) {
            c->made[0] = h_new;
            return true;
        }
    }
    return false;
}
