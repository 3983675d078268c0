/* StringFormat replaces the placeholders of a template by the values of tensors. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/summary.h"
#include "kernels/string/text.h"

#include <string.h>

static enum rt_status format_run(struct rt_run *r)
{
    const struct rt_span text = rt_attr_str(r->node, "template");
    const struct rt_span hole = rt_attr_str(r->node, "placeholder");
    struct rt_bytes out;
    enum rt_status st = RT_OK;
    /* As in TensorFlow, an empty placeholder matches between every two bytes. */
    int64_t n_holes = hole.n || !text.n ? 0 : (int64_t)text.n - 1, k = 0;

    for (size_t i = 0; hole.n && i + hole.n <= text.n; i++)
        if (memcmp(text.p + i, hole.p, hole.n) == 0) {
            n_holes++;
            i += hole.n - 1;
        }
    if (n_holes != r->n_in)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num placeholders in template and num inputs must match: %lld vs. %d",
                       (long long)n_holes, r->n_in);
    kn_text_begin(&out, r);
    for (size_t i = 0; i < text.n && !st; i++) {
        if (hole.n && i + hole.n <= text.n && memcmp(text.p + i, hole.p, hole.n) == 0) {
            st = kn_summarize_v2(r, &out, &r->in[k++], rt_attr_int(r->node, "summarize"));
            i += hole.n - 1;
            continue;
        }
        if (hole.n == 0 && i > 0)
            st = kn_summarize_v2(r, &out, &r->in[k++], rt_attr_int(r->node, "summarize"));
        rt_bytes_addc(&out, (char)text.p[i]);
    }
    if (!st && out.failed)
        st = kn_text_failed(&out);
    struct rt_str *o = st ? NULL : kn_out(r, 0, 0, NULL);
    if (!st && (!o || !rt_str_set(o, rt_run_pool(r), out.p, out.n, r->err)))
        st = r->err->code;
    kn_text_end(&out);
    return st;
}

const struct kn_entry kn_string_format = {
    .op = {.name = "StringFormat", .infer = kn_infer_scalars},
    .kernels = KN_CPU("StringFormat", "string_format", 0, NULL, format_run),
};
