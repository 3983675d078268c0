#include "runtime/base/base64.h"

void rt_base64_write(struct rt_bytes *out, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    if (n > out->limit / 2 || !rt_bytes_reserve(out, (n + 2) / 3 * 4)) {
        out->failed = true;
        return;
    }
    if (!n)
        return;
    char *to = out->p + out->n;
    for (; n >= 3; n -= 3, p += 3) {
        *to++ = digits[p[0] >> 2];
        *to++ = digits[(p[0] & 3) << 4 | p[1] >> 4];
        *to++ = digits[(p[1] & 15) << 2 | p[2] >> 6];
        *to++ = digits[p[2] & 63];
    }
    if (n) {
        unsigned b = n == 2 ? p[1] : 0;
        *to++ = digits[p[0] >> 2];
        *to++ = digits[(p[0] & 3) << 4 | b >> 4];
        *to++ = n == 2 ? digits[(b & 15) << 2] : '=';
        *to++ = '=';
    }
    out->n = (size_t)(to - out->p);
    *to = '\0';
}

static const signed char digit64[256] = {
    /* The value of each base64 digit plus 1, or 0 for a character that is not a digit. The values
     * 62 and 63 have a second digit in the alphabet for URLs. */
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
    ['-'] = 63, ['_'] = 64,
};

bool rt_base64_read(char *dst, size_t *n, struct rt_span text)
{
    const unsigned char *p = text.p, *end = text.p + text.n;
    size_t out = 0;
    unsigned bits = 0;
    int have = 0, pads = 0;
    for (;;) {
        while (have == 0 && pads == 0 && end - p >= 4) {
            int a = digit64[p[0]], b = digit64[p[1]], c = digit64[p[2]], d = digit64[p[3]];
            if (!a || !b || !c || !d)
                break;
            unsigned w = (unsigned)(a - 1) << 18 | (unsigned)(b - 1) << 12 |
                         (unsigned)(c - 1) << 6 | (unsigned)(d - 1);
            if (dst) {
                dst[out] = (char)(w >> 16);
                dst[out + 1] = (char)(w >> 8);
                dst[out + 2] = (char)w;
            }
            out += 3;
            p += 4;
        }
        if (p == end)
            break;
        unsigned char c = *p++;
        if (c == ' ' || (c >= '\t' && c <= '\r'))
            continue;
        if (c == '=') {
            if (++pads > 2)
                return false;
            continue;
        }
        int v = digit64[c];
        if (!v || pads)
            return false;
        bits = bits << 6 | (unsigned)(v - 1);
        if (++have == 4) {
            if (dst) {
                dst[out] = (char)(bits >> 16);
                dst[out + 1] = (char)(bits >> 8);
                dst[out + 2] = (char)bits;
            }
            out += 3;
            have = 0;
            bits = 0;
        }
    }
    if (have == 1 || (pads && pads != (have ? 4 - have : 0)))
        return false;
    if (have >= 2) {
        if (dst)
            dst[out] = (char)(bits >> (have == 2 ? 4 : 10));
        out++;
    }
    if (have == 3) {
        if (dst)
            dst[out] = (char)(bits >> 2);
        out++;
    }
    *n = out;
    return true;
}
