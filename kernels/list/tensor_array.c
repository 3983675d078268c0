/*
 * TensorArrays of TensorFlow 1. In every run, a node creates a new array.
 *
 * Flow edges and control edges define the order of the ops on an array. The effect RT_RANDOM does
 * not order these ops: it only prevents nodes from being folded or merged. A loop may run several
 * ops on one array concurrently, so each array has its own lock.
 */
#include "kernels/array/array.h"
#include "kernels/list/list.h"
#include "kernels/entry.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/thread.h"
#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>

/* A written element has the rank and dimensions of `t`, also if `t` has no value: the elements of a
 * gradient array take the shapes of its forward array's elements, and a read may drop the value. */
struct slot {
    struct rt_tensor t;
    bool written, read, cleared;
};

enum { NAME_BYTES = 320 };

struct array {
    struct rt_object o;
    struct rt_mutex mu;
    enum rt_dtype dtype;
    bool clears, alike;
    bool sums;             /* a gradient array: each write adds to the element */
    struct rt_span source; /* attribute of the node that made a gradient array */
    char name[NAME_BYTES];
    /* mu guards all members from here on */
    bool grows, closed;
    struct array *grads, *next_grad; /* gradient arrays, which their forward array holds */
    struct rt_shape shape;           /* the shape common to all elements, as far as it is known */
    int64_t n, capacity;
    struct slot *slot;
    struct rt_buffer *memory; /* memory that holds the array `slot` */
};

static void array_empty(struct array *a)
{
    for (int64_t i = 0; i < a->n; i++)
        rt_tensor_clear(&a->slot[i].t);
    rt_buffer_unref(a->memory);
    a->memory = NULL;
    a->slot = NULL;
    a->n = a->capacity = 0;
}

static void array_free(struct rt_object *o)
{
    struct array *a = (struct array *)o;

    array_empty(a);
    for (struct array *g = a->grads, *next; g; g = next) {
        next = g->next_grad;
        rt_object_unref(&g->o);
    }
    rt_mutex_clear(&a->mu);
    rt_pool_free(a);
}

static const struct rt_object_type array_type = {"TensorArray", array_free};

static bool array_resize(struct rt_run *r, struct array *a, int64_t n)
{
    if (!kn_items_grow(r, &a->memory, &a->capacity, n, sizeof *a->slot, "a TensorArray"))
        return false;
    a->slot = kn_items_at(a->memory);
    a->n = n > a->n ? n : a->n;
    return true;
}

/* Returns the TensorArray of input 0, locked. On failure, returns NULL and sets r->err. */
static struct array *array_begin(struct rt_run *r) RT_NO_ANALYSIS
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;
    struct array *a = (struct array *)o;

    if (!o || o->type != &array_type) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input 0 is not a TensorArray",
                r->node->schema->name);
        return NULL;
    }
    rt_mutex_lock(&a->mu);
    if (a->closed) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "TensorArray %s has already been closed.", a->name);
        rt_mutex_unlock(&a->mu);
        return NULL;
    }
    return a;
}

static enum rt_status array_end(struct array *a, enum rt_status st) RT_NO_ANALYSIS
{
    rt_mutex_unlock(&a->mu);
    return st;
}

static enum rt_status flow_out(struct rt_run *r, int k, const struct rt_tensor *in)
{
    if (in) {
        rt_out_tensor(r, k, in);
        return RT_OK;
    }
    float *f = kn_out(r, k, 0, NULL);
    if (!f)
        return r->err->code;
    *f = 0;
    return RT_OK;
}

/* Returns a new array with n elements. On failure, returns NULL and sets r->err. */
static struct array *array_new(struct rt_run *r, enum rt_dtype dtype, int64_t n)
{
    struct array *a = rt_run_alloc(r, sizeof *a);

    if (!a)
        return NULL;
    rt_object_init(&a->o, &array_type);
    rt_mutex_init(&a->mu);
    a->dtype = dtype;
    if (array_resize(r, a, n))
        return a;
    rt_object_unref(&a->o);
    return NULL;
}

