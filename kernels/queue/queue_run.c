#include "kernels/queue/queue.h"

enum what { ENQUEUE, DEQUEUE, CLOSE };

/* The struct is on the stack of the run's thread, which waits until the attempt has ended. */
struct kn_attempt {
    struct kn_attempt *next;
    enum what what;
    struct rt_run *r; /* r->err belongs to the thread that holds the queue's lock */
    /* the items that remain to be enqueued, or the items that have been dequeued */
    struct kn_items items;
    int64_t n; /* number of items that remain to be dequeued */
    bool takes_fewer, is_single;
    bool is_done, waits;
    enum rt_status st; /* set when is_done */
    struct rt_cond cond;
};

static void line_push(struct kn_attempts *l, struct kn_attempt *a)
{
    if (l->last)
        l->last->next = a;
    else
        l->first = a;
    l->last = a;
}

static void line_remove(struct kn_attempts *l, struct kn_attempt *a)
{
    struct kn_attempt *before = NULL;

    for (struct kn_attempt *at = l->first; at != a; at = at->next)
        before = at;
    if (before)
        before->next = a->next;
    else
        l->first = a->next;
    if (l->last == a)
        l->last = before;
    a->next = NULL;
}

static void end(struct kn_attempts *l, struct kn_attempt *a, enum rt_status st)
{
    line_remove(l, a);
    a->is_done = true;
    a->st = st;
    if (a->waits)
        rt_cond_signal(&a->cond);
}

static enum rt_status fail_closed(const struct kn_queue *q, struct kn_attempt *a)
{
    return rt_fail(a->r->err, RT_CANCELLED, "%s '%s' is closed.", q->type, q->name);
}

static enum rt_status fail_too_few(const struct kn_queue *q, struct kn_attempt *a, int64_t n)
{
    /* For single items, TensorFlow's padding queue runs the code of the FIFO queue. */
    const char *type = a->is_single && q->kind == KN_PADDING_FIFO ? "FIFOQueue" : q->type;

    return rt_fail(a->r->err, RT_OUT_OF_RANGE,
                   "%s '%s' is closed and has insufficient elements (requested %lld, current size "
                   "%lld)",
                   type, q->name, (long long)a->n, (long long)n);
}

/* Advances the first attempt to enqueue or to close as far as possible. Returns whether the queue
 * or the attempt changed. */
static bool advance_enqueue(struct kn_queue *q, struct kn_attempt *a)
{
    struct rt_pool *pool = rt_run_state(a->r)->pool;
    bool changed = false;

    if (a->what == CLOSE) {
        q->is_closed = true;
        end(&q->enqueues, a, RT_OK);
        return true;
    }
    if (q->is_closed) {
        end(&q->enqueues, a, fail_closed(q, a));
        return true;
    }
    while (a->items.n && kn_queue_length(q) < q->capacity) {
        const enum rt_status st = kn_queue_reserve(q, pool, a->r->err);
        if (st) {
            end(&q->enqueues, a, st);
            return true;
        }
        kn_queue_put(q, kn_items_pop(&a->items));
        changed = true;
    }
    if (!a->items.n) {
        end(&q->enqueues, a, RT_OK);
        changed = true;
    }
    return changed;
}

static void put_back(struct kn_queue *q, struct kn_attempt *a)
{
    if (q->kind == KN_FIFO || q->kind == KN_PADDING_FIFO) {
        kn_items_restore(&q->items, &a->items);
        return;
    }
    while (a->items.n) {
        struct kn_item *i = kn_items_pop(&a->items);
        if (kn_queue_reserve(q, rt_run_state(a->r)->pool, a->r->err))
            kn_item_free(i);
        else
            kn_queue_put(q, i);
    }
}

/* Advances the first attempt to dequeue as far as possible. Returns whether the queue or the
 * attempt changed. */
static bool advance_dequeue(struct kn_queue *q, struct kn_attempt *a)
{
    bool changed = false;

    if (q->is_closed && kn_queue_length(q) < a->n) {
        const int64_t had = kn_queue_length(q);
        put_back(q, a);
        if (!a->takes_fewer || kn_queue_length(q) == 0) {
            /* An attempt that may take fewer items than requested fails only after all attempts to
             * enqueue that began before the queue was closed have ended. */
            if (a->takes_fewer && q->enqueues.first)
                return false;
            end(&q->dequeues, a, fail_too_few(q, a, had));
            return true;
        }
        a->n = kn_queue_length(q);
    }
    const int64_t kept = q->is_closed ? 0 : q->min_after_dequeue;
    while (a->n > 0 && kn_queue_length(q) > kept) {
        kn_items_push(&a->items, kn_queue_take(q));
        a->n--;
        changed = true;
    }
    if (a->n == 0) {
        end(&q->dequeues, a, RT_OK);
        changed = true;
    }
    return changed;
}

