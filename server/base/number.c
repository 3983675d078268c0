#include "server/base/number.h"

#include <string.h>

bool srv_parse_int64(const char *text, size_t n, int64_t *out)
{
    bool negative = n && text[0] == '-';
    size_t i = n && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (i == n)
        return false;
    int64_t value = 0;
    for (; i < n; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9)
            return false;
        /* Accumulates a negative value, because int64_t has one more negative value. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *out = negative ? value : -value;
    return true;
}

bool srv_parse_seconds(const char *text, int64_t *out_ms)
{
    const char *dot = strchr(text, '.');
    int64_t whole, ms = 0;
    if (!srv_parse_int64(text, dot ? (size_t)(dot - text) : strlen(text), &whole) || whole < 0 ||
        whole > INT32_MAX)
        return false;
    if (dot) {
        int64_t scale = 100;
        for (const char *p = dot + 1; *p; p++, scale /= 10) {
            if (*p < '0' || *p > '9')
                return false;
            ms += (*p - '0') * scale;
        }
    }
    *out_ms = whole * 1000 + ms;
    return true;
}
