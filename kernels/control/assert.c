/* Assert(condition, data...) fails the run with an error message built from `data` if the condition
 * is false. */
#include "kernels/array/array.h"
#include "kernels/string/summary.h"
#include "kernels/entry.h"

static enum rt_status assert_run(struct rt_run *r)
{
    struct rt_bytes text;

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "In[0] should be a scalar: %s",
                       KN_TEXT(&r->in[0]));
    if (*(const uint8_t *)r->in[0].data)
        return RT_OK;
    rt_bytes_init(&text, 64 << 10);
    for (int k = 1; k < r->n_in && !text.failed; k++) {
        rt_bytes_addc(&text, '[');
        kn_summarize(&text, &r->in[k], rt_attr_int(r->node, "summarize"));
        rt_bytes_adds(&text, k + 1 < r->n_in ? "] " : "]");
    }
    rt_fail(r->err, RT_INVALID_ARGUMENT, "assertion failed: %s", text.p ? text.p : "");
    rt_bytes_clear(&text);
    return RT_INVALID_ARGUMENT;
}

const struct kn_entry kn_assert = {
    .op = {.name = "Assert", .effect = RT_IO},
    .kernels = KN_CPU("Assert", "assert", 0, NULL, assert_run),
};
