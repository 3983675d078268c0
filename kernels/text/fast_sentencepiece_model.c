#include "kernels/text/fast_sentencepiece.h"

/* Numbers of the fields in the model's table. */
enum {
    VERSION,
    BEGIN,
    END,
    UNKNOWN,
    UNKNOWN_SCORE,
    OFFSET,
    PIECES,
    SCORES,
    REMOVES_SPACES,
    ADDS_SPACE,
    ESCAPES_SPACES,
    PREFIXES,
    REPLACEMENTS,
};

/* Sets *out to the trie in a field, which is a table with one vector. The trie is empty if the
 * model lacks the field. */
static bool open_trie(const struct kn_flat_table *t, size_t field, struct kn_vector *out)
{
    struct kn_flat_table child;

    *out = (struct kn_vector){.size = sizeof(uint32_t)};
    return !kn_flat_has(t, field) ||
           (kn_flat_child(t, field, &child) && kn_flat_vector(&child, 0, sizeof(uint32_t), out));
}

static bool read_flag(const struct kn_flat_table *t, size_t field, bool *out)
{
    uint32_t x;
    const bool ok = kn_flat_number(t, field, 1, &x);

    *out = ok && x != 0;
    return ok;
}

static bool read_int(const struct kn_flat_table *t, size_t field, int32_t *out)
{
    uint32_t x;
    const bool ok = kn_flat_number(t, field, sizeof x, &x);

    memcpy(out, &x, sizeof x);
    return ok;
}

const char *kn_fast_sp_open(struct rt_span bytes, struct kn_fast_sp_model *out)
{
    struct kn_fast_sp_model m;
    struct kn_flat_table t;
    uint32_t version = 0, score = 0;

    if (!kn_flat_open(bytes, &t) || !kn_flat_number(&t, VERSION, 1, &version) ||
        !read_int(&t, BEGIN, &m.begin) || !read_int(&t, END, &m.end) ||
        !read_int(&t, UNKNOWN, &m.unknown) || !read_int(&t, OFFSET, &m.offset) ||
        !kn_flat_number(&t, UNKNOWN_SCORE, sizeof score, &score) ||
        !open_trie(&t, PIECES, &m.pieces) ||
        !kn_flat_vector(&t, SCORES, sizeof(float), &m.scores) ||
        !read_flag(&t, REMOVES_SPACES, &m.removes_spaces) ||
        !read_flag(&t, ADDS_SPACE, &m.adds_space) ||
        !read_flag(&t, ESCAPES_SPACES, &m.escapes_spaces) ||
        !open_trie(&t, PREFIXES, &m.prefixes) ||
        !kn_flat_vector(&t, REPLACEMENTS, 1, &m.replacements))
        return "is malformed";
    if (version != 0)
        return "has another version";
    if (!kn_flat_has(&t, UNKNOWN))
        m.unknown = -1;
    memcpy(&m.unknown_score, &score, sizeof score);
    *out = m;
    return NULL;
}

/* ---- normalisation ---- */

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Appends text with replacements. */
static bool replace(struct kn_sp_coder *c, const struct kn_fast_sp_model *m, struct rt_span in)
{
    const unsigned char *p = in.p, *end = in.n ? in.p + in.n : in.p;

    while (p < end) {
        uint32_t value = 0;
        struct rt_span to;
        size_t n;
        if (!kn_sp_longest(c, &m->prefixes, p, end, &n, &value) || !kn_sp_spend(c, 8))
            return false;
        if (n == 0 || value >= m->replacements.n) {
            if (!kn_sp_add(c, &c->text, p++, 1))
                return false;
            continue;
        }
        const struct rt_span rest =
            rt_span_of(m->replacements.p + value, m->replacements.n - value);
        if (!kn_sp_until_nul(c, rest, &to) || !kn_sp_add(c, &c->text, to.p, to.n) ||
            !kn_sp_spend(c, (int64_t)to.n))
            return false;
        p += n;
    }
    return true;
}

/* Replaces each run of white space by one space, and removes the last character if it is one. White
 * space that is one character stays as it is. */
static bool remove_spaces(struct kn_sp_coder *c)
{
    unsigned char *p = (unsigned char *)c->text.p;
    size_t n = 0;

    for (size_t i = 0, end; i < c->text.n; i = end) {
        for (end = i; end < c->text.n && is_space(p[end]);)
            if (!kn_sp_tick(c, end++))
                return false;
        if (end - i > 1) {
            p[n++] = ' ';
        } else {
            end = i + 1;
            p[n++] = p[i];
            if (!kn_sp_tick(c, n))
                return false;
        }
    }
    const int64_t n_read = (int64_t)c->text.n;
    c->text.n = n && is_space(p[n - 1]) ? n - 1 : n;
    return kn_sp_spend(c, n_read);
}

