/* Implements the functions of json_tensor.h that write tensors as JSON text. */
#include "server/protocol/tfs/json_tensor.h"

#include <string.h>

#include "server/protocol/json_values.h"

/* Writes the value of rank `rank` at *data, and advances *data past the value. */
static void write_value(const struct srv_json_writer *a, enum rt_dtype dtype, int rank,
                        const int64_t *dim, const unsigned char **data, bool as_base64)
{
    struct rt_bytes *out = a->out;
    size_t size = rt_dtype_size(dtype);
    if (rank == 0) {
        srv_json_write_run(a, dtype, *data, 1, as_base64);
        *data += size;
        return;
    }
    rt_bytes_addc(out, '[');
    if (rank == 1) {
        srv_json_write_run(a, dtype, *data, dim[0], as_base64);
        if (dim[0]) /* `data` may be NULL if the tensor has no elements */
            *data += (size_t)dim[0] * size;
    } else {
        for (int64_t i = 0; i < dim[0] && srv_json_go_on(a, SRV_JSON_ITEM_COST); i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_value(a, dtype, rank - 1, dim + 1, data, as_base64);
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
 * Returns a lower bound on the length of the tensors' text, or SIZE_MAX if the bound exceeds the
 * size limit of the output. A response that is too large is thus refused before its text is
 * written. Even a tensor without elements may consist of very many lists.
 */
static size_t least_bytes(const struct srv_json_writer *a, const struct rt_tensor *t, int n)
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
            if ((bytes += rt_strs(&t[k])[i].n) > a->out->limit || !srv_json_go_on(a, 1))
                return SIZE_MAX;
        if (__builtin_mul_overflow(each, (size_t)rt_tensor_count(&t[k]), &each) ||
            __builtin_add_overflow(bytes, each, &bytes))
            return SIZE_MAX;
    }
    return bytes;
}

static void encode_rows(const struct srv_json_writer *a, const struct rt_signature *sig,
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
        bool as_base64 = ends_in_bytes(sig->outputs[0].alias);
        if (t->rank == 1)
            srv_json_write_run(a, (enum rt_dtype)t->dtype, data, t->dim[0], as_base64);
        else
            for (int64_t i = 0; i < t->dim[0] && srv_json_go_on(a, SRV_JSON_ITEM_COST); i++) {
                if (i)
                    rt_bytes_add(out, ", ", 2);
                write_value(a, (enum rt_dtype)t->dtype, t->rank - 1, t->dim + 1, &data, as_base64);
            }
    } else {
        for (int64_t row = 0; row < fetches[0].dim[0] && !out->failed; row++) {
            rt_bytes_adds(out, row ? ", {" : "{");
            for (int i = 0; i < n && srv_json_go_on(a, 2 * SRV_JSON_ITEM_COST); i++) {
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

static void encode_columns(const struct srv_json_writer *a, const struct rt_signature *sig,
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
    const struct srv_json_writer a = {out, cancellation};
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
