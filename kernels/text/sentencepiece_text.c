/* Memory of a SentencePiece coder, and the normalisation of text. */
#include "kernels/string/unicode.h"
#include "kernels/text/sentencepiece_encode.h"
#include "runtime/base/checked.h"

/* ---- memory ---- */

enum { N_BUFFERS = 10 };

static void buffers(struct kn_sp_coder *c, struct rt_bytes *all[N_BUFFERS])
{
    struct rt_bytes *const list[N_BUFFERS] = {&c->text,   &c->origin, &c->parts,  &c->lists,
                                              &c->cells,  &c->pairs,  &c->splits, &c->pending,
                                              &c->places, &c->agenda};

    memcpy(all, list, sizeof list);
}

void kn_sp_begin(struct kn_sp_coder *c, const struct kn_sp_model *m, struct rt_run *r)
{
    struct rt_bytes *all[N_BUFFERS];

    *c = (struct kn_sp_coder){.m = m, .r = r, .left = RT_WORK};
    buffers(c, all);
    for (int i = 0; i < N_BUFFERS; i++)
        if (r)
            kn_text_begin(all[i], r);
        else
            rt_bytes_init(all[i], KN_SP_TEST_BYTES);
}

void kn_sp_end(struct kn_sp_coder *c)
{
    struct rt_bytes *all[N_BUFFERS];

    buffers(c, all);
    for (int i = 0; i < N_BUFFERS; i++)
        if (c->r)
            kn_text_end(all[i]);
        else
            rt_bytes_clear(all[i]);
}

static bool check(struct kn_sp_coder *c, const struct rt_bytes *b)
{
    if (b->failed && c->r)
        kn_text_failed(b);
    return !b->failed;
}

void *kn_sp_array(struct kn_sp_coder *c, struct rt_bytes *b, size_t n, size_t size)
{
    size_t bytes;

    b->n = 0;
    if (!rt_mul_size(n, size, &bytes) || !rt_bytes_reserve(b, bytes)) {
        b->failed = true;
        check(c, b);
        return NULL;
    }
    return b->p;
}

bool kn_sp_reserve(struct kn_sp_coder *c, struct rt_bytes *b, size_t n)
{
    b->failed |= !rt_bytes_reserve(b, n);
    return check(c, b);
}

bool kn_sp_add(struct kn_sp_coder *c, struct rt_bytes *b, const void *p, size_t n)
{
    enum { CHUNK = 1 << 20 }; /* bytes that are copied between two checks of the deadline */
    const char *at = p;

    /* Memory that grows later would be copied without a check. */
    if (n > CHUNK && !kn_sp_reserve(c, b, n))
        return false;
    for (; n > CHUNK; at += CHUNK, n -= CHUNK) {
        rt_bytes_add(b, at, CHUNK);
        if (!check(c, b) || !kn_sp_spend(c, CHUNK))
            return false;
    }
    rt_bytes_add(b, at, n);
    return check(c, b);
}

/* ---- look-up ---- */

bool kn_sp_id(struct kn_sp_coder *c, struct rt_span text, uint32_t *id)
{
    if (!kn_sp_find(c, &c->m->reserved, text, id) ||
        (*id == KN_SP_NO_ID && !kn_sp_find(c, &c->m->found, text, id)))
        return false;
    if (*id == KN_SP_NO_ID)
        *id = c->m->unknown;
    return true;
}

bool kn_sp_until_nul(struct kn_sp_coder *c, struct rt_span text, struct rt_span *out)
{
    enum { WINDOW = 1 << 16 }; /* bytes that are searched between two calls of kn_sp_spend */
    size_t at = 0;

    while (at < text.n) {
        const size_t window = text.n - at < WINDOW ? text.n - at : WINDOW;
        const unsigned char *stop = memchr(text.p + at, 0, window);
        const size_t n = stop ? (size_t)(stop - text.p) - at : window;
        at += n;
        kn_sp_charge(c, n);
        if (stop)
            break;
        if (!kn_sp_spend(c, 0))
            return false;
    }
    *out = rt_span_of(text.p, at);
    return true;
}

/* ---- normalisation ---- */

/* What the text at one position becomes, and how many bytes of it are read. */
struct step {
    struct rt_span to;
    size_t n;
};

static bool next_step(struct kn_sp_coder *c, const struct kn_sp_rules *rules, bool keeps_symbols,
                      const unsigned char *p, const unsigned char *end, struct step *out)
{
    const unsigned char *next;
    uint32_t value = 0;
    size_t n = 0;

    if (keeps_symbols && !kn_sp_longest(c, &c->m->symbols, p, end, &n, &value))
        return false;
    if (n) {
        *out = (struct step){rt_span_of(p, n), n};
        return true;
    }
    if (!kn_sp_longest(c, &rules->trie, p, end, &n, &value))
        return false;
    out->n = n;
    if (n && value < rules->text.n)
        return kn_sp_until_nul(c, rt_span_of(rules->text.p + value, rules->text.n - value),
                               &out->to);
    if (kn_decode_utf8(p, end, &next) < 0)
        *out = (struct step){rt_span_str("\xef\xbf\xbd"), 1}; /* U+FFFD */
    else
        *out = (struct step){rt_span_of(p, (size_t)(next - p)), (size_t)(next - p)};
    return true;
}

