/* DecodeJSONExample rewrites tf.Examples in JSON as serialised messages. */
#include "kernels/parsing/json_example.h"
#include "kernels/string/each.h"
#include "runtime/core/copy.h"

static enum rt_status decode_all(struct rt_run *r, const struct kn_json_buffers *b)
{
    const struct rt_str *in = rt_strs(&r->in[0]);
    struct rt_str *o = kn_out_strs(r);
    const struct rt_check check = rt_run_as_check(r);
    struct kn_reader reader = {r, &r->left, RT_OK};
    enum rt_status st = o ? RT_OK : r->err->code;

    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++) {
        const struct rt_span json = rt_span_of(rt_str_data(&in[i]), in[i].n);
        b->out->n = 0;
        st = kn_example_from_json(json, b, &reader, &check, r->err);
        if (!st)
            st = kn_set_text(r, &r->left, &o[i], b->out->p ? b->out->p : "", b->out->n);
        if (!st)
            st = kn_spend_string(r, &r->left, 0);
    }
    return st;
}

static enum rt_status decode_run(struct rt_run *r)
{
    struct rt_bytes out, text, hashes;
    const struct kn_json_buffers b = {&out, &text, &hashes};
    struct rt_bytes *const all[] = {&out, &text, &hashes};

    for (int k = 0; k < 3; k++)
        kn_text_begin(all[k], r);
    enum rt_status st = decode_all(r, &b);
    for (int k = 0; k < 3; k++) {
        if (st && all[k]->failed)
            st = kn_text_failed(all[k]);
        kn_text_end(all[k]);
    }
    return st;
}

KN_EACH_STRING(decode_json_example, "DecodeJSONExample", decode_run)
