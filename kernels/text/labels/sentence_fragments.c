/*
 * SentenceFragmentsV2 of TensorFlow Text splits documents into fragments that end with terminal
 * punctuation, an ellipsis, an emoticon or an acronym, and with the closing brackets behind it.
 * SentenceFragments does so with tokens, and knows neither emoticons nor acronyms.
 */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

enum { COST = 32 };

/* Properties of a fragment, as bits. */
enum { HAS_TERMINAL = 1, HAS_SEVERAL = 2, HAS_CLOSE = 4 };

/* Characters from `first` to `last`. */
struct range {
    int32_t first, last;
};

/* Terminal punctuation and closing brackets, as TensorFlow Text 2.21.1 classifies each character.
 */
static const struct range terminals[] = {
    {0x21, 0x21},       {0x2e, 0x2e},       {0x3f, 0x3f},       {0x37e, 0x37e},
    {0x55c, 0x55c},     {0x55e, 0x55e},     {0x589, 0x589},     {0x61d, 0x61f},
    {0x6d4, 0x6d4},     {0x700, 0x702},     {0x7f9, 0x7f9},     {0x837, 0x837},
    {0x839, 0x839},     {0x83d, 0x83e},     {0x964, 0x965},     {0x104a, 0x104b},
    {0x1362, 0x1362},   {0x1367, 0x1368},   {0x166e, 0x166e},   {0x1735, 0x1736},
    {0x17d4, 0x17d5},   {0x1803, 0x1803},   {0x1809, 0x1809},   {0x1944, 0x1945},
    {0x1aa8, 0x1aab},   {0x1b4e, 0x1b4f},   {0x1b5a, 0x1b5b},   {0x1b5e, 0x1b5f},
    {0x1b7d, 0x1b7f},   {0x1c3b, 0x1c3c},   {0x1c7e, 0x1c7f},   {0x2024, 0x2024},
    {0x2026, 0x2026},   {0x203c, 0x203d},   {0x2047, 0x2049},   {0x2cf9, 0x2cfb},
    {0x2e2e, 0x2e2e},   {0x2e3c, 0x2e3c},   {0x2e53, 0x2e54},   {0x3002, 0x3002},
    {0xa4ff, 0xa4ff},   {0xa60e, 0xa60f},   {0xa6f3, 0xa6f3},   {0xa6f7, 0xa6f7},
    {0xa876, 0xa877},   {0xa8ce, 0xa8cf},   {0xa92f, 0xa92f},   {0xa9c8, 0xa9c9},
    {0xaa5d, 0xaa5f},   {0xaaf0, 0xaaf1},   {0xabeb, 0xabeb},   {0xfe12, 0xfe12},
    {0xfe15, 0xfe16},   {0xfe52, 0xfe52},   {0xfe56, 0xfe57},   {0xff01, 0xff01},
    {0xff0e, 0xff0e},   {0xff1f, 0xff1f},   {0xff61, 0xff61},   {0x10a56, 0x10a57},
    {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x11047, 0x11048}, {0x110be, 0x110c1},
    {0x11141, 0x11143}, {0x111c5, 0x111c6}, {0x111cd, 0x111cd}, {0x111de, 0x111df},
    {0x11238, 0x11239}, {0x1123b, 0x1123c}, {0x112a9, 0x112a9}, {0x113d4, 0x113d5},
    {0x1144b, 0x1144c}, {0x115c2, 0x115c3}, {0x115c9, 0x115d7}, {0x11641, 0x11642},
    {0x1173c, 0x1173e}, {0x11944, 0x11944}, {0x11946, 0x11946}, {0x11a42, 0x11a43},
    {0x11a9b, 0x11a9c}, {0x11c41, 0x11c42}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f44},
    {0x16a6e, 0x16a6f}, {0x16af5, 0x16af5}, {0x16b37, 0x16b38}, {0x16b44, 0x16b44},
    {0x16d6e, 0x16d6f}, {0x16e98, 0x16e98}, {0x1bc9f, 0x1bc9f}, {0x1da88, 0x1da88}};
