/* MergeSummary joins Summary messages. TensorSummaryV2 writes a Summary with a tensor and metadata.
 */
#include "kernels/array/hash_set.h"
#include "kernels/entry.h"
#include "kernels/parsing/tensor_bytes.h"
#include "kernels/string/summary_bytes.h"
#include "kernels/string/text.h"
#include "runtime/core/copy.h"
#include "runtime/core/summary_proto.h"

/* ---- MergeSummary ---- */

/* The tags so far, in an open-addressing hash table. An empty slot has no text. */
struct tags {
    struct rt_run *r;
    struct rt_str *slot;
    size_t n_slots, n;
};

/* Returns the slot that holds the tag or is to hold it. */
static struct rt_str *slot_of(struct tags *t, const struct rt_str *tag)
{
    size_t at = (size_t)kn_hash_elements(RT_STRING, tag, 1, NULL);

    for (;; at++) {
        struct rt_str *s = &t->slot[at & (t->n_slots - 1)];
        if (s->n == 0 || kn_same_element(RT_STRING, s, tag, NULL))
            return s;
    }
}

/* Doubles the number of slots if half of them are used. */
static enum rt_status grow(struct tags *t)
{
    enum { FIRST = 16 };
    struct tags more = {.r = t->r, .n_slots = t->n_slots ? 2 * t->n_slots : FIRST, .n = t->n};
    enum rt_status st = RT_OK;

    if (t->n < t->n_slots / 2)
        return RT_OK;
    more.slot = rt_run_alloc(t->r, more.n_slots * sizeof *more.slot);
    if (!more.slot)
        return t->r->err->code;
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slot[i].n)
            *slot_of(&more, &t->slot[i]) = t->slot[i];
        if (!st)
            st = rt_run_spend(t->r, &t->r->left, KN_PROBE_WORK);
    }
    rt_pool_free(t->slot);
    *t = more;
    return st;
}

/* Adds a tag. Fails if there is an equal one. Any number of values may lack a tag. */
static enum rt_status add_tag(struct tags *t, const char *text)
{
    struct rt_str tag = {0};
    enum rt_status st = grow(t);

    if (st || !*text)
        return st;
    if (!rt_str_set(&tag, rt_run_pool(t->r), text, strlen(text), t->r->err))
        return t->r->err->code;
    struct rt_str *slot = slot_of(t, &tag);
    if (slot->n) {
        rt_str_clear(&tag);
        return rt_fail(t->r->err, RT_INVALID_ARGUMENT, "Duplicate tag %s found in summary inputs",
                       text);
    }
    *slot = tag;
    t->n++;
    return rt_run_spend(t->r, &t->r->left, KN_PROBE_WORK + 2 * (int64_t)tag.n);
}

static void clear(struct tags *t)
{
    for (size_t i = 0; i < t->n_slots; i++)
        rt_str_clear(&t->slot[i]);
    rt_pool_free(t->slot);
}

static enum rt_status append(struct tags *t, const struct rt_str *bytes, struct rt_bytes *b)
{
    struct rt_run *r = t->r;
    const struct rt_check check = rt_run_as_check(r);
    struct rt_summary s;
    enum rt_status st = rt_summary_parse(rt_span_of(rt_str_data(bytes), bytes->n), rt_run_pool(r),
                                         &check, &s, r->err);

    if (st)
        return st;
    for (size_t i = 0; i < s.n && !st; i++) {
        st = add_tag(t, rt_summary_tag(&s, i));
        if (!st)
            st = rt_summary_put(&s, i, &check, b, r->err);
        if (!st && b->failed)
            st = kn_text_failed(b);
    }
    rt_summary_clear(&s);
    return st;
}

static enum rt_status merge_run(struct rt_run *r)
{
    struct tags t = {.r = r};
    struct rt_bytes b;
    enum rt_status st = RT_OK;

    kn_text_begin(&b, r);
    for (int k = 0; k < r->n_in; k++)
        for (int64_t i = 0; i < rt_tensor_count(&r->in[k]) && !st; i++) {
            st = append(&t, &rt_strs(&r->in[k])[i], &b);
            if (!st)
                st = rt_run_spend(r, &r->left, KN_STRING_WORK);
        }
    clear(&t);
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

/* ---- TensorSummaryV2 ---- */

/* Fields of Summary.Value, as tags of the wire format: number * 8 + wire type. */
enum { TENSOR = 0x42, METADATA = 0x4a };

/* Writes the metadata of a value in TensorFlow's order of fields. */
static enum rt_status put_metadata(struct rt_run *r, struct rt_bytes *b, struct rt_span metadata)
{
    const struct rt_check check = rt_run_as_check(r);
    const enum rt_status st = rt_summary_put_metadata(metadata, rt_run_pool(r), &check, b, r->err);

    return !st && b->failed ? kn_text_failed(b) : st;
}

enum rt_status kn_put_tensor_value(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *t, const struct rt_span *metadata)
{
    struct rt_str tensor = {0};
    struct rt_bytes more;

    kn_text_begin(&more, r);
    enum rt_status st = kn_tensor_to_bytes(r, t, KN_STRING_FIELD, &tensor);
    if (!st && metadata)
        st = put_metadata(r, &more, *metadata);
    if (!st) {
        kn_put_length(b, KN_SUMMARY_VALUE,
                      (tag.n ? kn_field_size(tag.n) : 0) + kn_field_size(tensor.n) +
                          (metadata ? kn_field_size(more.n) : 0));
        if (tag.n)
            st = kn_put_bytes(r, b, KN_SUMMARY_TAG, tag.p, tag.n);
        if (!st)
            st = kn_put_bytes(r, b, TENSOR, rt_str_data(&tensor), tensor.n);
        if (!st && metadata)
            st = kn_put_bytes(r, b, METADATA, more.p, more.n);
    }
    kn_text_end(&more);
    rt_str_clear(&tensor);
    return st;
}

static enum rt_status tensor_run(struct rt_run *r)
{
    const struct rt_str *tag = rt_strs(&r->in[0]), *more = rt_strs(&r->in[2]);
    struct rt_bytes b;

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "tag must be scalar");
    if (r->in[2].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "serialized_summary_metadata must be scalar");
    const struct rt_span metadata = rt_span_of(rt_str_data(more), more->n);
    kn_text_begin(&b, r);
    const enum rt_status st =
        kn_put_tensor_value(r, &b, rt_span_of(rt_str_data(tag), tag->n), &r->in[1], &metadata);
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

const struct kn_entry kn_merge_summary = {
    .op = {.name = "MergeSummary", .infer = kn_infer_scalars},
    .kernels = KN_KERNELS(
        {.op = "MergeSummary", .device = "CPU", .name = "merge_summary", .run = merge_run}),
};
const struct kn_entry kn_tensor_summary_v2 = {
    .op = {.name = "TensorSummaryV2", .infer = kn_infer_scalars},
    .kernels = KN_CPU("TensorSummaryV2", "tensor_summary_v2",
                      ~(RT_T(RT_RESOURCE) | RT_T(RT_VARIANT)), NULL, tensor_run),
};
