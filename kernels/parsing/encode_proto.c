/* EncodeProto writes serialised messages of a type that descriptors describe. */
#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/proto_fields.h"
#include "kernels/string/each.h"

enum { START_GROUP = 3, END_GROUP = 4, BYTES = 2 };

static enum rt_status encode_prepare(struct rt_prep *p, void **state)
{
    struct kn_proto_fields *f = NULL;
    enum rt_status st = kn_proto_fields(p, &f);

    *state = f;
    return st;
}

/* ---- checks ---- */

/* Fails unless `sizes` has the shape of the messages and one element for each field. */
static enum rt_status check_sizes(struct rt_run *r, const struct rt_tensor *first)
{
    const struct kn_proto_fields *f = r->state;
    const struct rt_tensor *sizes = &r->in[0];
    int64_t want[RT_MAX_RANK];
    bool same = sizes->rank == first->rank;

    for (int d = 0; d < first->rank; d++) {
        want[d] = d < first->rank - 1 ? first->dim[d] : f->n;
        same = same && sizes->dim[d] == want[d];
    }
    if (same)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "sizes should be batch_size + [len(field_names)].  Saw: %s but expected: %s",
                   KN_TEXT(sizes),
                   rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, first->rank, want));
}

static enum rt_status check_values(struct rt_run *r)
{
    const struct kn_proto_fields *f = r->state;
    const struct rt_tensor *first = &r->in[1];

    if (f->n != r->n_in - 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Length of inputs list must match field_names");
    for (int k = 0; k < f->n; k++) {
        const struct rt_tensor *v = &r->in[1 + k];
        if (v->rank < 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Invalid shape for field %.*s.  Saw shape %s but it should be at least "
                           "a matrix.",
                           KN_SPAN(f->name[k]), KN_TEXT(v));
    }
    const enum rt_status st = check_sizes(r, first);
    for (int k = 0; k < f->n && !st; k++) {
        const struct rt_tensor *v = &r->in[1 + k];
        if (!kn_field_accepts(f->field[k].type, kn_dtype(v)))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Incompatible type for field %.*s.  Saw dtype: %s but field type is: %s",
                           KN_SPAN(f->name[k]), rt_dtype_name(kn_dtype(v)),
                           kn_field_type_name(f->field[k].type));
        bool same = v->rank == first->rank;
        for (int d = 0; d < v->rank - 1 && same; d++)
            same = v->dim[d] == first->dim[d];
        if (!same)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Values must match up to the last dimension");
    }
    return st;
}

/* ---- writing ---- */

static void put_tag(struct rt_bytes *b, uint32_t number, int wire_type)
{
    rt_bytes_add_varint(b, (uint64_t)number << 3 | (unsigned)wire_type);
}

static void put_number(struct rt_bytes *b, enum kn_field_type type, const struct rt_tensor *t,
                       int64_t i)
{
    const uint64_t bits = kn_field_take(type, kn_dtype(t), kn_at(t, i));
    const size_t size = kn_field_bytes(type);

    if (size)
        rt_bytes_add(b, &bits, size);
    else
        rt_bytes_add_varint(b, bits);
}

/* Writes element i of the tensor with its tag. */
static void put_element(struct rt_bytes *b, const struct kn_message_field *f,
                        const struct rt_tensor *t, int64_t i)
{
    const int wire_type = kn_field_wire_type(f->type);

    put_tag(b, f->number, wire_type);
    if (kn_dtype(t) != RT_STRING) {
        put_number(b, f->type, t, i);
        return;
    }
    const struct rt_str *s = &rt_strs(t)[i];
    if (wire_type == BYTES)
        rt_bytes_add_varint(b, s->n);
    rt_bytes_add(b, rt_str_data(s), s->n);
    if (wire_type == START_GROUP)
        put_tag(b, f->number, END_GROUP);
}

/* Returns the length that is written for n packed elements, whose bytes are `packed`. If n is
 * negative, the length is that of TensorFlow, which multiplies n by the size of an element,
 * although no elements follow. */
