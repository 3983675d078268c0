/* Implements the functions of json_tensor.h that write tensors as JSON text. */
#include "server/protocol/tfs/json_tensor.h"

#include <string.h>

#include "runtime/base/half.h"
#include "server/json/json_number.h"

/* The output buffer and the cancellation of a response. */
struct response {
    struct rt_bytes *out;
    struct srv_cancellation *cancellation;
};

/* Reports to a->cancellation that `bytes` bytes were written. Returns false if writing must
 * stop. */
static bool go_on(const struct response *a, size_t bytes)
{
    if (!a->out->failed && !srv_should_continue(a->cancellation, bytes))
        a->out->failed = true;
    return !a->out->failed;
}

static void write_string(const struct response *a, const struct rt_str *s, bool as_bytes)
{
    if (!as_bytes) {
        srv_json_quote_long(a->out, rt_str_data(s), s->n, a->cancellation);
        return;
    }
    rt_bytes_adds(a->out, "{\"b64\": ");
    srv_json_base64_long(a->out, rt_str_data(s), s->n, a->cancellation);
    rt_bytes_addc(a->out, '}');
}

/* Cost of writing one list or one string, in bytes, without its contents. It is reported to
 * srv_should_continue. */
enum { ITEM = 16 };

/* Writes n values from `data`, separated by ", ". Memory is reserved for 256 values at a time. */
#define WRITE_RUN(type, write)                                                                     \
    do {                                                                                           \
        const type *from = data;                                                                   \
        for (int64_t i = 0; i < n;) {                                                              \
            int64_t stop = n - i > 256 ? i + 256 : n;                                              \
            if (!rt_bytes_reserve(out, (size_t)(stop - i) * (SRV_NUMBER_BYTES + 2)))               \
                return;                                                                            \
            char *to = out->p + out->n;                                                            \
            for (; i < stop; i++) {                                                                \
                if (i) {                                                                           \
                    memcpy(to, ", ", 2);                                                           \
                    to += 2;                                                                       \
                }                                                                                  \
                to += write;                                                                       \
            }                                                                                      \
            const size_t written = (size_t)(to - out->p) - out->n;                                 \
            out->n += written;                                                                     \
            *to = '\0';                                                                            \
            if (!go_on(a, written))                                                                \
                return;                                                                            \
        }                                                                                          \
    } while (0)

static size_t write_bool(char *to, bool b)
{
    memcpy(to, b ? "true" : "false", 5);
    return b ? 4 : 5;
}

static void write_run(const struct response *a, enum rt_dtype dtype, const void *data, int64_t n,
                      bool as_bytes)
{
    struct rt_bytes *out = a->out;

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
        for (int64_t i = 0; i < n && go_on(a, ITEM); i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_string(a, (const struct rt_str *)data + i, as_bytes);
        }
        break;
    default:
        break;
    }
}

/* Writes the value of rank `rank` at *data, and advances *data past the value. */
static void write_value(const struct response *a, enum rt_dtype dtype, int rank, const int64_t *dim,
                        const unsigned char **data, bool as_bytes)
{
    struct rt_bytes *out = a->out;
    size_t size = rt_dtype_size(dtype);
    if (rank == 0) {
        write_run(a, dtype, *data, 1, as_bytes);
        *data += size;
        return;
    }
    rt_bytes_addc(out, '[');
    if (rank == 1) {
        write_run(a, dtype, *data, dim[0], as_bytes);
        if (dim[0]) /* `data` may be NULL if the tensor has no elements */
            *data += (size_t)dim[0] * size;
    } else {
        for (int64_t i = 0; i < dim[0] && go_on(a, ITEM); i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_value(a, dtype, rank - 1, dim + 1, data, as_bytes);
        }
    }
    rt_bytes_addc(out, ']');
}

