/* Implements the methods that change something in the server, which the steps of a protocol
 * perform. */
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/protocol/protocol.h"

enum { MOST_BYTES = 64 << 20 /* maximum size of a response in bytes */ };

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
    const enum rt_status st = srv_call_open(c, &x->act.message);

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
