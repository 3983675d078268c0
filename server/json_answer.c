/* The second half of json_tensor.h: tensors become text. */
#include "server/json_tensor.h"

#include <string.h>

#include "runtime/base/half.h"
#include "server/json_number.h"

static void write_string(struct rt_bytes *out, const struct rt_str *s, bool as_bytes)
{
    if (!as_bytes) {
        srv_json_quote(out, rt_str_data(s), s->n);
        return;
    }
    rt_bytes_adds(out, "{\"b64\": ");
    srv_json_base64(out, rt_str_data(s), s->n);
    rt_bytes_addc(out, '}');
}

/* n values from data on, ", " between them. Room is taken for many at a time. */
#define WRITE_RUN(type, write)                                                                     \
    do {                                                                                           \
        const type *from = data;                                                                   \
        for (int64_t i = 0; i < n;) {                                                              \
            int64_t stop = n - i > 256 ? i + 256 : n;                                              \
            if (!rt_bytes_reserve(out, (size_t)(stop - i) * (SRV_NUMBER_ROOM + 2)))                \
                return;                                                                            \
            char *to = out->p + out->n;                                                            \
            for (; i < stop; i++) {                                                                \
                if (i) {                                                                           \
                    memcpy(to, ", ", 2);                                                           \
                    to += 2;                                                                       \
                }                                                                                  \
                to += write;                                                                       \
            }                                                                                      \
            out->n = (size_t)(to - out->p);                                                        \
            *to = '\0';                                                                            \
        }                                                                                          \
    } while (0)

static size_t write_bool(char *to, bool b)
{
    memcpy(to, b ? "true" : "false", 5);
    return b ? 4 : 5;
}

static void write_run(struct rt_bytes *out, enum rt_dtype dtype, const void *data, int64_t n,
                      bool as_bytes)
{
    switch (dtype) {
    case RT_F32:
        WRITE_RUN(float, srv_float_write(to, from[i]));
        break;
    case RT_F64:
        WRITE_RUN(double, srv_double_write(to, from[i]));
        break;
    case RT_F16:
        WRITE_RUN(uint16_t, srv_float_write(to, rt_half_value(from[i])));
        break;
    case RT_BF16:
        WRITE_RUN(uint16_t, srv_float_write(to, rt_bfloat_value(from[i])));
        break;
    case RT_U16:
    case RT_QU16:
        WRITE_RUN(uint16_t, srv_uint_write(to, from[i]));
        break;
    case RT_I32:
    case RT_QI32:
        WRITE_RUN(int32_t, srv_int_write(to, from[i]));
        break;
    case RT_I16:
    case RT_QI16:
        WRITE_RUN(int16_t, srv_int_write(to, from[i]));
        break;
    case RT_I8:
    case RT_QI8:
        WRITE_RUN(int8_t, srv_int_write(to, from[i]));
        break;
    case RT_U8:
    case RT_QU8:
        WRITE_RUN(uint8_t, srv_uint_write(to, from[i]));
        break;
    case RT_I64:
        WRITE_RUN(int64_t, srv_int_write(to, from[i]));
        break;
    case RT_U32:
        WRITE_RUN(uint32_t, srv_uint_write(to, from[i]));
        break;
    case RT_U64:
        WRITE_RUN(uint64_t, srv_uint_write(to, from[i]));
        break;
    case RT_BOOL:
        WRITE_RUN(uint8_t, write_bool(to, from[i] != 0));
        break;
    case RT_STRING:
        for (int64_t i = 0; i < n && !out->failed; i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_string(out, (const struct rt_str *)data + i, as_bytes);
        }
        break;
    default:
        break;
    }
}

/* The value of rank `rank` that starts at *data, which is moved behind it. */
static void write_value(struct rt_bytes *out, enum rt_dtype dtype, int rank, const int64_t *dim,
                        const unsigned char **data, bool as_bytes)
{
    size_t size = rt_dtype_size(dtype);
    if (rank == 0) {
        write_run(out, dtype, *data, 1, as_bytes);
        *data += size;
        return;
    }
    rt_bytes_addc(out, '[');
    if (rank == 1) {
        write_run(out, dtype, *data, dim[0], as_bytes);
        if (dim[0]) /* data may be NULL */
            *data += (size_t)dim[0] * size;
    } else {
        for (int64_t i = 0; i < dim[0] && !out->failed; i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_value(out, dtype, rank - 1, dim + 1, data, as_bytes);
        }
    }
    rt_bytes_addc(out, ']');
}

static bool ends_in_bytes(const char *alias)
{
    size_t n = strlen(alias);
    return n >= 6 && strcmp(alias + n - 6, "_bytes") == 0;
}

static void write_key(struct rt_bytes *out, const char *alias)
{
    srv_json_quote(out, alias, strlen(alias));
    rt_bytes_adds(out, ": ");
}

/*
 * Whether these tensors can fit at all: a tensor without elements may still have more lists than
 * anybody could write, and what is too large is better not begun.
 */
