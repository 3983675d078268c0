#include "kernels/text/normal.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/string/unicode.h"
#include "runtime/base/sort.h"

/* The effect of normalisation on a character. A sequence of characters is an index into `pool`,
 * where the length of the sequence is followed by its code points. Index 0 means that the character
 * does not change. */
struct change {
    uint8_t order; /* canonical combining class */
    uint8_t joins; /* whether the class is 0 and the character may combine with its predecessor */
    uint16_t canonical, compatible, folded;
};

/* The character that two characters compose to. */
struct composite {
    uint32_t first, second, c;
};

#include "kernels/text/normal_table.inc"

enum {
    /* Hangul syllables, which decompose by arithmetic (Unicode standard, section 3.12) */
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT,
    MALFORMED = 0x200000, /* added to a malformed byte, to distinguish it from a character */
    CHECKED = 1 << 14,    /* number of characters of a segment between two checks */
};

struct normal_char {
    int32_t c;
    int32_t order;   /* canonical combining class */
    size_t position; /* index in the segment, which makes sorting stable */
};

static const struct change *change_of(int32_t c)
{
    const uint32_t u = (uint32_t)c, leaf = (1u << LEAF_BITS) - 1;

    if (u > KN_MAX_CHAR)
        return &changes[0];
    return &changes[leaves[(uint32_t)branches[u >> LEAF_BITS] << LEAF_BITS | (u & leaf)]];
}

static bool composes(const struct kn_normal *n)
{
    return n->form != KN_NFD && n->form != KN_NFKD;
}

/* ---- composition ---- */

static int compare_pairs(const void *key, const void *row)
{
    const struct composite *a = key, *b = row;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->second < b->second ? -1 : a->second > b->second;
}

int32_t kn_normal_compose(int32_t a, int32_t b)
{
    const int32_t l = a - L_BASE, v = b - V_BASE, s = a - S_BASE, t = b - T_BASE;

    if (l >= 0 && l < L_COUNT && v >= 0 && v < V_COUNT)
        return S_BASE + (l * V_COUNT + v) * T_COUNT;
    if (s >= 0 && s < S_COUNT && s % T_COUNT == 0 && t > 0 && t < T_COUNT)
        return a + t;
    const struct composite key = {.first = (uint32_t)a, .second = (uint32_t)b};
    const struct composite *found =
        bsearch(&key, composites, sizeof composites / sizeof *composites, sizeof *composites,
                compare_pairs);
    return found ? (int32_t)found->c : KN_BAD_CHAR;
}

/* Composes the characters of a segment, which are in canonical order, and returns how many remain.
 * A character is composed with the last character of class 0, unless a character that remains
 * between them has class 0 or a class that is not lower. */
static size_t compose_segment(struct kn_normal *x, struct normal_char *s, size_t n)
{
    size_t kept = 0, starter = SIZE_MAX;
    int32_t between = -1; /* class of the last character after the starter; -1 if there is none */

    for (size_t i = 0; i < n; i++) {
        int32_t c = KN_BAD_CHAR;
        if (i % CHECKED == CHECKED - 1 && !kn_normal_goes_on(x))
            return 0;
        if (starter != SIZE_MAX && between < s[i].order)
            c = kn_normal_compose(s[starter].c, s[i].c);
        if (c != KN_BAD_CHAR) {
            s[starter].c = c;
            continue;
        }
        between = s[i].order;
        if (s[i].order == 0) {
            starter = kept;
            between = -1;
        }
        s[kept++] = s[i];
    }
    return kept;
}

/* ---- segments ---- */

