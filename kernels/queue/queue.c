#include "kernels/queue/queue.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const type_names[KN_N_QUEUE_KINDS] = {"FIFOQueue", "PaddingFIFOQueue",
                                                         "PriorityQueue", "RandomShuffleQueue"};

/* ---- storage ---- */

int64_t kn_queue_length(const struct kn_queue *q)
{
    return q->kind == KN_FIFO || q->kind == KN_PADDING_FIFO ? q->items.n : q->n_array;
}

enum rt_status kn_queue_reserve(struct kn_queue *q, struct rt_pool *pool, struct rt_error *err)
{
    if (q->kind == KN_FIFO || q->kind == KN_PADDING_FIFO || q->n_array < q->n_allocated)
        return RT_OK;
    const int64_t n = q->n_allocated ? q->n_allocated * 2 : 16;
    struct kn_item **larger = rt_pool_alloc(pool, (size_t)n * sizeof *larger, "a queue", err);
    if (!larger)
        return err->code;
    if (q->n_array)
        memcpy(larger, q->array, (size_t)q->n_array * sizeof *larger);
    rt_pool_free(q->array);
    q->array = larger;
    q->n_allocated = n;
    return RT_OK;
}

static int64_t priority(const struct kn_item *i)
{
    return *(const int64_t *)i->part[0].data;
}

/*
 * Items of equal priority leave the heap in the order that the heap's algorithm produces. As in
 * TensorFlow, the algorithm is that of the C++ standard library. The first item of the array has
 * the lowest priority number.
 */
static void heap_rise(struct kn_item **a, int64_t at, struct kn_item *i)
{
    while (at > 0 && priority(a[(at - 1) / 2]) > priority(i)) {
        a[at] = a[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    a[at] = i;
}

static struct kn_item *heap_take(struct kn_item **a, int64_t n)
{
    struct kn_item *first = a[0], *last = a[n - 1];
    int64_t at = 0, child = 0;

    n--;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (priority(a[child]) > priority(a[child - 1]))
            child--;
        a[at] = a[child];
        at = child;
    }
    if (n % 2 == 0 && n >= 2 && child == (n - 2) / 2) {
        child = 2 * (child + 1);
        a[at] = a[child - 1];
        at = child - 1;
    }
    if (n > 0)
        heap_rise(a, at, last);
    return first;
}

void kn_queue_put(struct kn_queue *q, struct kn_item *i)
{
    if (q->kind == KN_FIFO || q->kind == KN_PADDING_FIFO)
        kn_items_push(&q->items, i);
    else if (q->kind == KN_PRIORITY)
        heap_rise(q->array, q->n_array++, i);
    else
        q->array[q->n_array++] = i;
}

struct kn_item *kn_queue_take(struct kn_queue *q)
{
    struct kn_item *i;

    if (q->kind == KN_FIFO || q->kind == KN_PADDING_FIFO)
        return kn_items_pop(&q->items);
    if (q->kind == KN_PRIORITY) {
        i = heap_take(q->array, q->n_array--);
    } else {
        const int64_t at = (int64_t)(kn_next_bits(&q->random) % (uint64_t)q->n_array);
        i = q->array[at];
        q->array[at] = q->array[--q->n_array];
    }
    i->next = NULL;
    return i;
}

static void queue_free(struct rt_object *o)
{
    struct kn_queue *q = (struct kn_queue *)o;

    kn_items_clear(&q->items);
    for (int64_t k = 0; k < q->n_array; k++)
        kn_item_free(q->array[k]);
    rt_pool_free(q->array);
    rt_mutex_clear(&q->mu);
    free(q->types);
    free(q->shapes);
    free(q->name);
    free(q);
}

const struct rt_object_type kn_queue_type = {"queue", queue_free};

/* ---- making ---- */

/* The description of a queue in a node's attributes. */
struct wanted {
    enum kn_queue_kind kind;
    int64_t capacity, min_after_dequeue, seed, seed2;
    const uint8_t *types;
    const struct rt_shape *shapes;
    size_t n_types, n_shapes;
    bool has_priority;
};

static enum kn_queue_kind kind_of(const struct rt_node *n)
{
    const char *op = n->schema->name;

    return op[0] == 'F'   ? KN_FIFO
           : op[0] == 'R' ? KN_SHUFFLE
           : op[1] == 'a' ? KN_PADDING_FIFO
                          : KN_PRIORITY;
}

static struct wanted wanted_by(const struct rt_node *n)
{
    const struct rt_attr *types = rt_attr(n, "component_types"), *shapes = rt_attr(n, "shapes");
    struct wanted w = {.kind = kind_of(n), .capacity = rt_attr_int(n, "capacity")};

    if (w.capacity < 0)
        w.capacity = INT32_MAX;
    if (types) {
        w.types = types->v.types;
        w.n_types = types->n;
    }
    if (shapes) {
        w.shapes = shapes->v.shapes;
        w.n_shapes = shapes->n;
    }
    w.has_priority = w.kind == KN_PRIORITY;
    if (w.kind == KN_SHUFFLE) {
        w.min_after_dequeue = rt_attr_int(n, "min_after_dequeue");
        w.seed = rt_attr_int(n, "seed");
        w.seed2 = rt_attr_int(n, "seed2");
    }
    return w;
}

/* Writes the shapes of an item's tensors, beginning with the shape of the priority. */
static const char *wanted_shapes(char *buf, size_t size, const struct wanted *w)
{
    char rest[360];

    kn_shapes_text(rest, sizeof rest, w->shapes, w->n_shapes);
    snprintf(buf, size, "[%s%s%s", w->has_priority ? "[]" : "",
             w->has_priority && w->n_shapes ? ", " : "", rest + 1);
    return buf;
}

static enum rt_status check_wanted(const struct rt_node *n, const struct wanted *w,
                                   struct rt_error *err)
{
    char types[400], shapes[400];
    const enum rt_status st = kn_check_container(n, err);

    if (st)
        return st;
    if (w->kind == KN_SHUFFLE && w->min_after_dequeue < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "min_after_dequeue %lld must be >= 0",
                       (long long)w->min_after_dequeue);
    if (w->kind == KN_SHUFFLE && w->min_after_dequeue >= w->capacity)
        return rt_fail(err, RT_INVALID_ARGUMENT, "min_after_dequeue %lld must be < capacity %lld",
                       (long long)w->min_after_dequeue, (long long)w->capacity);
    if (w->n_shapes && w->n_types != w->n_shapes)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Different number of component types.  Types: %s%s, Shapes: %s",
                       w->has_priority ? "int64, " : "",
                       kn_types_text(types, sizeof types, w->types, w->n_types),
                       wanted_shapes(shapes, sizeof shapes, w));
    if (w->kind == KN_PADDING_FIFO && w->n_types != w->n_shapes)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shapes must be provided for all components, but received %zu dtypes and "
                       "%zu shapes.",
                       w->n_types, w->n_shapes);
    for (size_t k = 0; k < w->n_shapes; k++) {
        if (w->shapes[k].rank < 0 && w->kind == KN_PADDING_FIFO)
            return rt_fail(err, RT_INVALID_ARGUMENT, "shape %s must have known rank.",
                           KN_PARTIAL(&w->shapes[k]));
        if (w->shapes[k].rank >= 0 && !kn_shape_known(&w->shapes[k]) && w->kind != KN_PADDING_FIFO)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s is not fully defined",
                           KN_PARTIAL(&w->shapes[k]));
    }
    return RT_OK;
}

