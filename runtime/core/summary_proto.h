/*
 * Reads and writes Summary messages, which TensorBoard reads, and checks messages for event files.
 * The bytes are those that TensorFlow writes: fields in the order of their numbers, followed by the
 * fields that are not known. Unlike in TensorFlow, a known field of another wire type makes a
 * message invalid.
 *
 * Threads: any; all data belongs to the caller.
 */
#ifndef RT_SUMMARY_PROTO_H
#define RT_SUMMARY_PROTO_H

#include "runtime/base/bytes.h"
#include "runtime/base/check.h"
#include "runtime/base/span.h"
#include "runtime/core/pool.h"

/* A parsed Summary, whose memory is counted in `pool`. */
struct rt_summary {
    void *message;
    size_t n; /* number of values */
    struct rt_pool *pool;
    size_t bytes;
};
/* Parses a Summary. Fails with RT_INVALID_ARGUMENT and TensorFlow's message if `bytes` is not one.
 * On success, the caller must call rt_summary_clear. */
enum rt_status rt_summary_parse(struct rt_span bytes, struct rt_pool *pool,
                                const struct rt_check *check, struct rt_summary *out,
                                struct rt_error *err);
void rt_summary_clear(struct rt_summary *s);
const char *rt_summary_tag(const struct rt_summary *s, size_t i); /* the tag of value i */
/* Appends value i to `out`, as a field of a Summary. */
enum rt_status rt_summary_put(const struct rt_summary *s, size_t i, const struct rt_check *check,
                              struct rt_bytes *out, struct rt_error *err);
/* Appends a SummaryMetadata message in TensorFlow's order of fields. Appends nothing if `bytes` is
 * not such a message. */
enum rt_status rt_summary_put_metadata(struct rt_span bytes, struct rt_pool *pool,
                                       const struct rt_check *check, struct rt_bytes *out,
                                       struct rt_error *err);
/* Returns RT_DATA_LOSS with a given text unless `bytes` is a message of this kind (pb_validate). */
enum rt_event_message { RT_SUMMARY_MESSAGE, RT_GRAPH_MESSAGE, RT_EVENT_MESSAGE };
enum rt_status rt_event_message_check(enum rt_event_message kind, struct rt_span bytes,
                                      const char *words, const struct rt_check *check,
                                      struct rt_error *err);

#endif
