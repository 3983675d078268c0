/*
 * Reads a serialised message by descriptors. The first two bytes are the size of a
 * FileDescriptorSet, which precedes the message.
 */
#include <stdlib.h>

#include "kernels/parsing/message_scan.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

struct seen {
    const struct kn_proto_fields *fields;
    struct rt_span message;
};

/* A group that has been read can be copied, and the copy is not larger apart from its two tags. */
static void copy_group(uint32_t number, struct rt_span content)
{
    struct rt_error err = {0};
    struct rt_run r = {.err = &err, .left = INT64_MAX};
    struct rt_bytes b;

    rt_bytes_init(&b, content.n + KN_GROUP_TAGS);
    if (kn_add_group(&r, number, content, &b))
        abort();
    rt_bytes_clear(&b);
}

/* All elements that are announced must be there, and lie within the message. */
static enum rt_status visit(void *arg, int index, const struct kn_elements *e)
{
    const struct seen *seen = arg;
    const enum kn_field_type type = seen->fields->field[index].type;
    const unsigned char *end = seen->message.p + seen->message.n;
    struct kn_elements rest = *e;
    uint64_t bits, out[1];

    if (e->n < 0 || e->bytes.n > seen->message.n ||
        (e->bytes.n && (e->bytes.p < seen->message.p || e->bytes.p + e->bytes.n > end)))
        abort();
    if (type == KN_F_GROUP && e->n)
        copy_group(seen->fields->field[index].number, e->bytes);
    if (kn_field_accepts(type, RT_STRING))
        return RT_OK;
    for (int64_t i = 0; i < e->n; i++) {
        if (!kn_elements_next(type, &rest, &bits))
            abort();
        for (int dtype = 1; dtype < RT_N_DTYPES; dtype++)
            if (kn_field_accepts(type, (enum rt_dtype)dtype))
                kn_field_put(type, bits, (enum rt_dtype)dtype, out);
    }
    return RT_OK;
}

void fuzz_one(const uint8_t *data, size_t size)
{
    enum { FIELDS = 4 };
    static const char *const names[FIELDS] = {"a", "b", "c", "d"};
    struct kn_message_field field[FIELDS];
    struct kn_numbered by_number[FIELDS];
    struct kn_proto_fields fields = {.field = field, .by_number = by_number};
    struct rt_error err = {0};
    struct rt_run r = {.err = &err, .left = INT64_MAX};

    if (size < 2)
        return;
    const size_t n = data[0] | (size_t)data[1] << 8, n_set = n < size - 2 ? n : size - 2;
    const struct rt_span set = rt_span_of(data + 2, n_set), type = rt_span_str("p.M");
    struct seen seen = {&fields, rt_span_of(data + 2 + n_set, size - 2 - n_set)};
    struct kn_message m;
    if (!kn_message_find(set, type, &m))
        return;
    for (int k = 0; k < FIELDS; k++) {
        struct kn_message_field *f = &field[fields.n];
        if (!kn_message_field(&m, rt_span_str(names[k]), f))
            continue;
        char *text = malloc(f->text_default.n + 1);
        if (text && kn_unescape(f->text_default, text) > f->text_default.n)
            abort();
        free(text);
        int at = fields.n++;
        for (; at > 0 && by_number[at - 1].number > f->number; at--)
            by_number[at] = by_number[at - 1];
        by_number[at] = (struct kn_numbered){f->number, fields.n - 1};
    }
    kn_scan_message(&r, &fields, seen.message, &(struct kn_scan){visit, &seen});
}
