/*
 * Writes the values of tensors as JSON text. The JSON of all protocols shares this form of numbers,
 * booleans and strings. Each protocol writes what surrounds the values.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_JSON_VALUES_H
#define SRV_JSON_VALUES_H

#include "runtime/base/bytes.h"
#include "runtime/core/tensor.h"
#include "server/base/cancellation.h"

/*
 * Returns whether the server converts this type from and to JSON. It converts some types that
 * TensorFlow Serving refuses: half, bfloat16, uint16 and the quantised types.
 */
static inline bool srv_json_takes(enum rt_dtype d)
{
    const uint64_t types = RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16) |
                           RT_T(RT_I32) | RT_T(RT_I16) | RT_T(RT_I8) | RT_T(RT_I64) | RT_T(RT_U8) |
                           RT_T(RT_U16) | RT_T(RT_U32) | RT_T(RT_U64) | RT_T(RT_QI8) |
                           RT_T(RT_QU8) | RT_T(RT_QI16) | RT_T(RT_QU16) | RT_T(RT_QI32) |
                           RT_T(RT_BOOL) | RT_T(RT_STRING);
    return types >> d & 1;
}

/* The output buffer and the cancellation of a response. */
struct srv_json_writer {
    struct rt_bytes *out;
    struct srv_cancellation *cancellation;
};

/* Cost of writing one list or one string, in bytes, without its contents. It is reported to
 * srv_json_go_on. */
enum { SRV_JSON_ITEM_COST = 16 };

/* Reports to w->cancellation that `bytes` bytes were written. If the response is cancelled, w->out
 * fails. Returns false if writing must stop. */
static inline bool srv_json_go_on(const struct srv_json_writer *w, size_t bytes)
{
    if (!w->out->failed && !srv_should_continue(w->cancellation, bytes))
        w->out->failed = true;
    return !w->out->failed;
}

/* Appends n values from `data`, separated by ", ". srv_json_takes must accept the type. If
 * `as_base64` is set, each string is written as {"b64": "..."}. If the response is cancelled,
 * writing stops and w->out fails. */
void srv_json_write_run(const struct srv_json_writer *w, enum rt_dtype dtype, const void *data,
                        int64_t n, bool as_base64);

/* Appends all values of a tensor, separated by ", ". srv_json_takes must accept the type. If
 * `cancellation` reports that the response is cancelled, writing stops and `out` fails. */
void srv_json_write_values(struct rt_bytes *out, const struct rt_tensor *t,
                           struct srv_cancellation *cancellation);

#endif