static const struct range closes[] = {
    {0x29, 0x29},       {0x3e, 0x3e},       {0x5d, 0x5d},       {0x7d, 0x7d},
    {0xf3b, 0xf3b},     {0xf3d, 0xf3d},     {0x169c, 0x169c},   {0x2046, 0x2046},
    {0x207e, 0x207e},   {0x208e, 0x208e},   {0x2309, 0x2309},   {0x230b, 0x230b},
    {0x232a, 0x232a},   {0x2769, 0x2769},   {0x276b, 0x276b},   {0x276d, 0x276d},
    {0x276f, 0x276f},   {0x2771, 0x2771},   {0x2773, 0x2773},   {0x2775, 0x2775},
    {0x27c6, 0x27c6},   {0x27e7, 0x27e7},   {0x27e9, 0x27e9},   {0x27eb, 0x27eb},
    {0x27ed, 0x27ed},   {0x27ef, 0x27ef},   {0x2984, 0x2984},   {0x2986, 0x2986},
    {0x2988, 0x2988},   {0x298a, 0x298a},   {0x298c, 0x298c},   {0x298e, 0x298e},
    {0x2990, 0x2990},   {0x2992, 0x2992},   {0x2994, 0x2994},   {0x2996, 0x2996},
    {0x2998, 0x2998},   {0x29d9, 0x29d9},   {0x29db, 0x29db},   {0x29fd, 0x29fd},
    {0x2e23, 0x2e23},   {0x2e25, 0x2e25},   {0x2e27, 0x2e27},   {0x2e29, 0x2e29},
    {0x2e56, 0x2e56},   {0x2e58, 0x2e58},   {0x2e5a, 0x2e5a},   {0x2e5c, 0x2e5c},
    {0x3001, 0x3002},   {0x3009, 0x3009},   {0x300b, 0x300b},   {0x300d, 0x300d},
    {0x300f, 0x300f},   {0x3011, 0x3011},   {0x3015, 0x3015},   {0x3017, 0x3017},
    {0x3019, 0x3019},   {0x301b, 0x301b},   {0x301e, 0x301f},   {0xfd3e, 0xfd3f},
    {0xfe10, 0xfe12},   {0xfe18, 0xfe18},   {0xfe36, 0xfe36},   {0xfe38, 0xfe38},
    {0xfe3a, 0xfe3a},   {0xfe3c, 0xfe3c},   {0xfe3e, 0xfe3e},   {0xfe40, 0xfe40},
    {0xfe42, 0xfe42},   {0xfe44, 0xfe44},   {0xfe48, 0xfe48},   {0xfe50, 0xfe50},
    {0xfe52, 0xfe52},   {0xfe5a, 0xfe5a},   {0xfe5c, 0xfe5c},   {0xfe5e, 0xfe5e},
    {0xff09, 0xff09},   {0xff0c, 0xff0c},   {0xff0e, 0xff0e},   {0xff3d, 0xff3d},
    {0xff5d, 0xff5d},   {0xff60, 0xff61},   {0xff63, 0xff64},   {0x1325b, 0x1325d},
    {0x13282, 0x13282}, {0x13287, 0x13287}, {0x13289, 0x13289}, {0x1337a, 0x1337b},
    {0x13438, 0x13438}, {0x1343d, 0x1343d}, {0x1343f, 0x1343f}, {0x145cf, 0x145cf}};

