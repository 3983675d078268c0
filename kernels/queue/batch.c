/*
 * Batch, Unbatch and UnbatchGrad. Batch gives the rows of a batch to one run and an index of the
 * batch: for each run whose rows are in it, the run's key and the range of its rows. Unbatch gives
 * each run its rows back, and UnbatchGrad collects the gradients of all runs of a batch.
 *
 * As with BatchFunction, each call of Batch is a batch by itself, because the server has merged
 * requests already where that is safe. Unbatch and UnbatchGrad take any index: they wait for
 * tensors of other runs, and leave tensors for them in a resource.
 *
 * Threads: a resource is locked while it is read or changed.
 */
#include "kernels/queue/items.h"
#include "kernels/string/summary.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/core/copy.h"
#include "runtime/exec/batch_rows.h"
#include "runtime/session/state.h"

#include <stdlib.h>

/* ---- Batch ---- */

static enum rt_status check_attributes(struct rt_run *r)
{
    const struct rt_attr *allowed = rt_attr(r->node, "allowed_batch_sizes");
    const int64_t most = rt_attr_int(r->node, "max_batch_size");
    const int64_t timeout = rt_attr_int(r->node, "batch_timeout_micros");
    const int64_t threads = rt_attr_int(r->node, "num_batch_threads");

    for (size_t i = 0; i < allowed->n; i++)
        if (kn_check_i32("allowed_batch_sizes", allowed->v.ints[i], r->err))
            return r->err->code;
    if (kn_check_i32("max_batch_size", most, r->err) ||
        kn_check_i32("num_batch_threads", threads, r->err) ||
        kn_check_i32("batch_timeout_micros", timeout, r->err) ||
        rt_batch_check_sizes(allowed, r->err))
        return r->err->code;
    if (allowed->n && allowed->v.ints[allowed->n - 1] != most)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "final entry in allowed_batch_sizes must equal max_batch_size");
    if (threads <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_batch_threads must be positive; was %lld",
                       (long long)threads);
    if (most == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_batch_size_limit must be positive; was 0");
    if (timeout < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "batch_timeout_micros must be non-negative; was %lld", (long long)timeout);
    return RT_OK;
}

static enum rt_status put_padded(struct rt_run *r, int k, int64_t padded)
{
    const struct rt_check check = rt_run_as_check(r);
    const struct rt_tensor *in = &r->in[k];
    int64_t dim[RT_MAX_RANK];

    if (padded == in->dim[0]) {
        rt_out_tensor(r, k, in);
        return RT_OK;
    }
    memcpy(dim, in->dim, sizeof dim);
    dim[0] = padded;
    return rt_out(r, k, in->rank, dim) ? rt_batch_pad(&r->out[k], in, &check, r->err)
                                       : r->err->code;
}

static enum rt_status batch_run(struct rt_run *r)
{
    const int n = r->n_in;
    const int64_t index_dim[2] = {1, 3}, none = 0;
    enum rt_status st = check_attributes(r);

    if (!st)
        st = rt_batch_check_rows(r->in, n, rt_attr_int(r->node, "max_batch_size"), r->err);
    if (st)
        return st;
    const int64_t rows = r->in[0].dim[0];
    if (!rows) {
        for (int k = 0; k < r->n_out; k++)
            if (!rt_out(r, k, 1, &none))
                return r->err->code;
        return RT_OK;
    }
    const int64_t padded = rt_batch_padded_size(rt_attr(r->node, "allowed_batch_sizes"), rows);
    for (int k = 0; k < n && !st; k++)
        st = put_padded(r, k, padded);
    int64_t *index = st ? NULL : rt_out(r, n, 2, index_dim);
    int64_t *id = index ? rt_out(r, n + 1, 0, NULL) : NULL;
    if (!id)
        return r->err->code;
    *id = (int64_t)rt_run_entropy(r);
    index[0] = *id;
    index[1] = 0;
    index[2] = rows;
    return RT_OK;
}

