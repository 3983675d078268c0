#include "server/json/json_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 128-bit integers are an extension of GCC and Clang. The comments below give upper bounds, which
 * show that values fit into 128 bits. */
__extension__ typedef unsigned __int128 wide;

static const double exact_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* `tenth[k]` is the double nearest to `10^-k`, with an error of at most half a unit in the last
 * place. */
static const double tenth[] = {1e0,   1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                               1e-8,  1e-9,  1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15,
                               1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22};

static const uint32_t small_ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

static const uint64_t five[28] = {
    /* `five[k]` is `5^k`; all entries are below `2^63` */
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};

static bool is_digit(unsigned char c)
{
    return (unsigned)c - '0' < 10;
}

/*
 * Returns the number of decimal digits before the first other byte in the eight bytes at p, and
 * sets *value to the number that these digits form. The digits are moved to the end of the word,
 * after zeros, so that one conversion of eight digits works for any number of digits. A loop over
 * the digits would mispredict branches.
 */
static inline int leading_digits(const unsigned char *p, uint64_t *value)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t w;
    int n = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&w, p, 8);
    /* the XOR maps digits to their values, and all other bytes to values above 9 */
    w ^= ones * '0';
    /* The lowest set bit marks the first byte above 9. A carry may change the bits of later
     * bytes. */
    const uint64_t other = (w | (w + ones * 0x76)) & (ones << 7);
    n = other ? __builtin_ctzll(other) >> 3 : 8;
    if (n == 0)
        return 0;
    w <<= 64 - 8 * n;
    w = w * 10 + (w >> 8); /* bytes 0, 2, 4 and 6 of w now contain two-digit numbers */
    *value = ((w & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
              (w >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
             32;
#else
    (void)ones;
    for (w = 0; n < 8 && is_digit(p[n]); n++)
        w = w * 10 + (uint64_t)(p[n] - '0');
    *value = w;
#endif
    return n;
}

/* Returns `2^e`; e must be in the exponent range of normal doubles. */
static double two_to(int e)
{
    uint64_t bits = (uint64_t)(1023 + e) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Returns `w / 10^k`, correctly rounded. Requires that `w > 0` and `0 <= k <= 27`. */
static double divide_by_ten(uint64_t w, int k)
{
    int lw = __builtin_clzll(w), ld = __builtin_clzll(five[k]);
    uint64_t top = w << lw, den = five[k] << ld;
    /* the upper half of `num` is below `den`, so the quotient fits into 64 bits */
    wide num = (wide)top << 63;
    uint64_t q = (uint64_t)(num / den);
    bool sticky = (uint64_t)(num - (wide)q * den) != 0;
    /* the quotient has 63 or 64 bits, so the shift is by 10 or 11 bits */
    int shift = 64 - __builtin_clzll(q) - 53;
    uint64_t mant = q >> shift, rest = q & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (sticky || (mant & 1))))
        mant++;
    return (double)mant * two_to(ld - lw - 63 - k + shift);
}

/*
 * Parses the numbers that the faster methods do not cover, by strtod on a NUL-terminated copy. The
 * copy has a fixed size. Beyond 800 significant digits, it only matters whether any digit is
 * nonzero.
 */
static double slow_double(const unsigned char *p, const unsigned char *end, int64_t exponent)
{
    enum { DIGITS = 800 };
    char text[DIGITS + 40];
    size_t n = 0;
    int64_t scale = exponent;
    bool point = false, rest = false, started = false;
    for (; p < end && (is_digit(*p) || *p == '.'); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        started |= *p != '0';
        if (!started) {
            scale -= point;
        } else if (n < DIGITS) {
            text[n++] = (char)*p;
            scale -= point;
        } else {
            rest |= *p != '0';
            scale += !point;
        }
    }
    if (!n)
        return 0;
    if (rest) {
        text[n++] = '1';
        scale--;
    }
    if (scale > 100000)
        scale = 100000;
    if (scale < -100000)
        scale = -100000;
    snprintf(text + n, sizeof text - n, "e%lld", (long long)scale);
    return strtod(text, NULL);
}

/* The parts of a parsed decimal number. */
struct decimal {
    uint64_t w;       /* value of the first 19 significant digits */
    int64_t exponent; /* the exponent that follows 'e', or 0 if there is none */
    int64_t scale;    /* the number is `w * 10^scale` unless `cut` is set */
    bool cut;         /* whether the number has more significant digits than `w` can hold */
    bool integer;     /* whether the number has neither a fraction nor an exponent */
};

/*
 * Appends the digits at p to the number *w, and adds their count to *n. If *n then exceeds 19, *w
 * may have overflowed and must not be used.
 */
static inline const unsigned char *read_digits(const unsigned char *p, const unsigned char *end,
                                               uint64_t *w, int *n)
{
    const unsigned char *start = p;
    while (end - p >= 8 && *n + (p - start) <= 11) {
        uint64_t value;
        const int read = leading_digits(p, &value);
        if (read)
            *w = *w * small_ten[read] + value;
        p += read;
        if (read < 8) {
            *n += (int)(p - start);
            return p;
        }
    }
    while (p < end && is_digit(*p) && *n + (p - start) <= 19)
        *w = *w * 10 + (uint64_t)(*p++ - '0');
    *n += (int)(p - start);
    return p;
}

static inline const unsigned char *read_decimal(const unsigned char *p, const unsigned char *end,
                                                struct decimal *out)
{
    uint64_t w = 0;
    int64_t scale = 0, exponent = 0;
    bool cut = false, integer = true;
    int n = 0; /* number of significant digits in w */
    const unsigned char *start = p;
    /* most floating-point numbers have the decimal point after the first digit */
    if (end - p >= 2 && is_digit(*p) && p[1] == '.') {
        w = (uint64_t)(*p++ - '0');
        n = 1;
    } else {
        p = read_digits(p, end, &w, &n);
    }
    if (n > 19)
        goto careful;
    if (p < end && *p == '.') {
        integer = false;
        const unsigned char *point = ++p;
        p = read_digits(p, end, &w, &n);
        if (n > 19)
            goto careful;
        scale = point - p;
    }
    goto exponent_part;

careful: /* parses the number again, with at most 19 significant digits in w */
    w = 0;
    n = 0;
    integer = true;
    for (p = start; p < end && is_digit(*p); p++) {
        if (n < 19) {
            w = w * 10 + (uint64_t)(*p - '0');
            n += w != 0;
        } else {
            cut = true;
            scale++;
        }
    }
    if (p < end && *p == '.') {
        integer = false;
        for (p++; p < end && is_digit(*p); p++) {
            if (n < 19) {
                w = w * 10 + (uint64_t)(*p - '0');
                n += w != 0;
                scale--;
            } else {
                cut = true;
            }
        }
    }

exponent_part:
    if (p < end && (*p | 0x20) == 'e') {
        integer = false;
        bool minus = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            minus = *p++ == '-';
        for (; p < end && is_digit(*p); p++)
            if (exponent < 1000000)
                exponent = exponent * 10 + (*p - '0');
        if (minus)
            exponent = -exponent;
    }
    *out = (struct decimal){w, exponent, scale + exponent, cut, integer};
    return p;
}

static double decimal_value(const struct decimal *d, const unsigned char *start,
                            const unsigned char *end)
{
    if (d->w == 0 && !d->cut)
        return 0;
    if (!d->cut) {
        if (d->w <= UINT64_C(1) << 53 && d->scale >= -22 && d->scale <= 22)
            return d->scale < 0 ? (double)d->w / exact_ten[-d->scale]
                                : (double)d->w * exact_ten[d->scale];
        if (d->scale <= 0 && d->scale >= -27)
            return divide_by_ten(d->w, (int)-d->scale);
    }
    return slow_double(start, end, d->exponent);
}

/* Reads Inf, Infinity or NaN after the sign. Returns NULL if none of these words is at p. */
static const unsigned char *read_word(const unsigned char *p, const unsigned char *end, double *out)
{
    if (end - p >= 3 && memcmp(p, "NaN", 3) == 0) {
        *out = (double)NAN;
        return p + 3;
    }
    if (end - p >= 3 && memcmp(p, "Inf", 3) == 0) {
        *out = (double)INFINITY;
        return p + (end - p >= 8 && memcmp(p, "Infinity", 8) == 0 ? 8 : 3);
    }
    return NULL;
}

const unsigned char *srv_double_read(const unsigned char *p, const unsigned char *end, double *out)
{
    bool minus = p < end && *p == '-';
    p += minus;
    double d;
    if (p < end && is_digit(*p)) {
        struct decimal dec;
        const unsigned char *start = p;
        p = read_decimal(p, end, &dec);
        d = decimal_value(&dec, start, p);
    } else {
        p = read_word(p, end, &d);
        if (!p)
            return NULL;
    }
    *out = minus ? -d : d;
    return p;
}

const unsigned char *srv_float_read(const unsigned char *p, const unsigned char *end, float *out)
{
    bool minus = p < end && *p == '-';
    const unsigned char *start = p + minus;
    double d;
    if (start >= end || !is_digit(*start)) {
        p = srv_double_read(p, end, &d);
        if (p)
            *out = (float)d;
        return p;
    }
    struct decimal dec;
    p = read_decimal(start, end, &dec);
    /* d is the double nearest to the number, or a double next to the nearest one. Both round to the
     * same float unless the number is close to the midpoint of two floats. */
    if (!dec.cut && dec.w && dec.scale <= 0 && dec.scale >= -22) {
        d = (double)dec.w * tenth[-dec.scale];
        uint64_t bits, part;
        memcpy(&bits, &d, sizeof bits);
        part = bits & 0x1fffffff; /* the 29 mantissa bits that a double has and a float lacks */
        if (part - (0x10000000 - 4) > 8 && d >= 1e-30 && d <= 1e30) {
            *out = (float)(minus ? -d : d);
            return p;
        }
    }
    d = decimal_value(&dec, start, p);
    *out = (float)(minus ? -d : d);
    return p;
}

/* Parses an integer of more than 19 digits exactly. Returns false if it does not fit into 64
 * bits. */
static bool read_uint(const unsigned char *p, const unsigned char *end, uint64_t *out)
{
    uint64_t u = 0;
    for (; p < end && is_digit(*p); p++)
        if (__builtin_mul_overflow(u, 10, &u) || __builtin_add_overflow(u, *p - '0', &u))
            return false;
    *out = u;
    return true;
}

const unsigned char *srv_number_read(const unsigned char *p, const unsigned char *end,
                                     struct srv_number *out)
{
    const unsigned char *at = p;
    *out = (struct srv_number){SRV_NUMBER_NONE, 0, 0, 0};
    bool minus = at < end && *at == '-';
    at += minus;
    if (at >= end || !is_digit(*at)) {
        at = read_word(at, end, &out->d);
        if (!at)
            return p;
        out->kind = SRV_NUMBER_DOUBLE;
        out->d = minus ? -out->d : out->d;
        return at;
    }
    struct decimal dec;
    const unsigned char *start = at;
    at = read_decimal(at, end, &dec);
    uint64_t u = dec.w;
    if (dec.integer && (!dec.cut || read_uint(start, at, &u)) &&
        (!minus || u <= UINT64_C(1) << 63)) {
        if (minus || u <= INT64_MAX) {
            out->kind = SRV_NUMBER_INT;
            out->i = minus ? (int64_t)(0 - u) : (int64_t)u;
            out->u = (uint64_t)out->i;
            out->d = minus ? -(double)u : (double)u; /* -0 stays negative */
        } else {
            out->kind = SRV_NUMBER_UINT;
            out->u = u;
            out->d = (double)u;
        }
        return at;
    }
    out->kind = SRV_NUMBER_DOUBLE;
    out->d = decimal_value(&dec, start, at);
    if (minus)
        out->d = -out->d;
    return at;
}

/* ---- writing ---- */

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                            "34353637383940414243444546474849505152535455565758596061626364656667"
                            "6869707172737475767778798081828384858687888990919293949596979899";

size_t srv_uint_write(char *buffer, uint64_t x)
{
    char text[20];
    int at = 20;
    while (x >= 100) {
        at -= 2;
        memcpy(text + at, pairs + 2 * (x % 100), 2);
        x /= 100;
    }
    if (x >= 10) {
        at -= 2;
        memcpy(text + at, pairs + 2 * x, 2);
    } else {
        text[--at] = (char)('0' + x);
    }
    memcpy(buffer, text + at, (size_t)(20 - at));
    return (size_t)(20 - at);
}

size_t srv_int_write(char *buffer, int64_t x)
{
    if (x >= 0)
        return srv_uint_write(buffer, (uint64_t)x);
    buffer[0] = '-';
    return 1 + srv_uint_write(buffer + 1, 0 - (uint64_t)x);
}

static const uint64_t ten[20] = {
    1u,
    10u,
    100u,
    1000u,
    10000u,
    100000u,
    1000000u,
    10000000u,
    100000000u,
    1000000000u,
    10000000000u,
    100000000000u,
    1000000000000u,
    10000000000000u,
    100000000000000u,
    1000000000000000u,
    10000000000000000u,
    100000000000000000u,
    1000000000000000000u,
    10000000000000000000u,
};

/* Rounds `m * 2^e * 10^p` to the nearest integer, with ties to even. Returns false if an
 * intermediate value exceeds 128 bits or the result exceeds 64 bits. */
static bool scaled(uint64_t m, int e, int p, uint64_t *out)
{
    wide num = m;
    int bits = 64 - __builtin_clzll(m), shift = e + p;
    if (p >= 0) {
        if (p > 27 || bits + (p * 7 + 2) / 3 > 127)
            return false;
        num *= five[p];
        if (shift >= 0) {
            if (bits + (p * 7 + 2) / 3 + shift > 127)
                return false;
            num <<= shift;
            if (num >> 64)
                return false;
            *out = (uint64_t)num;
            return true;
        }
        if (shift < -127) {
            *out = 0; /* `num` is below `2^127`, so the value rounds to 0 */
            return true;
        }
        wide q = num >> -shift, rest = num - (q << -shift), half = (wide)1 << (-shift - 1);
        q += rest > half || (rest == half && (q & 1));
        if (q >> 64)
            return false;
        *out = (uint64_t)q;
        return true;
    }
    if (-p > 27)
        return false;
    wide den = five[-p];
    if (shift >= 0) {
        if (bits + shift > 127)
            return false;
        num <<= shift;
    } else {
        if (-shift > 60)
            return false;
        den <<= -shift;
    }
    wide q = num / den, rest = num - q * den;
    q += rest * 2 > den || (rest * 2 == den && (q & 1));
    if (q >> 64)
        return false;
    *out = (uint64_t)q;
    return true;
}

/* Rounds `m * 2^e` to `digits` significant digits, without error. *d is the integer that these
 * digits form, in `[10^(digits-1), 10^digits)`. The rounded number is `*d * 10^(*k - digits + 1)`.
 * Returns false if 128 bits do not suffice. */
static bool decimal_digits(uint64_t m, int e, int digits, uint64_t *d, int *k)
{
    int top = e + 63 - __builtin_clzll(m); /* `top` is `floor(log2(m * 2^e))` */
    /* `guess` is `floor(log10(m * 2^e))` or one less. */
    int guess = (int)((top * INT64_C(315653)) >> 20);
    for (int tries = 0; tries < 3; tries++) {
        if (!scaled(m, e, digits - 1 - guess, d))
            return false;
        if (*d >= ten[digits])
            guess++;
        else if (*d < ten[digits - 1])
            guess--;
        else {
            *k = guess;
            return true;
        }
    }
    return false;
}

/*
 * Returns the eight decimal digits of x, one per byte, with the first digit in the lowest byte. x
 * must be below `10^8`. Each step splits every number in the word into two numbers with half as
 * many digits. Multiplications by a rounded reciprocal replace the divisions by 100 and by 10.
 * Their quotients are exact for these numbers.
 */
static inline uint64_t split_digits(uint64_t x)
{
    x = x / 10000 | (x % 10000) << 32;
    const uint64_t hundreds = (x * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    x = hundreds | (x - 100 * hundreds) << 16;
    const uint64_t tens = (x * 103 >> 10) & UINT64_C(0x000f000f000f000f);
    return tens | (x - 10 * tens) << 8;
}

static void store_text(char *to, uint64_t bytes)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(to, &bytes, sizeof bytes);
}

/*
 * Writes d, which has `digits` digits (6, 9 or 17), without trailing zeros. Returns the number of
 * written digits, at least one. Stores complete words, so it overwrites up to 24 bytes of `text`.
 */
static inline size_t digits_text(char *text, uint64_t d, int digits)
{
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    uint64_t word = 0, before = 0;
    size_t n = 0;
    if (digits == 6) {
        word = split_digits(d * 100);
    } else {
        if (digits == 17) {
            text[n++] = (char)('0' + d / 10000000000000000u);
            d %= 10000000000000000u;
            before = split_digits(d / 100000000u);
            store_text(text + n, before | zeros);
            n += 8;
        } else {
            text[n++] = (char)('0' + d / 100000000u);
        }
        word = split_digits(d % 100000000u);
    }
    store_text(text + n, word | zeros);
    if (word)
        return n + 8 - (size_t)(__builtin_clzll(word) >> 3);
    if (before)
        return n - (size_t)(__builtin_clzll(before) >> 3);
    return 1;
}

/* Writes n significant digits in exponent form, for example 1.5e-07. */
static size_t write_exponent_form(char *buffer, const char *text, size_t n, int k)
{
    size_t out = 0;
    buffer[out++] = text[0];
    if (n > 1) {
        buffer[out++] = '.';
        memcpy(buffer + out, text + 1, n - 1);
        out += n - 1;
    }
    buffer[out++] = 'e';
    buffer[out++] = k < 0 ? '-' : '+';
    unsigned x = (unsigned)(k < 0 ? -k : k);
    if (x < 10)
        buffer[out++] = '0';
    return out + srv_uint_write(buffer + out, x);
}

/* Writes `d * 10^(k - digits + 1)` in the format of %g, which uses the exponent form if k is
 * outside `[-4, digits)`. */
static inline size_t write_digits(char *buffer, uint64_t d, int digits, int k)
{
    /* The buffer has 24 bytes, because digits_text stores complete words. */
    char text[24];
    /* writes most floats below 1 to `buffer` without an intermediate copy */
    if (k < 0 && k >= -4 && digits <= 9) {
        const size_t lead = (size_t)(1 - k);
        memcpy(buffer, "0.000", 6);
        return lead + digits_text(buffer + lead, d, digits);
    }
    const size_t n = digits_text(text, d, digits);
    if (k < -4 || k >= digits)
        return write_exponent_form(buffer, text, n, k);
    if (k < 0) {
        memcpy(buffer, "0.000", 5);
        memcpy(buffer + 1 - k, text, n);
        return (size_t)(1 - k) + n;
    }
    const size_t whole = (size_t)k + 1;
    if (n <= whole) { /* `text` also contains the trailing zeros, although n does not count them */
        memcpy(buffer, text, whole);
        memcpy(buffer + whole, ".0", 2);
        return whole + 2;
    }
    memcpy(buffer, text, whole);
    buffer[whole] = '.';
    memcpy(buffer + whole + 1, text + whole, n - whole);
    return n + 1;
}

static size_t write_non_finite(char *buffer, double x)
{
    const char *text = isnan(x) ? "NaN" : x < 0 ? "-Infinity" : "Infinity";
    size_t n = strlen(text);
    memcpy(buffer, text, n);
    return n;
}

/* Formats a number that the exact arithmetic does not cover, by calling snprintf. */
static size_t write_slow(char *buffer, double x, int precision)
{
    int n = snprintf(buffer, SRV_NUMBER_BYTES, "%.*g", precision, x);
    if (n < 0)
        return 0;
    if (!strpbrk(buffer, ".e")) {
        memcpy(buffer + n, ".0", 2);
        n += 2;
    }
    return (size_t)n;
}

/* Converts six digits to the double `d * 10^(k-5)`. Sets *ok to false if the result would be
 * rounded twice. */
static double six_digits_back(uint64_t d, int k, bool *ok)
{
    int scale = k - 5;
    *ok = scale >= -22 && scale <= 22;
    if (!*ok)
        return 0;
    const double whole = (double)(int64_t)d;
    return scale < 0 ? whole / exact_ten[-scale] : whole * exact_ten[scale];
}

/*
 * Rounds the number `a` to `digits` digits, like decimal_digits, but in double arithmetic. k is the
 * decimal exponent of the first digit of `a`. Returns false if `a` is so close to a tie, or to the
 * next power of ten, that a rounding error could change the result. The code uses int64_t, because
 * converting a double from or to uint64_t takes several instructions.
 */
static inline bool quick_digits(double a, int k, int digits, uint64_t *d, double *exact)
{
    const int p = digits - 1 - k;
    if (p < -22 || p > 22)
        return false;
    const double x = p >= 0 ? a * exact_ten[p] : a / exact_ten[-p];
    const int64_t nearest = (int64_t)(x + 0.5);
    if (fabs(x - (double)nearest) > 0.5 - 1e-6 || x < (double)(int64_t)ten[digits - 1])
        return false;
    *d = (uint64_t)nearest;
    *exact = x;
    return nearest < (int64_t)ten[digits];
}

/* Fast path for floats between 1e-10 and 1e20. Writes the same text as the slower code in
 * srv_float_write. Returns false if the slower code is needed. */
static bool quick_float(char *buffer, float a, size_t *n)
{
    uint32_t bits;
    uint64_t d;
    double x;
    int k;
    bool ok = true;
    memcpy(&bits, &a, sizeof bits);
    if (bits < 0x2edbe6ff || bits > 0x60ad78eb)
        return false;
    /* The decimal exponent computed from the binary exponent of `a` is correct or one too low. A
     * comparison with a rounded power of ten decides. The comparison is exact, because no float
     * lies between a power of ten and the double nearest to this power. */
    const int top = (int)(bits >> 23) - 127;
    k = (int)((top * INT64_C(315653)) >> 20);
    k += (double)a >= (k < -1 ? tenth[-k - 1] : exact_ten[k + 1]);
    if (!quick_digits((double)a, k, 6, &d, &x))
        return false;
    /* The six digits read back as `a` only if they form a number that differs from `a` by at most
     * half a unit in the last place of `a`. */
    if (fabs(x - (double)(int64_t)d) <= x * 0x1.1p-24 && (float)six_digits_back(d, k, &ok) == a &&
        ok) {
        *n = write_digits(buffer, d, 6, k);
        return true;
    }
    if (!ok || !quick_digits((double)a, k, 9, &d, &x))
        return false;
    *n = write_digits(buffer, d, 9, k);
    return true;
}

size_t srv_float_write(char *buffer, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits >> 23 & 0xff) == 0xff)
        return write_non_finite(buffer, (double)x);
    size_t sign = bits >> 31;
    if (sign)
        *buffer++ = '-';
    float a = sign ? -x : x;
    /* Small integers, including zero. */
    if (a < 100000.0f && a == (float)(int32_t)a) {
        size_t n = srv_uint_write(buffer, (uint64_t)a);
        memcpy(buffer + n, ".0", 2);
        return sign + n + 2;
    }
    size_t quick;
    if (quick_float(buffer, a, &quick))
        return sign + quick;
    int e = (int)(bits >> 23 & 0xff);
    uint64_t m = (bits & 0x7fffff) | (e ? 0x800000u : 0), d;
    e = (e ? e : 1) - 150;
    int k;
    bool exact = decimal_digits(m, e, 6, &d, &k), ok = false;
    if (exact) {
        double back = six_digits_back(d, k, &ok);
        if (ok && (float)back == a)
            return sign + write_digits(buffer, d, 6, k);
    }
    if (ok && decimal_digits(m, e, 9, &d, &k))
        return sign + write_digits(buffer, d, 9, k);
    char text[SRV_NUMBER_BYTES];
    snprintf(text, sizeof text, "%.6g", (double)a);
    return sign + write_slow(buffer, (double)a, strtof(text, NULL) == a ? 6 : 9);
}

size_t srv_double_write(char *buffer, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits >> 52 & 0x7ff) == 0x7ff)
        return write_non_finite(buffer, x);
    size_t sign = bits >> 63;
    if (sign)
        *buffer++ = '-';
    double a = sign ? -x : x;
    if (a < 100000.0 && a == (double)(int32_t)a) {
        size_t n = srv_uint_write(buffer, (uint64_t)a);
        memcpy(buffer + n, ".0", 2);
        return sign + n + 2;
    }
    int e = (int)(bits >> 52 & 0x7ff);
    uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | (e ? UINT64_C(1) << 52 : 0), d;
    e = (e ? e : 1) - 1075;
    int k;
    bool exact = decimal_digits(m, e, 6, &d, &k), ok = false;
    if (exact) {
        double back = six_digits_back(d, k, &ok);
        if (ok && back == a)
            return sign + write_digits(buffer, d, 6, k);
    }
    if (ok && decimal_digits(m, e, 17, &d, &k))
        return sign + write_digits(buffer, d, 17, k);
    char text[SRV_NUMBER_BYTES];
    snprintf(text, sizeof text, "%.6g", a);
    return sign + write_slow(buffer, a, strtod(text, NULL) == a ? 6 : 17);
}
