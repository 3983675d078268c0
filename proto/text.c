#include "proto/text.h"

#include <stdlib.h>
#include <string.h>

#include "google/protobuf/any.pb-c.h"
#include "proto/field.h"
#include "proto/text_internal.h"
#include "proto/unpack.h"
#include "tensorflow/core/framework/full_type.pb-c.h"
#include "tensorflow/core/framework/graph_debug_info.pb-c.h"
#include "tensorflow/core/protobuf/meta_graph.pb-c.h"
#include "tensorflow/core/protobuf/saved_object_graph.pb-c.h"
#include "tensorflow/core/protobuf/struct.pb-c.h"

static enum rt_status body(struct pb_text_parser *x, ProtobufCMessage *m, char close);

/* ---- memory ---- */

/* estimated overhead of each allocation of the C library, in bytes */
enum { ALLOCATION_BYTES = 16 };

/* Counts an allocation of `n` bytes, even if it is freed later. If the limit is exceeded, sets
 * x->stopped and returns false. */
static bool charge(struct pb_text_parser *x, size_t n)
{
    if (x->left >= ALLOCATION_BYTES && n <= x->left - ALLOCATION_BYTES) {
        x->left -= n + ALLOCATION_BYTES;
        return true;
    }
    x->stopped =
        pb_text_fail(x, x->p,
                     "The message takes more than %zu bytes of memory, the limit for a text of "
                     "%zu bytes.",
                     x->limit, (size_t)(x->end - x->begin));
    return false;
}

/* Allocates a zeroed message. Returns NULL if memory runs out or the limit is exceeded. */
static ProtobufCMessage *message_new(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = charge(x, d->sizeof_message) ? calloc(1, d->sizeof_message) : NULL;

    if (m)
        d->message_init(m);
    return m;
}

/* ---- fields ---- */

/* Returns the address at which to store a value of field `f` in the message. Marks a singular field
 * as present. Returns NULL if memory runs out or the limit is exceeded. */
static void *slot_of(struct pb_text_parser *x, ProtobufCMessage *m,
                     const ProtobufCFieldDescriptor *f)
{
    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return pb_set_field(m, f);
    const size_t more = pb_append_bytes(m, f, 1);
    return !more || (more < SIZE_MAX && charge(x, more)) ? pb_append(m, f, 1) : NULL;
}

static enum rt_status open_body(struct pb_text_parser *x, char *close)
{
    if (pb_text_take(x, '{'))
        *close = '}';
    else if (pb_text_take(x, '<'))
        *close = '>';
    else
        return pb_text_missing(x, "\"{\"");
    if (x->depth == PB_MAX_DEPTH)
        return pb_text_fail(x, x->p - 1,
                            "Message is too deep, the parser exceeded the configured recursion "
                            "limit of %d.",
                            PB_MAX_DEPTH);
    return RT_OK;
}

static enum rt_status message_value(struct pb_text_parser *x, ProtobufCMessage *m,
                                    const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;
    char close;
    enum rt_status st = open_body(x, &close);

    if (st)
        return st;
    pb_text_keep_place(x, d, x->p - 1);
    ProtobufCMessage *inner = message_new(x, d);
    ProtobufCMessage **slot = inner ? slot_of(x, m, f) : NULL;
    if (!slot) {
        free(inner);
        return pb_text_fail_memory(x);
    }
    *slot = inner;
    x->depth++;
    st = body(x, inner, close);
    x->depth--;
    return st;
}

/* Parses a message that belongs to no field of another message. On success, the caller must free
 * *out with pb_free. */
static enum rt_status separate_message(struct pb_text_parser *x,
                                       const ProtobufCMessageDescriptor *d, ProtobufCMessage **out)
{
    char close;
    enum rt_status st = open_body(x, &close);

    if (st)
        return st;
    ProtobufCMessage *m = message_new(x, d);
    if (!m)
        return pb_text_fail_memory(x);
    x->depth++;
    st = body(x, m, close);
    x->depth--;
    if (st)
        pb_free(m);
    else
        *out = m;
    return st;
}

/* Moves `text` into a string or bytes field. If a field without presence already has a value,
 * an empty string, frees this value. */
static void put_string(void *slot, const ProtobufCFieldDescriptor *f, struct rt_bytes *text)
{
    size_t n = 0;
    char *p = rt_bytes_take(text, &n);
    bool may_replace =
        f->label == PROTOBUF_C_LABEL_NONE && !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);

    if (f->type == PROTOBUF_C_TYPE_STRING) {
        char **to = slot;
        if (may_replace && *to != f->default_value)
            free(*to);
        *to = p;
    } else {
        ProtobufCBinaryData *to = slot;
        if (may_replace)
            free(to->data);
        to->len = n;
        to->data = (uint8_t *)p;
    }
}