/* Drops the spaces at the beginning of a text. */
static bool skip_spaces(struct kn_sp_coder *c, struct rt_span *text)
{
    size_t n = 0;

    for (; n < text->n && text->p[n] == ' '; n++)
        if (!kn_sp_tick(c, n))
            return false;
    *text = rt_span_of(text->p + n, text->n - n);
    kn_sp_charge(c, n);
    return true;
}

/* Appends n bytes to the text, all of which come from offset `at`. */
static bool put(struct kn_sp_coder *c, const void *p, size_t n, size_t at)
{
    bool ok = kn_sp_add(c, &c->text, p, n);

    for (size_t i = 0; i < n && ok && c->has_origin; i++)
        ok = kn_sp_add(c, &c->origin, &at, sizeof at) && kn_sp_tick(c, i);
    return ok;
}

static bool put_space(struct kn_sp_coder *c, const struct kn_sp_rules *rules, size_t at)
{
    return rules->escapes_spaces ? put(c, KN_SP_SPACE, strlen(KN_SP_SPACE), at)
                                 : put(c, " ", 1, at);
}

/* Appends a replacement, in which spaces are escaped. */
static bool put_text(struct kn_sp_coder *c, const struct kn_sp_rules *rules, struct rt_span text,
                     size_t at)
{
    size_t from = 0;

    if (!rules->escapes_spaces)
        return put(c, text.p, text.n, at);
    for (size_t i = 0; i < text.n; i++) {
        if (!kn_sp_tick(c, i))
            return false;
        if (text.p[i] != ' ')
            continue;
        if (!put(c, text.p + from, i - from, at) || !put_space(c, rules, at))
            return false;
        from = i + 1;
    }
    return from == text.n || put(c, text.p + from, text.n - from, at);
}

/* Removes the spaces at the end of the text. Sets *at to the offset from which the first of them
 * came, and leaves it as it is if there is none. */
static bool cut_spaces(struct kn_sp_coder *c, const struct kn_sp_rules *rules, size_t *at)
{
    const char *space = rules->escapes_spaces ? KN_SP_SPACE : " ";
    const size_t n = strlen(space);
    size_t i = 0;

    for (; c->text.n >= n && memcmp(c->text.p + c->text.n - n, space, n) == 0; i++) {
        c->text.n -= n;
        if (c->has_origin) {
            c->origin.n -= n * sizeof *at;
            memcpy(at, c->origin.p + c->origin.n, sizeof *at);
        }
        if (!kn_sp_tick(c, i))
            return false;
    }
    return kn_sp_spend(c, (int64_t)i);
}

bool kn_sp_normalize(struct kn_sp_coder *c, const struct kn_sp_rules *rules, bool keeps_symbols,
                     struct rt_span in)
{
    const unsigned char *p = in.p, *end = in.n ? in.p + in.n : in.p;
    bool after_space = rules->removes_spaces, ok = true;

    c->text.n = c->origin.n = 0;
    for (; p < end && rules->removes_spaces; p++) {
        struct step s;
        if (!next_step(c, rules, keeps_symbols, p, end, &s))
            return false;
        if (!rt_span_is(s.to, " "))
            break;
        p += s.n - 1;
        if (!kn_sp_spend(c, (int64_t)s.n + 8))
            return false;
    }
    if (p == end)
        return true;
    if (rules->adds_space && !rules->space_is_suffix)
        ok = put_space(c, rules, (size_t)(p - in.p));
    while (p < end && ok) {
        struct step s;
        if (!next_step(c, rules, keeps_symbols, p, end, &s) ||
            (after_space && !skip_spaces(c, &s.to)))
            return false;
        if (s.to.n) {
            ok = put_text(c, rules, s.to, (size_t)(p - in.p));
            after_space = rules->removes_spaces && s.to.p[s.to.n - 1] == ' ';
        }
        p += s.n;
        ok = ok && kn_sp_spend(c, (int64_t)(s.n + s.to.n) + 8);
    }
    if (!ok)
        return false;
    size_t at = in.n;
    if (rules->removes_spaces && !cut_spaces(c, rules, &at))
        return false;
    if (rules->adds_space && rules->space_is_suffix)
        ok = put_space(c, rules, at);
    return ok && (!c->has_origin || kn_sp_add(c, &c->origin, &at, sizeof at));
}
