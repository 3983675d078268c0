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

/* Returns memory for n bytes at the end of a buffer, or NULL, with the reason in t->r->err. */
static void *extend(struct kn_tokens *t, struct rt_bytes *to, size_t n)
{
    if (!rt_bytes_reserve(to, n)) {
        kn_text_failed(to);
        return NULL;
    }
    if (rt_run_spend(t->r, &t->left, KN_STRING_WORK))
        return NULL;
    to->n += n;
    return to->p + to->n - n;
}

bool kn_tokens_add(struct kn_tokens *t, const struct kn_token *token)
{
    struct kn_token *to = extend(t, &t->list, sizeof *to);

    if (to)
        *to = *token;
    return to != NULL;
}

bool kn_tokens_next(struct kn_tokens *t)
{
    int64_t *n = extend(t, &t->splits, sizeof *n);

    if (n)
        *n = kn_tokens_count(t);
    return n != NULL;
}

/* Writes the text of a token, which consists of two parts. */
static enum rt_status set_text(struct kn_tokens *t, struct rt_str *s, const struct kn_token *k)
{
    const struct rt_span prefix = t->prefix;

    if (!k->has_prefix && k->n < sizeof s->u.in) { /* The string is empty and needs no memory. */
        s->n = k->n;
        memcpy(s->u.in, k->p, k->n);
        return RT_OK;
    }
    if (!k->has_prefix)
        return kn_set_text(t->r, &t->left, s, k->p, k->n);
    char *to = rt_str_resize(s, rt_run_pool(t->r), prefix.n + k->n, t->r->err);
    if (!to)
        return t->r->err->code;
    const enum rt_status st = kn_copy_text(t->r, &t->left, to, (const char *)prefix.p, prefix.n);
    return st ? st : kn_copy_text(t->r, &t->left, to + prefix.n, k->p, k->n);
}

/* An output with an integer for each token, int32 or int64, or NULL if there is none. */
struct column {
    void *data;
    bool is_wide;
};

static struct column column_of(struct rt_run *r, int k)
{
    return (struct column){.data = k < 0 ? NULL : r->out[k].data,
                           .is_wide = k >= 0 && rt_dtype_size(r->out[k].dtype) == 8};
}

static inline void put(struct column c, int64_t i, int64_t v)
{
    if (c.is_wide)
        ((int64_t *)c.data)[i] = v;
    else if (c.data)
        ((int32_t *)c.data)[i] = (int32_t)v;
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
    if (st)
        return st;
    const struct column id = column_of(r, to->id), begin = column_of(r, to->begin);
    const struct column end = column_of(r, to->end);
    struct rt_str *text = to->text < 0 ? NULL : r->out[to->text].data;
    for (int64_t i = 0; i < n && !st; i++) {
        st = text ? set_text(t, &text[i], &k[i]) : RT_OK;
        put(id, i, k[i].id);
        put(begin, i, k[i].begin);
        put(end, i, k[i].end);
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

/* Sets *begin and *end to the range of row i in the ids. */
static enum rt_status row_of(struct rt_run *r, int64_t i, int64_t *begin, int64_t *end)
{
    const int64_t *splits = (const int64_t *)r->in[1].data + i;
    const int64_t n = rt_tensor_count(&r->in[0]);

    if (splits[0] < 0 || splits[1] < splits[0] || splits[1] > n)
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT, "%s: a row from %lld to %lld, but there are %lld values",
            r->node->schema->name, (long long)splits[0], (long long)splits[1], (long long)n);
    *begin = splits[0];
    *end = splits[1];
    return RT_OK;
}

static enum rt_status join_row(struct kn_joined *j, int64_t i,
                               enum rt_status (*add)(struct kn_joined *j, int32_t id,
                                                     bool is_first))
{
    int64_t begin = 0, end = 0;
    enum rt_status st = row_of(j->r, i, &begin, &end);

    j->text.n = 0;
    for (int64_t k = begin; k < end && !st; k++)
        st = add(j, ((const int32_t *)j->r->in[0].data)[k], k == begin);
    if (st)
        return st;
    st = kn_set_text(j->r, &j->left, (struct rt_str *)j->r->out[0].data + i, j->text.p, j->text.n);
    return st ? st : rt_run_spend(j->r, &j->left, KN_STRING_WORK);
}

enum rt_status kn_join_rows(struct rt_run *r, const void *model,
                            enum rt_status (*add)(struct kn_joined *j, int32_t id, bool is_first))
{
    struct kn_joined j = {.r = r, .model = model, .left = RT_WORK};
    const int64_t n_splits = rt_tensor_count(&r->in[1]), n = n_splits > 0 ? n_splits - 1 : 0;
    enum rt_status st = kn_out(r, 0, 1, &n) ? RT_OK : r->err->code;

    kn_text_begin(&j.text, r);
    for (int64_t i = 0; i < n && !st; i++)
        st = join_row(&j, i, add);
    kn_text_end(&j.text);
    return st;
}

enum rt_status kn_fail_no_texts(struct rt_run *r)
{
    return rt_fail(r->err, RT_FAILED_PRECONDITION,
                   "Detokenize function is only enabled when support_detokenization is true in the "
                   "config flatbuffer. Please rebuild the model flatbuffer by setting "
                   "support_detokenization=true.");
}

enum rt_status kn_infer_joined(struct rt_infer *x)
{
    const struct rt_shape *splits = &x->in[2].shape;
    const int64_t n = kn_shape_known(splits) ? kn_shape_total(splits) : 0;

    if (n > 0)
        kn_set_vector(&x->out[0], n - 1);
    return RT_OK;
}
