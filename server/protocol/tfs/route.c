#include "server/protocol/tfs/route.h"

#include <strings.h>

#include "runtime/base/arena.h"

enum srv_method srv_method_of(const char *name)
{
    static const char *const names[] = {"GET", "POST", "OPTIONS", "HEAD"};
    for (int i = 0; i < SRV_OTHER_METHOD; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum srv_method)i;
    return SRV_OTHER_METHOD;
}

/* Removes `word` from the front of *s, regardless of case. Returns false if *s does not begin with
 * `word`. */
static bool take(struct rt_span *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n < n || strncasecmp((const char *)s->p, word, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

/* Removes the bytes before the next '/' or ':' from the front of *s. Returns false if there are
 * no such bytes. */
static bool take_name(struct rt_span *s, struct rt_span *out)
{
    size_t n = 0;
    while (n < s->n && s->p[n] != '/' && s->p[n] != ':')
        n++;
    *out = rt_span_of(s->p, n);
    s->p += n;
    s->n -= n;
    return n > 0;
}

static bool take_digits(struct rt_span *s, struct rt_span *out)
{
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
        n++;
    *out = rt_span_of(s->p, n);
    s->p += n;
    s->n -= n;
    return n > 0;
}

struct parts {
    /* parts of the path; if the path lacks a part, p of the part is NULL */
    struct rt_span name, version, label, word;
};

/* If *s begins with the part of a path that names a version or a label, removes this part. */
static void take_choice(struct rt_span *s, struct parts *out)
{
    struct rt_span rest = *s, found;
    if (take(&rest, "/versions/") && take_digits(&rest, &found)) {
        out->version = found;
        *s = rest;
        return;
    }
    rest = *s;
    if (take(&rest, "/labels/") && take_name(&rest, &found)) {
        out->label = found;
        *s = rest;
    }
}

/* Matches `/v1/models/NAME[/versions/N | /labels/L]:classify|regress|predict`. */
static bool match_post(struct rt_span s, struct parts *out)
{
    *out = (struct parts){0};
    if (!take(&s, "/v1/models/") || !take_name(&s, &out->name))
        return false;
    take_choice(&s, out);
    if (s.n == 0 || *s.p != ':')
        return false;
    out->word = rt_span_of(s.p + 1, s.n - 1);
    return rt_span_is(out->word, "predict") || rt_span_is(out->word, "classify") ||
           rt_span_is(out->word, "regress");
}

/* Matches `/v1/models[/NAME][/versions/N | /labels/L][/metadata]`. A path that matches both with
 * and without NAME is treated as having a NAME. */
static bool match_get(struct rt_span uri, struct parts *out)
{
    for (int with_name = 1; with_name >= 0; with_name--) {
        struct rt_span s = uri;
        *out = (struct parts){0};
        if (!take(&s, "/v1/models"))
            return false;
        if (with_name && (!take(&s, "/") || !take_name(&s, &out->name)))
            continue;
        take_choice(&s, out);
        struct rt_span rest = s;
        if (take(&rest, "/metadata")) {
            out->word = rt_span_of(s.p + 1, s.n - rest.n - 1);
            s = rest;
        }
        if (s.n == 0)
            return true;
    }
    return false;
}

static int hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes *s into the arena. If *s contains no '%', it is not copied. */
static enum rt_status decode(struct rt_span *s, struct rt_arena *arena, struct rt_error *err)
{
    if (s->n == 0 || !memchr(s->p, '%', s->n))
        return RT_OK;
    unsigned char *to = rt_arena_aligned(arena, s->n, 1);
    if (!to)
        return rt_fail_memory(err, "a model's name", s->n);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        int high = -1, low = -1;
        if (s->p[i] == '%' && s->n - i > 2) {
            high = hex(s->p[i + 1]);
            low = hex(s->p[i + 2]);
        }
        if (high < 0 || low < 0) {
            to[n++] = s->p[i];
            continue;
        }
        to[n++] = (unsigned char)(high << 4 | low);
        i += 2;
    }
    *s = rt_span_of(to, n);
    return RT_OK;
}

static bool parse_version(struct rt_span digits, int64_t *out)
{
    int64_t v = 0;
    for (size_t i = 0; i < digits.n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digits.p[i] - '0', &v))
            return false;
    *out = v;
    return true;
}