/* The longest emoticon that matches counts. */
static const char *const emoticons[] = {
    "#-)",    "(=^..^=)", "(=^.^=)", "(]:{", "*)",   "*-)",  "-<@%",  "-_-",   "0:)",  "0:-)",
    "0;^)",   "3:-)",     "8'(",     "8-)",  ":#",   ":$",   ":&",    ":'(",   ":')",  ":'-(",
    ":'-)",   ":(",       ":)",      ":*",   ":-#",  ":-&",  ":-(",   ":-)",   ":-))", ":-)))",
    ":-))))", ":-)))))",  ":-*",     ":-,",  ":-.",  ":-/",  ":-<",   ":-D",   ":-J",  ":-O",
    ":-P",    ":-S",      ":-[",     ":-\\", ":-c",  ":-o",  ":-p",   ":-s",   ":-|",  ":-||",
    ":/",     ":3",       ":<",      ":>",   ":@",   ":D",   ":O",    ":P",    ":S",   ":X)",
    ":[",     ":\\",      ":]",      ":^)",  ":^*",  ":c",   ":o",    ":o)",   ":p",   ":s",
    ":{",     ":|",       ":}",      ";(",   ";)",   ";*",   ";-)",   ";-*=(", ";-P",  ";-]",
    ";-p",    ";P",       ";]",      ";^)",  ";_;",  ";p",   "<3",    "<\\3",  "='(",  "=)",
    "=/",     "=D",       "=O",      "=P",   "=\\",  "=]",   "=^_^=", "=o",    "=p",   "=|",
    ">.<",    ">:(",      ">:)",     ">:-(", ">:-)", ">:/",  ">:O",   ">:P",   ">:[",  ">:\\",
    ">;)",    ">=(",      ">_<",     ">_>^", "B)",   "B-)",  "D:",    "D:<",   "DX",   "O.O",
    "O:-)",   "O=)",      "T_T",     "X(",   "X-(",  "X-O",  "X-o",   "XD",    "^<_<", "^_^",
    "o.o",    "o_o;",     "u_u",     "x_x",  "|-O",  "|;-)", "}:)",   "}:-)",  "}=)",  "~@~"};

static bool is_in(const struct range *ranges, size_t n, int32_t c)
{
    size_t least = 0, most = n;

    while (least < most) {
        const size_t middle = (least + most) / 2;
        if (ranges[middle].last < c)
            least = middle + 1;
        else
            most = middle;
    }
    return least < n && ranges[least].first <= c;
}

/* Returns the length of the emoticon that begins at p, or 0. */
static int64_t emoticon(const char *p, const char *end)
{
    size_t longest = 0;

    for (size_t i = 0; i < sizeof emoticons / sizeof *emoticons; i++) {
        const char *e = emoticons[i];
        if (*e != *p)
            continue;
        const size_t n = strlen(e);
        if (n > longest && n <= (size_t)(end - p) && memcmp(p, e, n) == 0)
            longest = n;
    }
    return (int64_t)longest;
}

/* Returns the length of the ellipsis that begins at p, or 0: both kinds have three bytes. */
static int64_t ellipsis(const char *p, const char *end)
{
    return end - p >= 3 && (memcmp(p, "...", 3) == 0 || memcmp(p, "\xe2\x80\xa6", 3) == 0) ? 3 : 0;
}

/* A walk through a document. */
struct walk {
    struct rt_run *r;
    int64_t *left;
    const char *begin, *p, *end;
};

struct fragment {
    int64_t begin, end, properties;
    int64_t terminal; /* offset of the terminal punctuation, or -1 */
};

/* Reads the character at w->p, and sets *n to its length. */
static int32_t char_at(const struct walk *w, int64_t *n)
{
    const unsigned char *p = (const unsigned char *)w->p, *next;
    const int32_t c = kn_decode_utf8(p, (const unsigned char *)w->end, &next);

    *n = next - p;
    return c;
}

#define IS_IN(table, c) is_in(table, sizeof(table) / sizeof *(table), c)

/* Skips white space byte by byte, as TensorFlow Text does: after a white-space character of several
 * bytes, the fragment begins with the rest of that character. */
static bool skip_space(struct walk *w)
{
    int64_t n;

    while (w->p < w->end && kn_char_is_space(char_at(w, &n))) {
        w->p++;
        if (rt_run_spend(w->r, w->left, 4))
            return false;
    }
    return true;
}

