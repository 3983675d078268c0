/* Reads and writes tensors as raw bytes: little-endian, row-major, without padding. An element of
 * type BYTES is encoded as its length in 4 bytes, followed by its bytes. */
#include "server/protocol/oip/oip.h"

#include <stdio.h>

static const struct {
    enum rt_dtype dtype;
    const char *name;
} types[] = {
    {RT_BOOL, "BOOL"},  {RT_U8, "UINT8"},     {RT_U16, "UINT16"}, {RT_U32, "UINT32"},
    {RT_U64, "UINT64"}, {RT_I8, "INT8"},      {RT_I16, "INT16"},  {RT_I32, "INT32"},
    {RT_I64, "INT64"},  {RT_F16, "FP16"},     {RT_F32, "FP32"},   {RT_F64, "FP64"},
    {RT_BF16, "BF16"},  {RT_STRING, "BYTES"},
};

enum { N_TYPES = sizeof types / sizeof *types, LENGTH_BYTES = 4 };

enum rt_dtype srv_oip_dtype(struct rt_span name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (rt_span_is(name, types[i].name))
            return types[i].dtype;
    return RT_NO_DTYPE;
}

const char *srv_oip_dtype_name(enum rt_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return NULL;
}

enum rt_status srv_oip_take(struct srv_allowance *allowance, size_t bytes, struct rt_span name,
                            struct rt_error *err)
{
    if (bytes <= allowance->left)
        return srv_allowance_take(allowance, bytes, err);
    const struct rt_span shown = rt_error_name(err, name);
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "input \"%.*s\" needs more than the %zu bytes that are left for this request",
                   (int)shown.n, (const char *)shown.p, allowance->left);
}

bool srv_oip_is_utf8(struct rt_span s)
{
    for (size_t i = 0, length; i < s.n; i += length) {
        unsigned char c[5] = {0}; /* a character and the NUL that ends it for rt_utf8_length */
        length = 1;
        if (s.p[i] < 0x80)
            continue;
        memcpy(c, s.p + i, s.n - i < 4 ? s.n - i : 4);
        length = (size_t)rt_utf8_length(c);
        if (!length)
            return false;
    }
    return true;
}

enum rt_status srv_oip_fail_size(const struct srv_oip_input *in, const struct rt_error *why,
                                 struct rt_error *err)
{
    char shape[192];

    if (why->code != RT_RESOURCE_EXHAUSTED)
        return srv_oip_fail_input(err, in->name, "has a shape that is refused: %s", why->msg);
    return srv_oip_fail_input(err, in->name,
                              "has a shape that is refused: the dimensions of %s that are not 0 "
                              "make more than 2^63 - 1 bytes of %s",
                              rt_shape_text(shape, sizeof shape, in->rank, in->dim),
                              srv_oip_dtype_name(in->dtype));
}

enum rt_status srv_oip_fail_dtype(struct rt_span name, struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);
    char names[160] = "";
    size_t used = 0;

    for (int i = 0; i < N_TYPES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 !i                 ? ""
                                 : i + 1 == N_TYPES ? " and "
                                                    : ", ",
                                 types[i].name);
    return rt_fail(err, RT_INVALID_ARGUMENT, "there is no datatype \"%.*s\", only %s",
                   (int)(shown.n < 100 ? shown.n : 100), (const char *)shown.p, names);
}

static enum rt_status wrong_size(const struct srv_oip_input *in, size_t has, struct rt_error *err)
{
    char shape[128];
    return srv_oip_fail_input(err, in->name,
                              "has %zu bytes of binary data, which is not the size of %s of the "
                              "shape %s",
                              has, srv_oip_dtype_name(in->dtype),
                              rt_shape_text(shape, sizeof shape, in->rank, in->dim));
}

static enum rt_status fill_strings(const struct srv_oip_input *in, struct rt_tensor *t,
                                   struct srv_allowance *allowance, struct rt_error *err)
{
    enum { STRING_COST = 16 }; /* cost of one string, as reported to srv_should_continue */
    const int64_t n = rt_tensor_count(t);
    struct srv_cursor c = in->values;
    struct rt_str *to = t->data;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        unsigned char length[LENGTH_BYTES];
        if (!srv_should_continue(c.cancellation, STRING_COST))
            return srv_cancellation_status(c.cancellation, err);
        if (!srv_cursor_copy(&c, length, sizeof length))
            return wrong_size(in, in->values.left, err);
        const size_t bytes = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 |
                             (size_t)length[3] << 24;
        if (bytes > c.left)
            return srv_oip_fail_input(err, in->name,
                                      "has an element of %zu bytes, but only %zu bytes of its "
                                      "binary data follow",
                                      bytes, c.left);
        st = srv_oip_take(allowance, rt_str_counted_bytes(bytes), in->name, err);
        char *text = st ? NULL : rt_str_resize(&to[i], NULL, bytes, err);
        if (!st && !text)
            return err->code;
        if (text)
            srv_cursor_copy(&c, text, bytes);
    }
    return st || !c.left ? st : wrong_size(in, in->values.left, err);
}

