/* TensorList ops. */
#include "kernels/list/list.h"

#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

static void list_free(struct rt_object *o)
{
    struct kn_list *l = (struct kn_list *)o;

    for (int64_t i = 0; i < l->n; i++)
        rt_tensor_clear(&l->item[i]);
    rt_buffer_unref(l->memory);
    rt_pool_free(l);
}

const struct rt_object_type kn_list_type = {"tensor list", list_free};

struct kn_list *kn_list_of(const struct rt_tensor *t)
{
    struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    return o && o->type == &kn_list_type ? (struct kn_list *)o : NULL;
}

bool kn_items_check(enum rt_dtype dtype, const char *what, struct rt_error *err)
{
    if (dtype != RT_RESOURCE)
        return true;
    rt_fail(err, RT_UNIMPLEMENTED, "%s of resource handles", what);
    return false;
}

bool kn_items_grow(struct rt_run *r, struct rt_buffer **memory, int64_t *room, int64_t n,
                   size_t each, const char *what)
{
    if (n <= *room)
        return true;
    if (n > KN_ITEMS_MAX) {
        rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s of %lld elements is too long", what,
                (long long)n);
        return false;
    }
    const int64_t wanted = n > 2 * *room ? n : 2 * *room;
    struct rt_buffer *more = rt_buffer_new(rt_run_pool(r), RT_U8, (size_t)wanted * each, r->err);
    if (!more)
        return false;
    char *p = kn_items_at(more);
    const size_t old = (size_t)*room * each, all = (size_t)wanted * each;
    if (kn_copy_run(r, RT_U8, p, kn_items_at(*memory), (int64_t)old) ||
        kn_zero_pieces(r, p + old, all - old)) {
        rt_buffer_unref(more);
        return false;
    }
    rt_buffer_unref(*memory);
    *memory = more;
    *room = wanted;
    return true;
}

static bool list_resize(struct rt_run *r, struct kn_list *l, int64_t n)
{
    if (!kn_items_grow(r, &l->memory, &l->room, n, sizeof *l->item, "a tensor list"))
        return false;
    l->item = kn_items_at(l->memory);
    for (int64_t i = n; i < l->n; i++)
        rt_tensor_clear(&l->item[i]);
    l->n = n;
    return true;
}

struct kn_list *kn_list_new(struct rt_run *r, enum rt_dtype elem, const struct rt_shape *shape,
                            int64_t n)
{
    if (!kn_items_check(elem, "a tensor list", r->err))
        return NULL;
    struct kn_list *l = rt_run_alloc(r, sizeof *l);
    if (!l)
        return NULL;
    rt_object_init(&l->o, &kn_list_type);
    l->elem = elem;
    l->shape = *shape;
    l->max = -1;
    if (!list_resize(r, l, n)) {
        rt_object_unref(&l->o);
        return NULL;
    }
    return l;
}

/* ---- partial shapes ---- */

enum rt_status kn_partial_shape(const struct rt_tensor *t, struct rt_shape *out,
                                struct rt_error *err)
{
    if (t->rank == 0) {
        if (kn_int_at(t, 0) != -1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "The only valid scalar shape tensor is the fully unknown shape "
                           "specified as -1.");
        out->rank = -1;
        return RT_OK;
    }
    if (t->rank > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape must be at most rank 1 but is rank %d",
                       t->rank);
    out->rank = kn_ints(t, out->dim, RT_MAX_RANK);
    if (out->rank < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "element_shape: more than %d dimensions are not supported", RT_MAX_RANK);
    for (int i = 0; i < out->rank; i++)
        if (out->dim[i] < -1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= -1",
                           (long long)out->dim[i]);
    if (kn_shape_known(out) && rt_count(out->rank, out->dim) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s would have more than 2**63 - 1 elements",
                       KN_PARTIAL(out));
    return RT_OK;
}

bool kn_partial_fits(const struct rt_shape *a, const struct rt_shape *b)
{
    if (a->rank < 0 || b->rank < 0)
        return true;
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i])
            return false;
    return true;
}

