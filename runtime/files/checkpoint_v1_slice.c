#include "runtime/files/checkpoint_v1_slice.h"

#include <string.h>

#include "proto/wire.h"
#include "runtime/core/str.h"

/* field numbers of SavedTensorSlices.data, SavedSlice.data and TensorProto.tensor_content */
enum { SLICES_DATA = 2, SLICE_DATA = 3, TENSOR_CONTENT = 4 };
/* number of bytes of the message between two calls of the run's check */
enum { CHECK_BYTES = 1 << 17 };

/* The field of a TensorProto that contains the values of a dtype. */
struct form {
    uint32_t field;
    enum pb_wire_type wire; /* wire type of a value that is not packed */
};

struct decoder {
    struct form form;
    enum rt_dtype dtype;
    size_t size;     /* size of a value in memory, in bytes */
    int64_t n, have; /* numbers of requested values and of decoded values */
    char *dst;
    bool has_data;
    struct rt_span content; /* the last tensor_content of the message */
    size_t n_unchecked;     /* number of bytes of the message read since the run's check was last
                             * called */
    const struct rt_checkpoint_run *run;
    struct rt_error *err;
};

static struct form form_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct form){5, PB_FIXED32};
    case RT_F64:
        return (struct form){6, PB_FIXED64};
    case RT_STRING:
        return (struct form){8, PB_BYTES};
    case RT_C64:
        return (struct form){9, PB_FIXED32};
    case RT_I64:
        return (struct form){10, PB_VARINT};
    case RT_BOOL:
        return (struct form){11, PB_VARINT};
    case RT_C128:
        return (struct form){12, PB_FIXED64};
    case RT_F16:
    case RT_BF16:
        return (struct form){13, PB_VARINT};
    case RT_U32:
        return (struct form){16, PB_VARINT};
    case RT_U64:
        return (struct form){17, PB_VARINT};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct form){18, PB_BYTES};
    default: /* integer types of up to 32 bits, including quantised types */
        return (struct form){7, PB_VARINT};
    }
}

/* Counts `bytes` more bytes as read. Calls the run's check each time CHECK_BYTES bytes have been
 * read. */
static enum rt_status spend(struct decoder *d, size_t bytes)
{
    d->n_unchecked += bytes;
    if (d->n_unchecked < CHECK_BYTES)
        return RT_OK;
    d->n_unchecked = 0;
    return rt_checkpoint_run_check(d->run, d->err);
}

static enum rt_status malformed(struct decoder *d)
{
    return rt_fail(d->err, RT_DATA_LOSS, "a slice: not a tensorflow.SavedTensorSlices");
}

/* Stores one value, whose bits are the low bits of `bits`. */
static enum rt_status store(struct decoder *d, uint64_t bits, size_t bytes)
{
    if (d->dtype == RT_BOOL)
        bits = bits != 0;
    if (d->have < d->n)
        memcpy(d->dst + (size_t)d->have * d->size, &bits, d->size);
    d->have += d->have < d->n;
    return spend(d, bytes);
}

/* Copies values that are represented alike in the message and in memory. */
static enum rt_status store_bytes(struct decoder *d, struct rt_span from)
{
    enum rt_status st = RT_OK;

    if (from.n % d->size)
        return malformed(d);
    if (from.n / d->size > (uint64_t)(d->n - d->have))
        from.n = (size_t)(d->n - d->have) * d->size;
    for (size_t at = 0; at < from.n && !st; at += CHECK_BYTES) {
        const size_t piece = from.n - at < CHECK_BYTES ? from.n - at : CHECK_BYTES;
        memcpy(d->dst + (size_t)d->have * d->size + at, from.p + at, piece);
        st = spend(d, piece);
    }
    d->have += (int64_t)(from.n / d->size);
    return st;
}

static enum rt_status store_string(struct decoder *d, struct rt_span text)
{
    if (d->have < d->n && !rt_str_set((struct rt_str *)(void *)d->dst + d->have++,
                                      rt_checkpoint_run_pool(d->run), text.p, text.n, d->err))
        return d->err->code;
    return spend(d, text.n + 1);
}

static enum rt_status store_varints(struct decoder *d, struct rt_span packed)
{
    enum rt_status st = RT_OK;
    uint64_t value;

    while (packed.n && !st) {
        const size_t before = packed.n;
        if (!pb_varint(&packed, &value))
            return malformed(d);
        st = store(d, value, before - packed.n);
    }
    return st;
}