/* Copies the types and shapes. If there is a priority, its type and shape come first. */
static bool copy_signature(struct kn_queue *q, const struct wanted *w)
{
    const size_t more = w->has_priority;

    q->types = calloc(w->n_types + more + 1, 1);
    q->shapes = calloc(w->n_shapes + more + 1, sizeof *q->shapes);
    if (!q->types || !q->shapes)
        return false;
    if (more)
        q->types[0] = RT_I64;
    if (w->n_types)
        memcpy(q->types + more, w->types, w->n_types);
    if (w->n_shapes)
        memcpy(q->shapes + more, w->shapes, w->n_shapes * sizeof *q->shapes);
    for (size_t k = 0; k < w->n_shapes + more; k++)
        if (q->shapes[k].rank < 0) /* TensorFlow treats an unknown shape as [] */
            q->shapes[k].rank = 0;
    q->n = (int)(w->n_types + more);
    /* TensorFlow refuses a priority queue without shapes only after it has made the queue
     * (queue_matches). */
    q->n_shapes = w->n_shapes ? (int)(w->n_shapes + more) : 0;
    return true;
}

/* Makes an empty queue. `name` has n bytes. */
static struct kn_queue *queue_new(const struct wanted *w, const char *name, size_t n,
                                  struct rt_error *err)
{
    struct kn_queue *q = calloc(1, sizeof *q);

