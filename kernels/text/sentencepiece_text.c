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

/* ---- normalisation ---- */

/* What the text at one position becomes, and how many bytes of it are read. */
struct step {
    struct rt_span to;
    size_t n;
};

static struct step next_step(const struct kn_sp_model *m, const struct kn_sp_rules *rules,
                             bool keeps_symbols, const unsigned char *p, const unsigned char *end)
{
    const unsigned char *next;
    uint32_t value = 0;
    size_t n = keeps_symbols ? kn_sp_longest(&m->symbols, p, end, &value) : 0;

    if (n)
        return (struct step){rt_span_of(p, n), n};
    n = kn_sp_longest(&rules->trie, p, end, &value);
    if (n && value < rules->text.n) {
        const unsigned char *to = rules->text.p + value;
        const size_t rest = rules->text.n - value;
        const unsigned char *stop = memchr(to, 0, rest);
        return (struct step){rt_span_of(to, stop ? (size_t)(stop - to) : rest), n};
    }
    if (kn_decode_utf8(p, end, &next) < 0)
        return (struct step){rt_span_str("\xef\xbf\xbd"), 1}; /* U+FFFD */
    return (struct step){rt_span_of(p, (size_t)(next - p)), (size_t)(next - p)};
}

/* Appends n bytes to the text, all of which come from offset `at`. */
static bool put(struct kn_sp_coder *c, const void *p, size_t n, size_t at)
{
    bool ok = kn_sp_add(c, &c->text, p, n);

    for (size_t i = 0; i < n && ok && c->has_origin; i++)
        ok = kn_sp_add(c, &c->origin, &at, sizeof at);
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
        if (text.p[i] != ' ')
            continue;
        if (!put(c, text.p + from, i - from, at) || !put_space(c, rules, at))
            return false;
        from = i + 1;
    }
    return from == text.n || put(c, text.p + from, text.n - from, at);
}

/* Removes the spaces at the end of the text. Returns the offset from which the first of them came,
 * or `at` if there is none. */
static size_t cut_spaces(struct kn_sp_coder *c, const struct kn_sp_rules *rules, size_t at)
{
    const char *space = rules->escapes_spaces ? KN_SP_SPACE : " ";
    const size_t n = strlen(space);

    while (c->text.n >= n && memcmp(c->text.p + c->text.n - n, space, n) == 0) {
        c->text.n -= n;
        if (c->has_origin) {
            c->origin.n -= n * sizeof at;
            memcpy(&at, c->origin.p + c->origin.n, sizeof at);
        }
    }
    return at;
}

bool kn_sp_normalize(struct kn_sp_coder *c, const struct kn_sp_rules *rules, bool keeps_symbols,
                     struct rt_span in)
{
    const unsigned char *p = in.p, *end = in.n ? in.p + in.n : in.p;
    bool after_space = rules->removes_spaces, ok = true;

    c->text.n = c->origin.n = 0;
    for (; p < end && rules->removes_spaces; p++) {
        const struct step s = next_step(c->m, rules, keeps_symbols, p, end);
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
        struct step s = next_step(c->m, rules, keeps_symbols, p, end);
        while (after_space && s.to.n && *s.to.p == ' ')
            s.to = rt_span_of(s.to.p + 1, s.to.n - 1);
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
    if (rules->removes_spaces)
        at = cut_spaces(c, rules, at);
    if (rules->adds_space && rules->space_is_suffix)
        ok = put_space(c, rules, at);
    return ok && (!c->has_origin || kn_sp_add(c, &c->origin, &at, sizeof at));
}
