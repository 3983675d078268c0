#include "server/versions/lister.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

enum step { IDLE, BEGUN, ENDED };

struct srv_lister {
    void (*done)(void *arg);
    void *arg;
    pthread_t thread;
    struct rt_mutex mu;
    struct rt_cond wake;
    enum step step; /* guarded by mu; only the manager's thread changes it from or to IDLE */
    atomic_bool ending;
    /* Belongs to the lister's thread while `step` is BEGUN, and otherwise to the manager's
     * thread. */
    struct srv_listing listing;
    bool is_idle; /* belongs to the manager's thread */
};

void srv_listing_clear(struct srv_listing *listing)
{
    free(listing->model);
    free(listing->dir);
    *listing = (struct srv_listing){0};
}

static enum rt_status check_ending(void *arg, struct rt_error *err)
{
    return atomic_load(&((const struct srv_lister *)arg)->ending)
               ? rt_fail(err, RT_CANCELLED, "the server is stopping")
               : RT_OK;
}

static void list(struct srv_lister *l)
{
    struct srv_listing *g = &l->listing;
    const struct rt_check check = {check_ending, l};
    const int64_t cpu_ns = rt_thread_cpu_ns();
    g->status = srv_source_fingerprint(g->dir, &check, &g->seen, &g->err);
    g->cpu_ns = rt_thread_cpu_ns() - cpu_ns;
    g->ns = rt_now_ns() - g->begun_ns;
}

static void *lister_thread(void *arg)
{
    struct srv_lister *l = arg;
    rt_thread_low_priority();
    rt_mutex_lock(&l->mu);
    while (!atomic_load(&l->ending)) {
        if (l->step != BEGUN) {
            rt_cond_wait(&l->wake, &l->mu);
            continue;
        }
        rt_mutex_unlock(&l->mu);
        list(l);
        rt_mutex_lock(&l->mu);
        l->step = ENDED;
        rt_mutex_unlock(&l->mu);
        l->done(l->arg);
        rt_mutex_lock(&l->mu);
    }
    rt_mutex_unlock(&l->mu);
    return NULL;
}

struct srv_lister *srv_lister_new(void (*done)(void *arg), void *arg)
{
    struct srv_lister *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->done = done;
    l->arg = arg;
    l->is_idle = true;
    rt_mutex_init(&l->mu);
    rt_cond_init(&l->wake);
    if (!rt_thread_start(&l->thread, "lister", lister_thread, l))
        return l;
    rt_cond_clear(&l->wake);
    rt_mutex_clear(&l->mu);
    free(l);
    return NULL;
}

bool srv_lister_begin(struct srv_lister *l, const char *model, int64_t version, const char *dir)
{
    struct srv_listing g = {
        .model = strdup(model), .dir = strdup(dir), .version = version, .begun_ns = rt_now_ns()};
    if (!g.model || !g.dir) {
        srv_listing_clear(&g);
        return false;
    }
    l->listing = g;
    l->is_idle = false;
    rt_mutex_lock(&l->mu);
    l->step = BEGUN;
    rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
    return true;
}

bool srv_lister_take(struct srv_lister *l, struct srv_listing *out)
{
    rt_mutex_lock(&l->mu);
    const bool has_ended = l->step == ENDED;
    if (has_ended)
        l->step = IDLE;
    rt_mutex_unlock(&l->mu);
    if (has_ended) {
        *out = l->listing;
        l->listing = (struct srv_listing){0};
        l->is_idle = true;
    }
    return has_ended;
}

const struct srv_listing *srv_lister_current(const struct srv_lister *l)
{
    return l->is_idle ? NULL : &l->listing;
}

void srv_lister_free(struct srv_lister *l)
{
    if (!l)
        return;
    atomic_store(&l->ending, true);
    rt_mutex_lock(&l->mu);
    rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
    pthread_join(l->thread, NULL);
    srv_listing_clear(&l->listing);
    rt_cond_clear(&l->wake);
    rt_mutex_clear(&l->mu);
    free(l);
}
