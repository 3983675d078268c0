/* SerializeTensor and ParseTensor convert a tensor to the bytes of a TensorProto and back. */
#include "kernels/parsing/tensor_bytes.h"

#include "kernels/cpu/types.h"
#include "kernels/string/each.h"
#include "runtime/core/tensor_proto.h"

/* ---- SerializeTensor ---- */

/* The fields of a TensorProto, as tags of the wire format: number * 8 + wire type. */
enum { DTYPE = 0x08, SHAPE = 0x12, CONTENT = 0x22, STRING_VAL = 0x42, DIM = 0x12, DIM_SIZE = 0x08 };
/* TensorFlow's serializer limits a message to 2 GiB. */
#define MAX_MESSAGE ((size_t)INT32_MAX)

static size_t put_varint(unsigned char *to, uint64_t v)
{
    size_t n = 0;

    for (; v > 0x7f; v >>= 7)
        to[n++] = (unsigned char)(v | 0x80);
    to[n++] = (unsigned char)v;
    return n;
}

/* Writes the fields that precede the values to `to`, which has enough space, and returns their
 * size. */
static size_t put_head(unsigned char *to, const struct rt_tensor *t)
{
    unsigned char shape[RT_MAX_RANK * 16];
    size_t n = 0, n_shape = 0;

    to[n++] = DTYPE;
    n += put_varint(to + n, t->dtype);
    for (int d = 0; d < t->rank; d++) {
        unsigned char size[12] = {DIM_SIZE};
        const size_t n_size = t->dim[d] ? 1 + put_varint(size + 1, (uint64_t)t->dim[d]) : 0;
        shape[n_shape++] = DIM;
        shape[n_shape++] = (unsigned char)n_size;
        memcpy(shape + n_shape, size, n_size);
        n_shape += n_size;
    }
    to[n++] = SHAPE;
    n += put_varint(to + n, n_shape);
    memcpy(to + n, shape, n_shape);
    return n + n_shape;
}

static size_t varint_size(uint64_t v)
{
    unsigned char unused[10];
    return put_varint(unused, v);
}

/* Writes the strings of `t` to `to`. As field string_val, each string follows its tag and length.
 * As tensor_content, all lengths precede all strings. */
static enum rt_status put_strings(struct rt_run *r, const struct rt_tensor *t,
                                  enum kn_strings strings, char *to)
{
    const struct rt_str *s = rt_strs(t);
    const int64_t n = rt_tensor_count(t);
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < n && strings == KN_STRING_CONTENT; i++) {
        to += put_varint((unsigned char *)to, s[i].n);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int64_t i = 0; i < n; i++) {
        if (strings == KN_STRING_FIELD) {
            *to++ = STRING_VAL;
            to += put_varint((unsigned char *)to, s[i].n);
        }
        if (kn_spend_string(r, &left, 0) || kn_copy_text(r, &left, to, rt_str_data(&s[i]), s[i].n))
            return r->err->code;
        to += s[i].n;
    }
    return RT_OK;
}

enum rt_status kn_tensor_to_bytes(struct rt_run *r, const struct rt_tensor *t,
                                  enum kn_strings strings, struct rt_str *out)
{
    const bool is_text = t->dtype == RT_STRING, is_field = is_text && strings == KN_STRING_FIELD;
    unsigned char head[RT_MAX_RANK * 16 + 32];
    size_t n_head = put_head(head, t), bytes = is_text ? 0 : rt_tensor_bytes(t);
    int64_t left = RT_WORK;

    for (int64_t i = 0; is_text && i < rt_tensor_count(t) && bytes < MAX_MESSAGE; i++) {
        bytes += is_field + varint_size(rt_strs(t)[i].n) + rt_strs(t)[i].n;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (bytes > MAX_MESSAGE - sizeof head)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "a tensor of more than 2 GiB cannot be "
                       "serialized");
    if (!is_field && rt_tensor_count(t)) {
        head[n_head++] = CONTENT;
        n_head += put_varint(head + n_head, bytes);
    }
    char *to = rt_str_resize(out, rt_run_pool(r), n_head + bytes, r->err);
    if (!to)
        return r->err->code;
    memcpy(to, head, n_head);
    return is_text ? put_strings(r, t, strings, to + n_head)
                   : kn_copy_text(r, &left, to + n_head, t->data, bytes);
}

static enum rt_status serialize_run(struct rt_run *r)
{
    struct rt_str *o = kn_out(r, 0, 0, NULL);

    return o ? kn_tensor_to_bytes(r, &r->in[0], KN_STRING_FIELD, o) : r->err->code;
}

#define PLAIN (KN_SET(KN_NUMBERS) | RT_T(RT_BOOL))

const struct kn_entry kn_serialize_tensor = {
    .op = {.name = "SerializeTensor", .infer = kn_infer_scalars},
    .kernels =
        KN_CPU("SerializeTensor", "serialize_tensor", PLAIN | RT_T(RT_STRING), NULL, serialize_run),
};

/* ---- ParseTensor ---- */

/* Maximum size of a tensor whose TensorProto contains only some of the tensor's values. */
enum { MAX_REPEATED = 64 << 20 };

static enum rt_status check_run(void *run, struct rt_error *err)
{
    (void)err; /* the error of the run, which rt_run_check sets */
    return rt_run_check(run);
}

/* Sets output 0 to the tensor `t`. The run's memory pool counts the strings that are copied. */
static enum rt_status put_parsed(struct rt_run *r, const struct rt_tensor *t)
{
    int64_t left = RT_WORK;

    if (t->dtype != RT_STRING) {
        rt_out_tensor(r, 0, t);
        return RT_OK;
    }
    struct rt_str *o = rt_out(r, 0, t->rank, t->dim);
    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        if (kn_spend_string(r, &left, 0) ||
            kn_set_text(r, &left, &o[i], rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n))
            return r->err->code;
    return RT_OK;
}

static enum rt_status parse_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    const struct rt_check check = {check_run, r};
    struct rt_tensor t;

    if (in->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected `serialized` to be a scalar, got shape: %s", KN_TEXT(in));
    const struct rt_span bytes = rt_span_of(rt_str_data(rt_strs(in)), rt_strs(in)->n);
    enum rt_status st = rt_tensor_parse(bytes, rt_attr_dtype(r->node, "out_type"), MAX_REPEATED, &t,
                                        rt_run_pool(r), &check, r->err);
    if (!st) {
        st = put_parsed(r, &t);
        rt_tensor_clear(&t);
    }
    return st;
}

const struct kn_entry kn_parse_tensor = {
    .op = {.name = "ParseTensor"},
    .kernels = KN_KERNELS({.op = "ParseTensor",
                           .device = "CPU",
                           .name = "parse_tensor",
                           .type_attr = "out_type",
                           .types = PLAIN | RT_T(RT_STRING),
                           .run = parse_run}),
};
