#include "server/http/http_header.h"

#include <string.h>
#include <strings.h>

/* Parses the next content coding in *list, the value of an Accept-Encoding header, and advances
 * *list past the coding. Sets *refused if the coding's weight is 0. */
static bool next_coding(const char **list, const char **name, size_t *n, bool *refused)
{
    const char *p = *list + strspn(*list, " \t,");
    if (!*p)
        return false;
    *name = p;
    *n = strcspn(p, " \t,;");
    p += *n;
    size_t rest = strcspn(p, ",");
    const char *q = memchr(p, ';', rest);
    *refused = false;
    if (q) { /* the weight is zero, as in ;q=0 or ;q=0.000 */
        q += 1 + strspn(q + 1, " \t");
        if ((*q == 'q' || *q == 'Q') && q[1] == '=')
            *refused = q[2] == '0' && q[2 + strspn(q + 2, "0. \t")] == (p[rest] ? ',' : '\0');
    }
    *list = p + rest;
    return true;
}

bool srv_http_accepts_gzip(const char *list)
{
    const char *name;
    size_t n;
    bool refused, named = false, accepted = false;
    while (next_coding(&list, &name, &n, &refused)) {
        if ((n == 4 && strncasecmp(name, "gzip", 4) == 0) ||
            (n == 6 && strncasecmp(name, "x-gzip", 6) == 0)) {
            named = true;
            accepted = !refused;
        } else if (n == 1 && *name == '*' && !named) {
            accepted = !refused;
        }
    }
    return accepted;
}

bool srv_http_length(const char *value, uint64_t *out)
{
    uint64_t n = 0;
    if (!*value)
        return false;
    for (const char *c = value; *c; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*c - '0'), &n))
            return false;
    *out = n;
    return true;
}