/* ---- TensorArrayV3(size) -> handle, flow ---- */

static atomic_int counter;

static enum rt_status make_run(struct rt_run *r)
{
    const struct rt_span name = rt_attr_str(r->node, "tensor_array_name");

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray size must be scalar, but had shape: %s", KN_TEXT(&r->in[0]));
    const int64_t n = kn_int_at(&r->in[0], 0);
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Size should be >= 0.");
    if (!kn_items_check(rt_attr_dtype(r->node, "dtype"), "a TensorArray", r->err))
        return r->err->code;
    struct array *a = array_new(r, rt_attr_dtype(r->node, "dtype"), n);
    if (!a)
        return r->err->code;
    a->shape = *rt_attr_shape(r->node, "element_shape");
    a->grows = rt_attr_bool(r->node, "dynamic_size");
    a->clears = rt_attr_bool(r->node, "clear_after_read");
    a->alike = rt_attr_bool(r->node, "identical_element_shapes");
    snprintf(a->name, sizeof a->name, "%.*s_%d", name.n ? (int)(name.n < 128 ? name.n : 128) : 128,
             name.n ? (const char *)name.p : r->node->name, atomic_fetch_add(&counter, 1));
    enum rt_status st = rt_out_object(r, 0, &a->o);
    return st ? st : flow_out(r, 1, NULL);
}

/* ---- element by element, under the lock ---- */

/* Adds v to element i of a gradient array. */
static enum rt_status add_to_slot(struct rt_run *r, struct array *a, int64_t i,
                                  const struct rt_tensor *v)
{
    struct slot *e = &a->slot[i];
    struct rt_tensor sum = {0};
    struct rt_shape have, more;

    kn_shape_get(&e->t, &have);
    kn_shape_get(v, &more);
    if (!kn_shape_eq(&have, &more))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not aggregate to TensorArray index %lld because the "
                       "existing shape is %s but the new input shape is %s.",
                       a->name, (long long)i, KN_TEXT(&have), KN_TEXT(&more));
    if (!e->t.dtype)
        return kn_keep(r, &e->t, v);
    if (!kn_is_number(a->dtype))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "tensor_array::AddToTensor type not supported: %s", rt_dtype_name(a->dtype));
    const enum rt_status st = kn_numbers_add(r, &e->t, v, &sum);
    rt_tensor_clear(st ? &sum : &e->t);
    if (!st)
        e->t = sum;
    return st;
}

static enum rt_status write_one(struct rt_run *r, struct array *a, int64_t i,
                                const struct rt_tensor *v)
{
    struct rt_shape s;

    if (v->dtype != a->dtype)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray dtype is %s but Op is trying to write dtype %s.",
                       rt_dtype_name(a->dtype), rt_dtype_name(kn_dtype(v)));
    if (i < 0 || (i >= a->n && !a->grows))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Tried to write to index %lld but array is not resizeable "
                       "and size is: %lld",
                       a->name, (long long)i, (long long)a->n);
    if (i >= a->n && !array_resize(r, a, i + 1))
        return r->err->code;
    struct slot *e = &a->slot[i];
    kn_shape_get(v, &s);
    if (!kn_partial_fits(&a->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not write to TensorArray index %lld because the "
                       "value shape is %s which is incompatible with the TensorArray's inferred "
                       "element shape: %s (consider setting infer_shape=False).",
                       a->name, (long long)i, KN_TEXT(&s), KN_PARTIAL(&a->shape));
    if (e->read)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not write to TensorArray index %lld because it has "
                       "already been read.",
                       a->name, (long long)i);
    if (e->written && !a->sums)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not write to TensorArray index %lld because it has "
                       "already been written to.",
                       a->name, (long long)i);
    enum rt_status st = e->written ? add_to_slot(r, a, i, v) : kn_keep(r, &e->t, v);
    if (st)
        return st;
    e->written = true;
    if (a->alike)
        a->shape = s;
    return RT_OK;
}

