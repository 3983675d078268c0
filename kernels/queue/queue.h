/*
 * Queues: resources of a session. Runs put items into a queue, and other runs take them.
 *
 *   queue.c      the four kinds of queue, and the ops that make them
 *   queue_run.c  attempts to enqueue, dequeue and close, which may have to wait
 *   queue_ops.c  the other ops
 *   items.h      items of tensors, for all containers of this folder
 *
 * Attempts to enqueue and to close wait in one line, and attempts to dequeue in another. Only the
 * first attempt of a line makes progress. A run that changes a queue also advances the attempts of
 * other runs, so each run wakes only when its own attempt has ended.
 *
 * Threads: a queue is locked while it is read or changed.
 */
#ifndef KN_QUEUE_QUEUE_H
#define KN_QUEUE_QUEUE_H

#include "kernels/queue/items.h"
#include "kernels/random/philox.h"

enum kn_queue_kind { KN_FIFO, KN_PADDING_FIFO, KN_PRIORITY, KN_SHUFFLE, KN_N_QUEUE_KINDS };

struct kn_attempt;
struct kn_attempts {
    struct kn_attempt *first, *last;
};

struct kn_queue {
    struct rt_object o;
    enum kn_queue_kind kind;
    /* `type` is the name of the kind, for example "FIFOQueue". `name` is the shared name or, if
     * there is none, the name of the node. */
    const char *type;
    char *name;
    int64_t capacity, min_after_dequeue, seed, seed2;
    /* the types of an item's tensors, and their shapes; n_shapes is 0 if there are no shapes */
    int n, n_shapes;
    uint8_t *types;
    struct rt_shape *shapes;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    bool is_closed;
    struct kn_attempts enqueues, dequeues;
    struct kn_items items; /* the items of a FIFO queue or padding queue, in the order of arrival */
    /* The items of a priority queue, as a heap, or of a shuffled queue, in any order. The session's
     * state counts the memory of the array. */
    struct kn_item **array;
    int64_t n_array, n_allocated;
    bool is_seeded;
    struct kn_singles random; /* random number generator of a shuffled queue */
};
extern const struct rt_object_type kn_queue_type;

/* Makes a priority queue without a limit of its length. The types and shapes are those of an item's
 * tensors after the priority. Returns NULL, with the reason in *err, if memory runs out. */
struct kn_queue *kn_priority_queue_new(const char *name, const uint8_t *types,
                                       const struct rt_shape *shapes, size_t n,
                                       struct rt_error *err);

/* ---- storage (queue.c), called under mu ---- */

int64_t kn_queue_length(const struct kn_queue *q);
/* Makes space for one more item. `pool` counts the memory. */
enum rt_status kn_queue_reserve(struct kn_queue *q, struct rt_pool *pool, struct rt_error *err);
/* Adds an item, for which there must be space. */
void kn_queue_put(struct kn_queue *q, struct kn_item *i);
/* Takes the next item. The queue must not be empty. */
struct kn_item *kn_queue_take(struct kn_queue *q);

/* ---- attempts (queue_run.c) ---- */

/* Moves the items of the list into the queue, and waits while the queue is full. The list is empty
 * afterwards, whether or not the call succeeds. */
enum rt_status kn_enqueue(struct rt_run *r, struct kn_queue *q, struct kn_items *items);
/* Takes n items, and waits until the queue has n. If the queue is closed and has fewer,
 * `takes_fewer` allows the call to take fewer. With `is_single`, n is 1, and errors are those of
 * QueueDequeue. The caller owns the items. */
enum rt_status kn_dequeue(struct rt_run *r, struct kn_queue *q, int64_t n, bool takes_fewer,
                          bool is_single, struct kn_items *out);
/* Closes the queue. Attempts to enqueue that have already begun are completed first or, if
 * `cancels` is set, are cancelled. */
enum rt_status kn_close_queue(struct rt_run *r, struct kn_queue *q, bool cancels);

#endif