enum rt_status kn_partial_merge(struct rt_shape *a, const struct rt_shape *b, struct rt_error *err)
{
    if (!kn_partial_fits(a, b))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       a->rank != b->rank
                           ? "PartialTensorShape: Incompatible ranks during merge: %s vs. %s"
                           : "PartialTensorShape: Incompatible shapes during merge: %s vs. %s",
                       KN_PARTIAL(a), KN_PARTIAL(b));
    if (a->rank < 0)
        *a = *b;
    for (int i = 0; i < a->rank && b->rank >= 0; i++)
        if (a->dim[i] < 0)
            a->dim[i] = b->dim[i];
    return RT_OK;
}

void kn_shape_get(const struct rt_tensor *t, struct rt_shape *s)
{
    s->rank = t->rank;
    memcpy(s->dim, t->dim, sizeof s->dim);
}

/* ---- items ---- */

enum rt_status kn_keep(struct rt_run *r, struct rt_tensor *dst, const struct rt_tensor *t)
{
    if (!t->buf && rt_tensor_count(t) > 0)
        return rt_tensor_copy(dst, t, rt_run_pool(r), r->err);
    rt_tensor_ref(dst, t);
    return RT_OK;
}

struct rt_tensor kn_rows_of(const struct rt_tensor *t, int64_t first, int64_t n)
{
    struct rt_tensor v = *t;

    v.dim[0] = n;
    if (rt_tensor_count(&v) > 0)
        v.data = kn_at_mut(t, first * (rt_tensor_count(t) / t->dim[0]));
    return v;
}

struct rt_tensor kn_row(const struct rt_tensor *t, int64_t i)
{
    struct rt_tensor v = kn_rows_of(t, i, 1);

    v.rank--;
    memmove(v.dim, v.dim + 1, (size_t)v.rank * sizeof v.dim[0]);
    return v;
}

/* ---- what most list ops begin with ---- */

static struct kn_list *input_list(struct rt_run *r, int k)
{
    struct kn_list *l = kn_list_of(&r->in[k]);

    if (!l)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Input handle is not a list. Saw: '%s'",
                r->in[k].rank == 0 && rt_tensor_handle(&r->in[k])
                    ? rt_tensor_handle(&r->in[k])->type->name
                    : "invalid");
    return l;
}

static enum rt_status check_type(struct rt_run *r, const struct kn_list *l, enum rt_dtype want)
{
    if (want == l->elem)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Invalid data types; op elements %s but list elements %s", rt_dtype_name(want),
                   rt_dtype_name(l->elem));
}

static struct kn_list *typed_list(struct rt_run *r)
{
    struct kn_list *l = input_list(r, 0);

    return l && !check_type(r, l, rt_attr_dtype(r->node, "element_dtype")) ? l : NULL;
}

/* Items of `to` from `at` on, never written so far, become the first n of `from`. */
static enum rt_status copy_items(struct rt_run *r, struct kn_list *to, int64_t at,
                                 const struct kn_list *from, int64_t n)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        if (from->item[i].dtype)
            rt_tensor_ref(&to->item[at + i], &from->item[i]);
        st = rt_run_tick(r, i);
    }
    return st;
}

/* The list of input 0 to change: the one there when nobody else holds it, or a copy. `own` is what
 * holds it; write_done hands it on. NULL: r->err. */
static struct kn_list *write_begin(struct rt_run *r, struct rt_tensor *own)
{
    struct kn_list *l = input_list(r, 0);

    *own = (struct rt_tensor){0};
    if (!l)
        return NULL;
    if (atomic_load(&l->o.refs) == 1 && rt_take(r, 0, own))
        return l;
    struct kn_list *c = kn_list_new(r, l->elem, &l->shape, l->n);
    if (!c)
        return NULL;
    c->max = l->max;
    if (copy_items(r, c, 0, l, l->n) ||
        rt_tensor_object(own, rt_run_pool(r), RT_VARIANT, &c->o, r->err)) {
        rt_object_unref(&c->o);
        return NULL;
    }
    return c;
}

static enum rt_status write_done(struct rt_run *r, int k, struct rt_tensor *own, enum rt_status st)
{
    if (!st)
        rt_out_tensor(r, k, own);
    rt_tensor_clear(own);
    return st;
}

/* element_shape of the op and of the list, merged. */
static enum rt_status merged_shape(struct rt_run *r, const struct kn_list *l, int shape_in,
                                   struct rt_shape *s)
{
    enum rt_status st = kn_partial_shape(&r->in[shape_in], s, r->err);

    return st ? st : kn_partial_merge(s, &l->shape, r->err);
}

