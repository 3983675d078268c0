#include "kernels/string/unicode.h"

#include <ctype.h>
#include <stdlib.h>

#include "kernels/string/encodings.h"

/* ---- names ---- */

/* The encodings that encodings.h does not list. Their names have the form that encodings.h
 * describes. */
static const struct {
    const char *name;
    struct kn_encoding encoding;
} known[] = {
    {"utf8", {.kind = KN_UTF8}},
    {"cp1208", {.kind = KN_UTF8}},
    {"ibm1208", {.kind = KN_UTF8}},
    {"unicode11utf8", {.kind = KN_UTF8}},
    {"unicode20utf8", {.kind = KN_UTF8}},
    {"windows65001", {.kind = KN_UTF8}},
    {"utf16", {KN_UTF16, .has_mark = true}},
    {"ucs2", {KN_UTF16, .has_mark = true}},
    {"csunicode", {KN_UTF16, .has_mark = true}},
    {"iso10646ucs2", {KN_UTF16, .has_mark = true}},
    {"unicode", {KN_UTF16, .has_mark = true}},
    {"utf16be", {.kind = KN_UTF16}},
    {"cp1200", {.kind = KN_UTF16}},
    {"cp1201", {.kind = KN_UTF16}},
    {"utf16bigendian", {.kind = KN_UTF16}},
    {"xutf16be", {.kind = KN_UTF16}},
    {"unicodebigunmarked", {.kind = KN_UTF16}},
    {"utf16le", {KN_UTF16, .is_little = true}},
    {"utf16littleendian", {KN_UTF16, .is_little = true}},
    {"utf16platformendian", {KN_UTF16, .is_little = true}},
    {"xutf16le", {KN_UTF16, .is_little = true}},
    {"unicodelittleunmarked", {KN_UTF16, .is_little = true}},
    {"utf32", {KN_UTF32, .has_mark = true}},
    {"ucs4", {KN_UTF32, .has_mark = true}},
    {"csucs4", {KN_UTF32, .has_mark = true}},
    {"iso10646ucs4", {KN_UTF32, .has_mark = true}},
    {"utf32be", {.kind = KN_UTF32}},
    {"utf32bigendian", {.kind = KN_UTF32}},
    {"utf32le", {KN_UTF32, .is_little = true}},
    {"utf32littleendian", {KN_UTF32, .is_little = true}},
    {"utf32platformendian", {KN_UTF32, .is_little = true}},
    {"usascii", {KN_BYTES, .n_direct = 0x7f}},
    {"ascii", {KN_BYTES, .n_direct = 0x7f}},
    {"ascii7", {KN_BYTES, .n_direct = 0x7f}},
    {"646", {KN_BYTES, .n_direct = 0x7f}},
    {"us", {KN_BYTES, .n_direct = 0x7f}},
    {"ansix341968", {KN_BYTES, .n_direct = 0x7f}},
    {"ansix341986", {KN_BYTES, .n_direct = 0x7f}},
    {"iso646us", {KN_BYTES, .n_direct = 0x7f}},
    {"iso646irv1991", {KN_BYTES, .n_direct = 0x7f}},
    {"isoir6", {KN_BYTES, .n_direct = 0x7f}},
    {"csascii", {KN_BYTES, .n_direct = 0x7f}},
    {"cp367", {KN_BYTES, .n_direct = 0x7f}},
    {"ibm367", {KN_BYTES, .n_direct = 0x7f}},
    {"windows20127", {KN_BYTES, .n_direct = 0x7f}},
    {"iso88591", {KN_BYTES, .n_direct = 0xff}},
    {"latin1", {KN_BYTES, .n_direct = 0xff}},
    {"l1", {KN_BYTES, .n_direct = 0xff}},
    {"88591", {KN_BYTES, .n_direct = 0xff}},
    {"819", {KN_BYTES, .n_direct = 0xff}},
    {"cp819", {KN_BYTES, .n_direct = 0xff}},
    {"ibm819", {KN_BYTES, .n_direct = 0xff}},
    {"isoir100", {KN_BYTES, .n_direct = 0xff}},
    {"iso885911987", {KN_BYTES, .n_direct = 0xff}},
    {"csisolatin1", {KN_BYTES, .n_direct = 0xff}},
};

enum { NAME_BYTES = 32 }; /* size of a name buffer; all known names are shorter */

/* Writes the letters and digits of a name in lower case. Drops leading zeros of the numbers in the
 * name. Returns false if `out` is too small for the result, which is then no known name. */
static bool plain_name(struct rt_span name, char out[NAME_BYTES])
{
    size_t n = 0;
    bool is_after_digit = false;

    for (size_t i = 0; i < name.n; i++) {
        const int c = name.p[i];
        const bool is_digit = c >= '0' && c <= '9';
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool is_zero = c == '0' && !is_after_digit && i + 1 < name.n &&
                             name.p[i + 1] >= '0' && name.p[i + 1] <= '9';
        if (!is_zero)
            is_after_digit = is_digit;
        if (is_zero || (!is_digit && !is_letter))
            continue;
        if (n + 1 == NAME_BYTES)
            return false;
        out[n++] = (char)tolower(c);
    }
    out[n] = 0;
    return true;
}

static int compare_names(const void *key, const void *row)
{
    return strcmp(key, ((const struct byte_encoding *)row)->name);
}

