#include "kernels/text/normal_edits.h"

#include <string.h>

#include "kernels/string/unicode.h"

enum {
    MAX_CLASS = 256,   /* more than any canonical combining class */
    CHECKED = 1 << 12, /* number of characters of a run between two checks */
    CHUNK = 1 << 16,   /* number of bytes that are normalised between two checks */
};

/* ---- boundaries ---- */

static bool composes(enum kn_normal_form form)
{
    return form == KN_NFC || form == KN_NFKC;
}

/* Returns whether no text before the character c can combine with it. */
static bool has_boundary_before(enum kn_normal_form form, int32_t c)
{
    int32_t to[KN_MAX_DECOMPOSITION];

    if (c == KN_BAD_CHAR)
        return true;
    kn_normal_decompose(form, c, to);
    return kn_normal_class(to[0]) == 0 && !(composes(form) && kn_normal_joins(to[0]));
}

/* Returns whether no text after the character c can combine with it in a form that composes. */
static bool has_boundary_after(enum kn_normal_form form, int32_t c)
{
    int32_t to[KN_MAX_DECOMPOSITION];

    if (c == KN_BAD_CHAR)
        return true;
    const size_t n = kn_normal_decompose(form, c, to);
    size_t first = n;
    while (first > 0 && kn_normal_class(to[first - 1]) != 0)
        first--;
    if (first == 0 || (first == 1 && kn_normal_joins(to[0])))
        return false;
    int32_t starter = to[first - 1];
    if (first > 1) { /* The last character of class 0 may be the vowel or final of a syllable. */
        int32_t joined = kn_normal_compose(to[first - 2], starter);
        if (joined == KN_BAD_CHAR && first > 2)
            joined = kn_normal_compose(kn_normal_compose(to[0], to[1]), starter);
        starter = joined == KN_BAD_CHAR ? starter : joined;
    }
    for (size_t i = first; i < n; i++) {
        /* A mark of a lower class would be composed first. */
        if (kn_normal_composes_with_class(starter, 0, kn_normal_class(to[i])))
            return false;
        starter = kn_normal_compose(starter, to[i]);
        if (starter == KN_BAD_CHAR) /* A mark of a lower class would be placed before this one. */
            return kn_normal_class(to[i]) <= 1;
    }
    return !kn_normal_composes_with_class(starter, -1, MAX_CLASS);
}

/* Returns whether c is its own normal form, whatever stands before it, and has class 0. */
static bool is_stable(enum kn_normal_form form, int32_t c)
{
    int32_t to[KN_MAX_DECOMPOSITION];

    if (c < 0x80)
        return true; /* also malformed bytes */
    const size_t n = kn_normal_decompose(form, c, to);
    if (kn_normal_class(to[0]) != 0 || (composes(form) && kn_normal_joins(to[0])))
        return false;
    if (n == 1 || !composes(form))
        return n == 1 && to[0] == c;
    int32_t joined = to[0];
    for (size_t i = 1; i < n; i++)
        joined = joined == KN_BAD_CHAR ? joined : kn_normal_compose(joined, to[i]);
    return joined == c;
}

/* ---- edits ---- */

static int32_t decode(const struct kn_edited *e, const unsigned char *p, const unsigned char **next)
{
    return kn_decode_utf8(p, e->end, next);
}

/* Appends the source up to `to`, which does not change. */
static void copy(struct kn_edited *e, const unsigned char *to)
{
    if (to > e->last)
        rt_bytes_add(e->out, e->last, (size_t)(to - e->last));
    e->last = to;
}

/* Normalises the bytes from `from` to `to`. If this changes them, records an edit. If it does not,
 * a later edit may begin with the last of these characters. */
static void replace(struct kn_edited *e, const unsigned char *from, const unsigned char *to)
{
    struct rt_bytes *run = e->normal.out;
    const size_t n = (size_t)(to - from);
    const unsigned char *p = from;

    e->p = to;
    run->n = 0;
    do
        kn_normal_add(&e->normal, &p, to, CHUNK);
    while (p < to && kn_normal_goes_on(&e->normal));
    kn_normal_end(&e->normal);
    if (run->failed || e->normal.segment.failed)
        return;
    if (run->n == n && memcmp(run->p, from, n) == 0)
        return;
    copy(e, from);
    const struct kn_normal_edit edit = {.from = {from - e->begin, (int64_t)n},
                                        .to = {(int64_t)e->out->n, (int64_t)run->n}};
    rt_bytes_add(e->edits, &edit, sizeof edit);
    if (run->n)
        rt_bytes_add(e->out, run->p, run->n);
    e->last = to;
}