static uint64_t packed_length(const struct kn_message_field *f, int64_t n,
                              const struct rt_bytes *packed)
{
    const size_t size = f->type == KN_F_BOOL ? 1 : kn_field_bytes(f->type);

    return n < 0 ? (uint32_t)n * (uint32_t)size : packed->n;
}

/* Writes n elements of a field, from element `first` of the tensor. */
static enum rt_status put_field(struct rt_run *r, struct rt_bytes *b, struct rt_bytes *packed,
                                const struct kn_message_field *f, const struct rt_tensor *t,
                                int64_t first, int64_t n)
{
    enum rt_status st = RT_OK;

    packed->n = 0;
    for (int64_t i = first; i < first + n && !st; i++) {
        const size_t before = b->n;
        if (f->is_packed)
            put_number(packed, f->type, t, i);
        else
            put_element(b, f, t, i);
        st = b->failed || packed->failed ? RT_RESOURCE_EXHAUSTED
                                         : rt_run_spend(r, &r->left, 16 + (int64_t)(b->n - before));
    }
    if (f->is_packed && n != 0 && !st) {
        put_tag(b, f->number, BYTES);
        rt_bytes_add_varint(b, packed_length(f, n, packed));
        rt_bytes_add(b, packed->p, packed->n);
    }
    return st;
}

static enum rt_status put_message(struct rt_run *r, struct rt_bytes *b, struct rt_bytes *packed,
                                  int64_t message)
{
    const struct kn_proto_fields *f = r->state;
    const int32_t *sizes = (const int32_t *)r->in[0].data + message * f->n;
    enum rt_status st = RT_OK;

    b->n = 0;
    for (int i = 0; i < f->n && !st; i++) {
        const int k = f->by_number[i].index;
        const struct rt_tensor *t = &r->in[1 + k];
        const int64_t width = t->dim[t->rank - 1];
        if (sizes[k] > width)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Size to write must not be larger than value tensor; but saw: %d > %lld "
                           "at message %lld field %d",
                           sizes[k], (long long)width, (long long)message, k);
        st = put_field(r, b, packed, &f->field[k], t, message * width, sizes[k]);
    }
    return st;
}

static enum rt_status encode_all(struct rt_run *r, struct rt_bytes *b, struct rt_bytes *packed)
{
    struct rt_str *o = kn_out(r, 0, r->in[1].rank - 1, r->in[1].dim);
    enum rt_status st = o ? RT_OK : r->err->code;

    for (int64_t i = 0; i < rt_tensor_count(&r->out[0]) && !st; i++) {
        st = put_message(r, b, packed, i);
        if (b->failed || packed->failed)
            return kn_text_failed(b->failed ? b : packed);
        if (!st)
            st = kn_set_text(r, &r->left, &o[i], b->p ? b->p : "", b->n);
        if (!st)
            st = kn_spend_string(r, &r->left, 0);
    }
    return st;
}

static enum rt_status encode_run(struct rt_run *r)
{
    struct rt_bytes b, packed;
    enum rt_status st = check_values(r);

    if (st)
        return st;
    kn_text_begin(&b, r);
    kn_text_begin(&packed, r);
    st = encode_all(r, &b, &packed);
    kn_text_end(&b);
    kn_text_end(&packed);
    return st;
}

static enum rt_status encode_infer(struct rt_infer *x)
{
    if (kn_shape_known(&x->in[1].shape) && x->in[1].shape.rank > 1)
        kn_set_shape(&x->out[0], x->in[1].shape.rank - 1, x->in[1].shape.dim);
    return RT_OK;
}

const struct kn_entry kn_encode_proto = {
    .op = {.name = "EncodeProto", .infer = encode_infer},
    .kernels = KN_KERNELS({.op = "EncodeProto",
                           .device = "CPU",
                           .name = "encode_proto",
                           .prepare = encode_prepare,
                           .run = encode_run}),
};
