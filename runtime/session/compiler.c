#include "runtime/session/compiler.h"

#include <stdlib.h>

#include "runtime/session/session_internal.h"

struct rt_compiler {
    struct rt_mutex mu;
    struct rt_cond work, done;
    /* Queue of sessions, linked by next_pending. mu guards `first` and the members after it. */
    struct rt_session *first;
    struct rt_session *now;
    bool stopping;
    pthread_t thread;
};

static void *compile_thread(void *arg)
{
    struct rt_compiler *c = arg;
    rt_thread_low_priority();
    rt_mutex_lock(&c->mu);
    while (!c->stopping) {
        struct rt_session *s = c->first;
        if (!s) {
            rt_cond_broadcast(&c->done);
            rt_cond_wait(&c->work, &c->mu);
            continue;
        }
        c->first = s->next_pending;
        s->is_enqueued = false;
        c->now = s;
        rt_mutex_unlock(&c->mu);
        s->compile(s);
        rt_mutex_lock(&c->mu);
        c->now = NULL;
        rt_cond_broadcast(&c->done);
    }
    rt_mutex_unlock(&c->mu);
    return NULL;
}

struct rt_compiler *rt_compiler_new(void)
{
    struct rt_compiler *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    rt_mutex_init(&c->mu);
    rt_cond_init(&c->work);
    rt_cond_init(&c->done);
    if (rt_thread_start(&c->thread, "compile", compile_thread, c) == 0)
        return c;
    rt_cond_clear(&c->work);
    rt_cond_clear(&c->done);
    rt_mutex_clear(&c->mu);
    free(c);
    return NULL;
}

void rt_compiler_free(struct rt_compiler *c)
{
    if (!c)
        return;
    rt_mutex_lock(&c->mu);
    c->stopping = true;
    rt_cond_signal(&c->work);
    rt_mutex_unlock(&c->mu);
    pthread_join(c->thread, NULL);
    rt_cond_clear(&c->work);
    rt_cond_clear(&c->done);
    rt_mutex_clear(&c->mu);
    free(c);
}

void rt_compiler_wait(struct rt_compiler *c)
{
    rt_mutex_lock(&c->mu);
    while (c->first || c->now)
        rt_cond_wait(&c->done, &c->mu);
    rt_mutex_unlock(&c->mu);
}

void rt_compiler_enqueue(struct rt_compiler *c, struct rt_session *s)
{
    rt_mutex_lock(&c->mu);
    if (!s->is_enqueued) {
        struct rt_session **end = &c->first;
        while (*end)
            end = &(*end)->next_pending;
        s->is_enqueued = true;
        s->next_pending = NULL;
        *end = s;
        rt_cond_signal(&c->work);
    }
    rt_mutex_unlock(&c->mu);
}

void rt_compiler_leave(struct rt_compiler *c, struct rt_session *s)
{
    rt_mutex_lock(&c->mu);
    for (struct rt_session **at = &c->first; *at; at = &(*at)->next_pending)
        if (*at == s) {
            *at = s->next_pending;
            s->is_enqueued = false;
            break;
        }
    while (c->now == s)
        rt_cond_wait(&c->done, &c->mu);
    rt_mutex_unlock(&c->mu);
}
