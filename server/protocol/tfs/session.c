/* Implements SessionRun: feeds and fetches any tensors of the graph by name. */
#include <string.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/session_proto.h"
#include "server/protocol/tfs/tfs.h"

struct session {
    struct srv_session_request request;
    int *feed;  /* for each feed of the request, its index among the feeds of the callable */
    int *fetch; /* for each fetch of the request, its index among the fetches of the callable */
    struct rt_call_spec spec;
    struct rt_trace trace;
};

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct session *call = rt_arena_alloc(inf->arena, sizeof *call);

    if (!call)
        return rt_fail_memory(err, "a request", sizeof *call);
    inf->request = call;
    struct srv_session_request *r = &call->request;
    enum rt_status st = srv_session_read(message, r, inf->arena, err);
    inf->has_spec = r->has_spec;
    inf->spec = r->spec;
    if (r->timeout_ms > 0 && __builtin_mul_overflow(r->timeout_ms, 1000, &inf->timeout_us))
        inf->timeout_us = INT64_MAX;
    return st;
}

/* ---- names ---- */

/* Returns the name of a tensor including its output index: "x" becomes "x:0". Returns NULL if
 * memory runs out. */
static const char *whole_name(struct srv_inference *inf, const char *name)
{
    return strchr(name, ':') ? name : rt_arena_printf(inf->arena, "%s:0", name);
}

/* Sets *out to the name that a tensor has in the graph. `name` is the name of the tensor in the
 * request. If `sig` is not NULL, `name` is an alias of an input or output of `sig`. */
static enum rt_status graph_name(struct srv_inference *inf, const struct rt_signature *sig,
                                 bool is_feed, const char *name, const char **out,
                                 struct rt_error *err)
{
    if (sig) {
        const struct rt_tensor_spec *spec =
            is_feed ? rt_signature_input(sig, name) : rt_signature_output(sig, name);
        if (!spec)
            return rt_fail(err, RT_INVALID_ARGUMENT, "signature \"%s\" has no %s \"%s\"", sig->name,
                           is_feed ? "input" : "output", name);
        name = spec->name;
    }
    *out = whole_name(inf, name);
    return *out ? RT_OK : rt_fail_memory(err, "the name of a tensor", 0);
}

/* ---- the call ---- */

static enum rt_status name_feeds(struct srv_inference *inf, const struct rt_signature *sig,
                                 struct session *call, struct rt_error *err)
{
    const struct srv_session_request *r = &call->request;
    const char **names = rt_arena_array(inf->arena, (size_t)r->n_feeds + 1, sizeof *names);
    const char **sorted = rt_arena_array(inf->arena, (size_t)r->n_feeds + 1, sizeof *names);
    bool *fed = rt_arena_array(inf->arena, (size_t)r->n_feeds + 1, sizeof *fed);
    enum rt_status st = RT_OK;

    call->feed = rt_arena_array(inf->arena, (size_t)r->n_feeds + 1, sizeof *call->feed);
    if (!names || !sorted || !fed || !call->feed)
        return rt_fail_memory(err, "a request", 0);
    for (int i = 0; i < r->n_feeds && !st; i++) {
        st = graph_name(inf, sig, true, r->feeds[i].name, &names[i], err);
        sorted[i] = names[i];
    }
    if (st)
        return st;
    int n = srv_sort_names(sorted, r->n_feeds);
    for (int i = 0; i < r->n_feeds; i++) {
        call->feed[i] = srv_place_of(sorted, n, names[i]);
        if (fed[call->feed[i]])
            return rt_fail(err, RT_INVALID_ARGUMENT, "Endpoint \"%s\" fed more than once.",
                           names[i]);
        fed[call->feed[i]] = true;
    }
    call->spec.feeds = sorted;
    call->spec.n_feeds = n;
    call->spec.is_client_named = true;
    return RT_OK;
}

static enum rt_status name_fetches(struct srv_inference *inf, const struct rt_signature *sig,
                                   struct session *call, struct rt_error *err)
{
    const struct srv_session_request *r = &call->request;
    const char **names = rt_arena_array(inf->arena, (size_t)r->n_fetches + 1, sizeof *names);
    const char **sorted = rt_arena_array(inf->arena, (size_t)r->n_fetches + 1, sizeof *names);
    const char **targets = rt_arena_array(inf->arena, (size_t)r->n_targets + 1, sizeof *targets);
    enum rt_status st = RT_OK;

