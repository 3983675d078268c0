#include "server/http/http_header.h"

#include <string.h>
#include <strings.h>

#include "runtime/base/span.h"

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

bool srv_http_coding(const char *value, bool *is_compressed)
{
    static const char *const compressed[] = {"gzip", "x-gzip", "deflate"};

    for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
        if (strcasecmp(value, compressed[i]) == 0) {
            *is_compressed = true;
            return true;
        }
    return !*value || strcasecmp(value, "identity") == 0;
}

/* Returns the weight after "q=" in thousandths; a weight that is malformed counts as 1. */
static int weight_of(const char *p)
{
    int weight = *p == '0' ? 0 : 1000, unit = 100;

    if (weight || p[1] != '.')
        return weight;
    for (p += 2; *p >= '0' && *p <= '9' && unit; p++, unit /= 10)
        weight += (*p - '0') * unit;
    return weight;
}

/* A media range of an Accept header. */
struct range {
    struct rt_span type, version;
    int weight; /* in thousandths */
};

static bool is_word(struct rt_span s, const char *word)
{
    return s.n == strlen(word) && strncasecmp((const char *)s.p, word, s.n) == 0;
}

/* Parses the next media range in *list, and advances *list past it. */
static bool next_range(const char **list, struct range *out)
{
    const char *p = *list + strspn(*list, " \t,");

    if (!*p)
        return false;
    *out = (struct range){.type = rt_span_of(p, strcspn(p, " \t,;")), .weight = 1000};
    p += out->type.n;
    for (p += strspn(p, " \t"); *p == ';'; p += strspn(p, " \t")) {
        p += 1 + strspn(p + 1, " \t");
        const size_t n_key = strcspn(p, "=,; \t"), n = strcspn(p, ",; \t");
        const struct rt_span key = rt_span_of(p, n_key);
        if (n_key < n && is_word(key, "q"))
            out->weight = weight_of(p + n_key + 1);
        if (n_key < n && is_word(key, "version"))
            out->version = rt_span_of(p + n_key + 1, n - n_key - 1);
        p += n;
    }
    *list = p + strcspn(p, ",");
    return true;
}

bool srv_http_prefers_openmetrics(const char *list)
{
    /* "text/plain" is the most specific of the ranges that name plain text. */
    static const char *const plain[] = {"*/*", "text/*", "text/plain"};
    struct range r;
    int open = 0, text = 0, specific = -1;

    while (next_range(&list, &r)) {
        const bool is_known =
            !r.version.n || is_word(r.version, "1.0.0") || is_word(r.version, "0.0.1");
        if (is_word(r.type, "application/openmetrics-text") && is_known && r.weight > open)
            open = r.weight;
        for (int i = 0; i < 3; i++)
            if (is_word(r.type, plain[i]) && (i > specific || (i == specific && r.weight > text))) {
                specific = i;
                text = r.weight;
            }
    }
    return open > 0 && open >= text;
}

bool srv_http_names_type(const char *list, const char *type)
{
    struct range r;

    while (next_range(&list, &r))
        if (is_word(r.type, type) && r.weight > 0)
            return true;
    return false;
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
