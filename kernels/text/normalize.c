/* The ops CaseFoldUTF8 and NormalizeUTF8 of TensorFlow Text. */
#include "kernels/string/each.h"
#include "kernels/text/normal.h"
#include "runtime/core/copy.h"

enum { CHUNK = 1 << 16, COST = 4 /* work per byte */ };

static enum rt_status normalize_all(struct rt_run *r, enum kn_normal_form form)
{
    struct rt_str *o = kn_out_strs(r);
    struct rt_bytes text;
    const struct rt_check check = rt_run_as_check(r);
    struct kn_normal n = {.form = form, .out = &text, .check = &check, .err = r->err};
    int64_t left = RT_WORK;
    enum rt_status st = o ? RT_OK : r->err->code;

    kn_text_begin(&text, r);
    kn_text_begin(&n.segment, r);
    for (int64_t i = 0; o && i < rt_tensor_count(&r->in[0]) && !st; i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const unsigned char *p = (const unsigned char *)rt_str_data(s), *end = p + s->n;
        text.n = 0;
        while (p < end && !st && !text.failed && !n.segment.failed) {
            const unsigned char *from = p;
            kn_normal_add(&n, &p, end, CHUNK);
            st = rt_run_spend(r, &left, COST * (int64_t)(p - from));
        }
        kn_normal_end(&n);
        if (!st && (text.failed || n.segment.failed))
            st = kn_text_failed(text.failed ? &text : &n.segment);
        if (!st)
            st = kn_set_text(r, &left, &o[i], text.p, text.n);
        if (!st)
            st = kn_spend_string(r, &left, 0);
    }
    kn_text_end(&text);
    kn_text_end(&n.segment);
    return st;
}

static enum rt_status fold_run(struct rt_run *r)
{
    return normalize_all(r, KN_NFKC_CASEFOLD);
}

KN_EACH_STRING(case_fold_utf8, "CaseFoldUTF8", fold_run)

/* TensorFlow Text accepts the names of forms in upper and lower case, and checks them when it makes
 * the kernel. */
enum rt_status kn_normal_prepare(struct rt_prep *p, void **state, const char *refusal)
{
    enum kn_normal_form *found = rt_prep_alloc(p, sizeof *found);
    char upper[KN_FORM_TEXT];

    if (!found)
        return p->err->code;
    *state = found;
    if (kn_normal_find(rt_attr_str(p->node, "normalization_form"), found, upper))
        return RT_OK;
    return rt_fail(p->err, RT_INVALID_ARGUMENT, "%s: %s", refusal, upper);
}

static enum rt_status normalize_prepare(struct rt_prep *p, void **state)
{
    return kn_normal_prepare(p, state, "Unknown normalization form requrested");
}

static enum rt_status normalize_run(struct rt_run *r)
{
    return normalize_all(r, *(const enum kn_normal_form *)r->state);
}

const struct kn_entry kn_normalize_utf8 = {
    .op = {.name = "NormalizeUTF8", .infer = kn_infer_each, .rows = rt_rows_same},
    .kernels = KN_KERNELS({.op = "NormalizeUTF8",
                           .device = "CPU",
                           .name = "normalize_utf8",
                           .prepare = normalize_prepare,
                           .run = normalize_run}),
};
