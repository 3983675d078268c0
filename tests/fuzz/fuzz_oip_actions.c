/*
 * Reads arbitrary bytes as a request for one of the protocol's actions: settings of the log,
 * regions of shared memory, loads and unloads. The first byte selects the action. For a protobuf
 * message, the second byte selects the size of the slices that store the other bytes. Actions on
 * the log and on regions must respond exactly once. Requests for loads and unloads are only read.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "runtime/base/log.h"
#include "server/base/shared_memory.h"
#include "server/protocol/oip/oip.h"
#include "tests/fuzz/cost.h"

enum { LOADS = 6, KINDS = LOADS + 4 };

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

static const struct srv_action_steps *const steps[LOADS] = {
    &srv_oip_set_log_json,           &srv_oip_log,
    &srv_oip_region_register_json,   &srv_oip_region_register,
    &srv_oip_region_unregister_json, &srv_oip_region_unregister,
};

static int n_done;

static enum rt_status check(struct srv_action *a, bool is_admin)
{
    (void)a;
    (void)is_admin;
    return RT_OK;
}

static void done(struct srv_action *a, enum rt_status st)
{
    if (st && a->err->code != st)
        abort();
    n_done++;
}

/* Lists the regions. The list is empty, because no key in the input names an object of shared
 * memory. */
static void list(struct srv_server *server, struct srv_action *a)
{
    struct srv_description d = {
        .server = server, .arena = a->arena, .err = a->err, .message = a->message};

    if (srv_oip_regions.find(&d))
        return;
    srv_oip_regions.write(&d, a->out);
    srv_oip_regions_json.write(&d, a->out);
}

static void act(struct srv_server *server, struct rt_arena *arena, unsigned kind,
                struct srv_cursor message)
{
    struct rt_error err = {.arena = arena};
    struct rt_bytes out;
    struct srv_action a = {.server = server,
                           .arena = arena,
                           .err = &err,
                           .message = message,
                           .spec = {.name = rt_span_str("m")},
                           .out = &out,
                           .check = check,
                           .done = done};

    rt_bytes_init(&out, 1 << 20);
    n_done = 0;
    if (kind < LOADS)
        steps[kind]->perform(&a);
    else
        srv_oip_read_switch(&a, kind & 1, kind & 2);
    if (kind < LOADS && n_done != 1)
        abort();
    if (kind == 3)
        list(server, &a);
    rt_bytes_clear(&out);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct srv_server server;
    struct rt_arena *arena = rt_arena_new(16 << 20);

    if (!server.shared_memory)
        server.shared_memory = srv_shared_memory_new(1 << 20);
    if (!arena || size < 2) {
        rt_arena_free(arena);
        return;
    }
    const unsigned kind = data[0] % KINDS;
    const bool is_json = kind < LOADS ? kind % 2 == 0 : kind & 2;
    const size_t n = size - 2, step = is_json ? n + 1 : (size_t)data[1] + 1;
    struct rt_span *slices = rt_arena_array(arena, n / step + 2, sizeof *slices);
    for (size_t at = 0, k = 0; slices && at < n; at += step)
        slices[k++] = rt_span_of(data + 2 + at, n - at < step ? n - at : step);
    if (slices)
        act(&server, arena, kind, srv_cursor_of(slices, n));
    rt_arena_free(arena);
    /* restores the log level, which the input may have changed */
    atomic_store(&rt_log_level, RT_LOG_ERROR - 1);
}