/* Replaces each white-space character by KN_SP_SPACE. */
static bool escape_spaces(struct kn_sp_coder *c)
{
    const size_t more = strlen(KN_SP_SPACE) - 1;
    size_t n_spaces = 0, from = c->text.n;

    for (size_t i = 0; i < c->text.n; i++) {
        n_spaces += is_space((unsigned char)c->text.p[i]);
        if (!kn_sp_tick(c, i))
            return false;
    }
    for (size_t i = 0; i < n_spaces; i++)
        if (!kn_sp_add(c, &c->text, KN_SP_SPACE, more) || !kn_sp_tick(c, i))
            return false;
    for (size_t to = c->text.n; from > 0 && n_spaces > 0;) {
        const char x = c->text.p[--from];
        if (!kn_sp_tick(c, from))
            return false;
        if (is_space((unsigned char)x)) {
            to -= more + 1;
            memcpy(c->text.p + to, KN_SP_SPACE, more + 1);
            n_spaces--;
        } else {
            c->text.p[--to] = x;
        }
    }
    return kn_sp_spend(c, 2 * (int64_t)c->text.n);
}

static bool normalize(struct kn_sp_coder *c, const struct kn_fast_sp_model *m, struct rt_span in)
{
    c->text.n = 0;
    if (in.n == 0)
        return true;
    if (m->adds_space) {
        /* The space is replaced together with the text behind it. */
        if (!kn_sp_add(c, &c->agenda, " ", 1) || !kn_sp_add(c, &c->agenda, in.p, in.n))
            return false;
        in = rt_span_of(c->agenda.p, c->agenda.n);
        c->agenda.n = 0;
    }
    if (!replace(c, m, in))
        return false;
    if (m->removes_spaces && !remove_spaces(c))
        return false;
    return !m->escapes_spaces || escape_spaces(c);
}

/* ---- pieces ---- */

#define NOWHERE SIZE_MAX

/* The best list of pieces that ends at an offset. */
struct cell {
    size_t start; /* where its last piece begins, or NOWHERE */
    int32_t id;   /* of its last piece; -1 at the beginning */
    float score;
};

static inline void offer(struct cell *to, size_t start, int32_t id, float score)
{
    if (to->start == NOWHERE || to->score < score)
        *to = (struct cell){.start = start, .id = id, .score = score};
}

static bool fail_damaged(struct kn_sp_coder *c)
{
    if (c->r)
        rt_fail(c->r->err, RT_INVALID_ARGUMENT,
                "FastSentencepieceTokenize: the model contradicts itself");
    return false;
}

/* Offers the pieces that begin at offset `at`, each of which must have a score. */
static bool offer_pieces(struct kn_sp_coder *c, const struct kn_fast_sp_model *m,
                         struct cell *cells, size_t at)
{
    const unsigned char *text = (const unsigned char *)c->text.p;
    int64_t node = 0;
    size_t i = at;
    uint32_t id;

    while (m->pieces.n && i < c->text.n && text[i]) {
        node = kn_trie_child(&m->pieces, node, text[i]);
        if (node == KN_NO_NODE)
            break;
        if (!kn_sp_tick(c, i++ - at))
            return false;
        if (!kn_trie_value(&m->pieces, node, &id))
            continue;
        if (id >= m->scores.n)
            return fail_damaged(c);
        float score;
        memcpy(&score, m->scores.p + id * sizeof score, sizeof score);
        offer(&cells[i], at, (int32_t)id, cells[at].score + score);
    }
    return kn_sp_spend(c, (int64_t)(16 + 8 * (i - at)));
}

bool kn_fast_sp_encode(struct kn_sp_coder *c, const struct kn_fast_sp_model *m, struct rt_span in)
{
    struct cell *cells;
    size_t n;

    c->parts.n = 0;
    if (!normalize(c, m, in))
        return false;
    n = c->text.n;
    cells = kn_sp_array(c, &c->cells, n + 1, sizeof *cells);
    if (!cells)
        return false;
    for (size_t i = 0; i <= n; i++) {
        cells[i] = (struct cell){.start = NOWHERE, .id = -1};
        if (!kn_sp_tick(c, i))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!kn_sp_tick(c, i))
            return false;
        if (i > 0 && cells[i].start == NOWHERE)
            continue;
        if (m->unknown >= 0) /* Unknown bytes that follow each other become one piece. */
            offer(&cells[i + 1], cells[i].id == m->unknown ? cells[i].start : i, m->unknown,
                  cells[i].score + m->unknown_score);
        if (!offer_pieces(c, m, cells, i))
            return false;
    }
    if (cells[n].start == NOWHERE)
        return true;
    for (size_t end = n; end > 0; end = cells[end].start) {
        const struct cell *x = &cells[end];
        const uint32_t id =
            x->id == m->unknown ? (uint32_t)x->id : (uint32_t)x->id + (uint32_t)m->offset;
        if (!kn_sp_add_part(c, end - x->start, id) || !kn_sp_spend(c, 4))
            return false;
    }
    return true;
}
