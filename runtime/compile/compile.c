/* Compilation for exact shapes. A session's pending compilations are processed one at a time. No
 * lock is held while a specialisation is made. */
#include "runtime/compile/compile.h"
#include "runtime/exec/context.h"
#include "runtime/session/session_internal.h"

/* Publishes a specialisation or, if rt_micro_batch_rows suggests it, its micro-batches. Takes over
 * the caller's reference to `l`. */
static void adopt(struct rt_session *s, struct rt_specialisation *l)
{
    const int64_t rows = rt_micro_batch_rows(l);
    struct rt_error ignored = {.arena = NULL};
    struct rt_specialisation *whole, *micro_batch;

    if (rows && rt_micro_batches_new(l, rows, &whole, &micro_batch, &ignored) == RT_OK) {
        rt_specialisation_unref(l);
        rt_specialisation_publish(s, micro_batch);
        l = whole;
    }
    rt_specialisation_publish(s, l);
}

/* Ends the reservations of a session that has waited for memory, if it has compiled everything. */
static void end_wait(struct rt_session *s)
{
    rt_mutex_lock(&s->spec_mu);
    const bool is_served = !s->is_loading || s->options.compiles_inline;
    rt_mutex_unlock(&s->spec_mu);
    if (is_served)
        rt_session_end_reservations(s);
}

int rt_session_compile(struct rt_session *s)
{
    const unsigned before = rt_flush_subnormals();
    struct rt_pending_compilation *w;
    int n = 0;
    struct rt_error err = {0};
    enum rt_status st = RT_OK;
    while (!rt_session_check(s, &err) && (w = rt_pending_compilation_take(s))) {
        struct rt_specialisation *l;
        const bool is_made = rt_pending_compilation_is_made(s, w);
        n += !is_made;
        if (!is_made) {
            st = rt_specialisation_new(w->plan, w->begin, w->live, w->n_live, w->accelerator, &l,
                                       &err);
            if (!st)
                adopt(s, l);
            else if (rt_pending_compilation_waits(s, w, st))
                continue;
            else
                rt_pending_compilation_refuse(s, w); /* Runs in tier 0 report the error. */
        }
        rt_pending_compilation_free(w);
    }
    rt_restore_subnormals(before);
    if (s->options.accelerators.waits)
        end_wait(s);
    return n;
}
