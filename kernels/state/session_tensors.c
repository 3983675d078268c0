/*
 * Tensors that a session keeps between runs: GetSessionHandle keeps a tensor and returns a string,
 * by which other ops read it (GetSessionTensor) and drop it (DeleteSessionTensor). As in
 * TensorFlow, a tensor is kept only if the run fetches the handle itself, and from the end of the
 * run on if the run succeeds. GetSessionHandleV2 returns the tensor as a resource, which no op
 * reads; it lives as long as the handle.
 *
 * Threads: a lock guards the tensors. The session's state counts their memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/queue/items.h"
#include "runtime/base/map.h"
#include "runtime/session/run_end.h"
#include "runtime/session/resource.h"

/* The device that TensorFlow names in its handles. */
#define DEVICE "/job:localhost/replica:0/task:0/device:CPU:0"

struct tensors {
    struct rt_object o;
    struct rt_mutex mu;
    /* mu guards the members from here on */
    struct rt_map by_number; /* struct kept by the decimal digits of their numbers */
    uint64_t n_made;
};

enum {
    NUMBER_BYTES = 24,
    ENTRY_BYTES = 128, /* bytes that an entry of the map takes, with its key */
};

/* A tensor that is kept. Its handle consists of the node's name, the number and DEVICE, between
 * semicolons. The state counts ENTRY_BYTES more than the struct, for the map. */
struct kept {
    struct rt_run_end end; /* the first member */
    /* a reference until the end of the run that keeps the tensor; then NULL */
    struct tensors *pending;
    struct kn_item *item; /* of one tensor */
    char number[NUMBER_BYTES];
    size_t n;
    char handle[]; /* n bytes and a NUL */
};

static void kept_free(struct kept *k)
{
    if (!k)
        return;
    kn_item_free(k->item);
    rt_pool_free(k);
}

static void tensors_free(struct rt_object *o)
{
    struct tensors *t = (struct tensors *)o;

    for (size_t i = 0; i < t->by_number.n; i++)
        if (t->by_number.entry[i].key)
            kept_free(t->by_number.entry[i].value);
    rt_map_clear(&t->by_number);
    rt_mutex_clear(&t->mu);
    free(t);
}

static const struct rt_object_type tensors_type = {"session tensors", tensors_free};

static enum rt_status tensors_make(const struct rt_make *make, struct rt_object **out)
{
    struct tensors *t = calloc(1, sizeof *t);

    if (!t)
        return rt_fail_memory(make->err, make->node->name, sizeof *t);
    rt_object_init(&t->o, &tensors_type);
    rt_mutex_init(&t->mu);
    rt_map_init(&t->by_number);
    *out = &t->o;
    return RT_OK;
}

/* Returns a reference to the session's tensors, or NULL on failure. */
static struct tensors *tensors_of(struct rt_run *r)
{
    struct rt_object *o = NULL;

    return rt_run_only_resource(r, "session tensors", tensors_make, &o) ? NULL
                                                                        : (struct tensors *)o;
}

/* ---- GetSessionHandle ---- */

/* Writes the handle of a new tensor, which has at most `most` bytes, and sets *out to it. */
static enum rt_status name_tensor(struct rt_run *r, struct tensors *t, struct kept *k, size_t most,
                                  struct rt_str *out)
{
    rt_mutex_lock(&t->mu);
    snprintf(k->number, sizeof k->number, "%llu", (unsigned long long)t->n_made++);
    rt_mutex_unlock(&t->mu);
    k->n = (size_t)snprintf(k->handle, most, "%s;%s;%s", r->node->name, k->number, DEVICE);
    return rt_str_set(out, rt_run_pool(r), k->handle, k->n, r->err) ? RT_OK : r->err->code;
}

/* At the end of the run, keeps a tensor that the map has, or drops it if the run has failed. */
static void end_keeping(struct rt_run_end *e, bool has_succeeded)
{
    struct kept *k = (struct kept *)e;
    struct tensors *t = k->pending;

    rt_mutex_lock(&t->mu);
    k->pending = NULL;
    if (!has_succeeded)
        rt_map_remove(&t->by_number, k->number);
    rt_mutex_unlock(&t->mu);
    if (!has_succeeded)
        kept_free(k);
    rt_object_unref(&t->o);
}

/* Keeps a tensor that has a handle from the end of the run on. */
static enum rt_status keep(struct rt_run *r, struct tensors *t, struct kept *k)
{
    k->pending = t;
    rt_mutex_lock(&t->mu);
    const bool is_kept = rt_map_put(&t->by_number, k->number, k);
    rt_mutex_unlock(&t->mu);
    if (!is_kept)
        return rt_fail_memory(r->err, r->node->name, ENTRY_BYTES);
    rt_object_ref(&t->o);
    k->end.end = end_keeping;
    rt_run_at_end(r, &k->end);
    return RT_OK;
}

