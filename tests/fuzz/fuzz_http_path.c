/* Routes a request line. The input is a method and a raw URI, separated by the first space. */
#include <stdint.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/protocol/route.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    char method[16] = "";
    const uint8_t *space = size ? memchr(data, ' ', size) : NULL;
    size_t n = space ? (size_t)(space - data) : 0;
    if (!space || n >= sizeof method)
        return;
    memcpy(method, data, n);
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_route route;
    for (int set = 0; set <= SRV_ROUTES_OF_PAGE; set++)
        srv_route(&route, &srv_protocols, method, rt_span_of(space + 1, size - n - 1), "/metrics",
                  (enum srv_route_set)set, arena, &err);
    rt_arena_free(arena);
}
