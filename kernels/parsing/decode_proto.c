/* DecodeProtoV2 reads fields of serialised messages of a type that descriptors describe. */
#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/message_scan.h"
#include "kernels/parsing/proto_fields.h"
#include "kernels/string/each.h"

/* ---- preparing ---- */

static enum rt_status check_types(struct rt_prep *p, const struct kn_proto_fields *f)
{
    const struct rt_attr *types = rt_attr(p->node, "output_types");
    const struct rt_span message = rt_attr_str(p->node, "message_type");

    for (int k = 0; k < f->n; k++) {
        const enum rt_dtype dtype = (enum rt_dtype)types->v.types[k];
        if (!kn_field_accepts(f->field[k].type, dtype))
            return rt_fail(p->err, RT_INVALID_ARGUMENT,
                           "Unexpected output type for %.*s.%.*s: %s to %s", KN_SPAN(message),
                           KN_SPAN(f->name[k]), kn_field_number_name(f->field[k].type),
                           rt_dtype_proto_name(dtype));
    }
    return RT_OK;
}

/* Replaces the escaped default of each field of bytes with the bytes. */
static enum rt_status unescape_defaults(struct rt_prep *p, struct kn_proto_fields *f)
{
    for (int k = 0; k < f->n; k++) {
        struct rt_span *text = &f->field[k].text_default;
        if (f->field[k].type != KN_F_BYTES || !text->n)
            continue;
        char *to = rt_prep_alloc(p, text->n);
        if (!to)
            return p->err->code;
        *text = rt_span_of(to, kn_unescape(*text, to));
    }
    return RT_OK;
}

static enum rt_status decode_prepare(struct rt_prep *p, void **state)
{
    const struct rt_span format = rt_attr_str(p->node, "message_format");
    const bool is_text = rt_span_is(format, "text");
    struct kn_proto_fields *f = NULL;

    if (rt_attr(p->node, "field_names")->n != rt_attr(p->node, "output_types")->n)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "field_names and output_types attributes must have the same length");
    enum rt_status st = kn_proto_fields(p, &f);
    if (!st)
        st = check_types(p, f);
    if (!st && !is_text && !rt_span_is(format, "binary"))
        st = rt_fail(p->err, RT_INVALID_ARGUMENT, "format must be one of binary or text");
    if (!st && (is_text || rt_attr_bool(p->node, "sanitize")))
        st = rt_fail(p->err, RT_UNIMPLEMENTED, "DecodeProtoV2: %s",
                     is_text ? "message_format \"text\"" : "sanitize");
    if (!st)
        st = unescape_defaults(p, f);
    *state = f;
    return st;
}

/* ---- running ---- */

/* A position in the walk through all messages. While elements are counted, `size` is written; while
 * they are read, `taken` counts the elements of each field that have been read. */
struct decode {
    struct rt_run *r;
    const struct kn_proto_fields *f;
    int64_t message;  /* index of the message */
    int32_t *size;    /* the number of elements of each field of the message */
    int64_t *longest; /* the greatest number of elements of each field in a message, at least 1 */
    int32_t *taken;
    struct rt_bytes group; /* the group that is being copied */
};

static enum rt_status count_elements(void *arg, int index, const struct kn_elements *e)
{
    struct decode *d = arg;
    const int64_t n = d->size[index] + e->n;

    if (n > INT32_MAX)
        return rt_fail(d->r->err, RT_RESOURCE_EXHAUSTED, "a field has too many elements");
    d->size[index] = d->f->field[index].is_repeated ? (int32_t)n : e->n || d->size[index];
    return RT_OK;
}

static enum rt_status put_string(struct decode *d, int index, int64_t at, struct rt_span s)
{
    struct rt_str *to = d->r->out[1 + index].data;

    rt_str_clear(&to[at]);
    return kn_set_text(d->r, &d->r->left, &to[at], s.n ? (const char *)s.p : "", s.n);
}

static enum rt_status put_group(struct decode *d, int index, int64_t at, struct rt_span content)
{
    d->group.n = 0;
    const enum rt_status st = kn_add_group(d->r, d->f->field[index].number, content, &d->group);
    return st ? st : put_string(d, index, at, rt_span_of(d->group.p, d->group.n));
}

/* Fails as TensorFlow does if a field cannot take packed elements: because all positions of the
 * output's row have been written, even if there are no elements, or because it is a group. */
static enum rt_status check_packed(const struct decode *d, int index)
{
    const struct kn_message_field *field = &d->f->field[index];

    if (d->taken[index] >= d->longest[index])
        return rt_fail(d->r->err, RT_DATA_LOSS,
                       "ReadPackedValues: Tried to write more entries than allowed.  Field tag: "
                       "%u, Max entries allowed: %lld",
                       field->number, (long long)d->longest[index]);
    if (field->type == KN_F_GROUP)
        return rt_fail(d->r->err, RT_DATA_LOSS, "Non-primitive type encountered as packed");
    return RT_OK;
}

/* Returns the type by which a number is converted. As in TensorFlow, packed numbers of type int32
 * that an output of type int64 takes are not sign-extended. */
static enum kn_field_type number_type(const struct kn_message_field *f, const struct kn_elements *e)
{
    return f->type == KN_F_INT32 && e->is_packed ? KN_F_UINT32 : f->type;
}

/* Writes elements to the output. The last element of a singular field replaces the others. As in
 * TensorFlow, packed elements of a singular field count, but are not written. */
