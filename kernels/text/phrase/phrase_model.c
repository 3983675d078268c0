#include "kernels/text/phrase/phrase_model.h"

#include "kernels/text/whitespace.h"

/* Numbers of the fields in the model's table. */
enum {
    PERCENT,
    UNKNOWN,
    UNKNOWN_ID,
    HAS_TEXTS,
    TEXTS,
    TRIE,
    SPACES,
    SPLITS_ENDINGS,
};

static struct rt_span bytes_of(const struct kn_vector *v)
{
    return rt_span_of(v->p, v->n);
}

const char *kn_phrase_open(struct rt_span bytes, struct kn_phrase_model *out)
{
    struct kn_phrase_model m;
    struct kn_flat_table t, trie;
    struct kn_vector unknown, spaces;
    uint32_t percent = 0, unknown_id = 0, has_texts = 0, splits_endings = 0;

    if (!kn_flat_open(bytes, &t) || !kn_flat_number(&t, PERCENT, 4, &percent) ||
        !kn_flat_vector(&t, UNKNOWN, 1, &unknown) ||
        !kn_flat_number(&t, UNKNOWN_ID, 4, &unknown_id) ||
        !kn_flat_number(&t, HAS_TEXTS, 1, &has_texts) ||
        !kn_flat_vector(&t, TEXTS, sizeof(uint32_t), &m.texts) || !kn_flat_child(&t, TRIE, &trie) ||
        !kn_flat_vector(&trie, 0, sizeof(uint32_t), &m.trie) ||
        !kn_flat_vector(&t, SPACES, 1, &spaces) ||
        !kn_flat_number(&t, SPLITS_ENDINGS, 1, &splits_endings))
        return "is malformed";
    if (!kn_flat_has(&t, UNKNOWN) || unknown_id > INT32_MAX)
        return "has no unknown token";
    m.unknown = bytes_of(&unknown);
    m.spaces = bytes_of(&spaces);
    m.unknown_id = (int32_t)unknown_id;
    memcpy(&m.percent, &percent, sizeof percent);
    m.splits_endings = splits_endings != 0;
    m.has_texts = has_texts != 0;
    m.table = t;
    *out = m;
    return NULL;
}

bool kn_phrase_text(const struct kn_phrase_model *m, int64_t id, struct rt_span *out)
{
    return id >= 0 && (size_t)id < m->texts.n &&
           kn_flat_string(&m->table, &m->texts, (size_t)id, out);
}

size_t kn_phrase_ending(struct rt_span word)
{
    static const char *const endings[] = {".",  ",",  "?",   "!",   "'d", "'m",
                                          "'s", "'t", "'ll", "'re", "'ve"};

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (n <= word.n && memcmp(word.p + word.n - n, endings[i], n) == 0)
            return n;
    }
    return 0;
}

/* ---- text ---- */

enum {
    SPEND_BYTES =
        1 << 14,      /* number of bytes of a word that are read between two calls of `spend` */
    CHAR_WORK = 4,    /* work for a byte */
    PHRASE_WORK = 16, /* work for a word or a phrase */
};

static bool spend(const struct kn_phrases *p, int64_t work)
{
    return !p->spend || p->spend(p->arg, work);
}

static void add_word(struct kn_phrases *p, struct rt_span word)
{
    rt_bytes_add(&p->words, &word, sizeof word);
}

/* Adds a word, or the part before its ending, which may be empty, and the ending. */
static void add_words(struct kn_phrases *p, struct rt_span word)
{
    const size_t n = p->m->splits_endings ? kn_phrase_ending(word) : 0;

    if (n) {
        add_word(p, rt_span_of(word.p, word.n - n));
        word = rt_span_of(word.p + word.n - n, n);
    }
    add_word(p, word);
}

bool kn_phrases_begin(struct kn_phrases *p, struct rt_span text)
{
    struct kn_words words = {.spaces = p->m->spaces, .p = text.p, .end = text.p};
    const unsigned char *from;
    struct rt_span word;

    if (text.n)
        words.end += text.n;
    p->words.n = 0;
    p->at = 0;
    while ((from = words.p) < words.end) {
        if (kn_words_next(&words, &word))
            add_words(p, word);
        if (p->words.failed || !spend(p, CHAR_WORK * (words.p - from) + PHRASE_WORK))
            return false;
    }
    return true;
}

/* Continues a walk through the trie with a word. *node becomes KN_NO_NODE if no phrase continues
 * so. */
static bool walk(const struct kn_phrases *p, struct rt_span word, int64_t *node)
{
    const struct kn_vector trie = p->m->trie;
    size_t i = 0;

    for (; i < word.n && *node != KN_NO_NODE; i++) {
        if (i % SPEND_BYTES == SPEND_BYTES - 1 && !spend(p, CHAR_WORK * SPEND_BYTES))
            return false;
        *node = word.p[i] ? kn_trie_child(&trie, *node, word.p[i]) : KN_NO_NODE;
    }
    return spend(p, CHAR_WORK * (int64_t)(i % SPEND_BYTES) + PHRASE_WORK);
}

/* Draws whether a phrase is taken without a look at longer ones. */
static bool is_taken(struct kn_phrases *p)
{
    const int32_t percent = p->m->percent;

    return percent > 0 && 100 * kn_single_double(&p->random) < percent;
}

bool kn_phrases_next(struct kn_phrases *p, struct kn_phrase *out)
{
    const struct kn_phrase_model *m = p->m;
    const struct rt_span *words = (const struct rt_span *)(const void *)p->words.p + p->at;
    const size_t n = p->words.n / sizeof *words - p->at;
    int64_t node = m->trie.n ? 0 : KN_NO_NODE;
    uint32_t id;

    *out =
        (struct kn_phrase){.words = words, .n_words = 1, .id = m->unknown_id, .is_unknown = true};
    for (size_t i = 0; i < n && node != KN_NO_NODE; i++) {
        if (i > 0)
            node = kn_trie_child(&m->trie, node, ' ');
        if (!walk(p, words[i], &node))
            return false;
        if (node == KN_NO_NODE || !kn_trie_value(&m->trie, node, &id))
            continue;
        *out = (struct kn_phrase){.words = words, .n_words = i + 1, .id = (int32_t)id};
        if (is_taken(p))
            break;
    }
    p->at += out->n_words;
    return true;
}