bool kn_encoding_find(struct rt_span name, struct kn_encoding *out)
{
    char plain[NAME_BYTES];

    if (!plain_name(name, plain))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, plain) == 0) {
            *out = known[i].encoding;
            return true;
        }
    const struct byte_encoding *found =
        bsearch(plain, byte_encodings, sizeof byte_encodings / sizeof *byte_encodings,
                sizeof *byte_encodings, compare_names);
    if (!found)
        return false;
    *out = (struct kn_encoding){KN_BYTES, .n_direct = 0x7f, .is_pc = found->is_pc,
                                .upper = upper_halves[found->table]};
    return true;
}

/* ---- decoding ---- */

/* Decodes UTF-8 by table 3-7 of the Unicode standard. */
static int32_t utf8_char(const unsigned char *p, const unsigned char *end,
                         const unsigned char **next)
{
    const int first = *p++;
    const int more = first < 0x80   ? 0
                     : first < 0xc2 ? -1
                     : first < 0xe0 ? 1
                     : first < 0xf0 ? 2
                     : first < 0xf5 ? 3
                                    : -1;
    /* bounds of the character's second byte */
    int least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    int most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    int32_t c = more <= 0 ? first : first & (0x3f >> more);

    *next = p;
    for (int i = 0; i < more; i++, least = 0x80, most = 0xbf) {
        if (p == end || *p < least || *p > most)
            return KN_BAD_CHAR;
        c = c << 6 | (*p++ & 0x3f);
        *next = p;
    }
    return more < 0 ? KN_BAD_CHAR : c;
}

static int32_t unit(const struct kn_encoding *e, const unsigned char *p, int n)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++)
        v = v << 8 | p[e->is_little ? n - 1 - i : i];
    return v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static int32_t utf16_char(const struct kn_encoding *e, const unsigned char *p,
                          const unsigned char *end, const unsigned char **next)
{
    if (end - p < 2) {
        *next = end;
        return KN_BAD_CHAR;
    }
    *next = p + 2;
    const int32_t c = unit(e, p, 2);
    if (!kn_is_surrogate(c))
        return c;
    if (c >= 0xdc00)
        return KN_BAD_CHAR;
    if (end - p < 4) {
        *next = end;
        return KN_BAD_CHAR;
    }
    const int32_t low = unit(e, p + 2, 2);
    if (low < 0xdc00 || low > 0xdfff)
        return KN_BAD_CHAR;
    *next = p + 4;
    return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

static int32_t utf32_char(const struct kn_encoding *e, const unsigned char *p,
                          const unsigned char *end, const unsigned char **next)
{
    if (end - p < 4) {
        *next = end;
        return KN_BAD_CHAR;
    }
    *next = p + 4;
    const int32_t c = unit(e, p, 4);
    return c > KN_MAX_CHAR || kn_is_surrogate(c) ? KN_BAD_CHAR : c;
}

static int32_t byte_char(const struct kn_encoding *e, const unsigned char *p)
{
    if (e->is_pc && (*p == 0x1a || *p == 0x1c || *p == 0x7f))
        return *p == 0x1a ? 0x1c : *p == 0x1c ? 0x7f : 0x1a;
    if (*p <= e->n_direct)
        return *p;
    return e->upper && e->upper[*p - 0x80] != 0xffff ? e->upper[*p - 0x80] : KN_BAD_CHAR;
}

int32_t kn_decode_char(const struct kn_encoding *e, const unsigned char *p,
                       const unsigned char *end, const unsigned char **next)
{
    switch (e->kind) {
    case KN_UTF8:
        return utf8_char(p, end, next);
    case KN_UTF16:
        return utf16_char(e, p, end, next);
    case KN_UTF32:
        return utf32_char(e, p, end, next);
    default:
        *next = p + 1;
        return byte_char(e, p);
    }
}

void kn_encoding_begin(struct kn_encoding *e, const unsigned char **p, const unsigned char *end)
{
    const int size = e->kind == KN_UTF16 ? 2 : 4;

    if (!e->has_mark)
        return;
    e->is_little = false;
    if (end - *p < size)
        return;
    const struct kn_encoding little = {.is_little = true};
    if (unit(&little, *p, size) == 0xfeff)
        e->is_little = true;
    else if (unit(e, *p, size) != 0xfeff)
        return;
    *p += size;
}

/* ---- encoding ---- */

static size_t put_units(unsigned char *to, uint32_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * (n - 1 - i)));
    return n;
}

size_t kn_encode_char(enum kn_encoding_kind kind, int32_t c, unsigned char *to)
{
    if (kind == KN_UTF32)
        return put_units(to, (uint32_t)c, 4);
    if (kind == KN_UTF16) {
        if (c < 0x10000)
            return put_units(to, (uint32_t)c, 2);
        put_units(to, (uint32_t)(0xd800 + ((c - 0x10000) >> 10)), 2);
        put_units(to + 2, (uint32_t)(0xdc00 + ((c - 0x10000) & 0x3ff)), 2);
        return 4;
    }
    if (kn_is_surrogate(c))
        c = 0xfffd;
    if (c < 0x80) {
        to[0] = (unsigned char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (unsigned char)(0x80 | (c & 0x3f));
    to[0] = (unsigned char)(0xf00 >> n | c);
    return n;
}