/* Makes *out the value of element i, which has none: zeros. */
static enum rt_status zeros(struct rt_run *r, const struct array *a, int64_t i,
                            struct rt_tensor *out)
{
    struct rt_shape s = a->shape;

    if (a->slot[i].written)
        kn_shape_get(&a->slot[i].t, &s);
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not read from TensorArray index %lld.  "
                       "Furthermore, the element shape is not fully defined: %s.  It is "
                       "possible you are working with a resizeable TensorArray and "
                       "stop_gradients is not allowing the gradients to be written.  If you "
                       "set the full element_shape property on the forward TensorArray, the "
                       "proper all-zeros tensor will be returned instead of incurring this "
                       "error.",
                       a->name, (long long)i, KN_PARTIAL(&s));
    enum rt_status st = rt_tensor_new(out, rt_run_pool(r), a->dtype, s.rank, s.dim, r->err);
    if (!st && out->data && rt_dtype_is_plain(a->dtype))
        st = kn_zero_chunks(r, out->data, rt_tensor_bytes(out));
    if (st)
        rt_tensor_clear(out);
    return st;
}

/* Reads element i into *out, a reference that the caller owns. */
static enum rt_status read_one(struct rt_run *r, struct array *a, int64_t i, struct rt_tensor *out)
{
    if (i < 0 || i >= a->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to read from index %lld but array size is: %lld", (long long)i,
                       (long long)a->n);
    struct slot *e = &a->slot[i];
    if (e->cleared)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray %s: Could not read index %lld twice because it was cleared "
                       "after a previous read (perhaps try setting clear_after_read = false?).",
                       a->name, (long long)i);
    if (e->t.dtype) {
        rt_tensor_ref(out, &e->t);
    } else {
        const enum rt_status st = zeros(r, a, i, out);
        if (st)
            return st;
    }
    e->read = true;
    if (a->clears) {
        const struct rt_tensor shape = {.rank = out->rank};
        rt_tensor_clear(&e->t);
        e->t = shape;
        memcpy(e->t.dim, out->dim, sizeof out->dim);
        e->cleared = true;
    }
    return RT_OK;
}

/* Sets *i to the element index in input 1, which must be a scalar, as in TensorFlow. */
static enum rt_status index_of(struct rt_run *r, int64_t *i)
{
    if (kn_scalar(&r->in[1], i))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "TensorArray index must be scalar, but had shape: %s", KN_TEXT(&r->in[1]));
}

static enum rt_status write_run(struct rt_run *r)
{
    int64_t i;
    enum rt_status st = index_of(r, &i);
    struct array *a = st ? NULL : array_begin(r);

    if (!a)
        return r->err->code;
    st = array_end(a, write_one(r, a, i, &r->in[2]));
    return st ? st : flow_out(r, 0, &r->in[3]);
}

static enum rt_status wrong_type(struct rt_run *r, const struct array *a)
{
    const enum rt_dtype want = rt_attr_dtype(r->node, "dtype");

    if (want == a->dtype)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "TensorArray dtype is %s but Op requested dtype %s.", rt_dtype_name(a->dtype),
                   rt_dtype_name(want));
}

static enum rt_status read_run(struct rt_run *r)
{
    int64_t i;
    enum rt_status st = index_of(r, &i);
    struct array *a = st ? NULL : array_begin(r);
    struct rt_tensor t = {0};

    if (!a)
        return r->err->code;
    st = wrong_type(r, a);
    if (!st)
        st = read_one(r, a, i, &t);
    array_end(a, st);
    if (!st)
        rt_out_tensor(r, 0, &t);
    rt_tensor_clear(&t);
    return st;
}

static enum rt_status size_run(struct rt_run *r)
{
    struct array *a = array_begin(r);

    if (!a)
        return r->err->code;
    const int64_t n = a->n;
    array_end(a, RT_OK);
    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    kn_put_int(&r->out[0], 0, n);
    return RT_OK;
}

static enum rt_status close_run(struct rt_run *r)
{
    struct array *a = array_begin(r);

