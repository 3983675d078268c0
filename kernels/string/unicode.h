/*
 * Unicode encodings: UTF-8, UTF-16 and UTF-32 in both byte orders, ASCII, Latin-1, and other
 * encodings with one byte per character (encodings.h). TensorFlow also supports about 180 other
 * encodings through ICU, whose data is 31 MB. Slipway does not support these encodings.
 *
 * Threads: any; all functions are pure.
 */
#ifndef KN_STRING_UNICODE_H
#define KN_STRING_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"

enum {
    KN_MAX_CHAR = 0x10ffff,
    KN_BAD_CHAR = -1, /* a malformed sequence of bytes */
    KN_MAX_UNITS = 4, /* maximum number of bytes of an encoded character */
};

enum kn_encoding_kind { KN_UTF8, KN_UTF16, KN_UTF32, KN_BYTES };

struct kn_encoding {
    enum kn_encoding_kind kind;
    bool is_little; /* whether the units of UTF-16 or UTF-32 are little-endian */
    /* whether a byte order mark at the beginning is skipped and decides the byte order */
    bool has_mark;
    /* KN_BYTES: a byte up to this value is the code point of its character */
    uint8_t n_direct;
    bool is_pc; /* KN_BYTES: whether three control characters are exchanged (encodings.h) */
    const uint16_t *upper; /* KN_BYTES: code points of bytes 0x80 to 0xff, or NULL */
};

/* Finds an encoding by one of its names in ICU. As in ICU, upper and lower case are equal, and only
 * letters and digits matter. */
bool kn_encoding_find(struct rt_span name, struct kn_encoding *out);
/* Advances *p past the byte order mark, if the encoding has one, and sets the byte order. */
void kn_encoding_begin(struct kn_encoding *e, const unsigned char **p, const unsigned char *end);
/* Returns the character at p, or KN_BAD_CHAR if the bytes are malformed, and sets *next to its end.
 * p must not be `end`. A malformed sequence ends where it can no longer be the beginning of a
 * character, but has at least one byte. */
int32_t kn_decode_char(const struct kn_encoding *e, const unsigned char *p,
                       const unsigned char *end, const unsigned char **next);
/* kn_decode_char for UTF-8, fast for ASCII. */
static inline int32_t kn_decode_utf8(const unsigned char *p, const unsigned char *end,
                                     const unsigned char **next)
{
    static const struct kn_encoding utf8 = {.kind = KN_UTF8};

    if (*p >= 0x80)
        return kn_decode_char(&utf8, p, end, next);
    *next = p + 1;
    return *p;
}
/* Returns the script of a character by ICU's numbers (UScriptCode), or -1 if it is no character. */
int32_t kn_char_script(int32_t c);
/* Returns whether a character has Unicode's property White_Space. */
static inline bool kn_char_is_space(int32_t c)
{
    return c <= 0x20 ? c == 0x20 || (c >= 0x09 && c <= 0x0d)
                     : c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
                           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
static inline bool kn_is_surrogate(int32_t c)
{
    return c >= 0xd800 && c <= 0xdfff;
}
/* Writes the character c, which is at most KN_MAX_CHAR, to `to`. Returns the number of bytes, which
 * is at most KN_MAX_UNITS. UTF-16 and UTF-32 are written in big-endian order. In UTF-8, a surrogate
 * becomes U+FFFD. */
size_t kn_encode_char(enum kn_encoding_kind kind, int32_t c, unsigned char *to);

#endif