    if (!q) {
        rt_fail_memory(err, "a queue", sizeof *q);
        return NULL;
    }
    rt_object_init(&q->o, &kn_queue_type);
    rt_mutex_init(&q->mu);
    q->kind = w->kind;
    q->type = type_names[w->kind];
    q->capacity = w->capacity;
    q->min_after_dequeue = w->min_after_dequeue;
    q->seed = w->seed;
    q->seed2 = w->seed2;
    q->name = strndup(name, n);
    if (q->name && copy_signature(q, w))
        return q;
    rt_object_unref(&q->o);
    rt_fail_memory(err, "a queue", w->n_shapes * sizeof *q->shapes);
    return NULL;
}

static enum rt_status queue_make(const struct rt_make *make, struct rt_object **out)
{
    const struct rt_span shared = rt_attr_str(make->node, "shared_name");
    const char *name = shared.n ? (const char *)shared.p : make->node->name;
    const struct wanted w = wanted_by(make->node);
    const enum rt_status st = check_wanted(make->node, &w, make->err);

    if (st)
        return st;
    struct kn_queue *q = queue_new(&w, name, shared.n ? shared.n : strlen(name), make->err);
    if (!q)
        return make->err->code;
    *out = &q->o;
    return RT_OK;
}

struct kn_queue *kn_priority_queue_new(const char *name, const uint8_t *types,
                                       const struct rt_shape *shapes, size_t n,
                                       struct rt_error *err)
{
    const struct wanted w = {.kind = KN_PRIORITY,
                             .capacity = INT64_MAX,
                             .types = types,
                             .shapes = shapes,
                             .n_types = n,
                             .n_shapes = n,
                             .has_priority = true};

    return queue_new(&w, name, strlen(name), err);
}

static bool same_shape(const struct rt_shape *a, const struct rt_shape *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
}

static enum rt_status check_seeds(const struct kn_queue *q, const struct wanted *w,
                                  struct rt_error *err)
{
    if (q->min_after_dequeue != w->min_after_dequeue)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared queue '%s' has min_after_dequeue %lld but requested "
                       "min_after_dequeue was %lld.",
                       q->name, (long long)q->min_after_dequeue, (long long)w->min_after_dequeue);
    if ((w->seed || w->seed2) && (q->seed != w->seed || q->seed2 != w->seed2))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared queue '%s' has random seeds (%lld, %lld) but requested seeds are "
                       "(%lld, %lld).",
                       q->name, (long long)q->seed, (long long)q->seed2, (long long)w->seed,
                       (long long)w->seed2);
    return RT_OK;
}

static enum rt_status queue_matches(const struct rt_node *n, const struct rt_object *o,
                                    struct rt_error *err)
{
    const struct kn_queue *q = (const struct kn_queue *)o;
    const struct wanted w = wanted_by(n);
    const size_t more = w.has_priority;
    char has[400], wants[400];

    if (q->kind != w.kind)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %s, found %s", q->type, n->schema->name);
    if (q->capacity != w.capacity)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared queue '%s' has capacity %lld but requested capacity was %lld",
                       q->name, (long long)q->capacity, (long long)w.capacity);
    if ((size_t)q->n != w.n_types + more ||
        (w.n_types && memcmp(q->types + more, w.types, w.n_types) != 0))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared queue '%s' has component types %s but requested component types "
                       "were %s%s",
                       q->name, kn_types_text(has, sizeof has, q->types, (size_t)q->n),
                       more ? "int64, " : "",
                       kn_types_text(wants, sizeof wants, w.types, w.n_types));
    bool same = (size_t)q->n_shapes == w.n_shapes + more;
    for (size_t k = 0; k < w.n_shapes && same; k++)
        same = w.shapes[k].rank < 0 || same_shape(&q->shapes[k + more], &w.shapes[k]);
    if (!same)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared queue '%s' has component shapes %s but requested component shapes "
                       "were %s",
                       q->name, kn_shapes_text(has, sizeof has, q->shapes, (size_t)q->n_shapes),
                       wanted_shapes(wants, sizeof wants, &w));
    return w.kind == KN_SHUFFLE ? check_seeds(q, &w, err) : RT_OK;
}

#define QUEUE(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .infer = kn_infer_scalars,                                                          \
               .slot_kind = "queue",                                                               \
               .make = queue_make,                                                                 \
               .matches = queue_matches},                                                          \
    };
QUEUE(fifo_queue, "FIFOQueue")
QUEUE(fifo_queue_v2, "FIFOQueueV2")
QUEUE(padding_fifo_queue, "PaddingFIFOQueue")
QUEUE(padding_fifo_queue_v2, "PaddingFIFOQueueV2")
QUEUE(priority_queue, "PriorityQueue")
QUEUE(priority_queue_v2, "PriorityQueueV2")
QUEUE(random_shuffle_queue, "RandomShuffleQueue")
QUEUE(random_shuffle_queue_v2, "RandomShuffleQueueV2")
