#include "server/config/edit_distance.h"

#include <limits.h>
#include <string.h>

enum { MAX_NAME = SRV_MAX_EDITED_NAME };

int srv_edit_distance(const char *a, size_t n_a, const char *b)
{
    int cost[MAX_NAME + 1];
    const size_t n_b = strlen(b);

    if (n_a > MAX_NAME || n_b > MAX_NAME)
        return INT_MAX;
    for (size_t j = 0; j <= n_b; j++)
        cost[j] = (int)j;
    for (size_t i = 0; i < n_a; i++) {
        int diagonal = cost[0];
        cost[0] = (int)i + 1;
        for (size_t j = 0; j < n_b; j++) {
            const int replaced = diagonal + (a[i] != b[j]);
            const int shifted = (cost[j] < cost[j + 1] ? cost[j] : cost[j + 1]) + 1;
            diagonal = cost[j + 1];
            cost[j + 1] = replaced < shifted ? replaced : shifted;
        }
    }
    return cost[n_b];
}