/* Sets *n to the length of the acronym at w->p, or to 0: two or more of A to Z, each with '.'.
 * Returns false if the run must end. */
static bool acronym(const struct walk *w, int64_t *n)
{
    const char *at = w->p;

    while (w->end - at >= 2 && at[0] >= 'A' && at[0] <= 'Z' && at[1] == '.') {
        at += 2;
        if (rt_run_spend(w->r, w->left, 2))
            return false;
    }
    *n = at - w->p >= 4 ? at - w->p : 0;
    return true;
}

/* Advances past the first terminal punctuation, or to the end of the document if there is none.
 * Returns false if the run must end. */
static bool find_terminal(struct walk *w, struct fragment *f)
{
    while (w->p < w->end) {
        int64_t n, a;
        const int32_t c = char_at(w, &n);
        if (rt_run_spend(w->r, w->left, COST) || !acronym(w, &a))
            return false;
        const int64_t e = emoticon(w->p, w->end), l = ellipsis(w->p, w->end);
        if (a || e || l || IS_IN(terminals, c)) {
            f->terminal = w->p - w->begin;
            f->properties = a && !e ? HAS_TERMINAL | HAS_SEVERAL : HAS_TERMINAL;
            w->p += e ? e : a ? a : l ? l : n;
            return true;
        }
        w->p += n;
    }
    return true;
}

/* Advances past the characters of a table, and ellipses and emoticons among them. A character of
 * the table gives the fragment the property. Returns false if the run must end. */
static bool read_all_in(struct walk *w, const struct range *table, size_t n_ranges,
                        struct fragment *f, int64_t property)
{
    while (w->p < w->end) {
        int64_t n;
        const int32_t c = char_at(w, &n);
        const int64_t l = ellipsis(w->p, w->end), e = l ? l : emoticon(w->p, w->end);
        if (!e && !is_in(table, n_ranges, c))
            break;
        if (!e)
            f->properties |= property;
        w->p += e ? e : n;
        if (rt_run_spend(w->r, w->left, COST))
            return false;
    }
    return true;
}

#define READ_ALL_IN(w, table, f, property)                                                         \
    read_all_in(w, table, sizeof(table) / sizeof *(table), f, property)

/* Advances past further terminal punctuation. */
static bool read_terminals(struct walk *w, struct fragment *f)
{
    const char *first = w->begin + f->terminal;

    if (!READ_ALL_IN(w, terminals, f, HAS_SEVERAL))
        return false;
    for (const char *p = first + 1; p < w->p; p++) { /* The last ellipsis or emoticon counts. */
        if (ellipsis(p, w->p) || emoticon(p, w->end))
            f->terminal = p - w->begin;
        if (rt_run_spend(w->r, w->left, COST))
            return false;
    }
    return true;
}

/* Adds the fragments of a document to `list`, and sets *n to their number. */
static enum rt_status split(struct rt_run *r, int64_t *left, const struct rt_str *s,
                            struct rt_bytes *list, int64_t *n)
{
    const char *begin = rt_str_data(s);
    struct walk w = {.r = r, .left = left, .begin = begin, .p = begin, .end = begin + s->n};

    for (*n = 0;; ++*n) {
        struct fragment f = {.terminal = -1};
        if (!skip_space(&w))
            return r->err->code;
        if (w.p == w.end)
            return RT_OK;
        f.begin = w.p - begin;
        if (!find_terminal(&w, &f) ||
            (f.terminal >= 0 &&
             (!read_terminals(&w, &f) || !READ_ALL_IN(&w, closes, &f, HAS_CLOSE))))
            return r->err->code;
        f.end = w.p - begin;
        rt_bytes_add(list, &f, sizeof f);
        if (list->failed)
            return kn_text_failed(list);
    }
}

static enum rt_status emit(struct rt_run *r, const struct rt_bytes *list)
{
    const struct fragment *f = (const struct fragment *)(const void *)list->p;
    const int64_t n = (int64_t)(list->n / sizeof *f);
    int64_t *to[4];

