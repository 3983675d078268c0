/* DecodeRaw and DecodePaddedRaw reinterpret the bytes of strings as numbers. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

/* CHUNK, a multiple of every element size, is the number of bytes decoded between two calls of
 * rt_run_spend. COST is the work per byte. */
enum { CHUNK = 1 << 18, COST = 4 };

/* Reverses the bytes of each of n elements of `size` bytes. */
static void swap_bytes(char *p, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            const char c = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = c;
        }
}

/* Decodes n strings to `bytes` bytes each at `out`. Longer strings are truncated, and shorter ones
 * are padded with zeros. */
static enum rt_status decode_strings(struct rt_run *r, char *out, size_t bytes)
{
    const struct rt_str *s = rt_strs(&r->in[0]);
    const enum rt_dtype dtype = rt_attr_dtype(r->node, "out_type");
    const size_t size = rt_dtype_size(dtype);
    const bool is_swapped = !rt_attr_bool(r->node, "little_endian");
    const size_t part = dtype == RT_C64 || dtype == RT_C128 ? size / 2 : size;
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++)
        for (size_t at = 0; at < bytes; at += CHUNK) {
            const size_t some = bytes - at < CHUNK ? bytes - at : CHUNK;
            const size_t there = s[i].n <= at ? 0 : s[i].n - at < some ? s[i].n - at : some;
            char *to = out + (size_t)i * bytes + at;
            memcpy(to, rt_str_data(&s[i]) + (there ? at : 0), there);
            memset(to + there, 0, some - there);
            for (size_t k = 0; dtype == RT_BOOL && k < some; k++)
                to[k] = to[k] != 0;
            if (is_swapped)
                swap_bytes(to, (int64_t)(some / part), part);
            if (rt_run_spend(r, &left, COST * (int64_t)some))
                return r->err->code;
        }
    return RT_OK;
}

/* Allocates output 0 and decodes the strings to it. The last axis has as many elements as fit into
 * `bytes` bytes. */
static enum rt_status decode_to_output(struct rt_run *r, size_t bytes)
{
    const struct rt_tensor *in = &r->in[0];
    int64_t dim[RT_MAX_RANK + 1];

    if (in->rank)
        memcpy(dim, in->dim, (size_t)in->rank * sizeof *dim);
    dim[in->rank] = (int64_t)(bytes / rt_dtype_size(rt_attr_dtype(r->node, "out_type")));
    char *out = kn_out(r, 0, in->rank + 1, dim);
    return out ? decode_strings(r, out, bytes) : r->err->code;
}

static enum rt_status decode_raw_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    const enum rt_dtype dtype = rt_attr_dtype(r->node, "out_type");
    const size_t size = rt_dtype_size(dtype);
    const int64_t n = rt_tensor_count(in);
    const size_t bytes = n ? rt_strs(in)[0].n : 0;

    for (int64_t i = 1; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (rt_strs(in)[i].n != bytes)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "DecodeRaw requires input strings to all be the same size, but element "
                           "%lld has size %zu != %zu",
                           (long long)i, bytes, rt_strs(in)[i].n);
    }
    if (bytes % size != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input to DecodeRaw has length %zu that is not a multiple of %zu, the size "
                       "of %s",
                       bytes, size, rt_dtype_name(dtype));
    return decode_to_output(r, bytes);
}

/* DecodeRaw has no row rule, because it requires every string of a batch to be as long as the
 * first. */
const struct kn_entry kn_decode_raw = {
    .op = {.name = "DecodeRaw"},
    .kernels = KN_CPU("DecodeRaw", "decode_raw", 0, NULL, decode_raw_run),
};

/* ---- DecodePaddedRaw(input_bytes, fixed_length) ---- */

static enum rt_status decode_padded_run(struct rt_run *r)
{
    const enum rt_dtype dtype = rt_attr_dtype(r->node, "out_type");
    const int64_t size = (int64_t)rt_dtype_size(dtype);
    int64_t length;

    if (!kn_scalar(&r->in[1], &length))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "k must be scalar, got shape %s",
                       KN_TEXT(&r->in[1]));
    if (length <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "fixed_length (%lld) must be greater than zero.", (long long)length);
    if (length % size != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "fixed_length (%lld) must be a multiple of the size of out_type (%lld)",
                       (long long)length, (long long)size);
    return decode_to_output(r, (size_t)length);
}

static enum rt_status padded_infer(struct rt_infer *x)
{
    const struct rt_tensor *length = x->in[1].value;
    const int64_t size = (int64_t)rt_dtype_size(rt_attr_dtype(x->node, "out_type"));
    struct rt_shape *o = &x->out[0].shape;
    int64_t n;

    /* The kernel refuses a length that is not a positive multiple of the size of out_type. */
    if (!kn_known(x, 2) || !kn_scalar(length, &n) || n <= 0 || n % size != 0 ||
        x->in[0].shape.rank == RT_MAX_RANK)
        return RT_OK;
    *o = x->in[0].shape;
    o->dim[o->rank++] = n / size;
    return RT_OK;
}

#define PADDED_TYPES                                                                               \
    (RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_I32) | RT_T(RT_U16) | RT_T(RT_U8) | RT_T(RT_I16) |      \
     RT_T(RT_I8) | RT_T(RT_I64) | RT_T(RT_BF16))

const struct kn_entry kn_decode_padded_raw = {
    .op = {.name = "DecodePaddedRaw", .shape_in = 2, .infer = padded_infer, .rows = rt_rows_first},
    .kernels = KN_KERNELS({.op = "DecodePaddedRaw",
                           .device = "CPU",
                           .name = "decode_padded_raw",
                           .type_attr = "out_type",
                           .types = PADDED_TYPES,
                           .run = decode_padded_run}),
};
