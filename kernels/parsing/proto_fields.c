#include "kernels/parsing/proto_fields.h"

#include "kernels/array/array.h"
#include "kernels/parsing/feature_map.h"
#include "runtime/base/sort.h"
#include "runtime/files/descriptors.h"

/* Limit on the bytes of descriptors that are read to find the fields of a node, because `prepare`
 * cannot be cancelled. If all declarations have the minimal size of a few bytes, they are read in
 * about 0.4 s. */
enum { MAX_READ = 1 << 25 };

static enum rt_status descriptors_of(struct rt_prep *p, struct rt_span *out)
{
    static const char local[] = "local://", bytes[] = "bytes://";
    const struct rt_span source = rt_attr_str(p->node, "descriptor_source");

    if (!source.n || rt_span_is(source, local)) {
        *out = rt_descriptors();
        return RT_OK;
    }
    if (source.n >= strlen(bytes) && memcmp(source.p, bytes, strlen(bytes)) == 0) {
        *out = rt_span_of(source.p + strlen(bytes), source.n - strlen(bytes));
        return RT_OK;
    }
    return rt_fail(p->err, RT_INVALID_ARGUMENT,
                   "Source does not represent serialized file descriptor set proto. This may be "
                   "due to a missing dependency on the file containing "
                   "REGISTER_DESCRIPTOR_POOL(\"%.*s\", ...);",
                   source.n < 200 ? (int)source.n : 200, (const char *)source.p);
}

static int compare(const void *a, const void *b)
{
    const struct kn_numbered *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

int kn_proto_field(const struct kn_proto_fields *f, uint32_t number)
{
    int low = 0, high = f->n;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (f->by_number[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->n && f->by_number[low].number == number ? f->by_number[low].index : -1;
}

enum rt_status kn_proto_fields(struct rt_prep *p, struct kn_proto_fields **out)
{
    const struct rt_span message = rt_attr_str(p->node, "message_type");
    const struct rt_attr *names = rt_attr(p->node, "field_names");
    struct kn_proto_fields *f = rt_prep_alloc(p, sizeof *f);
    struct rt_span set;
    struct kn_message m;
    size_t read = 0;
    enum rt_status st = f ? descriptors_of(p, &set) : p->err->code;

    if (st)
        return st;
    if (!kn_message_find(set, message, &m))
        return rt_fail(p->err, RT_INVALID_ARGUMENT, "No descriptor found for message type %.*s",
                       KN_SPAN(message));
    f->n = (int)names->n;
    f->name = names->v.strs;
    f->field = rt_prep_alloc(p, names->n * sizeof *f->field + 1);
    f->by_number = f->field ? rt_prep_alloc(p, names->n * sizeof *f->by_number + 1) : NULL;
    if (!f->by_number)
        return p->err->code;
    for (int k = 0; k < f->n; k++) {
        if (!kn_message_field(&m, f->name[k], &f->field[k]))
            return rt_fail(p->err, RT_INVALID_ARGUMENT, "Unknown field: %.*s in message type %.*s",
                           KN_SPAN(f->name[k]), KN_SPAN(message));
        read += kn_message_field_cost(&m, &f->field[k]);
        if (read > MAX_READ)
            return rt_fail(p->err, RT_RESOURCE_EXHAUSTED,
                           "To find %zu fields, more than %d bytes of descriptors would be read",
                           names->n, MAX_READ);
        f->by_number[k] = (struct kn_numbered){f->field[k].number, k};
    }
    *out = f;
    return rt_sort_alloc(f->by_number, names->n, sizeof *f->by_number, compare, "field_names", NULL,
                         p->err);
}
