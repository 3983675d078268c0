/* Reads the values of an input from a flat JSON array, or from JSON arrays nested as in the input's
 * shape. */
#include "server/protocol/oip/oip.h"

#include <math.h>

#include "server/json/json_number.h"

struct reader {
    const struct srv_oip_input *in;
    struct rt_tensor *t;
    struct srv_allowance *allowance;
    const unsigned char *p, *end;
    bool is_nested;
    int depth;                  /* number of open arrays */
    int64_t count[RT_MAX_RANK]; /* number of elements read from each open array */
    int64_t n, most;            /* n values of the `most` values of the tensor have been read */
};

static enum rt_status wrong_element(const struct reader *r, struct rt_error *err)
{
    char text[64];
    return srv_oip_fail_input(
        err, r->in->name,
        "has the element %s, which is no value of the "
        "datatype %s",
        srv_json_show(text, sizeof text, (struct srv_json){.p = r->p, .end = r->end}),
        srv_oip_dtype_name(r->in->dtype));
}

static enum rt_status wrong_shape(const struct reader *r, struct rt_error *err)
{
    char shape[128];
    return srv_oip_fail_input(err, r->in->name, "has data that is not of its shape %s",
                              rt_shape_text(shape, sizeof shape, r->t->rank, r->t->dim));
}

static enum rt_status read_string(struct reader *r, struct rt_error *err)
{
    const struct srv_json v = {r->p, r->end, r->in->data.cancellation};

    if (srv_json_type(v) != SRV_JSON_STRING)
        return wrong_element(r, err);
    const struct rt_span token = srv_json_token(v);
    const size_t n = srv_json_unquote_long(NULL, token, v.cancellation);
    enum rt_status st = srv_oip_take(r->allowance, rt_str_counted_bytes(n), r->in->name, err);
    if (st)
        return st;
    char *to = rt_str_resize((struct rt_str *)r->t->data + r->n, NULL, n, err);
    if (!to)
        return err->code;
    srv_json_unquote_long(to, token, v.cancellation);
    r->p = token.p + token.n;
    return RT_OK;
}

/* Stores the integer x, or returns false if it is out of the range of `type`. */
#define STORE_INT(type, least, greatest)                                                           \
    do {                                                                                           \
        if (x.kind != SRV_NUMBER_INT || x.i < (least) || x.i > (greatest))                         \
            return false;                                                                          \
        ((type *)r->t->data)[r->n] = (type)x.i;                                                    \
        return true;                                                                               \
    } while (0)

static bool store_number(const struct reader *r, struct srv_number x)
{
    switch (r->in->dtype) {
    case RT_BOOL:
        STORE_INT(uint8_t, 0, 1);
    case RT_U8:
        STORE_INT(uint8_t, 0, UINT8_MAX);
    case RT_U16:
        STORE_INT(uint16_t, 0, UINT16_MAX);
    case RT_U32:
        STORE_INT(uint32_t, 0, UINT32_MAX);
    case RT_I8:
        STORE_INT(int8_t, INT8_MIN, INT8_MAX);
    case RT_I16:
        STORE_INT(int16_t, INT16_MIN, INT16_MAX);
    case RT_I32:
        STORE_INT(int32_t, INT32_MIN, INT32_MAX);
    case RT_I64:
        STORE_INT(int64_t, INT64_MIN, INT64_MAX);
    case RT_U64:
        if (x.kind != SRV_NUMBER_UINT)
            STORE_INT(uint64_t, 0, INT64_MAX);
        ((uint64_t *)r->t->data)[r->n] = x.u;
        return true;
    case RT_F32:
        ((float *)r->t->data)[r->n] = (float)x.d;
        return isfinite((float)x.d) || !isfinite(x.d);
    case RT_F64:
        ((double *)r->t->data)[r->n] = x.d;
        return true;
    default:
        return false;
    }
}

static enum rt_status read_value(struct reader *r, struct rt_error *err)
{
    const enum srv_json_type type = srv_json_type((struct srv_json){.p = r->p, .end = r->end});
    struct srv_number x;

    if (r->n == r->most)
        return wrong_shape(r, err);
    if (r->in->dtype == RT_STRING)
        return read_string(r, err);
    if (r->in->dtype == RT_BOOL && (type == SRV_JSON_TRUE || type == SRV_JSON_FALSE)) {
        ((uint8_t *)r->t->data)[r->n] = type == SRV_JSON_TRUE;
        r->p += type == SRV_JSON_TRUE ? 4 : 5;
        return RT_OK;
    }
    if (type != SRV_JSON_NUMBER)
        return wrong_element(r, err);
    const unsigned char *after = srv_number_read(r->p, r->end, &x);
    if (after == r->p || !store_number(r, x))
        return wrong_element(r, err);
    r->p = after;
    return RT_OK;
}

/* Reads one token at r->p: a value, the beginning of an array, or the end of the innermost
 * array. */
static enum rt_status step(struct reader *r, struct rt_error *err)
{
    if (*r->p == ']') {
        r->p++;
        r->depth--;
        return r->is_nested && r->count[r->depth] != r->t->dim[r->depth] ? wrong_shape(r, err)
                                                                         : RT_OK;
    }
    if (*r->p == ',') {
        r->p++;
        return RT_OK;
    }
    if (r->depth)
        r->count[r->depth - 1]++;
    if (*r->p == '[') {
        if (r->depth == (r->is_nested ? r->t->rank : 1))
            return wrong_shape(r, err);
        r->count[r->depth++] = 0;
        r->p++;
        return RT_OK;
    }
    if (r->is_nested && r->depth != r->t->rank)
        return wrong_shape(r, err);
    enum rt_status st = read_value(r, err);
    r->n++;
    return st;
}

enum rt_status srv_oip_fill_json(const struct srv_oip_input *in, struct rt_tensor *t,
                                 struct srv_allowance *allowance, struct rt_error *err)
{
    struct reader r = {.in = in,
                       .t = t,
                       .allowance = allowance,
                       .p = in->data.p,
                       .end = in->data.end,
                       .most = rt_tensor_count(t)};
    enum rt_status st = RT_OK;

    if (in->dtype == RT_F16 || in->dtype == RT_BF16)
        return srv_oip_fail_input(err, in->name,
                                  "is of the datatype %s, which only binary data has",
                                  srv_oip_dtype_name(in->dtype));
    if (srv_json_type(in->data) != SRV_JSON_ARRAY)
        return srv_oip_fail_input(err, in->name, "has data that is no array");
    /* cost of reading one token, in bytes, as reported to srv_should_continue */
    const size_t token_cost = in->dtype == RT_STRING ? 16 : 2;
    r.is_nested = t->rank > 1 && *srv_json_space(r.p + 1, r.end) == '[';
    do {
        const unsigned char *p = r.p;
        st = step(&r, err);
        if (r.depth)
            r.p = srv_json_space(r.p, r.end);
        if (!st && !srv_should_continue(in->data.cancellation, (size_t)(r.p - p) + token_cost))
            return srv_cancellation_status(in->data.cancellation, err);
    } while (!st && r.depth);
    return st || r.n == r.most ? st : wrong_shape(&r, err);
}