void srv_json_write_values(struct rt_bytes *out, const struct rt_tensor *t,
                           struct srv_cancellation *cancellation)
{
    const struct response a = {out, cancellation};
    write_run(&a, (enum rt_dtype)t->dtype, t->data, rt_tensor_count(t), false);
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
 * Returns a lower bound on the length of the tensors' text, or SIZE_MAX if the bound exceeds the
 * size limit of the output. A response that is too large is thus refused before its text is
 * written. Even a tensor without elements may consist of very many lists.
 */
static size_t least_bytes(const struct response *a, const struct rt_tensor *t, int n)
{
    size_t bytes = 0;
    for (int k = 0; k < n; k++) {
        /* `each` is the minimum length of a value and its separator ", " */
        size_t lists = 1, each = 3;
        for (int d = 0; d + 1 < t[k].rank; d++)
            if (__builtin_mul_overflow(lists, (size_t)t[k].dim[d], &lists) ||
                __builtin_add_overflow(bytes, 2 * lists, &bytes) || bytes > a->out->limit)
                return SIZE_MAX;
        if (t[k].dtype == RT_F32 || t[k].dtype == RT_F64)
            each = 5;
        for (int64_t i = 0; t[k].dtype == RT_STRING && i < rt_tensor_count(&t[k]); i++)
            if ((bytes += rt_strs(&t[k])[i].n) > a->out->limit || !go_on(a, 1))
                return SIZE_MAX;
        if (__builtin_mul_overflow(each, (size_t)rt_tensor_count(&t[k]), &each) ||
            __builtin_add_overflow(bytes, each, &bytes))
            return SIZE_MAX;
    }
    return bytes;
}

static void encode_rows(const struct response *a, const struct rt_signature *sig,
                        const struct rt_tensor *fetches)
{
    struct rt_bytes *out = a->out;
    int n = sig->n_outputs;
    rt_bytes_adds(out, "{\n    \"predictions\": [");
    /* With a single output, each row is a plain value. With several outputs, each row is an
     * object. */
    if (n == 1) {
        const struct rt_tensor *t = &fetches[0];
        const unsigned char *data = t->data;
        bool as_bytes = ends_in_bytes(sig->outputs[0].alias);
        if (t->rank == 1)
            write_run(a, (enum rt_dtype)t->dtype, data, t->dim[0], as_bytes);
        else
            for (int64_t i = 0; i < t->dim[0] && go_on(a, ITEM); i++) {
                if (i)
                    rt_bytes_add(out, ", ", 2);
                write_value(a, (enum rt_dtype)t->dtype, t->rank - 1, t->dim + 1, &data, as_bytes);
            }
    } else {
        for (int64_t row = 0; row < fetches[0].dim[0] && !out->failed; row++) {
            rt_bytes_adds(out, row ? ", {" : "{");
            for (int i = 0; i < n && go_on(a, 2 * ITEM); i++) {
                const struct rt_tensor *t = &fetches[i];
                int64_t stride = rt_count(t->rank - 1, t->dim + 1);
                const unsigned char *data = t->data;
                if (data)
                    data += (size_t)(row * stride) * rt_dtype_size((enum rt_dtype)t->dtype);
                if (i)
                    rt_bytes_add(out, ", ", 2);
                write_key(out, sig->outputs[i].alias);
                write_value(a, (enum rt_dtype)t->dtype, t->rank - 1, t->dim + 1, &data,
                            ends_in_bytes(sig->outputs[i].alias));
            }
            rt_bytes_addc(out, '}');
        }
    }
    rt_bytes_adds(out, "\n    ]\n}");
}

static void encode_columns(const struct response *a, const struct rt_signature *sig,
                           const struct rt_tensor *fetches)
{
    struct rt_bytes *out = a->out;
    int n = sig->n_outputs;
    rt_bytes_adds(out, n == 1 ? "{\n    \"outputs\": " : "{\n    \"outputs\": {");
    for (int i = 0; i < n && !out->failed; i++) {
        const struct rt_tensor *t = &fetches[i];
        const unsigned char *data = t->data;
        if (i)
            rt_bytes_add(out, ", ", 2);
        if (n > 1)
            write_key(out, sig->outputs[i].alias);
        write_value(a, (enum rt_dtype)t->dtype, t->rank, t->dim, &data,
                    ends_in_bytes(sig->outputs[i].alias));
    }
    rt_bytes_adds(out, n == 1 ? "\n}" : "}\n}");
}

enum rt_status srv_json_encode_predict(struct rt_bytes *out, const struct rt_signature *signature,
                                       const struct rt_tensor *fetches, enum srv_json_form form,
                                       struct srv_cancellation *cancellation, struct rt_error *err)
{
    const struct response a = {out, cancellation};
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
    if (!rt_bytes_reserve(out, least_bytes(&a, fetches, n)))
        out->failed = true;
    else if (form == SRV_JSON_ROW)
        encode_rows(&a, signature, fetches);
    else
        encode_columns(&a, signature, fetches);
    const enum rt_status st = srv_cancellation_status(cancellation, err);
    if (!st && out->failed)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the response is larger than %zu bytes",
                       out->limit);
    return st;
}

void srv_json_error(struct rt_bytes *out, const char *text)
{
    struct rt_bytes plain;

    rt_bytes_init(&plain, RT_MAX_ERROR_BYTES + 1);
    if (rt_bytes_reserve(&plain, strlen(text)))
        plain.n = rt_error_decode(plain.p, strlen(text), text);
    rt_bytes_adds(out, "{\n    \"error\": ");
    srv_json_quote(out, plain.n ? plain.p : text, plain.n);
    rt_bytes_clear(&plain);
    rt_bytes_adds(out, "\n}");
}
