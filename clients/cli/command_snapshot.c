/* Implements `slipway snapshot`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli/cli.h"
#include "clients/cli/remote.h"
#include "proto/unpack.h"
#include "runtime/base/arena.h"
#include "runtime/base/print.h"
#include "slipway/admin_service.pb-c.h"

enum { TIMEOUT_S = 3600 }; /* the server writes all variables during the call */

struct snapshot {
    struct cl_target target;
    struct cl_version_flags version;
    const char *output;
    bool json;
};

#define AT(field) offsetof(struct snapshot, field)
static const struct cl_flag flags[] = {
    {"--output", CL_TEXT, AT(output), "DIR",
     "directory on the server in which the version is made, an absolute path", 0},
    {"--json", CL_SWITCH, AT(json), NULL, "print JSON", 0},
};
#undef AT

/* Prints the response. Returns the exit status. */
static int print_response(const Slipway__SnapshotResponse *r, const char *model, bool json)
{
    if (!json) {
        rt_print(stdout, "%s version %" PRId64 ", with the variables of version %" PRId64 ": %s\n",
                 model, r->version, r->from_version, r->path);
        return CL_EXIT_OK;
    }
    json_t *o = json_pack("{s:s, s:I, s:I, s:s}", "model", model, "version", (json_int_t)r->version,
                          "from_version", (json_int_t)r->from_version, "path", r->path);
    const int failed = o ? json_dumpf(o, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    json_decref(o);
    return failed ? CL_EXIT_FAILED : CL_EXIT_OK;
}

/* Calls the server. Sets *out to its response, which the caller frees. */
static enum rt_status call_server(const struct cl_remote *remote, Slipway__SnapshotRequest *request,
                                  Slipway__SnapshotResponse **out, struct rt_error *err)
{
    const struct slipway_call call = {.timeout_ms = remote->timeout_ms};
    const size_t size = slipway__snapshot_request__get_packed_size(request);
    unsigned char *message = malloc(size + 1), *response;
    struct slipway_error why;
    size_t n;

    if (!message)
        return rt_fail_memory(err, "a request", size);
    slipway__snapshot_request__pack(request, message);
    const enum slipway_code code = slipway_unary(remote->grpc, "/slipway.Admin/Snapshot", message,
                                                 size, &call, &response, &n, &why);
    free(message);
    if (code)
        return cl_of_slipway(&why, err);
    *out = pb_unpack(&slipway__snapshot_response__descriptor, rt_span_of(response, n), "the answer",
                     err);
    free(response);
    return *out ? RT_OK : pb_unpack_failed(err, RT_DATA_LOSS);
}

/* Sends the request, and prints the response. Returns the exit status. */
static int run(const struct snapshot *s, const char *model, struct rt_arena *arena,
               struct rt_error *err)
{
    Slipway__SnapshotRequest request;
    Slipway__SnapshotResponse *response;
    struct cl_remote remote = {0};
    struct slipway_model unused;
    enum rt_status st = cl_model_of(&unused, model, &s->version, err);

    if (!st && !s->output)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "--output is missing");
    if (!st)
        st = cl_remote_open(&remote, &s->target, arena, err);
    if (!st && !remote.grpc)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "snapshots are asked for by gRPC, not REST");
    if (st) {
        cl_remote_close(&remote);
        return cl_refused("snapshot", err);
    }
    slipway__snapshot_request__init(&request);
    request.model = (char *)(uintptr_t)model;
    request.output = (char *)(uintptr_t)s->output;
    if (s->version.version)
        request.version = (char *)(uintptr_t)s->version.version;
    st = call_server(&remote, &request, &response, err);
    cl_remote_close(&remote);
    if (st)
        return cl_failed("snapshot", err);
    const int code = print_response(response, model, s->json);
    pb_free(&response->base);
    return code;
}

int cl_command_snapshot(int argc, const char *const *argv)
{
    struct snapshot s = {.target = CL_TARGET_DEFAULTS};
    s.target.timeout_s = TIMEOUT_S;
    const struct cl_flag_set sets[] = {
        {flags, sizeof flags / sizeof *flags, &s},
        {cl_version_flags, 1, &s.version}, /* only --model_version */
        {cl_target_flags, CL_N_TARGET_FLAGS, &s.target},
    };
    const struct cl_usage usage = {
        .command = "snapshot",
        .synopsis = "MODEL --output DIR [flags]",
        .about =
            "Writes the present variables of a served model as a new, complete version into\n"
            "DIR, a directory of the server below its --model_write_directories. If DIR is the\n"
            "model's base path, the server goes on with the new version.\n",
        .min_words = 1,
        .max_words = 1,
        .sets = sets,
        .n_sets = 3};
    struct cl_list words;
    const int code = cl_flags_parse(&usage, argc, argv, &words);

    if (code >= 0)
        return code;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct rt_error err = {.arena = arena};
    if (!arena) {
        rt_fail_memory(&err, "a request", 0);
        return cl_failed("snapshot", &err);
    }
    const int result = run(&s, words.at[0], arena, &err);
    rt_arena_free(arena);
    return result;
}