static enum rt_status string_value(struct pb_text_parser *x, ProtobufCMessage *m,
                                   const ProtobufCFieldDescriptor *f)
{
    struct rt_bytes b;

    rt_bytes_init(&b, (size_t)(x->end - x->begin) * 4 + 16);
    pb_text_skip_space(x);
    const char *at = x->p;
    enum rt_status st = pb_text_string(x, &b);
    if (!st && f->type == PROTOBUF_C_TYPE_STRING && memchr(b.p ? b.p : "", 0, b.n))
        st = pb_text_fail(x, at, "Field \"%s\" holds a NUL.", f->name);
    if (!st) {
        rt_bytes_add(&b, "", 0);
        void *slot = b.failed || !charge(x, b.capacity) ? NULL : slot_of(x, m, f);
        if (!slot)
            st = pb_text_fail_memory(x);
        else
            put_string(slot, f, &b);
    }
    rt_bytes_clear(&b);
    return st;
}

static enum rt_status value(struct pb_text_parser *x, ProtobufCMessage *m,
                            const ProtobufCFieldDescriptor *f)
{
    union {
        uint64_t u64;
        uint32_t u32;
        int32_t i32;
        float f32;
        double f64;
        protobuf_c_boolean b;
    } v = {0};
    double number;
    enum rt_status st;

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_value(x, m, f);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return string_value(x, m, f);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        st = pb_text_integer(
            x, f->type != PROTOBUF_C_TYPE_UINT32 && f->type != PROTOBUF_C_TYPE_FIXED32, 32, &v.u64);
        v.u32 = (uint32_t)v.u64;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        st = pb_text_integer(
            x, f->type != PROTOBUF_C_TYPE_UINT64 && f->type != PROTOBUF_C_TYPE_FIXED64, 64, &v.u64);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        st = pb_text_floating(x, &number);
        v.f32 = (float)(st ? 0 : number);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        st = pb_text_floating(x, &v.f64);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        st = pb_text_boolean(x, &v.b);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        st = pb_text_enumeration(x, f, &v.i32);
        break;
    default:
        return pb_text_fail(x, x->p, "Field \"%s\" has an unknown type.", f->name);
    }
    if (st)
        return st;
    void *slot = slot_of(x, m, f);
    if (!slot)
        return pb_text_fail_memory(x);
    memcpy(slot, &v, pb_element_bytes(f->type));
    return RT_OK;
}

static enum rt_status list(struct pb_text_parser *x, ProtobufCMessage *m,
                           const ProtobufCFieldDescriptor *f)
{
    enum rt_status st;

    if (pb_text_take(x, ']'))
        return RT_OK;
    for (;;) {
        st = value(x, m, f);
        if (st)
            return st;
        if (pb_text_take(x, ']'))
            return RT_OK;
        if (!pb_text_take(x, ','))
            return pb_text_missing(x, "\",\"");
    }
}

/* Refuses a second value of a singular field, and a value of a member of a oneof if another member
 * is set. The default value of a field without presence does not count, because protobuf cannot
 * distinguish it from a missing value. */
static enum rt_status check_once(struct pb_text_parser *x, ProtobufCMessage *m,
                                 const ProtobufCFieldDescriptor *f)
{
    const char *at = pb_text_next_token(x);

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return RT_OK;
    if (pb_field_is_set(m, f))
        return pb_text_fail(x, at, "Non-repeated field \"%s\" is specified multiple times.",
                            f->name);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t other = *(uint32_t *)(void *)((char *)m + f->quantifier_offset);
        const ProtobufCFieldDescriptor *o =
            other ? protobuf_c_message_descriptor_get_field(m->descriptor, other) : NULL;
        if (o)
            return pb_text_fail(
                x, at,
                "Field \"%s\" is specified along with field \"%s\", another member of the "
                "same oneof.",
                f->name, o->name);
    }
    return RT_OK;
}

/* ---- names in brackets ---- */

/* Sets *out to the type name in "[a.b/c.D]", without spaces and comments. The caller has consumed
 * the "[". */
static enum rt_status bracketed(struct pb_text_parser *x, char *out, size_t capacity,
                                const char *at)
{
    size_t n = 0;

    for (;;) {
        char c = pb_text_peek(x);
        if (x->p == x->end)
            return pb_text_missing(x, "\"]\"");
        x->closed = x->p++;
        if (c == ']')
            break;
        if (!pb_text_is_letter(c) && !pb_text_is_digit(c) && !strchr("./-", c))
            return pb_text_expected(x, "identifier", x->p - 1);
        if (n + 1 == capacity)
            return pb_text_fail(x, at, "The name of a type or extension is too long.");
        out[n++] = c;
    }
    out[n] = 0;
    return n ? RT_OK : pb_text_expected(x, "identifier", x->p - 1);
}