    if (!a)
        return r->err->code;
    array_empty(a);
    a->closed = true;
    return array_end(a, RT_OK);
}

/* ---- many elements ---- */

/* Reads n elements into *out, an array in the run's scratch memory. Each element is a reference,
 * which drop_many clears. */
static enum rt_status read_many(struct rt_run *r, struct array *a, const struct rt_tensor *index,
                                int64_t n, struct rt_tensor **out)
{
    *out = rt_scratch(r, (size_t)n * sizeof **out);
    if (!*out)
        return r->err->code;
    enum rt_status st = kn_zero_chunks(r, *out, (size_t)n * sizeof **out);
    if (st)
        /* drop_many must not read an array that was not zeroed */
        *out = NULL;
    for (int64_t i = 0; i < n && !st; i++) {
        st = read_one(r, a, index ? kn_int_at(index, i) : i, &(*out)[i]);
        if (!st)
            st = rt_run_tick(r, i);
    }
    return st;
}

static void drop_many(struct rt_tensor *t, int64_t n)
{
    for (int64_t i = 0; t && i < n; i++)
        rt_tensor_clear(&t[i]);
}

static enum rt_status gathered(struct rt_run *r, const struct rt_tensor *t, int64_t n,
                               const struct rt_shape *want)
{
    struct rt_shape s;
    int64_t dim[RT_MAX_RANK];

    kn_shape_get(&t[0], &s);
    if (!kn_partial_fits(want, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArray was passed element_shape %s which does not match the Tensor "
                       "at index 0: %s",
                       KN_PARTIAL(want), KN_TEXT(&s));
    if (s.rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    /* As in TensorFlow, the shapes of the other elements are not checked if the output is empty. */
    const int64_t each = rt_tensor_count(&t[0]);
    for (int64_t i = 1; i < n && each; i++) {
        if (t[i].rank != s.rank || memcmp(t[i].dim, s.dim, (size_t)s.rank * sizeof s.dim[0]) != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "TensorArray has inconsistent shapes.  Index 0 has shape: %s but index "
                           "%lld has shape: %s",
                           KN_TEXT(&s), (long long)i, KN_TEXT(&t[i]));
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    dim[0] = n;
    memcpy(dim + 1, s.dim, (size_t)s.rank * sizeof dim[0]);
    if (!kn_out(r, 0, s.rank + 1, dim))
        return r->err->code;
    enum rt_status st = RT_OK;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n && !st && each; i++)
        if (!(st = rt_run_spend(r, &left, each + 8)))
            st = kn_copy_run(r, kn_dtype(&t[i]), kn_at_mut(&r->out[0], i * each), t[i].data, each);
    return st;
}

static enum rt_status gather_run(struct rt_run *r)
{
    struct array *a = array_begin(r);
    const struct rt_tensor *index = &r->in[1];
    const struct rt_shape *want = rt_attr_shape(r->node, "element_shape");
    struct rt_tensor *t = NULL;
    int64_t n = 0, dim[RT_MAX_RANK];

    if (!a)
        return r->err->code;
    enum rt_status st = wrong_type(r, a);
    if (!st && index->rank != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected indices to be a vector, but received shape: %s", KN_TEXT(index));
    if (!st)
        st = kn_partial_merge(&a->shape, want, r->err);
    const struct rt_shape s = a->shape;
    if (!st) {
        n = index->dim[0];
        if (n == 0 && !kn_shape_known(&s))
            st = rt_fail(r->err, RT_UNIMPLEMENTED,
                         "TensorArray has size zero, but element shape %s is not fully defined. "
                         "Currently only static shapes are supported when packing zero-size "
                         "TensorArrays.",
                         KN_PARTIAL(&s));
        if (!st && n > 0)
            st = read_many(r, a, index, n, &t);
    }
    array_end(a, st);
    if (!st && n == 0) {
        dim[0] = 0;
        memcpy(dim + 1, s.dim, (size_t)(s.rank < RT_MAX_RANK ? s.rank : 0) * sizeof dim[0]);
        st = rt_out(r, 0, s.rank < RT_MAX_RANK ? s.rank + 1 : 1, dim) ? RT_OK : r->err->code;
    } else if (!st) {
        st = gathered(r, t, n, want);
    }
    drop_many(t, n);
    return st;
}

static enum rt_status scatter_run(struct rt_run *r)
{
    const struct rt_tensor *index = &r->in[1], *v = &r->in[2];
    struct array *a = array_begin(r);

    if (!a)
        return r->err->code;
    enum rt_status st = RT_OK;
    int64_t n = 0, top = -1;
    if (index->rank != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected indices to be a vector, but received shape: %s", KN_TEXT(index));
    else if (v->rank < 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Input value for unpack must be at least a vector but received shape: %s",
                     KN_TEXT(v));
    else if (v->dim[0] != (n = index->dim[0]))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected len(indices) == values.shape[0], but saw: %lld vs. %lld",
                     (long long)n, (long long)v->dim[0]);
    for (int64_t i = 0; i < n && !st; i++) {
        top = kn_int_at(index, i) > top ? kn_int_at(index, i) : top;
        st = rt_run_tick(r, i);
    }
    if (!st && top >= a->n && !a->grows)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Max scatter index must be < array size (%lld vs. %lld)", (long long)top,
                     (long long)a->n);
    for (int64_t i = 0; i < n && !st; i++) {
        const struct rt_tensor row = kn_row(v, i);
        if (!(st = rt_run_tick(r, i)))
            st = write_one(r, a, kn_int_at(index, i), &row);
    }
    array_end(a, st);
    return st ? st : flow_out(r, 0, &r->in[3]);
}

static enum rt_status split_run(struct rt_run *r)
{
    const struct rt_tensor *v = &r->in[1], *len = &r->in[2];
    struct array *a = array_begin(r);
    enum rt_status st = RT_OK;
    int64_t n = 0, sum = 0, at = 0;

    if (!a)
        return r->err->code;
    if (len->rank != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected lengths to be a vector, received shape: %s", KN_TEXT(len));
    else
        n = len->dim[0];
    for (int64_t i = 0; i < n && !st; i++)
        if ((st = rt_run_tick(r, i)) == RT_OK &&
            (kn_int_at(len, i) < 0 || !rt_add(sum, kn_int_at(len, i), &sum)))
            st = rt_fail(r->err, RT_INVALID_ARGUMENT, "TensorArraySplit: length %lld is not valid",
                         (long long)kn_int_at(len, i));
    if (!st && v->rank < 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected value to be at least a vector, but received shape: %s", KN_TEXT(v));
    if (!st && sum != v->dim[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expected sum of lengths to be equal to values.shape[0], but sum of lengths "
                     "is %lld and value's shape is: %s",
                     (long long)sum, KN_TEXT(v));
    if (!st && a->grows && n > a->n && !array_resize(r, a, n))
        st = r->err->code;
    if (!st && n != a->n)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "TensorArray's size is not equal to the size of lengths (%lld vs. %lld), and "
                     "the TensorArray is not marked as dynamically resizeable",
                     (long long)a->n, (long long)n);
    for (int64_t i = 0; i < n && !st; i++) {
        struct rt_tensor rows = *v;
        const int64_t k = kn_int_at(len, i);
        if (v->dim[0])
            rows = kn_rows_of(v, at, k);
        if (!(st = rt_run_tick(r, i)))
            st = write_one(r, a, i, &rows);
        at += k;
    }
    array_end(a, st);
    return st ? st : flow_out(r, 0, &r->in[3]);
}

static enum rt_status joined(struct rt_run *r, const struct rt_tensor *t, int64_t n,
                             const struct rt_shape *want)
{
    int64_t dim[RT_MAX_RANK] = {0}, each = 1, at = 0;
    struct rt_shape rest = {0}, is = {0};

    for (int64_t i = 0; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (t[i].rank < 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Concat saw a scalar shape at index %lld but requires at least "
                           "vectors.  Did you mean to call pack?",
                           (long long)i);
        is.rank = t[i].rank - 1;
        memcpy(is.dim, t[i].dim + 1, (size_t)is.rank * sizeof is.dim[0]);
        if (i == 0) {
            rest = is;
            if (!kn_partial_fits(want, &rest))
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "TensorArray was passed element_shape_except0 %s but index 0 has "
                               "(excepting dimension 0) shape: %s which does not match.",
                               KN_PARTIAL(want), KN_TEXT(&rest));
        } else if (is.rank != rest.rank || !kn_partial_fits(&is, &rest)) {
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension "
                           "0) shape: %s but index %lld has (excepting dimension 0) shape: %s",
                           KN_TEXT(&rest), (long long)i, KN_TEXT(&is));
        }
        if (!rt_add(dim[0], t[i].dim[0], &dim[0]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "TensorArrayConcatV3: the output would have more than 2**63 - 1 rows");
    }
    memcpy(dim + 1, rest.dim, (size_t)rest.rank * sizeof dim[0]);
    if (!rt_out(r, 0, rest.rank + 1, dim) || !rt_out(r, 1, 1, &n))
        return r->err->code;
    each = rt_count(rest.rank, rest.dim);
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n; i++) {
        kn_put_int(&r->out[1], i, t[i].dim[0]);
        const int64_t count = t[i].dim[0] * each;
        enum rt_status st =
            count ? kn_copy_run(r, kn_dtype(&t[i]), kn_at_mut(&r->out[0], at), t[i].data, count)
                  : RT_OK;
        if (st || (st = rt_run_spend(r, &left, count + 8)))
            return st;
        at += count;
    }
    return RT_OK;
}

static enum rt_status concat_run(struct rt_run *r)
{
    struct array *a = array_begin(r);
    const struct rt_shape *want = rt_attr_shape(r->node, "element_shape_except0");
    struct rt_tensor *t = NULL;
    int64_t dim[RT_MAX_RANK] = {0};
    const int64_t zero = 0;

    if (!a)
        return r->err->code;
    const int64_t n = a->n;
    enum rt_status st = wrong_type(r, a);
    if (!st && n == 0 && !(kn_shape_known(want) && want->rank < RT_MAX_RANK))
        st = rt_fail(r->err, RT_UNIMPLEMENTED,
                     "TensorArray has size zero, but element_shape_except0 %s is not fully "
                     "defined. Currently only static shapes are supported when concatenating "
                     "zero-size TensorArrays.",
                     KN_PARTIAL(want));
    if (!st && n > 0)
        st = read_many(r, a, NULL, n, &t);
    array_end(a, st);
    if (!st && n == 0) {
        memcpy(dim + 1, want->dim, (size_t)want->rank * sizeof dim[0]);
        if (!rt_out(r, 0, want->rank + 1, dim) || !rt_out(r, 1, 1, &zero))
            st = r->err->code;
    } else if (!st) {
        st = joined(r, t, n, want);
    }
    drop_many(t, n);
    return st;
}

/* ---- TensorArrayGradV3(handle, flow), TensorArrayGradWithShape(handle, flow, shape) ---- */

/* Reads the dimensions that TensorArrayGradWithShape puts before those of each element. */
static enum rt_status prepended(struct rt_run *r, struct rt_shape *s)
{
    *s = (struct rt_shape){0};
    if (r->n_in < 3)
        return RT_OK;
    const struct rt_tensor *t = &r->in[2];
    if (t->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "shape must be a vector of {int32,int64}, got shape %s", KN_TEXT(t));
    for (int64_t i = 0; i < t->dim[0] && i < RT_MAX_RANK; i++)
        if (kn_int_at(t, i) < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)kn_int_at(t, i));
    s->rank = kn_ints(t, s->dim, RT_MAX_RANK);
    if (s->rank < 0 || rt_count(s->rank, s->dim) < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorArrayGradWithShape: the shape to prepend is too large");
    return RT_OK;
}

/* Puts the dimensions of `first` before those of *s. */
static enum rt_status prepend(struct rt_run *r, const struct rt_shape *first, struct rt_shape *s)
{
    if (s->rank < 0 || !first->rank)
        return RT_OK;
    if (first->rank + s->rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    memmove(s->dim + first->rank, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    memcpy(s->dim, first->dim, (size_t)first->rank * sizeof s->dim[0]);
    s->rank = (int8_t)(s->rank + first->rank);
    return RT_OK;
}

/* Fills the new gradient array g of `a`. */
static enum rt_status shape_like(struct rt_run *r, struct array *g, const struct array *a,
                                 const struct rt_shape *first)
{
    g->shape = a->shape;
    enum rt_status st = prepend(r, first, &g->shape);
    for (int64_t i = 0; i < a->n && !st; i++) {
        struct rt_shape s;
        if (a->slot[i].written) {
            kn_shape_get(&a->slot[i].t, &s);
            if ((st = prepend(r, first, &s)))
                return st;
            g->slot[i].written = true;
            g->slot[i].t.rank = (int8_t)s.rank;
            memcpy(g->slot[i].t.dim, s.dim, sizeof s.dim);
        }
        st = rt_run_tick(r, i);
    }
    return st;
}

/* Sets *out to the gradient array of `a` for this node's source, which is made if there is none
 * yet. `a` is locked. */
static enum rt_status grad_of(struct rt_run *r, struct array *a, struct array **out)
{
    const struct rt_span source = rt_attr_str(r->node, "source");
    struct rt_shape first;

    if (a->sums)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Wrong input container. _tensor_array_grads%s",
                       a->name);
    enum rt_status st = prepended(r, &first);
    if (st)
        return st;
    for (*out = a->grads; *out; *out = (*out)->next_grad)
        if (rt_span_eq((*out)->source, source))
            return RT_OK;
    a->grows = false;
    struct array *g = array_new(r, a->dtype, a->n);
    if (!g)
        return r->err->code;
    snprintf(g->name, sizeof g->name, "%.160s@%.*s", a->name,
             (int)(source.n < 128 ? source.n : 128), (const char *)source.p);
    g->source = source;
    g->sums = true;
    g->clears = true;
    g->alike = a->alike;
    if ((st = shape_like(r, g, a, &first))) {
        rt_object_unref(&g->o);
        return st;
    }
    g->next_grad = a->grads;
    a->grads = *out = g;
    return RT_OK;
}

static enum rt_status grad_run(struct rt_run *r)
{
    struct array *a = array_begin(r), *g = NULL;

    if (!a)
        return r->err->code;
    enum rt_status st = grad_of(r, a, &g);
    if (!st)
        rt_object_ref(&g->o);
    array_end(a, st);
    if (!st)
        st = rt_out_object(r, 0, &g->o);
    return st ? st : flow_out(r, 1, NULL);
}

/* The effect RT_RANDOM keeps TensorArray ops from being merged or folded. The flow edges define
 * their order. */
#define ARRAY_OP(symbol, op_, run_)                                                                \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM},                                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
ARRAY_OP(tensor_array_v3, "TensorArrayV3", make_run)
ARRAY_OP(tensor_array_write_v3, "TensorArrayWriteV3", write_run)
ARRAY_OP(tensor_array_read_v3, "TensorArrayReadV3", read_run)
ARRAY_OP(tensor_array_gather_v3, "TensorArrayGatherV3", gather_run)
ARRAY_OP(tensor_array_scatter_v3, "TensorArrayScatterV3", scatter_run)
ARRAY_OP(tensor_array_concat_v3, "TensorArrayConcatV3", concat_run)
ARRAY_OP(tensor_array_split_v3, "TensorArraySplitV3", split_run)
ARRAY_OP(tensor_array_size_v3, "TensorArraySizeV3", size_run)
ARRAY_OP(tensor_array_close_v3, "TensorArrayCloseV3", close_run)
ARRAY_OP(tensor_array_grad_v3, "TensorArrayGradV3", grad_run)
ARRAY_OP(tensor_array_grad_with_shape, "TensorArrayGradWithShape", grad_run)