/* Returns the tensor that a handle names, or NULL. The caller holds t->mu. */
static struct kept *find(const struct tensors *t, const struct rt_str *handle)
{
    const char *text = rt_str_data(handle);
    const size_t tail = sizeof DEVICE; /* with the semicolon before it, without the NUL */
    size_t from = handle->n > tail ? handle->n - tail : 0;
    const size_t end = from;

    while (from && text[from - 1] >= '0' && text[from - 1] <= '9')
        from--;
    struct kept *k = rt_map_getn(&t->by_number, text + from, end - from);
    return k && !k->pending && k->n == handle->n && memcmp(k->handle, text, k->n) == 0 ? k : NULL;
}

static enum rt_status handle_run(struct rt_run *r)
{
    const size_t most = strlen(r->node->name) + NUMBER_BYTES + sizeof DEVICE;
    struct tensors *t = tensors_of(r);
    struct rt_str *out = t ? kn_out(r, 0, 0, NULL) : NULL;
    struct kept *k = out ? rt_pool_alloc(rt_run_state(r)->pool, sizeof *k + most + ENTRY_BYTES,
                                         "a session tensor", r->err)
                         : NULL;
    const bool is_fetched = rt_run_is_fetched(r, 0);
    enum rt_status st = k ? name_tensor(r, t, k, most, out) : r->err->code;

    if (!st && is_fetched)
        st = kn_item_from_inputs(r, 0, &k->item);
    if (!st && is_fetched)
        st = keep(r, t, k);
    if (st || !is_fetched)
        kept_free(k);
    rt_object_unref(t ? &t->o : NULL);
    return st;
}

/* ---- GetSessionTensor, DeleteSessionTensor ---- */

static enum rt_status get_run(struct rt_run *r)
{
    const struct rt_str *handle = rt_strs(&r->in[0]);

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "handle must be scalar");
    struct tensors *t = tensors_of(r);
    if (!t)
        return r->err->code;
    rt_mutex_lock(&t->mu);
    const struct kept *k = find(t, handle);
    if (k)
        rt_out_tensor(r, 0, &k->item->part[0]);
    rt_mutex_unlock(&t->mu);
    rt_object_unref(&t->o);
    return k ? RT_OK
             : rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The tensor with handle '%.*s' is not in the session store.",
                       handle->n < 512 ? (int)handle->n : 512, rt_str_data(handle));
}

static enum rt_status delete_run(struct rt_run *r)
{
    const struct rt_str *handle = rt_strs(&r->in[0]);

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "`handle` must be scalar");
    struct tensors *t = tensors_of(r);
    if (!t)
        return r->err->code;
    rt_mutex_lock(&t->mu);
    struct kept *k = find(t, handle);
    if (k)
        rt_map_remove(&t->by_number, k->number);
    rt_mutex_unlock(&t->mu);
    rt_object_unref(&t->o);
    if (!k)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Failed to delete a tensor with handle '%.*s' in the session store.",
                       handle->n < 512 ? (int)handle->n : 512, rt_str_data(handle));
    kept_free(k);
    return RT_OK;
}

/* ---- GetSessionHandleV2 ---- */

struct held {
    struct rt_object o;
    struct kn_item *item;
};

static void held_free(struct rt_object *o)
{
    struct held *h = (struct held *)o;

    kn_item_free(h->item);
    free(h);
}

static const struct rt_object_type held_type = {"session tensor", held_free};

static enum rt_status handle_v2_run(struct rt_run *r)
{
    struct held *h = calloc(1, sizeof *h);

    if (!h)
        return rt_fail_memory(r->err, r->node->name, sizeof *h);
    rt_object_init(&h->o, &held_type);
    if (kn_item_from_inputs(r, 0, &h->item)) {
        rt_object_unref(&h->o);
        return r->err->code;
    }
    return rt_out_object(r, 0, &h->o);
}

#define ENTRY(symbol, op_, effect_, infer_, run_)                                                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = (effect_), .infer = (infer_)},                             \
        .kernels = KN_KERNELS({.op = (op_), .device = "CPU", .name = #symbol, .run = (run_)}),     \
    };
ENTRY(delete_session_tensor, "DeleteSessionTensor", RT_WRITES, NULL, delete_run)
ENTRY(get_session_handle, "GetSessionHandle", RT_WRITES, kn_infer_scalars, handle_run)
ENTRY(get_session_handle_v2, "GetSessionHandleV2", RT_WRITES, NULL, handle_v2_run)
ENTRY(get_session_tensor, "GetSessionTensor", RT_READS, NULL, get_run)