const struct kn_entry kn_batch = {
    .op = {.name = "Batch", .effect = RT_RANDOM},
    .kernels = KN_KERNELS(
        {.op = "Batch", .device = "CPU", .name = "batch", .flags = RT_K_VIEWS, .run = batch_run}),
};

/* ---- tensors that runs leave for each other ---- */

/* Maximum number of tensors in a resource. Tensors that nobody takes stay in UnbatchGrad's resource
 * for ever, and in Unbatch's until the timeout. */
enum { MOST_KEPT = 4096 };

struct kept {
    struct kept *next;
    int64_t key;
    int64_t until_ns; /* end of the timeout */
    struct kn_item *item;
};

/* A run that waits. The struct is on the stack of the run's thread. */
struct waiter {
    struct waiter *next;
    int64_t key;
    struct kn_item *got;           /* the rows of an Unbatch, once they have arrived */
    const struct rt_tensor *index; /* the keys whose gradients an UnbatchGrad waits for */
    struct rt_cond arrived;
};

struct exchange {
    struct rt_object o;
    enum rt_dtype type;     /* of the tensors */
    int64_t timeout_micros; /* of the Unbatch that made the exchange, as in TensorFlow */
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct kept *kept;
    int n_kept;
    struct waiter *waiters;
};

static void kept_remove(struct exchange *x, struct kept **at)
{
    struct kept *k = *at;

    *at = k->next;
    kn_item_free(k->item);
    rt_pool_free(k);
    x->n_kept--;
}

static void exchange_free(struct rt_object *o)
{
    struct exchange *x = (struct exchange *)o;

    while (x->kept)
        kept_remove(x, &x->kept);
    rt_mutex_clear(&x->mu);
    free(x);
}

static const struct rt_object_type exchange_type = {"batch exchange", exchange_free};

static enum rt_status exchange_make(const struct rt_make *make, struct rt_object **out)
{
    struct exchange *x = calloc(1, sizeof *x);
    const enum rt_status st = kn_check_container(make->node, make->err);

    if (st || !x) {
        free(x);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *x);
    }
    rt_object_init(&x->o, &exchange_type);
    x->type = make->node->out_dtype[0];
    x->timeout_micros =
        rt_attr(make->node, "timeout_micros") ? rt_attr_int(make->node, "timeout_micros") : 0;
    rt_mutex_init(&x->mu);
    *out = &x->o;
    return RT_OK;
}

/* Returns a reference to the node's exchange, or NULL on failure. Nodes of different types may name
 * the same exchange, which TensorFlow does not refuse. */
static struct exchange *exchange_of(struct rt_run *r, const char *kind)
{
    const enum rt_dtype type = r->node->out_dtype[0];
    struct rt_object *o = NULL;
    struct exchange *x = rt_run_resource(r, kind, exchange_make, &o) ? NULL : (struct exchange *)o;

    if (!x || x->type == type)
        return x;
    rt_fail(r->err, RT_INVALID_ARGUMENT,
            "%s: its shared_name belongs to nodes of the type %s, not %s", r->node->name,
            rt_dtype_name(x->type), rt_dtype_name(type));
    rt_object_unref(o);
    return NULL;
}

/* Returns the place of the tensor with this key, or NULL if there is none. */
static struct kept **kept_find(struct exchange *x, int64_t key)
{
    struct kept **at = &x->kept;

    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return *at ? at : NULL;
}

/* Keeps an item for another run. Takes the item if the call succeeds. */
static enum rt_status keep(struct rt_run *r, struct exchange *x, int64_t key, int64_t until_ns,
                           struct kn_item *item)
{
    if (x->n_kept >= MOST_KEPT)
        return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: %d tensors wait for other runs already",
                       r->node->name, MOST_KEPT);
    struct kept *k = rt_pool_alloc(rt_run_state(r)->pool, sizeof *k, "a tensor's key", r->err);
    if (!k)
        return r->err->code;
    *k = (struct kept){x->kept, key, until_ns, item};
    x->kept = k;
    x->n_kept++;
    return RT_OK;
}

