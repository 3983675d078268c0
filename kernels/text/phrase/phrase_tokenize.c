/* PhraseTokenize of TensorFlow Text: divides text into the phrases of a vocabulary. */
#include "kernels/entry.h"
#include "kernels/text/phrase/phrase_model.h"
#include "kernels/text/tokens.h"

struct tokenizer {
    struct kn_phrase_model model;
    struct kn_phrases phrases;
    struct kn_tokens tokens;
    struct rt_bytes joined; /* texts of phrases of several words */
};

static bool spend(void *arg, int64_t work)
{
    struct tokenizer *t = arg;

    return !rt_run_spend(t->tokens.r, &t->tokens.left, work);
}

/* Appends the words of a phrase to the joined texts. */
static bool join(struct tokenizer *t, const struct kn_phrase *f)
{
    struct rt_run *r = t->tokens.r;
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < f->n_words && !st; i++) {
        if (i > 0)
            st = kn_text_add(r, &t->tokens.left, &t->joined, " ", 1);
        if (!st)
            st = kn_text_add(r, &t->tokens.left, &t->joined, f->words[i].p, f->words[i].n);
    }
    return !st;
}

/* Adds a phrase. The text of several words moves while others are joined, so its token has only an
 * offset at first. */
static bool add(struct tokenizer *t, const struct kn_phrase *f)
{
    const struct rt_span text = f->is_unknown ? t->model.unknown : *f->words;
    struct kn_token k = {.p = (const char *)text.p, .n = text.n, .id = (uint32_t)f->id};

    if (f->n_words > 1) {
        k.p = NULL;
        k.begin = (int64_t)t->joined.n;
        if (!join(t, f))
            return false;
        k.n = t->joined.n - (size_t)k.begin;
    }
    return kn_tokens_add(&t->tokens, &k);
}

/* Replaces the offsets of joined texts by their addresses. */
static enum rt_status set_joined_texts(struct tokenizer *t)
{
    struct kn_token *k = (struct kn_token *)(void *)t->tokens.list.p;

    for (int64_t i = 0; i < kn_tokens_count(&t->tokens); i++) {
        if (!k[i].p)
            k[i].p = t->joined.p + k[i].begin;
        if (rt_run_tick(t->tokens.r, i))
            return t->tokens.r->err->code;
    }
    return RT_OK;
}

static bool tokenize(struct tokenizer *t, const struct rt_str *s)
{
    struct kn_phrases *p = &t->phrases;
    struct kn_phrase phrase;

    if (!kn_phrases_begin(p, rt_span_of(rt_str_data(s), s->n))) {
        if (p->words.failed)
            kn_text_failed(&p->words);
        return false;
    }
    while (kn_phrases_more(p))
        if (!kn_phrases_next(p, &phrase) || !add(t, &phrase))
            return false;
    return kn_tokens_next(&t->tokens);
}

static enum rt_status run(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = 1, .splits = 2, .begin = -1, .end = -1};
    const struct rt_tensor *model = &r->in[1];
    struct tokenizer t = {.phrases = {.m = &t.model, .spend = spend, .arg = &t}};
    int64_t n = 0;
    enum rt_status st = kn_token_strings(r, &n);

    if (st)
        return st;
    const char *why =
        kn_phrase_open(rt_span_of(model->data, (size_t)rt_tensor_count(model)), &t.model);
    if (why)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "PhraseTokenize: the model %s", why);
    const uint64_t seed = rt_run_entropy(r);
    memcpy(t.phrases.random.philox.key, &seed, sizeof seed);
    kn_tokens_begin(&t.tokens, r);
    kn_text_begin(&t.phrases.words, r);
    kn_text_begin(&t.joined, r);
    for (int64_t i = 0; i < n && !st; i++)
        if (!tokenize(&t, &rt_strs(&r->in[0])[i]))
            st = r->err->code;
    if (!st)
        st = set_joined_texts(&t);
    if (!st)
        st = kn_tokens_emit(&t.tokens, &to);
    kn_text_end(&t.joined);
    kn_text_end(&t.phrases.words);
    kn_tokens_end(&t.tokens);
    return st;
}

const struct kn_entry kn_phrase_tokenize = {
    .op = {.name = "PhraseTokenize", .effect = RT_RANDOM},
    .kernels = KN_KERNELS(
        {.op = "PhraseTokenize", .device = "CPU", .name = "phrase_tokenize", .run = run}),
};