    call->fetch = rt_arena_array(inf->arena, (size_t)r->n_fetches + 1, sizeof *call->fetch);
    if (!names || !sorted || !targets || !call->fetch)
        return rt_fail_memory(err, "a request", 0);
    for (int i = 0; i < r->n_fetches && !st; i++) {
        st = graph_name(inf, sig, false, r->fetches[i], &names[i], err);
        sorted[i] = names[i];
    }
    if (st)
        return st;
    call->spec.fetches = sorted;
    call->spec.n_fetches = srv_sort_names(sorted, r->n_fetches);
    for (int i = 0; i < r->n_fetches; i++)
        call->fetch[i] = srv_place_of(sorted, call->spec.n_fetches, names[i]);
    for (int i = 0; i < r->n_targets; i++)
        targets[i] = r->targets[i];
    call->spec.targets = targets;
    call->spec.n_targets = srv_sort_names(targets, r->n_targets);
    return RT_OK;
}

static enum rt_status resolve(struct srv_inference *inf, struct rt_error *err)
{
    struct session *call = inf->request;
    const struct srv_session_request *r = &call->request;
    const struct rt_model_signature *sig = NULL;
    enum rt_status st = RT_OK;

    if (r->names_are_aliases)
        st = srv_inference_signature(inf, inf->spec.signature, &sig, RT_INVALID_ARGUMENT,
                                     "No signature was found with the name: %s", err);
    if (!st)
        st = name_feeds(inf, sig ? sig->def : NULL, call, err);
    if (!st)
        st = name_fetches(inf, sig ? sig->def : NULL, call, err);
    if (st)
        return st;
    if (r->wants_times || r->wants_graph) {
        call->trace = (struct rt_trace){
            .arena = inf->arena, .wants_times = r->wants_times, .wants_graph = r->wants_graph};
        inf->job->trace = &call->trace;
    }
    return srv_inference_dynamic(inf, &call->spec, NULL, err);
}

static enum rt_status bind(struct srv_inference *inf, struct rt_error *err)
{
    const struct session *session = inf->request;
    const struct srv_session_request *r = &session->request;
    const struct rt_callable *call = inf->job->signature->call;
    enum rt_status st = RT_OK;

    for (int i = 0; i < r->n_feeds && !st; i++) {
        const int k = session->feed[i];
        const enum rt_dtype dtype = call ? rt_callable_feed_dtype(call, k) : RT_NO_DTYPE;
        st = srv_tensor_read(r->feeds[i].tensor, dtype, &inf->job->feeds[k], &inf->allowance, err);
        if (st == RT_INVALID_ARGUMENT)
            rt_fail_prefix(err, "tensor parsing error: %s: ", r->feeds[i].name);
    }
    return !st && call ? rt_callable_check_feeds(call, inf->job->feeds, err) : st;
}

/* Returns pointers to the tensors in the order of the request. Returns NULL if memory runs out. */
static const struct rt_tensor **in_order(const struct srv_inference *inf,
                                         const struct rt_tensor *tensors, const int *place, int n)
{
    const struct rt_tensor **out = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *out);
    for (int i = 0; out && i < n; i++)
        out[i] = &tensors[place[i]];
    return out;
}

/* SessionRun runs no signature, so the ModelSpec in the response contains no signature name. */
static struct srv_model_echo echo_of(const struct srv_inference *inf)
{
    const struct srv_version *v = inf->job->version;
    return (struct srv_model_echo){v->model, "", v->version};
}

static enum rt_status write(struct srv_inference *inf, struct rt_bytes *out, struct rt_error *err)
{
    const struct session *session = inf->request;
    const struct srv_session_request *r = &session->request;
    const struct srv_session_response response = {
        .echo = echo_of(inf),
        .n = r->n_fetches,
        .names = r->fetches,
        .tensors = in_order(inf, inf->job->fetches, session->fetch, r->n_fetches),
        .trace = inf->job->trace,
        .growth = inf->growth,
    };
    unsigned char *p = NULL;
    size_t n = 0;

    if (!response.tensors)
        return rt_fail_memory(err, "a response", 0);
    enum rt_status st = srv_session_write(&response, &p, &n, err);
    if (!st)
        rt_bytes_own(out, p, n);
    return st;
}

static void write_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct session *session = inf->request;
    const struct srv_session_request *r = &session->request;
    const struct srv_model_echo echo = echo_of(inf);
    const struct rt_tensor **tensors = in_order(inf, inf->job->feeds, session->feed, r->n_feeds);

    if (tensors)
        srv_session_write_request(r, &echo, tensors, out);
    else
        out->failed = true;
}

const struct srv_inference_steps srv_tfs_session_run = {
    .api = SRV_SESSION_RUN,
    .read = read,
    .check_spec = srv_tfs_check_spec,
    .resolve = resolve,
    .bind = bind,
    .encode = write,
    .log_request = write_request,
    .log_response = write,
};