/* ... and the shape of any item that was written, when that is not the whole shape yet. */
static enum rt_status items_shape(struct rt_run *r, const struct kn_list *l, struct rt_shape *s)
{
    struct rt_shape is;
    enum rt_status st = RT_OK;

    if (kn_shape_known(s))
        return RT_OK;
    for (int64_t i = 0; i < l->n && !st; i++) {
        if (l->item[i].dtype) {
            kn_shape_get(&l->item[i], &is);
            st = kn_partial_merge(s, &is, r->err);
        }
        if (!st)
            st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status scalar_int(struct rt_run *r, int k, const char *name, int64_t *v)
{
    *v = 0;
    if (r->in[k].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s expected to be a scalar but got shape: %s",
                       name, KN_TEXT(&r->in[k]));
    *v = kn_int_at(&r->in[k], 0);
    return RT_OK;
}

static enum rt_status zeros(struct rt_run *r, int k, const struct rt_shape *s)
{
    if (!kn_out(r, k, s->rank, s->dim))
        return r->err->code;
    if (rt_dtype_is_plain(kn_dtype(&r->out[k])) && r->out[k].data)
        return kn_zero_pieces(r, r->out[k].data, rt_tensor_bytes(&r->out[k]));
    return RT_OK;
}

/* Copies an item, or zeros, to element `at` of output k; n elements. */
static enum rt_status put_item(struct rt_run *r, int k, int64_t at, const struct rt_tensor *item,
                               int64_t n)
{
    struct rt_tensor *o = &r->out[k];

    if (n == 0)
        return RT_OK;
    if (item->dtype)
        return kn_copy_run(r, kn_dtype(o), kn_at_mut(o, at), item->data, n);
    if (rt_dtype_is_plain(kn_dtype(o)))
        return kn_zero_pieces(r, kn_at_mut(o, at), (size_t)n * rt_dtype_size(kn_dtype(o)));
    return RT_OK;
}

#define LIST_OP(symbol, op_, infer_, run_)                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = (infer_), .rows = kn_rows_sizes},                           \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = #symbol, .flags = RT_K_VIEWS, .run = (run_)}),  \
    };

/* Lists are handed on between nodes of one run: proved only when nothing depends on the batch. */
static void kn_rows_sizes(struct rt_rows *r)
{
    kn_rows_settled(r);
}

/* ---- making lists ---- */

static enum rt_status empty_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t max;
    enum rt_status st = scalar_int(r, 1, "max_num_elements", &max);

    if (st || (st = kn_partial_shape(&r->in[0], &s, r->err)))
        return st;
    struct kn_list *l = kn_list_new(r, rt_attr_dtype(r->node, "element_dtype"), &s, 0);
    if (!l)
        return r->err->code;
    l->max = max;
    return rt_out_object(r, 0, &l->o);
}

LIST_OP(empty_tensor_list, "EmptyTensorList", kn_infer_scalars, empty_run)

static enum rt_status reserve_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t n;
    enum rt_status st = scalar_int(r, 1, "The num_elements to reserve", &n);

    if (st || (st = kn_partial_shape(&r->in[0], &s, r->err)))
        return st;
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The num_elements to reserve must be a non negative number, but got %lld",
                       (long long)n);
    struct kn_list *l = kn_list_new(r, rt_attr_dtype(r->node, "element_dtype"), &s, n);
    return l ? rt_out_object(r, 0, &l->o) : r->err->code;
}

LIST_OP(tensor_list_reserve, "TensorListReserve", kn_infer_scalars, reserve_run)

/* Rows of a tensor fit the list's element shape? */
static enum rt_status rows_fit(struct rt_run *r, const struct rt_tensor *t, struct rt_shape *s)
{
    struct rt_shape row;

    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: %s", KN_TEXT(t));
    row.rank = t->rank - 1;
    memcpy(row.dim, t->dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    if (!kn_partial_fits(s, &row))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Specified a list with shape %s from a tensor with shape %s", KN_PARTIAL(s),
                       KN_TEXT(&row));
    return RT_OK;
}

static enum rt_status from_tensor_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape s;
    enum rt_status st = kn_partial_shape(&r->in[1], &s, r->err);

    if (st || (st = rows_fit(r, t, &s)))
        return st;
    struct kn_list *l = kn_list_new(r, kn_dtype(t), &s, t->dim[0]);
    if (!l)
        return r->err->code;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const struct rt_tensor row = kn_row(t, i);
        if (!(st = kn_keep(r, &l->item[i], &row)))
            st = rt_run_tick(r, i);
    }
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

