/*
 * Threads for work that may take long but is not inference: admin actions, reading messages, and
 * writing descriptions of large models. Because the work does not run on an I/O loop, other calls
 * do not wait for it. Each kind of work has its own thread, so that a large message of one client
 * does not delay a small message of another, and neither delays an admin action.
 */
#include "server/grpc/grpc_internal.h"

static void *run_queue(void *arg)
{
    struct srv_aside_queue *l = arg;

    rt_mutex_lock(&l->mu);
    while (!l->stopping || l->first) {
        struct srv_call *c = l->first;
        if (!c) {
            rt_cond_wait(&l->more, &l->mu);
            continue;
        }
        l->first = c->next;
        rt_mutex_unlock(&l->mu);
        c->aside(c); /* the call may already be freed when `aside` returns */
        rt_mutex_lock(&l->mu);
    }
    rt_mutex_unlock(&l->mu);
    return NULL;
}

enum rt_status srv_grpc_aside_start(struct srv_grpc_aside *a, struct rt_error *err)
{
    for (int i = 0; i < SRV_N_ASIDES; i++) {
        struct srv_aside_queue *l = &a->queue[i];
        rt_mutex_init(&l->mu);
        rt_cond_init(&l->more);
        l->is_running = rt_thread_start(&l->thread, "grpc-aside", run_queue, l) == 0;
        if (!l->is_running)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
    }
    return RT_OK;
}

void srv_grpc_aside_stop(struct srv_grpc_aside *a)
{
    for (int i = 0; i < SRV_N_ASIDES; i++) {
        struct srv_aside_queue *l = &a->queue[i];
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

void srv_call_aside(struct srv_call *c, enum srv_aside kind, void (*work)(struct srv_call *c))
{
    struct srv_aside_queue *l = &c->loop->grpc->aside.queue[kind];

    c->aside = work;
    c->next = NULL;
    rt_mutex_lock(&l->mu);
    if (l->first)
        l->last->next = c;
    else
        l->first = c;
    l->last = c;
    rt_cond_signal(&l->more);
    rt_mutex_unlock(&l->mu);
}