static enum rt_status read_elements(void *arg, int index, const struct kn_elements *e)
{
    struct decode *d = arg;
    const struct kn_message_field *field = &d->f->field[index];
    struct rt_tensor *o = &d->r->out[1 + index];
    const enum rt_dtype dtype = kn_dtype(o);
    const int64_t first = d->message * d->longest[index];
    struct kn_elements rest = *e;
    uint64_t bits;
    enum rt_status st = e->is_packed ? check_packed(d, index) : RT_OK;

    if (st || (e->is_packed && !field->is_repeated))
        return st;
    for (int64_t i = 0; i < e->n; i++) {
        const int64_t at = first + (field->is_repeated ? d->taken[index] : 0);
        d->taken[index] = field->is_repeated ? d->taken[index] + 1 : 1;
        if (dtype == RT_STRING) {
            st = field->type == KN_F_GROUP ? put_group(d, index, at, e->bytes)
                                           : put_string(d, index, at, e->bytes);
            if (st)
                return st;
            continue;
        }
        if (!kn_elements_next(field->type, &rest, &bits))
            return rt_fail(d->r->err, RT_INTERNAL, "an element was counted, but not found");
        kn_field_put(number_type(field, e), bits, dtype, kn_at_mut(o, at));
        if (rt_run_spend(d->r, &d->r->left, 4))
            return d->r->err->code;
    }
    return RT_OK;
}

/* Fills the elements of a message that have not been written: with the default in a singular field,
 * and with zeros or the first value of the enum in a repeated one. */
static enum rt_status fill_rest(struct decode *d, int index)
{
    const struct kn_message_field *field = &d->f->field[index];
    struct rt_tensor *o = &d->r->out[1 + index];
    const enum rt_dtype dtype = kn_dtype(o);
    const int64_t first = d->message * d->longest[index];
    enum rt_status st = RT_OK;

    for (int64_t i = d->taken[index]; i < d->longest[index] && !st; i++) {
        if (dtype == RT_STRING && !field->is_repeated)
            st = put_string(d, index, first + i, field->text_default);
        else if (dtype != RT_STRING)
            kn_field_put(field->type, field->number_default, dtype, kn_at_mut(o, first + i));
        if (!st)
            st = rt_run_spend(d->r, &d->r->left, 4);
    }
    return st;
}

/* Calls `visit` with the elements of each message. Sets d->size to the message's row of `sizes`. */
static enum rt_status walk(struct decode *d, int32_t *sizes, const struct kn_scan *scan)
{
    const struct rt_str *in = rt_strs(&d->r->in[0]);
    const bool fills = scan->visit == read_elements;
    enum rt_status st = RT_OK;

    for (d->message = 0; d->message < rt_tensor_count(&d->r->in[0]) && !st; d->message++) {
        const struct rt_str *s = &in[d->message];
        d->size = sizes + d->message * d->f->n;
        if (fills)
            memset(d->taken, 0, (size_t)d->f->n * sizeof *d->taken);
        else
            memset(d->size, 0, (size_t)d->f->n * sizeof *d->size);
        st = kn_scan_message(d->r, d->f, rt_span_of(rt_str_data(s), s->n), scan);
        for (int k = 0; k < d->f->n && !st; k++) {
            if (fills)
                st = fill_rest(d, k);
            else if (d->size[k] > d->longest[k])
                d->longest[k] = d->size[k];
        }
        if (!st)
            st = rt_run_spend(d->r, &d->r->left, KN_STRING_WORK + 4 * d->f->n);
    }
    return st;
}

static enum rt_status decode_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    struct decode d = {.r = r, .f = r->state};
    const size_t n = (size_t)d.f->n;
    int64_t dim[RT_MAX_RANK];

    if (in->rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "outputs of more than %d dimensions", RT_MAX_RANK);
    if (rt_tensor_count(in) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Bufs argument must contain at least one value");
    d.longest = rt_scratch(r, n * (sizeof *d.longest + sizeof *d.taken) + 1);
    if (!d.longest)
        return r->err->code;
    d.taken = (int32_t *)(d.longest + n);
    for (size_t k = 0; k < n; k++)
        d.longest[k] = 1;
    for (int i = 0; i < in->rank; i++)
        dim[i] = in->dim[i];
    dim[in->rank] = d.f->n;
    int32_t *sizes = kn_out(r, 0, in->rank + 1, dim);
    if (!sizes)
        return r->err->code;
    enum rt_status st = walk(&d, sizes, &(struct kn_scan){count_elements, &d});
    for (size_t k = 0; k < n && !st; k++) {
        dim[in->rank] = d.longest[k];
        st = kn_out(r, 1 + (int)k, in->rank + 1, dim) ? RT_OK : r->err->code;
    }
    if (st)
        return st;
    kn_text_begin(&d.group, r);
    st = walk(&d, sizes, &(struct kn_scan){read_elements, &d});
    kn_text_end(&d.group);
    return st;
}

static enum rt_status decode_infer(struct rt_infer *x)
{
    struct rt_shape *sizes = &x->out[0].shape;

    if (!kn_shape_known(&x->in[0].shape) || x->in[0].shape.rank == RT_MAX_RANK)
        return RT_OK;
    *sizes = x->in[0].shape;
    sizes->dim[sizes->rank++] = (int64_t)rt_attr(x->node, "field_names")->n;
    return RT_OK;
}

const struct kn_entry kn_decode_proto_v2 = {
    .op = {.name = "DecodeProtoV2", .infer = decode_infer},
    .kernels = KN_KERNELS({.op = "DecodeProtoV2",
                           .device = "CPU",
                           .name = "decode_proto_v2",
                           .prepare = decode_prepare,
                           .run = decode_run}),
};