LIST_OP(tensor_list_from_tensor, "TensorListFromTensor", kn_infer_scalars, from_tensor_run)

static enum rt_status split_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0], *len = &r->in[2];
    struct rt_shape s, ts;
    int64_t at = 0;

    if (len->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected lengths to be a vector, received shape: %s", KN_TEXT(len));
    enum rt_status st = kn_partial_shape(&r->in[1], &s, r->err);
    if (st)
        return st;
    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: %s", KN_TEXT(t));
    kn_shape_get(t, &ts);
    struct rt_shape free_first = s;
    if (free_first.rank > 0)
        free_first.dim[0] = -1;
    if (!kn_partial_fits(&free_first, &ts))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "tensor shape %s is not compatible with element_shape %s", KN_TEXT(t),
                       KN_PARTIAL(&s));
    struct kn_list *l = kn_list_new(r, kn_dtype(t), &s, len->dim[0]);
    if (!l)
        return r->err->code;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const int64_t n = kn_int_at(len, i);
        if (n < 0) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid value in lengths: %lld",
                         (long long)n);
        } else if (n > t->dim[0] - at) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Attempting to slice [%lld, %lld] from tensor with length %lld",
                         (long long)at, (long long)rt_add_saturated(at, n), (long long)t->dim[0]);
        } else {
            const struct rt_tensor rows = kn_rows_of(t, at, n);
            st = kn_keep(r, &l->item[i], &rows);
            at += n;
        }
        if (!st)
            st = rt_run_tick(r, i);
    }
    if (!st && at != t->dim[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Unused values in tensor. Length of tensor: %lld Values used: %lld",
                     (long long)t->dim[0], (long long)at);
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

LIST_OP(tensor_list_split, "TensorListSplit", kn_infer_scalars, split_run)

/* ---- changing lists ---- */

static enum rt_status set_item_run(struct rt_run *r)
{
    const struct rt_tensor *item = &r->in[2];
    struct kn_list *l = input_list(r, 0);
    struct rt_tensor own;
    struct rt_shape s;
    int64_t i;

    if (!l)
        return r->err->code;
    enum rt_status st = scalar_int(r, 1, "index", &i);
    if (st || (st = check_type(r, l, rt_attr_dtype(r->node, "element_dtype"))))
        return st;
    const bool grow = rt_attr_bool(r->node, "resize_if_index_out_of_bounds");
    if (i < 0 || (i >= l->n && !grow))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to modify element %lld in a list with %lld elements.", (long long)i,
                       (long long)l->n);
    kn_shape_get(item, &s);
    if (!kn_partial_fits(&l->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to set a tensor with incompatible shape at a list index. Item "
                       "element shape: %s list shape: %s",
                       KN_TEXT(item), KN_PARTIAL(&l->shape));
    l = write_begin(r, &own);
    if (!l)
        return r->err->code;
    if (i >= l->n && !list_resize(r, l, i + 1))
        return write_done(r, 0, &own, r->err->code);
    rt_tensor_clear(&l->item[i]);
    return write_done(r, 0, &own, kn_keep(r, &l->item[i], item));
}

LIST_OP(tensor_list_set_item, "TensorListSetItem", kn_infer_scalars, set_item_run)

static enum rt_status push_run(struct rt_run *r)
{
    const struct rt_tensor *item = &r->in[1];
    struct kn_list *l = typed_list(r);
    struct rt_tensor own;
    struct rt_shape s;

    if (!l)
        return r->err->code;
    kn_shape_get(item, &s);
    if (!kn_partial_fits(&l->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to append a tensor with incompatible shape to a list. Op element "
                       "shape: %s list shape: %s",
                       KN_TEXT(item), KN_PARTIAL(&l->shape));
    if (l->max >= 0 && l->n >= l->max)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to push item into a full list list size: %lld max_num_elements: "
                       "%lld",
                       (long long)l->n, (long long)l->max);
    l = write_begin(r, &own);
    if (!l)
        return r->err->code;
    if (!list_resize(r, l, l->n + 1))
        return write_done(r, 0, &own, r->err->code);
    return write_done(r, 0, &own, kn_keep(r, &l->item[l->n - 1], item));
}

LIST_OP(tensor_list_push_back, "TensorListPushBack", kn_infer_scalars, push_run)

static enum rt_status first_scalar(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

static enum rt_status pop_run(struct rt_run *r)
{
    struct kn_list *l = typed_list(r);
    struct rt_tensor own;
    struct rt_shape s;

    if (!l)
        return r->err->code;
    if (l->n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Trying to pop from an empty list.");
    const struct rt_tensor *last = &l->item[l->n - 1];
    enum rt_status st = RT_OK;
    if (last->dtype) {
        rt_out_tensor(r, 1, last);
    } else {
        st = merged_shape(r, l, 1, &s);
        if (st || (st = items_shape(r, l, &s)))
            return st;
        if (!kn_shape_known(&s))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Trying to read an uninitialized tensor but element_shape is not fully "
                           "defined.%s",
                           KN_PARTIAL(&s));
        st = zeros(r, 1, &s);
    }
    if (st)
        return st;
    l = write_begin(r, &own);
    if (!l)
        return r->err->code;
    list_resize(r, l, l->n - 1);
    return write_done(r, 0, &own, RT_OK);
}

LIST_OP(tensor_list_pop_back, "TensorListPopBack", first_scalar, pop_run)

static enum rt_status resize_run(struct rt_run *r)
{
    struct rt_tensor own;
    int64_t n;

    if (!input_list(r, 0))
        return r->err->code;
    enum rt_status st = scalar_int(r, 1, "size", &n);
    if (st)
        return st;
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorListSlice expects size to be non-negative. Got: %lld", (long long)n);
    struct kn_list *l = write_begin(r, &own);
    if (!l)
        return r->err->code;
    return write_done(r, 0, &own, list_resize(r, l, n) ? RT_OK : r->err->code);
}

LIST_OP(tensor_list_resize, "TensorListResize", kn_infer_scalars, resize_run)

/* Rows of `t` to the places in `index`; the list is long enough afterwards when `grow`. */
static enum rt_status scatter(struct rt_run *r, struct kn_list *l, const struct rt_tensor *t,
                              const struct rt_tensor *index, bool grow)
{
    enum rt_status st = RT_OK;
    const int64_t n = rt_tensor_count(index);
    int64_t top = -1;

    if (t->dim[0] != n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Invalid number of rows in input tensor. Expected: %lld Actual: %lld",
                       (long long)n, (long long)t->dim[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = kn_int_at(index, i);
        if (at < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Indices in TensorListScatter must all be non-negative.");
        if (!grow && at >= l->n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "TensorListScatter: Trying to scatter at index %lld in list with size "
                           "%lld",
                           (long long)at, (long long)l->n);
        top = at > top ? at : top;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (top >= l->n && !list_resize(r, l, top + 1))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        const struct rt_tensor row = kn_row(t, i);
        struct rt_tensor *to = &l->item[kn_int_at(index, i)];
        rt_tensor_clear(to);
        if (!(st = kn_keep(r, to, &row)))
            st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status scatter_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t n = -1;
    enum rt_status st = kn_partial_shape(&r->in[2], &s, r->err);

    if (!st && r->n_in > 3)
        st = scalar_int(r, 3, "num_elements", &n);
    if (st || (st = rows_fit(r, &r->in[0], &s)))
        return st;
    if (n < -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorListScatter expects num_elements >= -1, found: %lld", (long long)n);
    struct kn_list *l = kn_list_new(r, kn_dtype(&r->in[0]), &s, n < 0 ? 0 : n);
    if (!l)
        return r->err->code;
    st = scatter(r, l, &r->in[0], &r->in[1], n < 0);
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

LIST_OP(tensor_list_scatter, "TensorListScatter", kn_infer_scalars, scatter_run)
LIST_OP(tensor_list_scatter_v2, "TensorListScatterV2", kn_infer_scalars, scatter_run)

static enum rt_status scatter_into_run(struct rt_run *r)
{
    struct kn_list *l = typed_list(r);
    struct rt_tensor own;

    if (!l)
        return r->err->code;
    struct rt_shape s = l->shape;
    enum rt_status st = rows_fit(r, &r->in[1], &s);
    if (st)
        return st;
    l = write_begin(r, &own);
    if (!l)
        return r->err->code;
    return write_done(r, 0, &own, scatter(r, l, &r->in[1], &r->in[2], true));
}

LIST_OP(tensor_list_scatter_into_existing_list, "TensorListScatterIntoExistingList",
        kn_infer_scalars, scatter_into_run)

static enum rt_status concat_lists_run(struct rt_run *r)
{
    const struct kn_list *b = input_list(r, 1);
    struct rt_tensor own;

    if (!b || !typed_list(r))
        return r->err->code;
    enum rt_status st = check_type(r, b, rt_attr_dtype(r->node, "element_dtype"));
    struct kn_list *l = st ? NULL : write_begin(r, &own);
    if (!l)
        return r->err->code;
    const int64_t n = l->n, more = b->n; /* they may be the same list */
    if (!list_resize(r, l, n + more))
        return write_done(r, 0, &own, r->err->code);
    return write_done(r, 0, &own, copy_items(r, l, n, b, more));
}

LIST_OP(tensor_list_concat_lists, "TensorListConcatLists", kn_infer_scalars, concat_lists_run)

/* ---- reading lists ---- */

static enum rt_status length_run(struct rt_run *r)
{
    const struct kn_list *l = input_list(r, 0);

    if (!l || !kn_out(r, 0, 0, NULL))
        return r->err->code;
    kn_put_int(&r->out[0], 0, l->n);
    return RT_OK;
}

LIST_OP(tensor_list_length, "TensorListLength", kn_infer_scalars, length_run)

static enum rt_status element_shape_run(struct rt_run *r)
{
    const struct kn_list *l = input_list(r, 0);

    if (!l)
        return r->err->code;
    const int64_t n = l->shape.rank;
    if (!kn_out(r, 0, n < 0 ? 0 : 1, &n))
        return r->err->code;
    if (n < 0)
        kn_put_int(&r->out[0], 0, -1);
    for (int64_t i = 0; i < n; i++)
        kn_put_int(&r->out[0], i, l->shape.dim[i]);
    return RT_OK;
}

LIST_OP(tensor_list_element_shape, "TensorListElementShape", NULL, element_shape_run)

static enum rt_status get_item_run(struct rt_run *r)
{
    const struct kn_list *l = typed_list(r);
    struct rt_shape s;
    int64_t i;

    if (!l)
        return r->err->code;
    enum rt_status st = scalar_int(r, 1, "index", &i);
    if (st)
        return st;
    if (i < 0 || i >= l->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to access element %lld in a list with %lld elements.", (long long)i,
                       (long long)l->n);
    if (l->item[i].dtype) {
        rt_out_tensor(r, 0, &l->item[i]);
        return RT_OK;
    }
    st = merged_shape(r, l, 2, &s);
    if (st || (st = items_shape(r, l, &s)))
        return st;
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to read an uninitialized tensor but element_shape is not fully "
                       "defined: %s and no list element is set.",
                       KN_PARTIAL(&s));
    return zeros(r, 0, &s);
}

LIST_OP(tensor_list_get_item, "TensorListGetItem", NULL, get_item_run)

/* Room for n items of shape s, in front of it n. */
static enum rt_status stack_out(struct rt_run *r, const struct rt_shape *s, int64_t n)
{
    int64_t dim[RT_MAX_RANK];

    if (s->rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    dim[0] = n;
    memcpy(dim + 1, s->dim, (size_t)s->rank * sizeof dim[0]);
    return kn_out(r, 0, s->rank + 1, dim) ? RT_OK : r->err->code;
}

/* The whole list lies in one piece already (it was cut from one tensor, in order)? */
static enum rt_status is_one_piece(struct rt_run *r, const struct kn_list *l, int64_t n_each,
                                   bool *yes)
{
    const size_t step = (size_t)n_each * rt_dtype_size(l->elem);
    enum rt_status st = RT_OK;

    *yes = l->n > 0 && step > 0;
    for (int64_t i = 0; i < l->n && *yes && !st; i++) {
        *yes = l->item[i].buf && l->item[i].buf == l->item[0].buf &&
               (char *)l->item[i].data == (char *)l->item[0].data + (size_t)i * step;
        st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status stack_run(struct rt_run *r)
{
    const struct kn_list *l = typed_list(r);
    struct rt_shape s, is;

    if (!l)
        return r->err->code;
    const int64_t want = rt_attr_int(r->node, "num_elements");
    if (want != -1 && want != l->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Operation expected a list with %lld elements but got a list with %lld "
                       "elements.",
                       (long long)want, (long long)l->n);
    enum rt_status st = merged_shape(r, l, 1, &s);
    if (st || (st = items_shape(r, l, &s)))
        return st;
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       l->n == 0 ? "Tried to stack elements of an empty list with "
                                   "non-fully-defined element_shape: %s"
                                 : "Tried to stack list which only contains uninitialized tensors "
                                   "and has a non-fully-defined element_shape: %s",
                       KN_PARTIAL(&s));
    for (int64_t i = 0; i < l->n; i++) {
        if ((st = rt_run_tick(r, i)))
            return st;
        if (!l->item[i].dtype)
            continue;
        kn_shape_get(&l->item[i], &is);
        if ((st = kn_partial_merge(&is, &s, r->err)))
            return st;
    }
    const int64_t each = rt_count(s.rank, s.dim);
    bool one_piece;
    if ((st = is_one_piece(r, l, each, &one_piece)))
        return st;
    if (one_piece && s.rank < RT_MAX_RANK) {
        struct rt_tensor all = l->item[0];
        all.rank = (int8_t)(s.rank + 1);
        all.dim[0] = l->n;
        memcpy(all.dim + 1, s.dim, (size_t)s.rank * sizeof s.dim[0]);
        rt_out_tensor(r, 0, &all);
        return RT_OK;
    }
    st = stack_out(r, &s, l->n);
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < l->n && !st; i++)
        if (!(st = put_item(r, 0, i * each, &l->item[i], each)))
            st = rt_run_spend(r, &left, each + 8);
    return st;
}

LIST_OP(tensor_list_stack, "TensorListStack", NULL, stack_run)

static enum rt_status gather_run(struct rt_run *r)
{
    const struct kn_list *l = typed_list(r);
    const struct rt_tensor *index = &r->in[1];
    const int64_t n = rt_tensor_count(index);
    struct rt_shape s, is;

    if (!l)
        return r->err->code;
    enum rt_status st = merged_shape(r, l, 2, &s);
    if (st)
        return st;
    if (!kn_shape_known(&s)) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = kn_int_at(index, i);
            if ((st = rt_run_tick(r, i)))
                return st;
            if (at < 0 || at >= l->n || !l->item[at].dtype)
                continue;
            kn_shape_get(&l->item[at], &is);
            if ((st = kn_partial_merge(&s, &is, r->err)))
                return st;
        }
    }
    if (n == 0 && !kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to gather 0-elements from a list with non-fully-defined shape: %s",
                       KN_PARTIAL(&s));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = kn_int_at(index, i);
        if (at < 0 || at >= l->n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Trying to gather element %lld in a list with %lld elements.",
                           (long long)at, (long long)l->n);
        if ((st = rt_run_tick(r, i)))
            return st;
        if (!l->item[at].dtype)
            continue;
        kn_shape_get(&l->item[at], &is);
        if ((st = kn_partial_merge(&is, &s, r->err)))
            return st;
    }
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to gather uninitialized tensors from a list with "
                       "non-fully-defined element_shape: %s",
                       KN_PARTIAL(&s));
    const int64_t each = rt_count(s.rank, s.dim);
    st = stack_out(r, &s, n);
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n && !st; i++)
        if (!(st = put_item(r, 0, i * each, &l->item[kn_int_at(index, i)], each)))
            st = rt_run_spend(r, &left, each + 8);
    return st;
}

LIST_OP(tensor_list_gather, "TensorListGather", NULL, gather_run)

/* ---- TensorListConcat(list), ...V2(list, element_shape, leading_dims) -> tensor, lengths ---- */

static enum rt_status concat_run(struct rt_run *r)
{
    const struct kn_list *l = typed_list(r);
    const struct rt_tensor *lead = r->n_in > 2 ? &r->in[2] : NULL;
    const struct rt_schema *sc = r->node->schema;
    struct rt_shape s, rest = {.rank = -1}, is;
    int64_t first = -1, total = 0, each = 1;
    enum rt_status st;

    if (!l)
        return r->err->code;
    if (r->n_in > 1)
        st = kn_partial_shape(&r->in[1], &s, r->err);
    else
        st = (s = *rt_attr_shape(r->node, "element_shape"), RT_OK);
    /* TensorListConcat, the first version, goes by its attribute alone. */
    if (st || (r->n_in > 1 && (st = kn_partial_merge(&s, &l->shape, r->err))))
        return st;
    if (s.rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Concat requires elements to be at least vectors, found scalars instead.");
    if (s.rank > 0) {
        first = s.dim[0];
        rest.rank = s.rank - 1;
        memcpy(rest.dim, s.dim + 1, (size_t)rest.rank * sizeof rest.dim[0]);
    }
    if (l->n == 0 && !kn_shape_known(&rest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "All except the first dimension must be fully defined when concating an "
                       "empty tensor list. element_shape: %s",
                       KN_PARTIAL(&s));
    bool any = l->n == 0;
    for (int64_t i = 0; i < l->n && !any; i++) {
        any = l->item[i].dtype;
        if ((st = rt_run_tick(r, i)))
            return st;
    }
    if (!any && !kn_shape_known(&rest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to concat list with only uninitialized tensors but "
                       "element_shape_except_first_dim is not fully defined: %s",
                       KN_PARTIAL(&rest));
    for (int64_t i = 0; i < l->n; i++) {
        const struct rt_tensor *t = &l->item[i];
        int64_t n;
        if ((st = rt_run_tick(r, i)))
            return st;
        if (t->dtype) {
            if (t->rank < 1)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Concat saw a scalar shape at index %lld but requires at least "
                               "vectors.",
                               (long long)i);
            is.rank = t->rank - 1;
            memcpy(is.dim, t->dim + 1, (size_t)is.rank * sizeof is.dim[0]);
            if ((st = kn_partial_merge(&rest, &is, r->err)))
                return st;
            n = t->dim[0];
            if (r->n_in > 1 && first >= 0 && n != first)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "First entry of element_shape input does not match the first dim "
                               "of list element at index: %lld Expected: %lld Actual: %lld",
                               (long long)i, (long long)first, (long long)n);
        } else if (first >= 0) {
            n = first;
        } else if (lead && i < rt_tensor_count(lead)) {
            n = kn_int_at(lead, i);
        } else {
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "List contains uninitialized tensor at index %lld but leading_dims has "
                           "only %lld elements.",
                           (long long)i, (long long)(lead ? rt_tensor_count(lead) : 0));
        }
        if (n < 0 || !rt_add(total, n, &total))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: leading dimension %lld is not valid",
                           sc->name, (long long)n);
    }
    st = stack_out(r, &rest, total);
    if (st || !kn_out(r, 1, 1, &l->n))
        return r->err->code;
    each = rt_count(rest.rank, rest.dim);
    total = 0;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const struct rt_tensor *t = &l->item[i];
        const int64_t n = t->dtype ? t->dim[0] : first >= 0 ? first : kn_int_at(lead, i);
        kn_put_int(&r->out[1], i, n);
        st = put_item(r, 0, total * each, t, n * each);
        if (!st)
            st = rt_run_spend(r, &left, n * each + 8);
        total += n;
    }
    return st;
}

