/* Finds the error in a value that the fast path of json_tensor.c could not read. */
#include "server/protocol/tfs/json_refusal.h"

static enum rt_status wrong_type(struct srv_json v, enum rt_dtype dtype, struct rt_error *err)
{
    char shown[SRV_JSON_SHOWN];
    return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Value: %s Type: %s is not of expected type: %s",
                   srv_json_show(shown, sizeof shown, v), srv_json_type_name(v),
                   rt_dtype_name(dtype));
}

bool srv_json_is_integer_of(enum rt_dtype dtype, const struct srv_number *n)
{
    if (n->kind != SRV_NUMBER_INT && n->kind != SRV_NUMBER_UINT)
        return false;
    bool is_int = n->kind == SRV_NUMBER_INT;
    switch (dtype) {
    case RT_I64:
        return is_int;
    case RT_U32:
        return is_int && n->i >= 0 && n->i <= UINT32_MAX;
    case RT_U64:
        return !is_int || n->i >= 0;
    /* TensorFlow Serving refuses these types. Slipway requires values in the range of the type. */
    case RT_U16:
    case RT_QU16:
        return is_int && n->i >= 0 && n->i <= UINT16_MAX;
    case RT_QI16:
        return is_int && n->i >= INT16_MIN && n->i <= INT16_MAX;
    case RT_QU8:
        return is_int && n->i >= 0 && n->i <= UINT8_MAX;
    case RT_QI8:
        return is_int && n->i >= INT8_MIN && n->i <= INT8_MAX;
    default: /* int8, uint8 and int16 accept the range of int32, as in TensorFlow Serving */
        return is_int && n->i >= INT32_MIN && n->i <= INT32_MAX;
    }
}

/* Checks the type of a value that is not a list, without storing the value. */
static enum rt_status check_leaf(struct srv_json v, enum rt_dtype dtype, struct rt_error *err)
{
    char shown[SRV_JSON_SHOWN];
    struct rt_span token;
    struct srv_number number;
    enum srv_json_type type = srv_json_type(v);
    bool good;
    size_t n;
    if (type == SRV_JSON_OBJECT) {
        if (dtype != RT_STRING)
            return wrong_type(v, dtype, err);
        if (!srv_json_is_b64(v, &token))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "JSON Value: %s not formatted correctly for base64 data",
                           srv_json_show(shown, sizeof shown, v));
        if (!srv_json_unbase64(NULL, &n, token))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Unable to base64 decode");
        return RT_OK;
    }
    switch (dtype) {
    case RT_F32:
    case RT_F64:
    case RT_F16:
    case RT_BF16:
        good = type == SRV_JSON_NUMBER;
        break;
    case RT_I32:
    case RT_I16:
    case RT_I8:
    case RT_U8:
    case RT_I64:
    case RT_U16:
    case RT_U32:
    case RT_U64:
    case RT_QI8:
    case RT_QU8:
    case RT_QI16:
    case RT_QU16:
    case RT_QI32:
        good = type == SRV_JSON_NUMBER && srv_number_read(v.p, v.end, &number) != v.p &&
               srv_json_is_integer_of(dtype, &number);
        break;
    case RT_BOOL:
        good = type == SRV_JSON_TRUE || type == SRV_JSON_FALSE;
        break;
    case RT_STRING:
        good = type == SRV_JSON_STRING;
        break;
    default:
        return rt_fail(err, RT_UNIMPLEMENTED, "Conversion of JSON Value: %s to type: %s",
                       srv_json_show(shown, sizeof shown, v), rt_dtype_name(dtype));
    }
    return good ? RT_OK : wrong_type(v, dtype, err);
}

enum rt_status srv_json_explain(struct srv_json v, int level, int rank, const int64_t *dim,
                                enum rt_dtype dtype, int64_t *n, struct rt_error *err)
{
    if (*v.p != '[') {
        if (level != rank) {
            char shown[SRV_JSON_SHOWN];
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "JSON Value: %s found at incorrect level: %d in the JSON DOM. Expected "
                           "at level: %d",
                           srv_json_show(shown, sizeof shown, v), level + 1, rank);
        }
        ++*n;
        return check_leaf(v, dtype, err);
    }
    if (level >= rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Encountered list at unexpected level: %d expected < %d", level, rank);
    int64_t count = srv_json_count(v);
    if (count != dim[level])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Encountered list at unexpected size: %lld at level: %d expected size: %lld",
                       (long long)count, level, (long long)dim[level]);
    const unsigned char *at = srv_json_first(v);
    struct srv_json item;
    while (srv_json_next(&at, v, &item)) {
        enum rt_status st = srv_json_explain(item, level + 1, rank, dim, dtype, n, err);
        if (st)
            return st;
    }
    return RT_OK;
}
