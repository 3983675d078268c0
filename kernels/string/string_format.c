/* StringFormat replaces the placeholders of a template with the values of tensors. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/summary.h"
#include "kernels/string/text.h"

#include <string.h>

/* Returns the first placeholder in the template at or after byte `at`, or NULL if there is none. */
static const char *next_hole(struct rt_span text, size_t at, struct rt_span hole)
{
    return hole.n ? memmem(text.p + at, text.n - at, hole.p, hole.n) : NULL;
}

/* Returns the number of placeholders. As in TensorFlow, an empty placeholder occurs between every
 * two adjacent bytes. */
static int64_t count_holes(struct rt_span text, struct rt_span hole)
{
    int64_t n = 0;

    if (!hole.n || !text.n)
        return text.n ? (int64_t)text.n - 1 : 0;
    for (const char *p = next_hole(text, 0, hole); p; n++)
        p = next_hole(text, (size_t)(p - (const char *)text.p) + hole.n, hole);
    return n;
}

static enum rt_status format_run(struct rt_run *r)
{
    const struct rt_span text = rt_attr_str(r->node, "template");
    const struct rt_span hole = rt_attr_str(r->node, "placeholder");
    struct rt_bytes out;
    enum rt_status st = RT_OK;
    const int64_t n_holes = count_holes(text, hole);

    if (n_holes != r->n_in)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num placeholders in template and num inputs must match: %lld vs. %d",
                       (long long)n_holes, r->n_in);
    kn_text_begin(&out, r);
    size_t at = 0; /* length of the part of the template that has been processed */
    for (int k = 0; k < r->n_in && !st; k++) {
        const char *p = next_hole(text, at, hole);
        const size_t end = p ? (size_t)(p - (const char *)text.p) : at + 1;
        rt_bytes_add(&out, text.p + at, end - at);
        st = kn_summarize_v2(r, &out, &r->in[k], rt_attr_int(r->node, "summarize"));
        at = end + hole.n;
    }
    if (!st && text.n > at)
        rt_bytes_add(&out, text.p + at, text.n - at);
    if (!st && out.failed)
        st = kn_text_failed(&out);
    struct rt_str *o = st ? NULL : kn_out(r, 0, 0, NULL);
    if (!st)
        st = o ? kn_set_text(r, &r->left, o, out.p, out.n) : r->err->code;
    kn_text_end(&out);
    return st;
}

const struct kn_entry kn_string_format = {
    .op = {.name = "StringFormat", .infer = kn_infer_scalars},
    .kernels = KN_CPU("StringFormat", "string_format", 0, NULL, format_run),
};