LIST_OP(tensor_list_concat, "TensorListConcat", NULL, concat_run)
LIST_OP(tensor_list_concat_v2, "TensorListConcatV2", NULL, concat_run)

/* ---- ZerosLike ---- */

enum { ITEM_WORK = 1024 }; /* of allocating a tensor, as rt_run_spend counts: some 100 ns */

enum rt_status kn_list_zeros_like(struct rt_run *r)
{
    const struct kn_list *l = input_list(r, 0);
    struct kn_list *o = l ? kn_list_new(r, l->elem, &l->shape, l->n) : NULL;
    enum rt_status st = RT_OK;

    if (!o)
        return r->err->code;
    o->max = l->max;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const struct rt_tensor *t = &l->item[i];
        if ((st = rt_run_spend(r, &left, ITEM_WORK)) || !t->dtype)
            continue;
        st = rt_tensor_new(&o->item[i], rt_run_pool(r), l->elem, t->rank, t->dim, r->err);
        if (!st && rt_dtype_is_plain(l->elem) && o->item[i].data)
            st = kn_zero_pieces(r, o->item[i].data, rt_tensor_bytes(&o->item[i]));
        if (!st)
            st = rt_run_spend(r, &left, rt_tensor_count(&o->item[i]));
    }
    if (st) {
        rt_object_unref(&o->o);
        return st;
    }
    return rt_out_object(r, 0, &o->o);
}