static void drop_expired(struct exchange *x)
{
    const int64_t now = rt_now_ns();

    for (struct kept **at = &x->kept; *at;)
        if ((*at)->until_ns <= now)
            kept_remove(x, at);
        else
            at = &(*at)->next;
}

static struct waiter *waiter_find(const struct exchange *x, int64_t key)
{
    struct waiter *w = x->waiters;

    while (w && w->key != key)
        w = w->next;
    return w;
}

static void waiter_begin(struct exchange *x, struct waiter *w)
{
    rt_cond_init(&w->arrived);
    w->next = x->waiters;
    x->waiters = w;
}

static void waiter_end(struct exchange *x, struct waiter *w)
{
    struct waiter **at = &x->waiters;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    rt_cond_clear(&w->arrived);
}

/* Returns an item that holds `t`, charged to the state of the session. */
static struct kn_item *item_of(struct rt_run *r, const struct rt_tensor *t)
{
    const struct rt_check check = rt_run_as_check(r);
    struct kn_item *i = kn_item_new(r, 1);

    if (i && rt_state_keep(rt_run_state(r), &i->part[0], t, NULL, &check, r->err)) {
        kn_item_free(i);
        return NULL;
    }
    return i;
}

/* Fails because the id in input k is no single number. */
static enum rt_status fail_id(struct rt_run *r, int k, const char *start, const char *end)
{
    struct rt_bytes text;

    rt_bytes_init(&text, 1 << 10);
    kn_summarize(&text, &r->in[k], 3);
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%sTensor<type: int64 shape: %s values: %.*s>%s", start,
            KN_TEXT(&r->in[k]), (int)text.n, text.p ? (const char *)text.p : "", end);
    rt_bytes_clear(&text);
    return r->err->code;
}

/* Refuses an index of more runs than an exchange has space for. */
static enum rt_status check_length(struct rt_run *r, const struct rt_tensor *index)
{
    return index->dim[0] <= MOST_KEPT
               ? RT_OK
               : rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: a batch of %lld runs, at most %d",
                         r->node->name, (long long)index->dim[0], MOST_KEPT);
}

/* ---- Unbatch(batched_tensor, batch_index, id) ---- */

/* Returns the number of rows of entry i of an index, or -1 if the entry has no such number. */
static int64_t index_rows(const struct rt_tensor *index, int64_t i)
{
    const int64_t start = kn_int_at(index, 3 * i + 1), end = kn_int_at(index, 3 * i + 2);

    return end >= start && (start >= 0 || end <= INT64_MAX + start) ? end - start : -1;
}

static enum rt_status check_unbatch(struct rt_run *r)
{
    const struct rt_tensor *data = &r->in[0], *index = &r->in[1];
    int64_t sum = 0;

