#include "server/protocol/json_values.h"

#include <string.h>

#include "runtime/base/half.h"
#include "server/json/json.h"
#include "server/json/json_number.h"

static void write_string(const struct srv_json_writer *w, const struct rt_str *s, bool as_base64)
{
    if (!as_base64) {
        srv_json_quote_long(w->out, rt_str_data(s), s->n, w->cancellation);
        return;
    }
    rt_bytes_adds(w->out, "{\"b64\": ");
    srv_json_base64_long(w->out, rt_str_data(s), s->n, w->cancellation);
    rt_bytes_addc(w->out, '}');
}

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
            if (!srv_json_go_on(w, written))                                                       \
                return;                                                                            \
        }                                                                                          \
    } while (0)

static size_t write_bool(char *to, bool b)
{
    memcpy(to, b ? "true" : "false", 5);
    return b ? 4 : 5;
}

void srv_json_write_run(const struct srv_json_writer *w, enum rt_dtype dtype, const void *data,
                        int64_t n, bool as_base64)
{
    struct rt_bytes *out = w->out;

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
        for (int64_t i = 0; i < n && srv_json_go_on(w, SRV_JSON_ITEM_COST); i++) {
            if (i)
                rt_bytes_add(out, ", ", 2);
            write_string(w, (const struct rt_str *)data + i, as_base64);
        }
        break;
    default:
        break;
    }
}

void srv_json_write_values(struct rt_bytes *out, const struct rt_tensor *t,
                           struct srv_cancellation *cancellation)
{
    const struct srv_json_writer w = {out, cancellation};
    srv_json_write_run(&w, (enum rt_dtype)t->dtype, t->data, rt_tensor_count(t), false);
}