    for (int k = 0; k < 4; k++) {
        to[k] = kn_out(r, k, 1, &n);
        if (!to[k])
            return r->err->code;
    }
    for (int64_t i = 0; i < n; i++) {
        to[0][i] = f[i].begin;
        to[1][i] = f[i].end;
        to[2][i] = f[i].properties;
        to[3][i] = f[i].terminal;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    int64_t n = 0, left = RT_WORK;
    struct rt_bytes list;
    enum rt_status st = kn_token_strings(r, &n);
    int64_t *lengths = st ? NULL : kn_out(r, 4, 1, &n);

    if (!lengths)
        return r->err->code;
    kn_text_begin(&list, r);
    for (int64_t i = 0; i < n && !st; i++) {
        st = split(r, &left, &rt_strs(&r->in[0])[i], &list, &lengths[i]);
        if (!st)
            st = rt_run_spend(r, &left, KN_STRING_WORK);
    }
    if (!st)
        st = emit(r, &list);
    kn_text_end(&list);
    return st;
}

const struct kn_entry kn_sentence_fragments_v2 = {
    .op = {.name = "SentenceFragmentsV2"},
    .kernels = KN_KERNELS(
        {.op = "SentenceFragmentsV2", .device = "CPU", .name = "sentence_fragments", .run = run}),
};

/* ---- SentenceFragments, on tokens ---- */

/* What a token is. */
enum kind { EMPTY, WORD, TERMINAL, ELLIPSIS, CLOSE, TERMINAL_AND_CLOSE };

static enum kind kind_of(struct kn_encoding e, const struct rt_str *s)
{
    const unsigned char *p = (const unsigned char *)rt_str_data(s), *end = p + s->n;

    if (s->n == 3 && memcmp(p, "...", 3) == 0)
        return ELLIPSIS;
    kn_encoding_begin(&e, &p, end);
    if (p == end)
        return EMPTY;
    const int32_t c = kn_decode_char(&e, p, end, &p);
    if (p < end)
        return WORD;
    if (c == 0x2026)
        return ELLIPSIS;
    if (IS_IN(terminals, c))
        return IS_IN(closes, c) ? TERMINAL_AND_CLOSE : TERMINAL;
    return IS_IN(closes, c) ? CLOSE : WORD;
}

static bool is_terminal(enum kind k)
{
    return k == TERMINAL || k == TERMINAL_AND_CLOSE;
}

/* Reads the fragment that begins at token f->begin of the n tokens at `words`. */
static enum rt_status read_fragment(struct rt_run *r, int64_t *left, const struct rt_str *words,
                                    int64_t n, struct fragment *f)
{
    const struct kn_encoding *e = r->state;
    int64_t i = f->begin, after_ellipsis = -1;
    bool is_in_terminals = false;

    for (; i < n; i++) {
        const enum kind k = kind_of(*e, &words[i]);
        if (k == EMPTY) /* the number of ICU's error */
            return rt_fail(r->err, RT_INTERNAL, "Failed to decode string, error status=8");
        if (rt_run_spend(r, left, COST))
            return r->err->code;
        if (f->terminal < 0) {
            if (!is_terminal(k) && k != ELLIPSIS)
                continue;
            f->terminal = i;
            f->properties = HAS_TERMINAL;
            is_in_terminals = true;
        } else if (is_in_terminals && (is_terminal(k) || k == ELLIPSIS)) {
            if (is_terminal(k))
                f->properties |= HAS_SEVERAL;
        } else {
            is_in_terminals = false;
            if (k != CLOSE && k != TERMINAL_AND_CLOSE && k != ELLIPSIS)
                break;
            if (k != ELLIPSIS)
                f->properties |= HAS_CLOSE;
        }
        if (is_in_terminals && k == ELLIPSIS)
            after_ellipsis = i + 1;
        if (is_in_terminals)
            f->end = i + 1; /* for now, of the terminal punctuation */
    }
    /* Terminal punctuation behind the last ellipsis counts, if there is any. */
    if (after_ellipsis >= 0 && after_ellipsis < f->end)
        f->terminal = after_ellipsis;
    f->end = i;
    return RT_OK;
}

/* Adds the fragments of n tokens to `list`, and sets *count to their number. */
static enum rt_status split_tokens(struct rt_run *r, int64_t *left, const struct rt_str *words,
                                   int64_t n, struct rt_bytes *list, int64_t *count)
{
    *count = 0;
    for (int64_t i = 0; i < n; ++*count) {
        struct fragment f = {.begin = i, .terminal = -1};
        const enum rt_status st = read_fragment(r, left, words, n, &f);
        if (st)
            return st;
        rt_bytes_add(list, &f, sizeof f);
        if (list->failed)
            return kn_text_failed(list);
        i = f.end;
    }
    return RT_OK;
}

/* Compares the sum of the row lengths with the numbers of tokens. */
static enum rt_status check_tokens(struct rt_run *r)
{
    const struct rt_tensor *rows = &r->in[0];
    const int64_t n = rt_tensor_count(&r->in[3]);
    int64_t sum = 0;