static enum rt_status pack_into(struct pb_text_parser *x, Google__Protobuf__Any *any,
                                const char *url, const ProtobufCMessage *inner)
{
    size_t n = protobuf_c_message_get_packed_size(inner);
    size_t url_bytes = strlen(url) + 1;
    uint8_t *bytes = n < SIZE_MAX && charge(x, n + 1) ? malloc(n + 1) : NULL;
    char *copy = bytes && charge(x, url_bytes) ? strdup(url) : NULL;

    if (!copy) {
        free(bytes);
        return pb_text_fail_memory(x);
    }
    any->value.len = protobuf_c_message_pack(inner, bytes);
    any->value.data = bytes;
    any->type_url = copy;
    return RT_OK;
}

/* Parses an expanded Any: "[type.googleapis.com/a.B] { ... }". */
static enum rt_status expanded_any(struct pb_text_parser *x, Google__Protobuf__Any *any,
                                   const char *url)
{
    const char *at = pb_text_next_token(x);
    const char *slash = strrchr(url, '/');
    const ProtobufCMessageDescriptor *d = slash ? pb_any_type(rt_span_str(slash + 1)) : NULL;
    ProtobufCMessage *inner;

    if (!slash)
        return pb_text_fail(x, x->closed, "Expected \"/\", found \"]\".");
    if (!d)
        return pb_text_fail(x, at, "Could not find type \"%s\" stored in google.protobuf.Any.",
                            url);
    if (*any->type_url || any->value.len)
        return pb_text_fail(x, at, "Non-repeated Any specified multiple times.");
    pb_text_take(x, ':');
    enum rt_status st = separate_message(x, d, &inner);
    if (st)
        return st;
    st = pack_into(x, any, url, inner);
    pb_free(inner);
    return st;
}

static enum rt_status bracket_field(struct pb_text_parser *x, ProtobufCMessage *m)
{
    char name[256];
    const char *at = x->p++;
    enum rt_status st = bracketed(x, name, sizeof name, at);

    if (st)
        return st;
    if (m->descriptor == &google__protobuf__any__descriptor)
        return expanded_any(x, (Google__Protobuf__Any *)m, name);
    return pb_text_fail(x, pb_text_next_token(x),
                        "Extension \"%s\" is not defined or is not an extension of \"%s\".", name,
                        m->descriptor->name);
}

/* ---- discarded fields ---- */

/* Returns the type of the field `name` if TensorFlow writes this field and the server does not read
 * it, and NULL otherwise. All such fields are singular messages, at most one per type of `m`. They
 * are missing in the descriptor of `m`, so a binary message is read without unpacking them. */
static const ProtobufCMessageDescriptor *discarded_type(const ProtobufCMessage *m,
                                                        struct rt_span name)
{
    static const struct {
        const ProtobufCMessageDescriptor *parent;
        const char *name;
        const ProtobufCMessageDescriptor *type;
    } fields[] = {
        {&tensorflow__graph_def__descriptor, "debug_info",
         &tensorflow__graph_debug_info__descriptor},
        {&tensorflow__meta_graph_def__descriptor, "object_graph_def",
         &tensorflow__saved_object_graph__descriptor},
        {&tensorflow__node_def__descriptor, "experimental_type",
         &tensorflow__full_type_def__descriptor},
        {&tensorflow__op_def__arg_def__descriptor, "experimental_full_type",
         &tensorflow__full_type_def__descriptor},
        {&tensorflow__tensor_info__composite_tensor__descriptor, "type_spec",
         &tensorflow__type_spec_proto__descriptor},
    };
    for (size_t i = 0; i < sizeof fields / sizeof(fields[0]); i++)
        if (fields[i].parent == m->descriptor && rt_span_is(name, fields[i].name))
            return fields[i].type;
    return NULL;
}

/* Parses the rest of a discarded field with the same checks as of other fields, and frees its
 * value. *seen is set at the first occurrence of the field; a second occurrence is refused. */
static enum rt_status discarded_field(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                                      struct rt_span name, bool *seen)
{
    const char *at = pb_text_next_token(x);
    ProtobufCMessage *discarded;