    if (data->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "batched_tensor must have at least 1 dimension");
    if (index->rank < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_index must have 2 dimensions, got %s",
                       KN_TEXT(index));
    if (index->dim[0] > data->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Wrong shape for index tensor. Expected 0th dimension size to be no greater "
                       "than %lld; Got: %lld.",
                       (long long)data->dim[0], (long long)index->dim[0]);
    if (index->dim[1] != 3 || rt_tensor_count(index) != 3 * index->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: "
                       "%lld.",
                       (long long)index->dim[1]);
    if (check_length(r, index))
        return r->err->code;
    if (r->in[2].rank != 0)
        return fail_id(r, 2, "Input id should be scalar; Got: ", ".");
    for (int64_t i = 0; i < index->dim[0]; i++) {
        const int64_t n = index_rows(index, i);
        if (n < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "batch_index has a range that ends before it "
                           "begins");
        if (n > data->dim[0] - sum)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Sum of split sizes must not exceed dim0-size of input tensor");
        sum += n;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Gives rows [first, first + n) of the batch to the run that waits for `key`, or keeps them until
 * that run comes. */
static enum rt_status deliver(struct rt_run *r, struct exchange *x, int64_t key, int64_t until_ns,
                              int64_t first, int64_t n)
{
    struct waiter *w = waiter_find(x, key);
    struct rt_tensor rows;

    if (w ? w->got != NULL : kept_find(x, key) != NULL)
        return rt_fail(r->err, RT_ALREADY_EXISTS, "Multiple tensors returned for same batch key.");
    rt_tensor_ref(&rows, &r->in[0]);
    rows.alias_of = 0;
    rows.dim[0] = n;
    if (rt_tensor_count(&rows))
        rows.data = (char *)rows.data +
                    (size_t)(first * rt_batch_row_elements(&rows)) * rt_dtype_size(kn_dtype(&rows));
    struct kn_item *item = item_of(r, &rows);
    rt_tensor_clear(&rows);
    enum rt_status st = item ? RT_OK : r->err->code;
    if (!st && w) {
        w->got = item;
        rt_cond_signal(&w->arrived);
    } else if (!st && (st = keep(r, x, key, until_ns, item))) {
        kn_item_free(item);
    }
    return st;
}

/* Returns the time at which a timeout that begins now ends. */
static int64_t timeout_end(const struct exchange *x)
{
    const int64_t now = rt_now_ns(), micros = x->timeout_micros;

    return micros >= (RT_NEVER - now) / 1000 ? RT_NEVER : micros < 0 ? now : now + micros * 1000;
}

/* Delivers the rows of the batch, and waits for the rows of this run. */
static enum rt_status unbatch(struct rt_run *r, struct exchange *x, struct waiter *self)
{
    const struct rt_tensor *index = &r->in[1];
    const int64_t until_ns = timeout_end(x);
    int64_t first = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < index->dim[0] && !st; i++) {
        int64_t key = kn_int_at(index, 3 * i), n = index_rows(index, i);
        /* As in TensorFlow, a second range of the run's own rows is kept. */
        if (key == self->key && self->got)
            st = kept_find(x, key) ? rt_fail(r->err, RT_ALREADY_EXISTS,
                                             "Multiple tensors returned for same batch key.")
                                   : RT_OK;
        else
            st = deliver(r, x, key, until_ns, first, n);
        first += n;
    }
    while (!st && !self->got) {
        if (rt_now_ns() >= until_ns)
            return rt_fail(r->err, RT_DEADLINE_EXCEEDED,
                           "Batched data did not arrive within timeout window.");
        st = rt_run_wait(r, &self->arrived, &x->mu);
    }
    return st;
}

static enum rt_status unbatch_run(struct rt_run *r)
{
    enum rt_status st =
        kn_check_i32("timeout_micros", rt_attr_int(r->node, "timeout_micros"), r->err);
    st = st ? st : check_unbatch(r);
    struct exchange *x = st ? NULL : exchange_of(r, "unbatch");

    if (!x)
        return r->err->code;
    struct waiter self = {.key = kn_int_at(&r->in[2], 0)};
    st = rt_run_lock(r, &x->mu);
    if (st) {
        rt_object_unref(&x->o);
        return st;
    }
    drop_expired(x);
    struct kept **ready = kept_find(x, self.key);
    if (ready) {
        kn_item_to_outputs(r, 0, (*ready)->item);
        kept_remove(x, ready);
    } else if (waiter_find(x, self.key)) {
        st = rt_fail(r->err, RT_ALREADY_EXISTS, "Multiple session runs with the same batch key.");
    } else {
        waiter_begin(x, &self);
        st = unbatch(r, x, &self);
        waiter_end(x, &self);
        if (!st)
            kn_item_to_outputs(r, 0, self.got);
    }
    rt_mutex_unlock(&x->mu);
    kn_item_free(self.got);
    rt_object_unref(&x->o);
    return st;
}

#define EXCHANGE(symbol, op_, run_)                                                                \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS},                                                \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = #symbol, .flags = RT_K_VIEWS, .run = (run_)}),  \
    };