static int compare_order(const void *a, const void *b)
{
    const struct normal_char *x = a, *y = b;

    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

bool kn_normal_goes_on(struct kn_normal *n)
{
    if (rt_check_call(n->check, n->err))
        n->segment.failed = true;
    return !n->segment.failed && !n->out->failed;
}

/* Sorts n characters of the segment, from the one with index `at`, by class. */
static bool sort_run(struct kn_normal *x, size_t at, size_t n)
{
    const size_t count = x->segment.n / sizeof(struct normal_char);
    void *workspace = NULL;

    if (n > RT_SORT_RUN) {
        if (!rt_bytes_reserve(&x->segment, n * sizeof(struct normal_char)))
            return false;
        workspace = (struct normal_char *)(void *)x->segment.p + count;
    }
    struct normal_char *s = (struct normal_char *)(void *)x->segment.p;
    if (rt_sort(s + at, workspace, n, sizeof *s, compare_order, x->check, x->err))
        x->segment.failed = true;
    return !x->segment.failed;
}

/* Sorts each run of characters whose class is not 0 by class. */
static bool sort_marks(struct kn_normal *x)
{
    const size_t n = x->segment.n / sizeof(struct normal_char);

    for (size_t i = 0; i < n;) {
        const struct normal_char *s = (const struct normal_char *)(const void *)x->segment.p;
        size_t end = i + 1;
        bool is_sorted = true;
        for (; s[i].order && end < n && s[end].order; end++)
            is_sorted = is_sorted && s[end - 1].order <= s[end].order;
        if (!is_sorted && !sort_run(x, i, end - i))
            return false;
        i = end;
    }
    return true;
}

static void flush(struct kn_normal *n)
{
    size_t count = n->segment.failed ? 0 : n->segment.n / sizeof(struct normal_char);

    if (count > 1 && !sort_marks(n))
        count = 0;
    struct normal_char *s = (struct normal_char *)(void *)n->segment.p;
    if (count > 1 && composes(n))
        count = compose_segment(n, s, count);
    for (size_t i = 0; i < count; i++) {
        if (s[i].c >= MALFORMED)
            rt_bytes_addc(n->out, (char)(s[i].c - MALFORMED));
        else
            rt_bytes_add_utf8(n->out, (uint32_t)s[i].c);
        if (i % CHECKED == CHECKED - 1 && !kn_normal_goes_on(n))
            break;
    }
    n->segment.n = 0;
}

static bool joins(int32_t c, const struct change *to)
{
    return to->joins || (c >= V_BASE && c < V_BASE + V_COUNT) ||
           (c > T_BASE && c < T_BASE + T_COUNT);
}

/* Adds a character that does not decompose further. */
static void add_char(struct kn_normal *n, int32_t c)
{
    const struct change *to = change_of(c);

    if (to->order == 0 && !(joins(c, to) && composes(n)))
        flush(n);
    const struct normal_char next = {c, to->order, n->segment.n / sizeof next};
    rt_bytes_add(&n->segment, &next, sizeof next);
}

static size_t decompose_hangul(int32_t c, int32_t *to)
{
    const int32_t s = c - S_BASE;

    to[0] = L_BASE + s / (V_COUNT * T_COUNT);
    to[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
    to[2] = T_BASE + s % T_COUNT;
    return s % T_COUNT ? 3 : 2;
}

/* Returns the index in `pool` of the decomposition of a character, or 0 if it does not change. */
static uint16_t place_of(enum kn_normal_form form, const struct change *to)
{
    return form == KN_NFKC_CASEFOLD           ? to->folded
           : form == KN_NFC || form == KN_NFD ? to->canonical
                                              : to->compatible;
}

static bool is_hangul(int32_t c)
{
    return c >= S_BASE && c < S_BASE + S_COUNT;
}

/* Adds the decomposition of a character. */
static void decompose(struct kn_normal *n, int32_t c)
{
    const uint16_t at = place_of(n->form, change_of(c));
    int32_t parts[3];

    if (is_hangul(c) && !composes(n))
        for (size_t i = 0, count = decompose_hangul(c, parts); i < count; i++)
            add_char(n, parts[i]);
    else if (at == 0)
        add_char(n, c);
    else
        for (uint32_t i = 1; i <= pool[at]; i++)
            add_char(n, (int32_t)pool[at + i]);
}

/* Appends ASCII characters up to the last one, which may combine with the character after it.
 * Returns the address of that last character. */
static const unsigned char *add_ascii(struct kn_normal *n, const unsigned char *p,
                                      const unsigned char *end)
{
    const unsigned char *begin = p;

    while (p + 1 < end && p[0] < 0x80 && p[1] < 0x80)
        p++;
    if (p == begin)
        return p;
    flush(n);
    const size_t at = n->out->n;
    rt_bytes_add(n->out, begin, (size_t)(p - begin));
    if (n->form == KN_NFKC_CASEFOLD && !n->out->failed)
        for (size_t i = at; i < n->out->n; i++) {
            const char c = n->out->p[i];
            n->out->p[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        }
    return p;
}

void kn_normal_add(struct kn_normal *n, const unsigned char **p, const unsigned char *end,
                   size_t n_bytes)
{
    static const struct kn_encoding utf8 = {.kind = KN_UTF8};
    const unsigned char *q = *p, *stop = (size_t)(end - q) > n_bytes ? q + n_bytes : end;

    while (q < stop && !n->segment.failed && !n->out->failed) {
        const unsigned char *next;
        q = add_ascii(n, q, stop);
        const int32_t c = kn_decode_char(&utf8, q, end, &next);
        if (c == KN_BAD_CHAR)
            for (; q < next; q++)
                add_char(n, MALFORMED + *q);
        else
            decompose(n, c);
        q = next;
    }
    *p = q;
}

void kn_normal_end(struct kn_normal *n)
{
    flush(n);
}

bool kn_normal_find(struct rt_span name, enum kn_normal_form *form, char upper[KN_FORM_TEXT])
{
    static const char *const names[] = {
        [KN_NFC] = "NFC", [KN_NFD] = "NFD", [KN_NFKC] = "NFKC", [KN_NFKD] = "NFKD"};
    const size_t n = name.n < KN_FORM_TEXT ? name.n : KN_FORM_TEXT - 1;

    for (size_t i = 0; i < n; i++) {
        const char c = (char)name.p[i];
        upper[i] = (char)(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
    }
    upper[n] = 0;
    for (int k = KN_NFC; k <= KN_NFKD; k++)
        if (name.n == strlen(names[k]) && memcmp(upper, names[k], name.n) == 0) {
            *form = (enum kn_normal_form)k;
            return true;
        }
    return false;
}

/* ---- properties of characters ---- */

int kn_normal_class(int32_t c)
{
    return change_of(c)->order;
}

bool kn_normal_joins(int32_t c)
{
    return joins(c, change_of(c));
}

size_t kn_normal_decompose(enum kn_normal_form form, int32_t c, int32_t to[KN_MAX_DECOMPOSITION])
{
    const uint16_t at = place_of(form, change_of(c));

    if (is_hangul(c))
        return decompose_hangul(c, to);
    if (at == 0) {
        to[0] = c;
        return 1;
    }
    for (uint32_t i = 0; i < pool[at]; i++)
        to[i] = (int32_t)pool[at + 1 + i];
    return pool[at];
}

bool kn_normal_composes_with_class(int32_t c, int low, int high)
{
    const size_t n = sizeof composites / sizeof *composites;
    size_t least = 0, most = n;

    /* A leading consonant composes with a vowel, and a syllable without a final with a final. */
    if ((c >= L_BASE && c < L_BASE + L_COUNT) || (is_hangul(c) && (c - S_BASE) % T_COUNT == 0))
        return low < 0 && high > 0;
    while (least < most) {
        const size_t middle = least + (most - least) / 2;
        if (composites[middle].first < (uint32_t)c)
            least = middle + 1;
        else
            most = middle;
    }
    for (; least < n && composites[least].first == (uint32_t)c; least++) {
        const int order = kn_normal_class((int32_t)composites[least].second);
        if (order > low && order < high)
            return true;
    }
    return false;
}