static bool may_fit(const struct rt_bytes *out, const struct rt_tensor *t, int n)
{
    uint64_t bytes = 0;
    for (int k = 0; k < n; k++) {
        uint64_t lists = 1, each = 3; /* a digit, or quotes, and ", " */
        for (int d = 0; d + 1 < t[k].rank; d++)
            if (__builtin_mul_overflow(lists, (uint64_t)t[k].dim[d], &lists) ||
                __builtin_add_overflow(bytes, 2 * lists, &bytes) || bytes > out->limit)
                return false;
        if (t[k].dtype == RT_F32 || t[k].dtype == RT_F64)
            each = 5;
        for (int64_t i = 0; t[k].dtype == RT_STRING && i < rt_tensor_count(&t[k]); i++)
            bytes += rt_strs(&t[k])[i].n;
        if (__builtin_mul_overflow(each, (uint64_t)rt_tensor_count(&t[k]), &each) ||
            __builtin_add_overflow(bytes, each, &bytes))
            return false;
    }
    return bytes <= out->limit;
}

static void encode_rows(struct rt_bytes *out, const struct rt_signature *sig,
                        const struct rt_tensor *fetches)
{
    int n = sig->n_outputs;
    rt_bytes_adds(out, "{\n    \"predictions\": [");
    if (n == 1) { /* the value itself, without the outer brackets that stand above and below */
        const struct rt_tensor *t = &fetches[0];
        const unsigned char *data = t->data;
        bool as_bytes = ends_in_bytes(sig->outputs[0].alias);
        if (t->rank == 1)
            write_run(out, (enum rt_dtype)t->dtype, data, t->dim[0], as_bytes);
        else
            for (int64_t i = 0; i < t->dim[0] && !out->failed; i++) {
                if (i)
                    rt_bytes_add(out, ", ", 2);
                write_value(out, (enum rt_dtype)t->dtype, t->rank - 1, t->dim + 1, &data, as_bytes);
            }
    } else {
        for (int64_t row = 0; row < fetches[0].dim[0] && !out->failed; row++) {
            rt_bytes_adds(out, row ? ", {" : "{");
            for (int i = 0; i < n; i++) {
                const struct rt_tensor *t = &fetches[i];
                int64_t stride = rt_count(t->rank - 1, t->dim + 1);
                const unsigned char *data = t->data;
                if (data)
                    data += (size_t)(row * stride) * rt_dtype_size((enum rt_dtype)t->dtype);
                if (i)
                    rt_bytes_add(out, ", ", 2);
                write_key(out, sig->outputs[i].alias);
                write_value(out, (enum rt_dtype)t->dtype, t->rank - 1, t->dim + 1, &data,
                            ends_in_bytes(sig->outputs[i].alias));
            }
            rt_bytes_addc(out, '}');
        }
    }
    rt_bytes_adds(out, "\n    ]\n}");
}

static void encode_columns(struct rt_bytes *out, const struct rt_signature *sig,
                           const struct rt_tensor *fetches)
{
    int n = sig->n_outputs;
    rt_bytes_adds(out, n == 1 ? "{\n    \"outputs\": " : "{\n    \"outputs\": {");
    for (int i = 0; i < n; i++) {
        const struct rt_tensor *t = &fetches[i];
        const unsigned char *data = t->data;
        if (i)
            rt_bytes_add(out, ", ", 2);
        if (n > 1)
            write_key(out, sig->outputs[i].alias);
        write_value(out, (enum rt_dtype)t->dtype, t->rank, t->dim, &data,
                    ends_in_bytes(sig->outputs[i].alias));
    }
    rt_bytes_adds(out, n == 1 ? "\n}" : "}\n}");
}

enum rt_status srv_json_encode_predict(struct rt_bytes *out, const struct rt_signature *signature,
                                       const struct rt_tensor *fetches, enum srv_json_form form,
                                       struct rt_error *err)
{
    int n = signature->n_outputs;
    if (n == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Cannot convert empty tensor map to JSON");
    for (int i = 0; i < n && form == SRV_JSON_ROW; i++) {
        if (fetches[i].rank == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Tensor name: %s has no shape information ",
                           signature->outputs[i].alias);
        if (fetches[i].dim[0] != fetches[0].dim[0])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Tensor name: %s has inconsistent batch size: %lld expecting: %lld, "
                           "that of %s",
                           signature->outputs[i].alias, (long long)fetches[i].dim[0],
                           (long long)fetches[0].dim[0], signature->outputs[0].alias);
    }
    for (int i = 0; i < n; i++)
        if (!srv_json_takes((enum rt_dtype)fetches[i].dtype) && rt_tensor_count(&fetches[i]) > 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Failed to write JSON value for tensor type: %s",
                           rt_dtype_name((enum rt_dtype)fetches[i].dtype));
    if (!may_fit(out, fetches, n))
        out->failed = true;
    else if (form == SRV_JSON_ROW)
        encode_rows(out, signature, fetches);
    else
        encode_columns(out, signature, fetches);
    if (out->failed)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the response is larger than %zu bytes",
                       out->limit);
    return RT_OK;
}

void srv_json_error(struct rt_bytes *out, const char *text)
{
    rt_bytes_adds(out, "{\n    \"error\": ");
    srv_json_quote(out, text, strlen(text));
    rt_bytes_adds(out, "\n}");
}