EXCHANGE(unbatch, "Unbatch", unbatch_run)

/* ---- UnbatchGrad(original_input, batch_index, grad, id) ---- */

static bool wants(const struct waiter *w, int64_t key)
{
    const int64_t n = w->index->dim[0];

    for (int64_t i = 0; i < n; i++)
        if (kn_int_at(w->index, 3 * i) == key)
            return true;
    return false;
}

/* Returns whether all gradients that the run waits for are there. Fails if another run waits for
 * one that is missing. */
static enum rt_status all_there(struct rt_run *r, struct exchange *x, const struct waiter *self,
                                bool *there)
{
    const struct rt_tensor *index = self->index;
    enum rt_status st = RT_OK;

    *there = true;
    for (int64_t i = 0; i < index->dim[0] && !st; i++) {
        const int64_t key = kn_int_at(index, 3 * i);
        if (kept_find(x, key))
            continue;
        *there = false;
        for (const struct waiter *w = x->waiters; w && !st; w = w->next)
            if (w != self && wants(w, key))
                st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                             "Missing tensor wanted by more than one batch.");
        if (!st)
            st = rt_run_check(r);
    }
    return st;
}

/* Returns an error if the gradients cannot be concatenated, and their rows otherwise. */
static enum rt_status check_parts(struct rt_run *r, struct kept *const *part, int64_t n,
                                  int64_t *rows)
{
    const struct rt_tensor *a = &part[0]->item->part[0];

    *rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct rt_tensor *b = &part[i]->item->part[0];
        if (b->rank != a->rank || b->rank < 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Ranks of all input tensors should match: shape[0] = %s vs. shape[%lld] "
                           "= %s",
                           KN_TEXT(a), (long long)i, KN_TEXT(b));
        if (memcmp(a->dim + 1, b->dim + 1, (size_t)(a->rank - 1) * sizeof a->dim[0]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Dimensions of inputs should match: shape[0] = %s vs. shape[%lld] = %s",
                           KN_TEXT(a), (long long)i, KN_TEXT(b));
        if (!rt_add(*rows, b->dim[0], rows))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "the gradients have more than 2^63 rows");
    }
    return RT_OK;
}

/* Concatenates the gradients of a batch, all of which are there, and removes them. */
static enum rt_status put_gradients(struct rt_run *r, struct exchange *x)
{
    const struct rt_check check = rt_run_as_check(r);
    const struct rt_tensor *index = &r->in[1];
    const int64_t n = index->dim[0];
    struct kept **part = rt_scratch(r, (size_t)n * sizeof(*part));
    struct kept *taken = NULL;
    int64_t rows = 0, at = 0, dim[RT_MAX_RANK];
    enum rt_status st = part ? RT_OK : r->err->code;

    for (int64_t i = 0; i < n && !st; i++) {
        struct kept **found = kept_find(x, kn_int_at(index, 3 * i));
        if (!found) {
            st = rt_fail(r->err, RT_INTERNAL, "bad bookkeeping of available tensors.");
            break;
        }
        part[i] = *found;
        *found = part[i]->next;
        part[i]->next = taken;
        taken = part[i];
    }
    if (!st)
        st = check_parts(r, part, n, &rows);
    if (!st) {
        const struct rt_tensor *a = &part[0]->item->part[0];
        memcpy(dim, a->dim, sizeof dim);
        dim[0] = rows;
        st = rt_out(r, 0, a->rank, dim) ? RT_OK : r->err->code;
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const struct rt_tensor *t = &part[i]->item->part[0];
        const int64_t count = rt_tensor_count(t);
        const size_t offset = (size_t)at * rt_dtype_size(kn_dtype(t));
        if (count)
            st = rt_copy_elements_checked(kn_dtype(t), (char *)r->out[0].data + offset, t->data,
                                          count, &check, r->err);
        at += count;
    }
    while (taken)
        kept_remove(x, &taken);
    return st;
}

