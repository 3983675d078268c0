#include "server/protocol/route.h"

#include <strings.h>

#include "server/base/hex.h"
#include "server/base/uri.h"
#include "server/page/page.h"

enum srv_method srv_method_of(const char *name)
{
    static const char *const names[] = {"GET", "POST", "OPTIONS", "HEAD"};
    for (int i = 0; i < SRV_OTHER_METHOD; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum srv_method)i;
    return SRV_OTHER_METHOD;
}

bool srv_route_take(struct rt_span *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n < n || strncasecmp((const char *)s->p, word, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

bool srv_route_take_name(struct rt_span *s, const char *ends, struct rt_span *out)
{
    size_t n = 0;
    while (n < s->n && !memchr(ends, s->p[n], strlen(ends)))
        n++;
    *out = rt_span_of(s->p, n);
    s->p += n;
    s->n -= n;
    return n > 0;
}

bool srv_route_take_digits(struct rt_span *s, struct rt_span *out)
{
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
        n++;
    *out = rt_span_of(s->p, n);
    s->p += n;
    s->n -= n;
    return n > 0;
}

enum rt_status srv_route_decode(struct rt_span *s, struct rt_arena *arena, struct rt_error *err)
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
            high = srv_hex_digit(s->p[i + 1]);
            low = srv_hex_digit(s->p[i + 2]);
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

bool srv_route_version(struct rt_span digits, int64_t *out)
{
    int64_t v = 0;
    for (size_t i = 0; i < digits.n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digits.p[i] - '0', &v))
            return false;
    *out = v;
    return true;
}

/* Parses a slash and a number that is not 0. */
static bool is_count(struct rt_span rest, int64_t *out)
{
    struct rt_span digits;

    return srv_route_take(&rest, "/") && srv_route_take_digits(&rest, &digits) && !rest.n &&
           srv_route_version(digits, out) && *out > 0;
}

/* Returns whether the request begins a profile, and sets the target and the name of the model,
 * which is not decoded yet. */
static bool begins_profile(struct srv_route *out, struct rt_span path)
{
    if (srv_route_take(&path, srv_page_profile_path) &&
        srv_route_take_name(&path, "/", &out->spec.name) && is_count(path, &out->n_requests))
        out->target = SRV_TO_PAGE_PROFILE;
    return srv_route_is_page(out);
}

/* Returns whether the request reads a part of the web page, and sets the target and the names of
 * the model and the signature, which are not decoded yet. */
static bool reads_page(struct srv_route *out, struct rt_span path)
{
    struct rt_span rest = path;

    out->page_file = srv_page_find(path);
    if (out->page_file >= 0)
        out->target = SRV_TO_PAGE_FILE;
    else if (rt_span_is(path, srv_page_events_path))
        out->target = SRV_TO_PAGE_EVENTS;
    else if (srv_route_take(&rest, srv_page_errors_path)) {
        out->target = SRV_TO_PAGE_ERRORS;
        out->spec.name = rest;
    } else if (srv_route_take(&rest, srv_page_plan_path) &&
               srv_route_take_name(&rest, "/", &out->spec.name)) {
        out->target = SRV_TO_PAGE_PLAN;
        if (srv_route_take(&rest, "/"))
            out->spec.signature = rest;
    } else if (srv_route_take(&rest, srv_page_profile_path) &&
               srv_route_take_name(&rest, "/", &out->spec.name) && !rest.n) {
        out->target = SRV_TO_PAGE_PROFILE;
    }
    return srv_route_is_page(out);
}

/* Returns what the error of a path that nothing serves advises. */
static const char *hint_for(struct rt_span path, enum srv_route_set set)
{
    if (set != SRV_ROUTES_WITHOUT_PAGE && srv_route_take(&path, srv_page_profile_path))
        return "POST /page/profile/MODEL/N begins a profile of N requests";
    return set == SRV_ROUTES_OF_PAGE ? "the page is at /" : "models are under /v1/models/";
}

/* Finds a route among all that the server has. `uri` begins with the path. */
static enum rt_status find(struct srv_route *out, const struct srv_protocols *protocols,
                           const char *method, struct rt_span uri, const char *metrics_path,
                           enum srv_route_set set, struct rt_arena *arena, struct rt_error *err)
{
    const bool has_page = set != SRV_ROUTES_WITHOUT_PAGE;
    struct rt_span path = srv_uri_path(uri), rest;
    if (*metrics_path && rt_span_is(path, metrics_path)) {
        out->target = SRV_TO_METRICS;
        return path.n < uri.n ? rt_fail(err, RT_INVALID_ARGUMENT, "Unexpected path: %.*s",
                                        (int)uri.n, (const char *)uri.p)
                              : RT_OK;
    }
    for (int i = 0; i < protocols->n; i++) {
        rest = uri;
        const char *root = protocols->row[i]->root;
        if (!root || !srv_route_take(&rest, root) ||
            (root[strlen(root) - 1] != '/' && rest.n && *rest.p != '/' && *rest.p != '?'))
            continue;
        out->target = SRV_TO_CALL;
        out->protocol = protocols->row[i];
        return out->protocol->route(out, method, uri, arena, err);
    }

    enum srv_method m = srv_method_of(method);
    bool reads = m == SRV_GET || m == SRV_HEAD;
    rest = path;
    if (reads && rt_span_is(path, "/healthz")) {
        out->target = SRV_TO_HEALTH;
        return RT_OK;
    }
    if (reads && srv_route_take(&rest, "/readyz") &&
        (rest.n == 0 || (rest.n > 1 && *rest.p == '/'))) {
        out->target = SRV_TO_READY;
        if (rest.n)
            out->spec.name = rt_span_of(rest.p + 1, rest.n - 1);
        return srv_route_decode(&out->spec.name, arena, err);
    }
    if (has_page && (reads ? reads_page(out, path) : m == SRV_POST && begins_profile(out, path))) {
        const enum rt_status st = srv_route_decode(&out->spec.name, arena, err);
        return st ? st : srv_route_decode(&out->spec.signature, arena, err);
    }
    return rt_fail(err, RT_NOT_FOUND, "Nothing is served at %.*s: %s", (int)path.n,
                   (const char *)path.p, hint_for(path, set));
}

enum rt_status srv_route(struct srv_route *out, const struct srv_protocols *protocols,
                         const char *method, struct rt_span uri, const char *metrics_path,
                         enum srv_route_set set, struct rt_arena *arena, struct rt_error *err)
{
    struct rt_span rest = uri;

    memset(out, 0, sizeof *out);
    /* A client that uses a proxy sends an absolute URI. Only its path matters. */
    if (srv_route_take(&rest, "http://") || srv_route_take(&rest, "https://")) {
        const unsigned char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
        if (slash)
            uri = rt_span_of(slash, rest.n - (size_t)(slash - rest.p));
    }
    const enum rt_status st = find(out, protocols, method, uri, metrics_path, set, arena, err);
    const bool is_in_set =
        set != SRV_ROUTES_OF_PAGE || srv_route_is_page(out) ||
        (out->target == SRV_TO_CALL && out->endpoint && out->endpoint->is_at_page_address);
    if (st || is_in_set)
        return st;
    const struct rt_span path = srv_uri_path(uri);
    *out = (struct srv_route){.protocol = out->protocol};
    return rt_fail(err, RT_NOT_FOUND, "%.*s is not served at --page_address, but at the REST port",
                   (int)path.n, (const char *)path.p);
}

int srv_route_api(const struct srv_route *route)
{
    return route->endpoint ? route->endpoint->api : SRV_OTHER;
}
