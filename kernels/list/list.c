#include "kernels/list/list_internal.h"

#include "runtime/base/checked.h"
#include "runtime/core/copy.h"

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

bool kn_items_grow(struct rt_run *r, struct rt_buffer **memory, int64_t *capacity, int64_t n,
                   size_t each, const char *what)
{
    if (n <= *capacity)
        return true;
    if (n > KN_ITEMS_MAX) {
        rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s of %lld elements is too long", what,
                (long long)n);
        return false;
    }
    const int64_t wanted = n > 2 * *capacity ? n : 2 * *capacity;
    struct rt_buffer *more = rt_buffer_new(rt_run_pool(r), RT_U8, (size_t)wanted * each, r->err);
    if (!more)
        return false;
    char *p = kn_items_at(more);
    const size_t old = (size_t)*capacity * each, all = (size_t)wanted * each;
    if (kn_copy_run(r, RT_U8, p, kn_items_at(*memory), (int64_t)old) ||
        kn_zero_chunks(r, p + old, all - old)) {
        rt_buffer_unref(more);
        return false;
    }
    rt_buffer_unref(*memory);
    *memory = more;
    *capacity = wanted;
    return true;
}

bool kn_list_resize(struct rt_run *r, struct kn_list *l, int64_t n)
{
    if (!kn_items_grow(r, &l->memory, &l->capacity, n, sizeof *l->item, "a tensor list"))
        return false;
    l->item = kn_items_at(l->memory);
    while (l->n > n) {
        rt_tensor_clear(&l->item[--l->n]);
        if (rt_run_tick(r, l->n))
            return false;
    }
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
    if (!kn_list_resize(r, l, n)) {
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
    const struct rt_check check = rt_run_as_check(r);

    if (!t->buf && rt_tensor_count(t) > 0)
        return rt_tensor_copy_checked(dst, t, rt_run_pool(r), &check, r->err);
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

/* ---- checks that most list ops begin with ---- */

const char *kn_variant_type(const struct rt_tensor *t)
{
    const struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    if (o && o->type == &kn_list_type)
        return "tensorflow::TensorList";
    if (kn_is_tensor_map(t))
        return "tensorflow::TensorMap";
    return o ? o->type->name : "invalid";
}

const char *kn_variant_text(const struct rt_tensor *t)
{
    if (kn_list_of(t))
        return "Variant<type: tensorflow::TensorList value: TensorList>";
    if (kn_is_tensor_map(t))
        return "Variant<type: tensorflow::TensorMap value: TensorMap>";
    if (kn_is_empty_optional(t))
        return "Variant<type: tensorflow::data::Optional value: OptionalVariant<None>>";
    return kn_variant_type(t);
}

struct kn_list *kn_list_input(struct rt_run *r, int k)
{
    struct kn_list *l = kn_list_of(&r->in[k]);

    if (!l)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Input handle is not a list. Saw: '%s'",
                kn_variant_text(&r->in[k]));
    return l;
}

enum rt_status kn_list_check_type(struct rt_run *r, const struct kn_list *l, enum rt_dtype want)
{
    if (want == l->elem)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Invalid data types; op elements %s but list elements %s", rt_dtype_name(want),
                   rt_dtype_name(l->elem));
}

struct kn_list *kn_list_typed(struct rt_run *r)
{
    struct kn_list *l = kn_list_input(r, 0);

    return l && !kn_list_check_type(r, l, rt_attr_dtype(r->node, "element_dtype")) ? l : NULL;
}

enum rt_status kn_list_copy_items(struct rt_run *r, struct kn_list *to, int64_t at,
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

struct kn_list *kn_list_write_begin(struct rt_run *r, struct rt_tensor *own)
{
    struct kn_list *l = kn_list_input(r, 0);

    *own = (struct rt_tensor){0};
    if (!l)
        return NULL;
    if (atomic_load(&l->o.refs) == 1 && rt_take(r, 0, own))
        return l;
    struct kn_list *c = kn_list_new(r, l->elem, &l->shape, l->n);
    if (!c)
        return NULL;
    c->max = l->max;
    if (kn_list_copy_items(r, c, 0, l, l->n) ||
        rt_tensor_object(own, rt_run_pool(r), RT_VARIANT, &c->o, r->err)) {
        rt_object_unref(&c->o);
        return NULL;
    }
    return c;
}

enum rt_status kn_list_write_done(struct rt_run *r, int k, struct rt_tensor *own, enum rt_status st)
{
    if (!st)
        rt_out_tensor(r, k, own);
    rt_tensor_clear(own);
    return st;
}

enum rt_status kn_list_merged_shape(struct rt_run *r, const struct kn_list *l, int shape_in,
                                    struct rt_shape *s)
{
    enum rt_status st = kn_partial_shape(&r->in[shape_in], s, r->err);

    return st ? st : kn_partial_merge(s, &l->shape, r->err);
}

enum rt_status kn_list_items_shape(struct rt_run *r, const struct kn_list *l, struct rt_shape *s)
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

enum rt_status kn_list_scalar(struct rt_run *r, int k, const char *name, int64_t *v)
{
    *v = 0;
    if (r->in[k].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s expected to be a scalar but got shape: %s",
                       name, KN_TEXT(&r->in[k]));
    *v = kn_int_at(&r->in[k], 0);
    return RT_OK;
}

enum rt_status kn_list_zeros(struct rt_run *r, int k, const struct rt_shape *s)
{
    if (!kn_out(r, k, s->rank, s->dim))
        return r->err->code;
    if (rt_dtype_is_plain(kn_dtype(&r->out[k])) && r->out[k].data)
        return kn_zero_chunks(r, r->out[k].data, rt_tensor_bytes(&r->out[k]));
    return RT_OK;
}

enum rt_status kn_list_put_item(struct rt_run *r, int k, int64_t at, const struct rt_tensor *item,
                                int64_t n)
{
    struct rt_tensor *o = &r->out[k];

    if (n == 0)
        return RT_OK;
    if (item->dtype)
        return kn_copy_run(r, kn_dtype(o), kn_at_mut(o, at), item->data, n);
    if (rt_dtype_is_plain(kn_dtype(o)))
        return kn_zero_chunks(r, kn_at_mut(o, at), (size_t)n * rt_dtype_size(kn_dtype(o)));
    return RT_OK;
}
