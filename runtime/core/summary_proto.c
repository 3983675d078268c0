#include "runtime/core/summary_proto.h"

#include <stdlib.h>
#include <string.h>

#include "proto/pack.h"
#include "proto/unpack.h"
#include "proto/valid.h"
#include "tensorflow/core/framework/graph.pb-c.h"
#include "tensorflow/core/framework/summary.pb-c.h"
#include "tensorflow/core/util/event.pb-c.h"

/* Returns whether a string is UTF-8, as proto3 demands. */
static bool is_utf8(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    int n;

    for (; *p; p += n)
        if ((n = rt_utf8_length(p)) == 0)
            return false;
    return true;
}

static bool has_text(const Tensorflow__Summary__Value *v)
{
    const Tensorflow__SummaryMetadata *m = v->metadata;

    if (!is_utf8(v->tag) || !is_utf8(v->node_name))
        return false;
    if (v->value_case == TENSORFLOW__SUMMARY__VALUE__VALUE_AUDIO &&
        !is_utf8(v->audio->content_type))
        return false;
    return !m || (is_utf8(m->display_name) && is_utf8(m->summary_description) &&
                  (!m->plugin_data || is_utf8(m->plugin_data->plugin_name)));
}

static const Tensorflow__Summary *of(const struct rt_summary *s)
{
    return s->message;
}

/* Unpacks a message whose memory is counted in s->pool. Returns RT_INVALID_ARGUMENT if `bytes` is
 * not such a message. */
static enum rt_status unpack(struct rt_summary *s, const ProtobufCMessageDescriptor *d,
                             struct rt_span bytes, const struct rt_check *check,
                             struct rt_error *err)
{
    enum rt_status st = pb_unpacked_bytes_checked(d, bytes, check, &s->bytes, err);

    if (st || (st = rt_pool_charge(s->pool, s->bytes, "a summary that is read", err)))
        return st;
    s->message = pb_unpack_checked(d, bytes, "a summary", check, err);
    if (s->message)
        return RT_OK;
    rt_pool_discharge(s->pool, s->bytes);
    return pb_unpack_failed(err, RT_INVALID_ARGUMENT);
}

enum rt_status rt_summary_parse(struct rt_span bytes, struct rt_pool *pool,
                                const struct rt_check *check, struct rt_summary *out,
                                struct rt_error *err)
{
    static const char words[] = "Could not parse one of the summary inputs";
    struct rt_summary s = {.pool = pool};
    const enum rt_status st = unpack(&s, &tensorflow__summary__descriptor, bytes, check, err);

    if (st)
        return st == RT_INVALID_ARGUMENT ? rt_fail(err, st, "%s", words) : st;
    s.n = of(&s)->n_value;
    for (size_t i = 0; i < s.n; i++)
        if (!has_text(of(&s)->value[i])) {
            rt_summary_clear(&s);
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s", words);
        }
    *out = s;
    return RT_OK;
}

void rt_summary_clear(struct rt_summary *s)
{
    pb_free(s->message);
    rt_pool_discharge(s->pool, s->bytes);
}

const char *rt_summary_tag(const struct rt_summary *s, size_t i)
{
    return of(s)->value[i]->tag;
}

/* The serialized size is at most a message's limit in TensorFlow. */
#define MAX_MESSAGE ((size_t)INT32_MAX)

static enum rt_status put(const ProtobufCMessage *m, struct rt_pool *pool,
                          const struct rt_check *check, struct rt_bytes *out, struct rt_error *err)
{
    char *p = NULL;
    size_t bytes, n = 0;
    enum rt_status st = pb_packed_bytes(m, check, &bytes, err);

    if (st || (st = rt_pool_charge(pool, bytes, "a summary that is written", err)))
        return st;
    st = pb_pack(m, MAX_MESSAGE, check, &p, &n, err);
    if (!st)
        rt_bytes_add(out, p, n);
    free(p);
    rt_pool_discharge(pool, bytes);
    return st;
}

enum rt_status rt_summary_put(const struct rt_summary *s, size_t i, const struct rt_check *check,
                              struct rt_bytes *out, struct rt_error *err)
{
    Tensorflow__Summary one = TENSORFLOW__SUMMARY__INIT;

    one.n_value = 1;
    one.value = of(s)->value + i;
    return put(&one.base, s->pool, check, out, err);
}

enum rt_status rt_summary_put_metadata(struct rt_span bytes, struct rt_pool *pool,
                                       const struct rt_check *check, struct rt_bytes *out,
                                       struct rt_error *err)
{
    struct rt_summary s = {.pool = pool};
    enum rt_status st = unpack(&s, &tensorflow__summary_metadata__descriptor, bytes, check, err);

    if (st == RT_INVALID_ARGUMENT) {
        *err = (struct rt_error){0};
        return RT_OK;
    }
    if (st)
        return st;
    st = put(s.message, pool, check, out, err);
    rt_summary_clear(&s);
    return st;
}

enum rt_status rt_event_message_check(enum rt_event_message kind, struct rt_span bytes,
                                      const char *words, const struct rt_check *check,
                                      struct rt_error *err)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        [RT_SUMMARY_MESSAGE] = &tensorflow__summary__descriptor,
        [RT_GRAPH_MESSAGE] = &tensorflow__graph_def__descriptor,
        [RT_EVENT_MESSAGE] = &tensorflow__event__descriptor};
    const enum rt_status st = pb_validate(types[kind], bytes, words, check, err);

    return st == RT_DATA_LOSS ? rt_fail(err, st, "%s", words) : st;
}