static void advance(struct kn_queue *q)
{
    for (bool changed = true; changed;) {
        changed = q->enqueues.first && advance_enqueue(q, q->enqueues.first);
        if (q->dequeues.first)
            changed |= advance_dequeue(q, q->dequeues.first);
    }
}

/* Waits until the attempt has ended, or until its run is cancelled or passes its deadline. */
static enum rt_status attempt_run(struct kn_queue *q, struct kn_attempts *l, struct kn_attempt *a)
{
    enum rt_status st = RT_OK;

    rt_mutex_lock(&q->mu);
    line_push(l, a);
    advance(q);
    if (!a->is_done) {
        rt_cond_init(&a->cond);
        a->waits = true;
        while (!a->is_done && !st)
            st = rt_run_wait(a->r, &a->cond, &q->mu);
        if (!a->is_done) {
            /* Items that an unfinished attempt has dequeued are lost, as in TensorFlow. */
            line_remove(l, a);
            advance(q);
        }
        rt_cond_clear(&a->cond);
    }
    rt_mutex_unlock(&q->mu);
    return a->is_done ? a->st : st;
}

enum rt_status kn_enqueue(struct rt_run *r, struct kn_queue *q, struct kn_items *items)
{
    struct kn_attempt a = {.what = ENQUEUE, .r = r, .items = *items};
    const enum rt_status st = attempt_run(q, &q->enqueues, &a);

    kn_items_clear(&a.items);
    *items = (struct kn_items){0};
    return st;
}

/* Seeds the generator of a shuffled queue before its first item is taken. */
static void seed(struct rt_run *r, struct kn_queue *q)
{
    const uint64_t entropy = q->seed || q->seed2 ? 0 : rt_run_entropy(r);
    const uint64_t low = entropy ? entropy : (uint64_t)q->seed;
    const uint64_t high = entropy ? rt_run_entropy(r) : (uint64_t)q->seed2;

    rt_mutex_lock(&q->mu);
    if (!q->is_seeded)
        q->random.philox =
            (struct kn_philox){.counter = {0, 0, (uint32_t)high, (uint32_t)(high >> 32)},
                               .key = {(uint32_t)low, (uint32_t)(low >> 32)}};
    q->is_seeded = true;
    rt_mutex_unlock(&q->mu);
}

enum rt_status kn_dequeue(struct rt_run *r, struct kn_queue *q, int64_t n, bool takes_fewer,
                          bool is_single, struct kn_items *out)
{
    /* TensorFlow's priority queue never takes fewer items than requested. */
    struct kn_attempt a = {.what = DEQUEUE,
                           .r = r,
                           .n = n,
                           .takes_fewer = takes_fewer && q->kind != KN_PRIORITY,
                           .is_single = is_single};

    if (q->kind == KN_SHUFFLE)
        seed(r, q);
    const enum rt_status st = attempt_run(q, &q->dequeues, &a);
    if (st)
        kn_items_clear(&a.items);
    *out = a.items;
    return st;
}

enum rt_status kn_close_queue(struct rt_run *r, struct kn_queue *q, bool cancels)
{
    struct kn_attempt a = {.what = CLOSE, .r = r};

    rt_mutex_lock(&q->mu);
    if (!cancels && q->is_closed) {
        rt_mutex_unlock(&q->mu);
        return rt_fail(r->err, RT_CANCELLED, "Queue '%s' is already closed.", q->name);
    }
    if (cancels) {
        q->is_closed = true;
        while (q->enqueues.first) {
            struct kn_attempt *first = q->enqueues.first;
            end(&q->enqueues, first,
                first->what == CLOSE
                    ? RT_OK
                    : rt_fail(first->r->err, RT_CANCELLED, "Enqueue operation was cancelled"));
        }
        advance(q);
        rt_mutex_unlock(&q->mu);
        return RT_OK;
    }
    rt_mutex_unlock(&q->mu);
    return attempt_run(q, &q->enqueues, &a);
}