static enum rt_status take_values(struct decoder *d, const struct pb_field *f)
{
    if (d->dtype == RT_STRING)
        return f->type == PB_BYTES ? store_string(d, f->bytes) : malformed(d);
    if (f->type == PB_BYTES && d->form.wire == PB_VARINT)
        return store_varints(d, f->bytes);
    if (f->type == PB_BYTES)
        return store_bytes(d, f->bytes);
    return f->type == d->form.wire ? store(d, f->value, f->whole.n) : malformed(d);
}

/* Reads a message and the nested messages that lead to the values. `level` is 0 for the
 * SavedTensorSlices, 1 for its SavedSlice and 2 for the TensorProto. Several occurrences of a
 * nested message are read as one message, as in protobuf. */
static enum rt_status take_message(struct decoder *d, struct rt_span rest, int level)
{
    static const uint32_t nested[] = {SLICES_DATA, SLICE_DATA};
    struct pb_field f;
    enum rt_status st = RT_OK;
    int more = 0;

    d->has_data |= level == 2;
    while (!st && (more = pb_field_next(&rest, &f)) == 1) {
        if (level < 2 && f.number == nested[level])
            st = f.type == PB_BYTES ? take_message(d, f.bytes, level + 1) : malformed(d);
        else if (level == 2 && f.number == d->form.field)
            st = take_values(d, &f);
        else if (level == 2 && f.number == TENSOR_CONTENT && f.type == PB_BYTES)
            d->content = f.bytes;
        if (!st)
            st = spend(d, f.type == PB_BYTES ? 1 : f.whole.n);
    }
    return st ? st : more < 0 ? malformed(d) : RT_OK;
}

/* Decodes strings from tensor_content: the lengths of all strings as varints, followed by the bytes
 * of all strings. */
static enum rt_status content_strings(struct decoder *d)
{
    struct rt_span lengths = d->content, data = d->content;
    uint64_t length, total = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < d->n && !st; i++) {
        /* `total` cannot overflow, because it is at most twice the size of the content. */
        if (!pb_varint(&data, &length) || length > d->content.n || (total += length) > d->content.n)
            return rt_fail(d->err, RT_DATA_LOSS, "tensor_content: length %lld of %lld is bad",
                           (long long)i, (long long)d->n);
        st = spend(d, 1);
    }
    if (!st && total != data.n)
        st = rt_fail(d->err, RT_DATA_LOSS,
                     "tensor_content: %zu bytes of strings, their lengths say otherwise", data.n);
    while (d->have < d->n && !st) {
        pb_varint(&lengths, &length);
        st = store_string(d, rt_span_of(data.p, (size_t)length));
        data.p += length;
    }
    return st;
}

static enum rt_status take_content(struct decoder *d)
{
    d->have = 0;
    if (d->dtype == RT_STRING)
        return content_strings(d);
    if (d->content.n != (uint64_t)d->n * d->size)
        return rt_fail(d->err, RT_DATA_LOSS, "tensor_content holds %zu bytes, not %lld values",
                       d->content.n, (long long)d->n);
    /* Kernels rely on bools being 0 or 1. */
    for (size_t i = 0; d->dtype == RT_BOOL && i < d->content.n; i++) {
        if (d->content.p[i] > 1)
            return rt_fail(d->err, RT_DATA_LOSS, "tensor_content: byte %zu is no bool", i);
        const enum rt_status st = spend(d, 1);
        if (st)
            return st;
    }
    return store_bytes(d, d->content);
}

enum rt_status rt_checkpoint_v1_decode(struct rt_span message, enum rt_dtype dtype, int64_t n,
                                       void *dst, const struct rt_checkpoint_run *run,
                                       struct rt_error *err)
{
    /* A complex element is stored as two values. */
    const int parts = dtype == RT_C64 || dtype == RT_C128 ? 2 : 1;
    struct decoder d = {.form = form_of(dtype),
                        .dtype = dtype,
                        .size = rt_dtype_size(dtype) / (size_t)parts,
                        .n = n * parts,
                        .dst = dst,
                        .run = run,
                        .err = err};
    enum rt_status st = take_message(&d, message, 0);

    if (!st && !d.has_data)
        return rt_fail(err, RT_DATA_LOSS, "a slice without data");
    if (!st && d.content.n)
        st = take_content(&d);
    if (!st && d.have < d.n)
        st =
            rt_fail(err, RT_DATA_LOSS, "a slice of %lld values of type %s, of which %lld are given",
                    (long long)d.n, rt_dtype_name(dtype), (long long)d.have);
    return st;
}