/* Returns the beginning of the character that ends at p, or e->last. */
static const unsigned char *previous(const struct kn_edited *e, const unsigned char *p)
{
    const unsigned char *from = p - e->last > KN_MAX_UNITS ? p - KN_MAX_UNITS : e->last, *next;

    /* The last character is the longest sequence that ends at p. */
    for (; from < p; from++) {
        if (decode(e, from, &next) != KN_BAD_CHAR && next == p)
            return from;
    }
    return p - 1; /* a malformed byte, which combines with nothing */
}

enum { L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, S_BASE = 0xac00 }; /* Hangul */
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = 11172, JAMO_SIZE = 3 };

/*
 * If the vowel or final c at e->p completes a Hangul syllable, replaces the syllable and returns
 * true. Marks that follow the syllable do not belong to the edit, although they are in the run of
 * characters up to the next boundary.
 */
static bool replace_syllable(struct kn_edited *e, int32_t c, const unsigned char *next)
{
    const unsigned char *after, *from = e->p - JAMO_SIZE;
    const bool is_vowel = c >= V_BASE && c < V_BASE + V_COUNT;

    if (e->p - e->last < JAMO_SIZE || !(is_vowel || (c > T_BASE && c < T_BASE + T_COUNT)))
        return false;
    const int32_t before = decode(e, from, &after);
    if (after != e->p)
        return false;
    if (!is_vowel) {
        const int32_t s = before - S_BASE;
        if (s < 0 || s >= S_COUNT || s % T_COUNT)
            return false;
        replace(e, from, next);
        return true;
    }
    if (before < L_BASE || before >= L_BASE + L_COUNT)
        return false;
    const int32_t last = next < e->end ? decode(e, next, &after) : KN_BAD_CHAR;
    if (last > T_BASE && last < T_BASE + T_COUNT)
        next = after;
    else if (!has_boundary_before(e->normal.form, last))
        return false;
    replace(e, from, next);
    return true;
}

/* Returns whether some characters of a decomposition compose. */
static bool is_composed(const int32_t *to, size_t n)
{
    int32_t starter = to[0];

    for (size_t i = 1; i < n; i++) {
        if (kn_normal_compose(starter, to[i]) != KN_BAD_CHAR)
            return true;
        starter = kn_normal_class(to[i]) == 0 ? to[i] : starter;
    }
    return false;
}

/* Returns whether the run of characters that c belongs to ends with c, whatever follows. As in ICU,
 * a run does not end with its first character if the form composes parts of its decomposition. */
static bool ends_run(enum kn_normal_form form, int32_t c, bool is_first)
{
    int32_t to[KN_MAX_DECOMPOSITION];
    const size_t n = kn_normal_decompose(form, c, to);

    if (!composes(form))
        return is_first && kn_normal_class(to[n - 1]) <= 1;
    if ((n == 1 && to[0] == c) || !has_boundary_after(form, c))
        return false;
    return !is_first || (has_boundary_before(form, c) && !is_composed(to, n));
}

/* Replaces the run of characters around the character c at e->p, which is not stable and ends at
 * `next`. */
static void replace_run(struct kn_edited *e, int32_t c, const unsigned char *next)
{
    const enum kn_normal_form form = e->normal.form;
    const unsigned char *from = e->p, *to = next;

    if (composes(form) && replace_syllable(e, c, next))
        return;
    if (composes(form) && from > e->last && !has_boundary_before(form, c)) {
        const unsigned char *before = previous(e, from);
        if (!has_boundary_after(form, decode(e, before, &next)))
            from = before;
    }
    bool is_complete = ends_run(form, c, true);
    for (int n = 1; to < e->end && !is_complete; n = (n + 1) % CHECKED) {
        const int32_t d = decode(e, to, &next);
        if (n == 0 && !kn_normal_goes_on(&e->normal))
            return;
        if (has_boundary_before(form, d))
            break;
        is_complete = ends_run(form, d, false);
        to = next;
    }
    replace(e, from, to);
}

void kn_edited_begin(struct kn_edited *e, const unsigned char *begin, const unsigned char *end)
{
    e->begin = e->last = e->p = begin;
    e->end = end;
    e->out->n = 0;
}

bool kn_edited_add(struct kn_edited *e, size_t n_bytes)
{
    const unsigned char *stop = (size_t)(e->end - e->p) > n_bytes ? e->p + n_bytes : e->end, *next;

    while (e->p < stop) {
        const int32_t c = decode(e, e->p, &next);
        if (is_stable(e->normal.form, c))
            e->p = next;
        else
            replace_run(e, c, next);
        if (e->out->failed || e->edits->failed || e->normal.out->failed || e->normal.segment.failed)
            return false;
    }
    return e->p < e->end;
}

void kn_edited_end(struct kn_edited *e)
{
    copy(e, e->end);
}