    if (rows->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "'row_lengths' must be a vector, got shape: %s",
                       KN_TEXT(rows));
    for (int64_t i = 0; i < rows->dim[0]; i++) {
        const int64_t length = kn_int_at(rows, i);
        if (length < 0 || length > INT64_MAX - sum)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: row_lengths[%lld] is %lld",
                           r->node->schema->name, (long long)i, (long long)length);
        sum += length;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (rt_tensor_count(&r->in[1]) != sum || rt_tensor_count(&r->in[2]) != sum || n != sum)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num_elements(%lld), token_start(%lld), token_end(%lld), token_word(%lld) "
                       "must all be the same size.",
                       (long long)sum, (long long)rt_tensor_count(&r->in[1]),
                       (long long)rt_tensor_count(&r->in[2]), (long long)n);
    return RT_OK;
}

static enum rt_status tokens_prepare(struct rt_prep *p, void **state)
{
    const struct rt_span name = rt_attr_str(p->node, "input_encoding");
    const int64_t replacement = rt_attr_int(p->node, "replacement_char");
    struct kn_encoding *e = rt_prep_alloc(p, sizeof *e);

    if (!e)
        return p->err->code;
    *state = e;
    if (replacement < 0 || replacement > KN_MAX_CHAR)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "replacement_char out of unicode codepoint range");
    if (!kn_encoding_find(name, e))
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "Could not create converter for input encoding: %.*s",
                       (int)(name.n < 200 ? name.n : 200), (const char *)name.p);
    return RT_OK;
}

static enum rt_status run_tokens(struct rt_run *r)
{
    int64_t left = RT_WORK;
    struct rt_bytes list;
    enum rt_status st = check_tokens(r);
    const int64_t n = st ? 0 : r->in[0].dim[0];
    int64_t *lengths = st ? NULL : kn_out(r, 4, 1, &n);

    if (!lengths)
        return r->err->code;
    kn_text_begin(&list, r);
    for (int64_t i = 0, at = 0; i < n && !st; i++) {
        const int64_t length = kn_int_at(&r->in[0], i);
        st = split_tokens(r, &left, rt_strs(&r->in[3]) + at, length, &list, &lengths[i]);
        at += length;
        if (!st)
            st = rt_run_spend(r, &left, KN_STRING_WORK);
    }
    if (!st)
        st = emit(r, &list);
    kn_text_end(&list);
    return st;
}

const struct kn_entry kn_sentence_fragments = {
    .op = {.name = "SentenceFragments"},
    .kernels = KN_KERNELS({.op = "SentenceFragments",
                           .device = "CPU",
                           .name = "sentence_fragments",
                           .prepare = tokens_prepare,
                           .run = run_tokens}),
};