/* Waits for the gradients of the batch whose tensor this run has, and puts them out. */
static enum rt_status collect(struct rt_run *r, struct exchange *x, int64_t key)
{
    struct waiter self = {.key = key, .index = &r->in[1]};
    bool there = false;
    enum rt_status st = all_there(r, x, &self, &there);

    if (st || there)
        return st ? st : put_gradients(r, x);
    waiter_begin(x, &self);
    while (!st && !there) {
        st = rt_run_wait(r, &self.arrived, &x->mu);
        if (!st)
            st = all_there(r, x, &self, &there);
    }
    waiter_end(x, &self);
    return st ? st : put_gradients(r, x);
}

/* Output 0 is empty, with the shape of the gradient's rows. */
static enum rt_status put_none(struct rt_run *r)
{
    const struct rt_tensor *grad = &r->in[2];
    int64_t dim[RT_MAX_RANK];

    if (grad->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "grad must have at least 1 dimension");
    memcpy(dim, grad->dim, sizeof dim);
    dim[0] = 0;
    return rt_out(r, 0, grad->rank, dim) ? RT_OK : r->err->code;
}

static enum rt_status check_gradient(struct rt_run *r)
{
    const struct rt_tensor *index = &r->in[1];

    if (r->in[3].rank != 0)
        return fail_id(r, 3, "Expected `id` to be scalar. Received ", "");
    if (!rt_tensor_count(&r->in[0]))
        return RT_OK;
    if (!rt_tensor_count(index))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_index is empty while the tensor isn't.");
    if (index->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_index must have 2 dimensions, got []");
    if (rt_tensor_count(index) != 3 * index->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "batch_index should contain %lld elements. Received %lld",
                       (long long)(3 * index->dim[0]), (long long)rt_tensor_count(index));
    return check_length(r, index);
}

static enum rt_status unbatch_grad(struct rt_run *r, struct exchange *x, int64_t key)
{
    struct kn_item *grad;
    enum rt_status st;

    if (kept_find(x, key))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Two runs with the same batch key.");
    grad = item_of(r, &r->in[2]);
    st = grad ? keep(r, x, key, RT_NEVER, grad) : r->err->code;
    if (st) {
        kn_item_free(grad);
        return st;
    }
    for (struct waiter *w = x->waiters; w; w = w->next)
        if (wants(w, key))
            rt_cond_signal(&w->arrived);
    if (!rt_tensor_count(&r->in[0]))
        return put_none(r);
    st = waiter_find(x, key)
             ? rt_fail(r->err, RT_INVALID_ARGUMENT, "Batch key with valid batch used twice.")
             : collect(r, x, key);
    /* A run that fails leaves nothing, so that its key can be used again. */
    struct kept **own = st ? kept_find(x, key) : NULL;
    if (own)
        kept_remove(x, own);
    return st;
}

static enum rt_status unbatch_grad_run(struct rt_run *r)
{
    enum rt_status st = check_gradient(r);
    struct exchange *x = st ? NULL : exchange_of(r, "unbatch gradient");

    if (!x)
        return r->err->code;
    st = rt_run_lock(r, &x->mu);
    if (st) {
        rt_object_unref(&x->o);
        return st;
    }
    st = unbatch_grad(r, x, kn_int_at(&r->in[3], 0));
    rt_mutex_unlock(&x->mu);
    rt_object_unref(&x->o);
    return st;
}

EXCHANGE(unbatch_grad, "UnbatchGrad", unbatch_grad_run)
