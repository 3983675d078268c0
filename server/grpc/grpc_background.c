/*
 * Threads for slow work other than inference: admin actions, inflating, reading and freeing
 * messages, and gathering and writing long descriptions. The I/O loops serve other calls meanwhile.
 * Each kind of work has its own thread. A client's large message thus does not delay another
 * client's small message or an admin action. One thread inflates messages and another reads them,
 * so that an inflated message is freed before other messages of its connection are inflated.
 *
 * On each thread, the connections take turns, so that a call does not wait for all calls of another
 * connection. Long work is divided into steps, and a turn is one step. A call with little work
 * therefore does not wait for all the work of a large call.
 */
#include "server/grpc/grpc_internal.h"

/* Appends a connection to the connections that wait for their turn. `c` is its oldest waiting
 * call. */
static void await_turn(struct srv_background_queue *l, struct srv_call *c) RT_REQUIRES(l->mu)
{
    c->next_turn = NULL;
    if (l->first)
        l->last->next_turn = c;
    else
        l->first = c;
    l->last = c;
}

/* Begins the turn of a connection: removes `c`, its oldest waiting call, from the queue. */
static void begin_turn(struct srv_background_queue *l, struct srv_call *c) RT_REQUIRES(l->mu)
{
    l->first = c->next_turn;
    l->at_work = (int)c->connection;
    l->behind = c->next;
    if (!l->behind)
        l->last_of[c->connection] = NULL;
}

/* Ends the turn of a connection. If the connection has more work, it waits behind all other
 * connections. `unfinished` is the call whose work has further steps, or NULL. */
static void end_turn(struct srv_background_queue *l, struct srv_call *unfinished) RT_REQUIRES(l->mu)
{
    l->at_work = -1;
    if (unfinished) {
        unfinished->next = l->behind;
        if (!l->behind)
            l->last_of[unfinished->connection] = unfinished;
        l->behind = unfinished;
    }
    if (l->behind)
        await_turn(l, l->behind);
}

static void *run_queue(void *arg)
{
    struct srv_background_queue *l = arg;

    rt_mutex_lock(&l->mu);
    while (!l->stopping || l->first) {
        struct srv_call *c = l->first;
        if (!c) {
            rt_cond_wait(&l->more, &l->mu);
            continue;
        }
        begin_turn(l, c);
        rt_mutex_unlock(&l->mu);
        bool has_more =
            c->background(c); /* the call may already be freed, unless `has_more` is set */
        rt_mutex_lock(&l->mu);
        end_turn(l, has_more ? c : NULL);
    }
    rt_mutex_unlock(&l->mu);
    return NULL;
}

enum rt_status srv_grpc_background_start(struct srv_grpc_background *a, struct rt_error *err)
{
    for (int i = 0; i < SRV_N_BACKGROUND_KINDS; i++) {
        struct srv_background_queue *l = &a->queue[i];
        rt_mutex_init(&l->mu);
        rt_cond_init(&l->more);
        l->at_work = -1;
        l->is_running = rt_thread_start(&l->thread, "grpc-background", run_queue, l) == 0;
        if (!l->is_running)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
    }
    return RT_OK;
}

void srv_grpc_background_stop(struct srv_grpc_background *a)
{
    for (int i = 0; i < SRV_N_BACKGROUND_KINDS; i++) {
        struct srv_background_queue *l = &a->queue[i];
        if (!l->is_running)
            continue;
        rt_mutex_lock(&l->mu);
        l->stopping = true;
        rt_cond_signal(&l->more);
        rt_mutex_unlock(&l->mu);
        pthread_join(l->thread, NULL);
        rt_mutex_clear(&l->mu);
        rt_cond_clear(&l->more);
        l->is_running = false;
    }
}

void srv_call_in_background(struct srv_call *c, enum srv_background kind,
                            bool (*work)(struct srv_call *c))
{
    struct srv_background_queue *l = &c->loop->grpc->background.queue[kind];
    struct srv_call **last = &l->last_of[c->connection];

    c->background = work;
    c->next = NULL;
    rt_mutex_lock(&l->mu);
    if (*last)
        (*last)->next = c;
    else if ((int)c->connection == l->at_work)
        l->behind = c;
    else
        await_turn(l, c);
    *last = c;
    rt_cond_signal(&l->more);
    rt_mutex_unlock(&l->mu);
}
