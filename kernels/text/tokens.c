#include "kernels/text/tokens.h"

void kn_tokens_begin(struct kn_tokens *t, struct rt_run *r)
{
    *t = (struct kn_tokens){.r = r, .left = RT_WORK};
    kn_text_begin(&t->list, r);
    kn_text_begin(&t->splits, r);
}

void kn_tokens_end(struct kn_tokens *t)
{
    kn_text_end(&t->list);
    kn_text_end(&t->splits);
}

int64_t kn_tokens_count(const struct kn_tokens *t)
{
    return (int64_t)(t->list.n / sizeof(struct kn_token));
}

static bool add(struct kn_tokens *t, struct rt_bytes *to, const void *p, size_t n)
{
    rt_bytes_add(to, p, n);
    if (to->failed) {
        kn_text_failed(to);
        return false;
    }
    return !rt_run_spend(t->r, &t->left, KN_STRING_WORK);
}

bool kn_tokens_add(struct kn_tokens *t, const struct kn_token *token)
{
    return add(t, &t->list, token, sizeof *token);
}

bool kn_tokens_next(struct kn_tokens *t)
{
    const int64_t n = kn_tokens_count(t);

    return add(t, &t->splits, &n, sizeof n);
}

/* Writes the text of a token, which consists of two parts. */
static enum rt_status set_text(struct kn_tokens *t, struct rt_str *s, const struct kn_token *k)
{
    if (k->prefix.n == 0)
        return kn_set_text(t->r, &t->left, s, k->p, k->n);
    char *to = rt_str_resize(s, rt_run_pool(t->r), k->prefix.n + k->n, t->r->err);
    if (!to)
        return t->r->err->code;
    const enum rt_status st = kn_copy_text(t->r, &t->left, to, k->prefix.p, k->prefix.n);
    return st ? st : kn_copy_text(t->r, &t->left, to + k->prefix.n, k->p, k->n);
}

static enum rt_status emit_splits(struct kn_tokens *t, int k, bool has_lengths)
{
    const int64_t n = (int64_t)(t->splits.n / sizeof(int64_t)), size = n + !has_lengths;
    const int64_t *from = (const int64_t *)(const void *)t->splits.p;

    if (!kn_out(t->r, k, 1, &size))
        return t->r->err->code;
    if (!has_lengths)
        kn_put_int(&t->r->out[k], 0, 0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = has_lengths && i > 0 ? from[i] - from[i - 1] : from[i];
        kn_put_int(&t->r->out[k], i + !has_lengths, v);
        if (rt_run_tick(t->r, i))
            return t->r->err->code;
    }
    return RT_OK;
}

enum rt_status kn_tokens_emit(struct kn_tokens *t, const struct kn_token_outputs *to)
{
    struct rt_run *r = t->r;
    const int64_t n = kn_tokens_count(t);
    const struct kn_token *k = (const struct kn_token *)(const void *)t->list.p;
    const int outputs[] = {to->text, to->id, to->begin, to->end};
    enum rt_status st = emit_splits(t, to->splits, to->has_lengths);

    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && !st; i++)
        if (outputs[i] >= 0 && !rt_out(r, outputs[i], 1, &n))
            st = r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        st = to->text < 0 ? RT_OK : set_text(t, (struct rt_str *)r->out[to->text].data + i, &k[i]);
        if (to->id >= 0)
            kn_put_int(&r->out[to->id], i, k[i].id);
        kn_put_int(&r->out[to->begin], i, k[i].begin);
        kn_put_int(&r->out[to->end], i, k[i].end);
        if (!st)
            st = rt_run_spend(r, &t->left, KN_STRING_WORK);
    }
    return st;
}

enum rt_status kn_token_strings(struct rt_run *r, int64_t *n)
{
    const struct rt_tensor *in = &r->in[0];

    if (in->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: the strings must be a vector, not a scalar", r->node->schema->name);
    if (rt_tensor_count(in) < in->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: strings of shape %s are not a vector",
                       r->node->schema->name, KN_TEXT(in));
    *n = in->dim[0];
    return RT_OK;
}
