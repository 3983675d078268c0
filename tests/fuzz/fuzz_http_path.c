/* A request line's method and raw URI, separated by the first space. */
#include <stdint.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char method[16] = "";
    const uint8_t *space = size ? memchr(data, ' ', size) : NULL;
    size_t n = space ? (size_t)(space - data) : 0;
    if (!space || n >= sizeof method)
        return 0;
    memcpy(method, data, n);
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_route route;
    srv_route(&route, method, rt_span_of(space + 1, size - n - 1), "/metrics", arena, &err);
    rt_arena_free(arena);
    return 0;
}