    if (*seen)
        return pb_text_fail(x, at, "Non-repeated field \"%.*s\" is specified multiple times.",
                            (int)name.n, (const char *)name.p);
    *seen = true;
    pb_text_take(x, ':');
    enum rt_status st = separate_message(x, d, &discarded);
    if (!st)
        pb_free(discarded);
    return st;
}

/* ---- fields of a message ---- */

static enum rt_status end_of_field(struct pb_text_parser *x)
{
    if (!pb_text_take(x, ','))
        pb_text_take(x, ';');
    return RT_OK;
}

/* Parses a field. *discarded is set if it is the message's discarded field. */
static enum rt_status field(struct pb_text_parser *x, ProtobufCMessage *m, bool *discarded)
{
    char name[128];
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const ProtobufCFieldDescriptor *f = NULL;
    enum rt_status st;

    char c = pb_text_peek(x);
    const char *at = x->p;
    if (c == '[') {
        st = bracket_field(x, m);
        return st ? st : end_of_field(x);
    }
    if (!pb_text_is_letter(c))
        return pb_text_expected(x, "identifier", at);
    struct rt_span s = pb_text_word(x);
    if (s.n < sizeof name) {
        memcpy(name, s.p, s.n);
        name[s.n] = 0;
        f = protobuf_c_message_descriptor_get_field_by_name(d, name);
    }
    const ProtobufCMessageDescriptor *unread = f ? NULL : discarded_type(m, s);
    if (unread) {
        st = discarded_field(x, unread, s, discarded);
        return st ? st : end_of_field(x);
    }
    if (!f)
        return pb_text_fail(x, pb_text_next_token(x),
                            "Message type \"%s\" has no field named \"%.*s\".", d->name,
                            (int)(s.n < 64 ? s.n : 64), (const char *)s.p);
    st = check_once(x, m, f);
    if (!st)
        st = pb_text_call_watch(x, f, at);
    if (st)
        return st;
    bool colon = pb_text_take(x, ':');
    c = pb_text_peek(x);
    bool is_list = c == '[' && f->label == PROTOBUF_C_LABEL_REPEATED;
    if (!colon && f->type != PROTOBUF_C_TYPE_MESSAGE)
        return pb_text_missing(x, "\":\"");
    if (is_list) {
        x->p++;
        st = list(x, m, f);
    } else {
        st = value(x, m, f);
    }
    return st ? st : end_of_field(x);
}

/* Parses the fields of a message up to the bracket `close`, or to the end of the text if `close` is
 * 0. */
static enum rt_status body(struct pb_text_parser *x, ProtobufCMessage *m, char close)
{
    enum rt_status st = RT_OK;
    bool discarded = false;

    while (!st) {
        char c = pb_text_peek(x);
        if (x->p == x->end && !close)
            return RT_OK;
        if (close && c == close) {
            x->p++;
            return RT_OK;
        }
        if (close && (c == '}' || c == '>'))
            return pb_text_missing(x, close == '}' ? "\"}\"" : "\">\"");
        st = field(x, m, &discarded);
    }
    return st;
}

/* Parses the text. The caller has set only the limit, the check, the positions and the error of the
 * parser. */
static enum rt_status parse(struct pb_text_parser *x, ProtobufCMessage **out,
                            const ProtobufCMessageDescriptor *d, struct rt_span text)
{
    const char *begin = text.n ? (const char *)text.p : "";
    enum rt_status st;

    x->end = begin + text.n;
    if (text.n >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3; /* skips the byte order mark that some editors write */
    x->begin = x->p = x->known = x->check_at = begin;
    x->at_known = (struct pb_text_place){1, 1};
    x->depth = 1;
    x->left = x->limit;
    ProtobufCMessage *m = message_new(x, d);
    if (!m)
        return pb_text_fail_memory(x);
    st = body(x, m, 0);
    if (!st)
        st = x->stopped;
    if (st)
        pb_free(m);
    else
        *out = m;
    return st;
}

enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err)
{
    return pb_text_parse_placed(out, d, text, NULL, err);
}

enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err)
{
    struct pb_text_parser x = {.limit = SIZE_MAX, .places = places, .err = err};
    return parse(&x, out, d, text);
}

enum rt_status pb_text_parse_limited(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                     struct rt_span text, size_t max_bytes,
                                     const struct rt_check *check, struct rt_error *err)
{
    struct pb_text_parser x = {.limit = max_bytes, .check = check, .err = err};
    return parse(&x, out, d, text);
}

enum rt_status pb_text_parse_watched(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                     struct rt_span text, size_t max_bytes,
                                     const struct pb_text_watch *watch, struct rt_error *err)
{
    struct pb_text_parser x = {.limit = max_bytes, .watch = watch, .err = err};
    return parse(&x, out, d, text);
}
