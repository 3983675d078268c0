/*
 * Tensors that a session keeps between runs: GetSessionHandle keeps a tensor and returns a string,
 * by which other ops read it (GetSessionTensor) and drop it (DeleteSessionTensor). TensorFlow keeps
 * the tensor from the end of the run on, if the run returns the handle; here it is kept at once.
 * GetSessionHandleV2 returns the tensor as a resource, which no op reads; it lives as long as the
 * handle.
 *
 * Threads: a lock guards the tensors. The session's state counts their memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/queue/items.h"
#include "runtime/base/map.h"
#include "runtime/session/resource.h"

/* The device that TensorFlow names in its handles. */
#define DEVICE "/job:localhost/replica:0/task:0/device:CPU:0"

struct tensors {
    struct rt_object o;
    struct rt_mutex mu;
    /* mu guards the members from here on */
    struct rt_map by_handle; /* struct kn_item of one tensor */
    uint64_t n_made;
};

static void tensors_free(struct rt_object *o)
{
    struct tensors *t = (struct tensors *)o;

    for (size_t i = 0; i < t->by_handle.n; i++)
        if (t->by_handle.entry[i].key)
            kn_item_free(t->by_handle.entry[i].value);
    rt_map_clear(&t->by_handle);
    rt_mutex_clear(&t->mu);
    free(t);
}

static const struct rt_object_type tensors_type = {"session tensors", tensors_free};

static enum rt_status tensors_make(const struct rt_node *n, const struct rt_tensor *in,
                                   struct rt_object **out, struct rt_error *err)
{
    struct tensors *t = calloc(1, sizeof *t);

    (void)in;
    if (!t)
        return rt_fail_memory(err, n->name, sizeof *t);
    rt_object_init(&t->o, &tensors_type);
    rt_mutex_init(&t->mu);
    rt_map_init(&t->by_handle);
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

enum { NUMBER_BYTES = 24 };

static enum rt_status keep(struct rt_run *r, struct tensors *t, struct kn_item *item, char *text,
                           size_t n)
{
    rt_mutex_lock(&t->mu);
    snprintf(text, n, "%s;%llu;%s", r->node->name, (unsigned long long)t->n_made++, DEVICE);
    const bool is_kept = rt_map_put(&t->by_handle, text, item);
    rt_mutex_unlock(&t->mu);
    return is_kept ? RT_OK : rt_fail_memory(r->err, r->node->name, n);
}

static enum rt_status handle_run(struct rt_run *r)
{
    const size_t n = strlen(r->node->name) + NUMBER_BYTES + sizeof DEVICE;
    struct tensors *t = tensors_of(r);
    struct rt_str *out = t ? kn_out(r, 0, 0, NULL) : NULL;
    char *text = out ? rt_scratch(r, n) : NULL;
    struct kn_item *item = NULL;
    enum rt_status st = text ? kn_item_from_inputs(r, 0, &item) : r->err->code;

    if (!st) {
        st = keep(r, t, item, text, n);
        if (st)
            kn_item_free(item);
    }
    if (!st && !rt_str_set(out, rt_run_pool(r), text, strlen(text), r->err))
        st = r->err->code;
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
    const struct kn_item *item = rt_map_getn(&t->by_handle, rt_str_data(handle), handle->n);
    if (item)
        rt_out_tensor(r, 0, &item->part[0]);
    rt_mutex_unlock(&t->mu);
    rt_object_unref(&t->o);
    return item ? RT_OK
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
    struct kn_item *item = rt_map_getn(&t->by_handle, rt_str_data(handle), handle->n);
    if (item)
        rt_map_remove(&t->by_handle, rt_str_data(handle));
    rt_mutex_unlock(&t->mu);
    kn_item_free(item);
    rt_object_unref(&t->o);
    return item ? RT_OK
                : rt_fail(r->err, RT_INVALID_ARGUMENT,
                          "Failed to delete a tensor with handle '%.*s' in the session store.",
                          handle->n < 512 ? (int)handle->n : 512, rt_str_data(handle));
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
