/*
 * A thread beside the loops for what may take long and is no inference: admin actions, inflating
 * large messages. The other calls of the loop do not wait for it.
 */
#include "server/grpc_parts.h"

static void *run_aside(void *arg)
{
    struct srv_grpc_aside *a = arg;

    rt_mutex_lock(&a->mu);
    while (!a->stopping || a->first) {
        struct srv_call *c = a->first;
        if (!c) {
            rt_cond_wait(&a->more, &a->mu);
            continue;
        }
        a->first = c->next;
        rt_mutex_unlock(&a->mu);
        c->aside(c); /* the call may be gone when this returns */
        rt_mutex_lock(&a->mu);
    }
    rt_mutex_unlock(&a->mu);
    return NULL;
}

enum rt_status srv_grpc_aside_start(struct srv_grpc_aside *a, struct rt_error *err)
{
    rt_mutex_init(&a->mu);
    rt_cond_init(&a->more);
    a->is_running = rt_thread_start(&a->thread, "grpc-aside", run_aside, a) == 0;
    return a->is_running ? RT_OK
                         : rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
}

void srv_grpc_aside_stop(struct srv_grpc_aside *a)
{
    if (!a->is_running)
        return;
    rt_mutex_lock(&a->mu);
    a->stopping = true;
    rt_cond_signal(&a->more);
    rt_mutex_unlock(&a->mu);
    pthread_join(a->thread, NULL);
    rt_mutex_clear(&a->mu);
    rt_cond_clear(&a->more);
    a->is_running = false;
}

void srv_call_aside(struct srv_call *c, void (*work)(struct srv_call *c))
{
    struct srv_grpc_aside *a = &c->loop->grpc->aside;
    struct srv_call **end;

    c->aside = work;
    c->next = NULL;
    rt_mutex_lock(&a->mu);
    for (end = &a->first; *end; end = &(*end)->next)
        ;
    *end = c;
    rt_cond_signal(&a->more);
    rt_mutex_unlock(&a->mu);
}
