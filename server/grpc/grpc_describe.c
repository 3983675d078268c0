/* Implements the methods that return information or change something in the server. Each protocol
 * defines what its methods do (struct srv_codec). */
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/protocol/protocol.h"

enum { MOST_BYTES = 64 << 20 }; /* maximum size of a response */

/* Gathers what a response lists, charges the response to the budget, writes it and sends it. Runs
 * on a background thread. */
static bool respond_in_background(struct srv_call *c)
{
    const struct srv_description_steps *steps = c->method->endpoint->grpc.describe;
    struct srv_description *d = c->state;
    /* The memory of what is gathered is needed only until the response is written. */
    const bool gathers = steps->gather && d->n_items > SRV_GATHER_ON_LOOP_ITEMS;
    struct rt_arena *arena = gathers ? rt_arena_new(SRV_GATHER_BYTES) : NULL, *own = d->arena;
    struct rt_bytes out;
    char *p = NULL;
    size_t n = 0;
    enum rt_status st = RT_OK;

    rt_bytes_init(&out, MOST_BYTES);
    if (atomic_load_explicit(&c->job.cancelled, memory_order_relaxed))
        st = rt_fail(&c->err, RT_CANCELLED, "the client has left");
    if (!st && gathers) {
        d->arena = arena;
        st = arena ? steps->gather(d) : rt_fail_memory(&c->err, "a description", 0);
    }
    if (!st && d->bytes > SRV_DESCRIBE_ON_LOOP_BYTES)
        st = srv_call_charge(c, d->bytes, "the response");
    if (!st) {
        steps->write(d, &out);
        p = rt_bytes_take(&out, &n);
        if (!p)
            st = rt_fail_memory(&c->err, "the response", out.limit);
    }
    rt_bytes_clear(&out);
    d->arena = own;
    rt_arena_free(arena);
    srv_call_respond_expected(c, p, n, st, st ? rt_error_text(&c->err) : NULL);
    return false;
}

void srv_grpc_describe(struct srv_call *c)
{
    const struct srv_description_steps *steps = c->method->endpoint->grpc.describe;
    struct srv_description *d = rt_arena_alloc(c->arena, sizeof *d);
    enum rt_status st = d ? RT_OK : rt_fail_memory(&c->err, "a request", sizeof *d);

    if (!st) {
        *d = (struct srv_description){
            .server = c->server, .map = c->io_loop->map, .arena = c->arena, .err = &c->err};
        st = srv_call_open(c, &d->message);
    }
    if (!st) {
        st = steps->find(d);
        c->model = d->spec.name;
    }
    const bool in_background = !st && steps->gather && d->n_items > SRV_GATHER_ON_LOOP_ITEMS;
    if (!st && steps->gather && !in_background)
        st = steps->gather(d);
    if (st) {
        srv_call_fail(c, st);
        return;
    }
    if (!in_background && d->bytes <= SRV_DESCRIBE_ON_LOOP_BYTES) {
        struct rt_bytes out;
        rt_bytes_init(&out, MOST_BYTES);
        steps->write(d, &out);
        srv_call_respond(c, &out);
        return;
    }
    c->state = d;
    if (d->version) {
        c->job.version = d->version; /* the handle is released when the call ends */
        srv_hold(c->io_loop, c->job.version);
    }
    srv_call_expect(c, false);
    srv_call_in_background(c,
                           srv_description_is_short(d) ? SRV_BACKGROUND_SHORT_DESCRIPTIONS
                                                       : SRV_BACKGROUND_DESCRIPTIONS,
                           respond_in_background);
}

/* ---- actions ---- */

struct action {
    struct srv_action act; /* the first member */
    struct srv_call *call;
    struct rt_bytes out;
};

static void done(struct srv_action *a, enum rt_status st)
{
    struct action *x = (struct action *)a;
    struct srv_call *c = x->call;
    size_t n = 0;

    if (!st && x->out.failed)
        st = rt_fail_memory(a->err, "the response", x->out.limit);
    char *p = st ? NULL : rt_bytes_take(&x->out, &n);
    rt_bytes_clear(&x->out);
    srv_call_respond_expected(c, p, n, st, st ? rt_error_text(a->err) : NULL);
}

static enum rt_status check(struct srv_action *a, bool is_admin)
{
    return is_admin ? srv_grpc_check_admin(((struct action *)a)->call) : RT_OK;
}

/* Runs on a background thread, because the message may be large. */
static bool act(struct srv_call *c)
{
    const struct srv_action_steps *steps = c->method->endpoint->grpc.act;
    struct action *x = c->state;
    enum rt_status st = steps->is_admin ? srv_grpc_check_admin(c) : RT_OK;

    if (!st)
        st = srv_call_open(c, &x->act.message);
    if (st)
        done(&x->act, st);
    else
        steps->perform(&x->act);
    return false;
}

void srv_grpc_act(struct srv_call *c)
{
    struct action *x = rt_arena_alloc(c->arena, sizeof *x);

    if (!x) {
        srv_call_fail(c, rt_fail_memory(&c->err, "a request", sizeof *x));
        return;
    }
    rt_bytes_init(&x->out, MOST_BYTES);
    x->call = c;
    x->act = (struct srv_action){.server = c->server,
                                 .arena = c->arena,
                                 .err = &c->err,
                                 .cancelled = &c->job.cancelled,
                                 .out = &x->out,
                                 .check = check,
                                 .done = done};
    c->state = x;
    srv_call_expect(c, true);
    srv_call_in_background(c, SRV_BACKGROUND_ADMIN, act);
}
