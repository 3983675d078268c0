#include "kernels/string/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 400 }; /* strings of NUMBER_MAX or more bytes are not parsed as numbers */

/* Copies a string without the white space around it and appends a NUL. Returns NULL if the result
 * is empty or too long, or the string contains a NUL. */
static char *trimmed(const char *p, size_t n, char *buf)
{
    while (n && isspace((unsigned char)*p)) {
        p++;
        n--;
    }
    while (n && isspace((unsigned char)p[n - 1]))
        n--;
    if (n == 0 || n >= NUMBER_MAX || memchr(p, 0, n))
        return NULL;
    memcpy(buf, p, n);
    buf[n] = '\0';
    return buf;
}

static bool is_decimal(const char *s)
{
    if (*s == '-' || *s == '+')
        s++;
    if (!*s)
        return false;
    for (; *s; s++)
        if (*s < '0' || *s > '9')
            return false;
    return true;
}

bool kn_parse_i64(const char *p, size_t n, int64_t *out)
{
    char buf[NUMBER_MAX], *s = trimmed(p, n, buf);

    if (!s || !is_decimal(s))
        return false;
    errno = 0;
    const long long v = strtoll(s, NULL, 10);
    *out = v;
    return errno == 0;
}

bool kn_parse_u64(const char *p, size_t n, uint64_t *out)
{
    char buf[NUMBER_MAX], *s = trimmed(p, n, buf);

    if (!s || *s == '-' || !is_decimal(s))
        return false;
    errno = 0;
    *out = strtoull(s, NULL, 10);
    return errno == 0;
}

bool kn_parse_float(const char *p, size_t n, float *out)
{
    char buf[NUMBER_MAX], *s = trimmed(p, n, buf), *end;

    if (!s || strchr(s, '('))
        return false;
    *out = strtof(s, &end);
    return !*end;
}

bool kn_parse_double(const char *p, size_t n, double *out)
{
    char buf[NUMBER_MAX], *s = trimmed(p, n, buf), *end;

    if (!s || strchr(s, '('))
        return false;
    *out = strtod(s, &end);
    return !*end;
}