static enum rt_status malformed(const char *method, struct rt_span uri, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "Malformed request: %s %.*s", method, (int)uri.n,
                   (const char *)uri.p);
}

static enum rt_status to_model(struct srv_route *out, const char *method, struct rt_span uri,
                               struct rt_arena *arena, struct rt_error *err)
{
    struct parts parts;
    enum srv_method m = srv_method_of(method);
    out->target = SRV_TO_MODEL;
    out->api = SRV_OTHER;
    if (m == SRV_OPTIONS) {
        out->target = SRV_TO_OPTIONS;
        return RT_OK;
    }
    if (!(m == SRV_POST && match_post(uri, &parts)) && !(m == SRV_GET && match_get(uri, &parts)))
        return malformed(method, uri, err);
    if (!parts.name.p)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Missing model name in request.");
    if (m == SRV_POST)
        out->api = *parts.word.p == 'p'   ? SRV_PREDICT
                   : *parts.word.p == 'c' ? SRV_CLASSIFY
                                          : SRV_REGRESS;
    /* only the lower-case spelling "metadata" requests metadata; all others request the model's
     * status */
    else
        out->api = parts.word.p && rt_span_is(parts.word, "metadata") ? SRV_METADATA : SRV_STATUS;
    out->spec.name = parts.name;
    out->spec.label = parts.label;
    if (parts.version.p) {
        out->spec.has_version = true;
        if (!parse_version(parts.version, &out->spec.version))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Failed to convert version: %.*s to numeric.",
                           (int)parts.version.n, (const char *)parts.version.p);
    }
    enum rt_status st = decode(&out->spec.name, arena, err);
    return st ? st : decode(&out->spec.label, arena, err);
}

enum rt_status srv_route(struct srv_route *out, const char *method, struct rt_span uri,
                         const char *metrics_path, struct rt_arena *arena, struct rt_error *err)
{
    memset(out, 0, sizeof *out);
    out->api = SRV_OTHER;
    /* A client that uses a proxy sends an absolute URI, of which only the path matters. */
    struct rt_span rest = uri;
    if (take(&rest, "http://") || take(&rest, "https://")) {
        const unsigned char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
        if (slash)
            uri = rt_span_of(slash, rest.n - (size_t)(slash - rest.p));
    }
    const unsigned char *query = uri.n ? memchr(uri.p, '?', uri.n) : NULL;
    struct rt_span path = rt_span_of(uri.p, query ? (size_t)(query - uri.p) : uri.n);
    if (*metrics_path && rt_span_is(path, metrics_path)) {
        out->target = SRV_TO_METRICS;
        return query ? rt_fail(err, RT_INVALID_ARGUMENT, "Unexpected path: %.*s", (int)uri.n,
                               (const char *)uri.p)
                     : RT_OK;
    }
    rest = uri;
    if (take(&rest, "/v1/"))
        return to_model(out, method, uri, arena, err);

    enum srv_method m = srv_method_of(method);
    bool reads = m == SRV_GET || m == SRV_HEAD;
    rest = path;
    if (reads && rt_span_is(path, "/healthz")) {
        out->target = SRV_TO_HEALTH;
        return RT_OK;
    }
    if (reads && take(&rest, "/readyz") && (rest.n == 0 || (rest.n > 1 && *rest.p == '/'))) {
        out->target = SRV_TO_READY;
        if (rest.n)
            out->spec.name = rt_span_of(rest.p + 1, rest.n - 1);
        return decode(&out->spec.name, arena, err);
    }
    return rt_fail(err, RT_NOT_FOUND, "Nothing is served at %.*s: models are under /v1/models/",
                   (int)path.n, (const char *)path.p);
}