enum rt_status srv_oip_fill_raw(const struct srv_oip_input *in, struct rt_tensor *t,
                                struct srv_allowance *allowance, struct rt_error *err)
{
    struct srv_cursor c = in->values;
    const size_t bytes = in->values.left;

    if (in->dtype == RT_STRING)
        return fill_strings(in, t, allowance, err);
    if (bytes != rt_tensor_bytes(t))
        return wrong_size(in, bytes, err);
    srv_cursor_copy(&c, t->data, bytes);
    if (in->dtype == RT_BOOL) /* kernels require booleans to be 0 or 1 */
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)t->data)[i] = ((uint8_t *)t->data)[i] != 0;
    return RT_OK;
}

/* Refuses a shape with more elements than the values can contain, before memory is allocated. */
static enum rt_status check_size(const struct srv_oip_input *in, size_t bytes, struct rt_error *err)
{
    const int64_t n = rt_count(in->rank, in->dim);

    if (in->is_raw)
        return (in->dtype == RT_STRING ? (size_t)n > in->values.left / LENGTH_BYTES
                                       : bytes != in->values.left)
                   ? wrong_size(in, in->values.left, err)
                   : RT_OK;
    const size_t most = in->data.p ? (size_t)(in->data.end - in->data.p) : in->values.left;
    return (size_t)n > most
               ? srv_oip_fail_input(err, in->name, "has fewer values than its shape takes")
               : RT_OK;
}

enum rt_status srv_oip_tensor_read(const struct srv_oip_input *in, struct rt_tensor *out,
                                   struct srv_allowance *allowance, struct rt_error *err)
{
    struct rt_error why = {0};
    size_t bytes = 0;

    if (rt_shape_check(in->dtype, in->rank, in->dim, &bytes, &why))
        return srv_oip_fail_size(in, &why, err);
    enum rt_status st = check_size(in, bytes, err);
    if (!st)
        st = srv_oip_take(allowance, bytes, in->name, err);
    if (!st)
        st = rt_tensor_new(out, NULL, in->dtype, in->rank, in->dim, err);
    if (st)
        return st;
    if (in->data.p)
        st = srv_oip_fill_json(in, out, allowance, err);
    else if (in->is_raw)
        st = srv_oip_fill_raw(in, out, allowance, err);
    else
        st = srv_oip_fill_contents(in, out, allowance, err);
    if (st)
        rt_tensor_clear(out);
    return st;
}

/* ---- writing ---- */

size_t srv_oip_raw_bytes(const struct rt_tensor *t)
{
    const int64_t n = rt_tensor_count(t);
    size_t bytes = 0;

    if (t->dtype != RT_STRING)
        return rt_tensor_bytes(t);
    for (int64_t i = 0; i < n; i++)
        bytes += LENGTH_BYTES + rt_strs(t)[i].n;
    return bytes;
}

void srv_oip_write_raw(struct rt_bytes *out, const struct rt_tensor *t,
                       struct srv_cancellation *cancellation)
{
    enum { PART = 1 << 20 };
    const int64_t n = rt_tensor_count(t);
    const size_t bytes = t->dtype == RT_STRING ? 0 : rt_tensor_bytes(t);

    for (size_t at = 0; at < bytes && srv_should_continue(cancellation, PART); at += PART)
        rt_bytes_add(out, (const char *)t->data + at, bytes - at < PART ? bytes - at : PART);
    for (int64_t i = 0; t->dtype == RT_STRING && i < n; i++) {
        const struct rt_str *s = &rt_strs(t)[i];
        const unsigned char length[LENGTH_BYTES] = {(unsigned char)s->n, (unsigned char)(s->n >> 8),
                                                    (unsigned char)(s->n >> 16),
                                                    (unsigned char)(s->n >> 24)};
        if (!srv_should_continue(cancellation, s->n + LENGTH_BYTES))
            return;
        rt_bytes_add(out, length, sizeof length);
        rt_bytes_add(out, rt_str_data(s), s->n);
    }
}
