#include "clients/http/http_response.h"

#include <string.h>
#include <strings.h>

enum { MAX_LINE = 64 << 10, MAX_HEADERS = 1000 };

void cl_http_response_init(struct cl_http_response *a, size_t max_body)
{
    *a = (struct cl_http_response){0};
    rt_bytes_init(&a->line, MAX_LINE);
    rt_bytes_init(&a->body, max_body);
}

void cl_http_response_clear(struct cl_http_response *a)
{
    rt_bytes_clear(&a->line);
    rt_bytes_clear(&a->body);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum rt_status status_line(struct cl_http_response *a, struct rt_error *err)
{
    const char *p = a->line.p;
    if (a->line.n < 12 || strncmp(p, "HTTP/1.", 7) != 0 || !is_digit(p[7]) || p[8] != ' ' ||
        !is_digit(p[9]) || !is_digit(p[10]) || !is_digit(p[11]))
        return rt_fail(err, RT_DATA_LOSS, "the server does not answer in HTTP/1.1");
    a->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
    a->keep_alive = p[7] != '0';
    a->stage = CL_HTTP_HEADERS;
    return RT_OK;
}

/* Returns the value in a header line if the header is called `name`, and otherwise NULL. */
static const char *value_of(const struct rt_bytes *line, const char *name)
{
    size_t n = strlen(name);
    if (line->n <= n || strncasecmp(line->p, name, n) != 0 || line->p[n] != ':')
        return NULL;
    const char *p = line->p + n + 1;
    return p + strspn(p, " \t");
}

static enum rt_status header(struct cl_http_response *a, struct rt_error *err)
{
    const char *v;
    if (++a->n_headers > MAX_HEADERS)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "more than %d headers in the answer",
                       MAX_HEADERS);
    if ((v = value_of(&a->line, "Content-Length"))) {
        uint64_t n = 0;
        const char *p = v;
        for (; is_digit(*p) && n < UINT64_MAX / 20; p++)
            n = n * 10 + (uint64_t)(*p - '0');
        if (p == v || p[strspn(p, " \t")] || (a->has_length && n != a->left))
            return rt_fail(err, RT_DATA_LOSS, "the answer's Content-Length is not one: %.40s", v);
        a->has_length = true;
        a->left = n;
    } else if ((v = value_of(&a->line, "Transfer-Encoding"))) {
        if (strncasecmp(v, "chunked", 7) != 0 || v[7 + strspn(v + 7, " \t")])
            return rt_fail(err, RT_DATA_LOSS, "the answer's Transfer-Encoding is %.40s", v);
        a->is_chunked = true;
    } else if ((v = value_of(&a->line, "Connection"))) {
        if (strncasecmp(v, "close", 5) == 0)
            a->keep_alive = false;
        else if (strncasecmp(v, "keep-alive", 10) == 0)
            a->keep_alive = true;
    }
    return RT_OK;
}

static void headers_end(struct cl_http_response *a)
{
    bool keeps = a->keep_alive;
    if (a->status / 100 == 1) { /* the final response follows an interim response (1xx) */
        a->stage = CL_HTTP_STATUS_LINE;
        a->has_length = a->is_chunked = false;
        a->left = 0;
    } else if (a->is_head || a->status == 204 || a->status == 304)
        a->stage = CL_HTTP_DONE;
    else if (a->is_chunked)
        a->stage = CL_HTTP_SIZE;
    else if (a->has_length)
        a->stage = a->left ? CL_HTTP_BODY : CL_HTTP_DONE;
    else {
        a->stage = CL_HTTP_BODY;
        keeps = false;
    }
    a->keep_alive = keeps;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static enum rt_status chunk_size(struct cl_http_response *a, struct rt_error *err)
{
    uint64_t n = 0;
    const char *p = a->line.p;
    for (; *p && hex(*p) >= 0 && n < UINT64_MAX / 32; p++)
        n = n * 16 + (uint64_t)hex(*p);
    if (p == a->line.p || (*p && *p != ';' && *p != ' '))
        return rt_fail(err, RT_DATA_LOSS, "the answer's chunks have no sizes");
    a->left = n;
    a->stage = n ? CL_HTTP_CHUNK : CL_HTTP_TRAILERS;
    return RT_OK;
}

/* Handles a complete line of the response, without its line end. */
static enum rt_status take_line(struct cl_http_response *a, struct rt_error *err)
{
    switch (a->stage) {
    case CL_HTTP_STATUS_LINE:
        return status_line(a, err);
    case CL_HTTP_HEADERS:
        if (a->line.n)
            return header(a, err);
        headers_end(a);
        return RT_OK;
    case CL_HTTP_SIZE:
        return chunk_size(a, err);
    case CL_HTTP_CRLF:
        a->stage = CL_HTTP_SIZE;
        return a->line.n ? rt_fail(err, RT_DATA_LOSS, "the answer's chunks do not fit their sizes")
                         : RT_OK;
    case CL_HTTP_TRAILERS:
        if (!a->line.n)
            a->stage = CL_HTTP_DONE;
        else if (++a->n_headers > MAX_HEADERS)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "more than %d trailers in the answer",
                           MAX_HEADERS);
        return RT_OK;
    default:
        return RT_OK;
    }
}

static enum rt_status feed_line(struct cl_http_response *a, const char **p, const char *end,
                                struct rt_error *err)
{
    const char *nl = memchr(*p, '\n', (size_t)(end - *p));
    size_t n = (size_t)((nl ? nl : end) - *p);
    if (n)
        rt_bytes_add(&a->line, *p, n);
    *p += n + (nl != NULL);
    if (a->line.failed)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "a line of the answer is longer than %d bytes",
                       MAX_LINE);
    if (!nl)
        return RT_OK;
    if (!a->line.p)
        rt_bytes_adds(&a->line, ""); /* makes line.p non-NULL even for an empty line */
    if (!rt_bytes_reserve(&a->line, 1))
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "a line of the answer is too long");
    if (a->line.n && a->line.p[a->line.n - 1] == '\r')
        a->line.n--;
    a->line.p[a->line.n] = '\0';
    enum rt_status st = take_line(a, err);
    a->line.n = 0;
    return st;
}

enum rt_status cl_http_response_feed(struct cl_http_response *a, const char *p, size_t n,
                                     size_t *used, struct rt_error *err)
{
    const char *start = p, *end = p + n;
    enum rt_status st = RT_OK;
    while (!st && p < end && a->stage != CL_HTTP_DONE) {
        if (a->stage != CL_HTTP_BODY && a->stage != CL_HTTP_CHUNK) {
            st = feed_line(a, &p, end, err);
            continue;
        }
        bool is_bounded = a->stage == CL_HTTP_CHUNK || a->has_length;
        size_t more = (size_t)(end - p);
        if (is_bounded && more > a->left)
            more = (size_t)a->left;
        rt_bytes_add(&a->body, p, more);
        p += more;
        if (a->body.failed)
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "the answer is longer than %zu bytes",
                         a->body.limit);
        if (!is_bounded)
            continue;
        a->left -= more;
        if (!a->left)
            a->stage = a->stage == CL_HTTP_CHUNK ? CL_HTTP_CRLF : CL_HTTP_DONE;
    }
    *used = (size_t)(p - start);
    return st;
}

enum rt_status cl_http_response_end(struct cl_http_response *a, struct rt_error *err)
{
    if (a->stage == CL_HTTP_BODY && !a->has_length)
        a->stage = CL_HTTP_DONE;
    if (a->stage == CL_HTTP_DONE)
        return RT_OK;
    return rt_fail(err, RT_UNAVAILABLE, "the server ended the connection within its answer%s",
                   a->stage == CL_HTTP_STATUS_LINE ? " (is TLS or gRPC spoken at this port?)" : "");
}
