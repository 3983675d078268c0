#include "server/http/http_stream.h"

#include <string.h>
#include <strings.h>

#include "runtime/base/span.h"
#include "server/http/http_header.h"

enum {
    /* Maximum number of bytes in a chunk line, which contains the size and the extensions of a
     * chunk. */
    CHUNK_LINE_BYTES = 256,
    /* Maximum number of arguments in a query. libmicrohttpd stores them in a linked list. */
    MOST_ARGUMENTS = 32,
    /* Maximum number of headers per request that libmicrohttpd receives. It stores them in the
     * connection's limited memory. */
    MOST_HEADERS = 32,
    DIGITS = 16,     /* maximum number of hex digits in a chunk's size, a 64-bit number */
    MOST_EMPTY = 16, /* maximum number of empty lines before a request */
};

/* The request that the stream outputs instead of a request with a refused head. */
static const char canned[] = "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n";
static const char last_chunk[] = "0\r\n\r\n";

void srv_http_stream_init(struct srv_http_stream *s, size_t max_head)
{
    static const char *const none[] = {NULL};

    *s = (struct srv_http_stream){.stage = SRV_HTTP_HEAD, .also_kept = none};
    rt_bytes_init(&s->held, max_head > CHUNK_LINE_BYTES ? max_head : CHUNK_LINE_BYTES);
}

void srv_http_stream_clear(struct srv_http_stream *s)
{
    rt_bytes_clear(&s->held);
}

static void drop_held(struct srv_http_stream *s)
{
    rt_bytes_clear(&s->held);
    s->looked = s->line = 0;
}

static void refuse(struct srv_http_stream *s, int http, const char *why, struct rt_bytes *out)
{
    if (s->stage == SRV_HTTP_HEAD) {
        s->n_requests++;
        rt_bytes_adds(out, canned);
    } else {
        if (s->stage == SRV_HTTP_CHUNK_END)
            rt_bytes_adds(out, "\r\n");
        rt_bytes_adds(out, last_chunk);
    }
    s->stage = SRV_HTTP_OVER;
    s->refused = s->n_requests;
    s->http = http;
    s->why = why;
    drop_held(s);
}

/* ---- a line of a header ---- */

/* Returns whether c is a tchar of RFC 9110. `tokens` has one bit per ASCII character. */
static bool is_token(unsigned char c)
{
    static const uint64_t tokens[2] = {UINT64_C(0x03ff6cfa00000000), UINT64_C(0x57ffffffc7fffffe)};
    return c < 128 && (tokens[c >> 6] >> (c & 63) & 1);
}

/* Returns whether any of the eight bytes in w is below ' ' or is DEL. This fast test makes it
 * unnecessary to check each byte of most lines. */
static bool may_hold_control(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t del = w ^ ones * 0x7f;
    return (((w - ones * ' ') & ~w) | ((del - ones) & ~del)) & tops;
}

static bool has_control(struct rt_span s)
{
    uint64_t w;
    size_t i = 0;

    while (i + sizeof w <= s.n) {
        memcpy(&w, s.p + i, sizeof w);
        if (may_hold_control(w))
            break;
        i += sizeof w;
    }
    for (; i < s.n; i++)
        if ((s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] == 0x7f)
            return true;
    return false;
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

/* Splits a line "Name: value", given without its CR LF. Returns false if the line is malformed. */
static bool cut_header(struct rt_span line, struct rt_span *name, struct rt_span *value)
{
    size_t n = 0;

    while (n < line.n && is_token(line.p[n]))
        n++;
    if (!n || n == line.n || line.p[n] != ':')
        return false;
    *name = rt_span_of(line.p, n++);
    while (n < line.n && is_blank(line.p[n]))
        n++;
    *value = rt_span_of(line.p + n, line.n - n);
    while (value->n && is_blank(value->p[value->n - 1]))
        value->n--;
    return !has_control(*value);
}

static bool is_name(struct rt_span name, const char *text)
{
    return name.n == strlen(text) && strncasecmp((const char *)name.p, text, name.n) == 0;
}

/* ---- a head ---- */

struct head {
    bool bad_header, bad_length, is_chunked;
    bool is_old; /* whether the request's version is HTTP/1.0 */
    int n_lengths, n_encodings, n_hosts, n_kept;
    uint64_t length;
    int http; /* HTTP status for an invalid request line, or 0 if the line is valid */
    const char *why;
};

/* Returns whether libmicrohttpd receives a header. The server drops headers that it does not use,
 * such as cookies, because libmicrohttpd would copy them. */
static bool is_kept(struct head *h, struct rt_span name, struct rt_span value)
{
    char number[24];

    switch (name.n) {
    case 4:
        if (!is_name(name, "Host"))
            return false;
        h->n_hosts++;
        return true;
    case 6:
        return is_name(name, "Origin") || is_name(name, "Expect") || is_name(name, "Accept");
    case 10:
        return is_name(name, "Connection") || is_name(name, "tracestate");
    case 11:
        return is_name(name, "traceparent");
    case 12:
        return is_name(name, "X-Request-Id");
    case 13:
        return is_name(name, "Authorization");
    case 14:
        if (is_name(name, "Sec-Fetch-Site") || is_name(name, "Sec-Fetch-Mode"))
            return true;
        if (!is_name(name, "Content-Length"))
            return false;
        h->n_lengths++;
        h->bad_length |= value.n >= sizeof number;
        if (!h->bad_length) {
            memcpy(number, value.p, value.n);
            number[value.n] = '\0';
            /* Refuses lengths above INT64_MAX, because libmicrohttpd interprets `2^64-1` as an
             * unknown length. */
            h->bad_length = !srv_http_length(number, &h->length) || h->length > INT64_MAX;
        }
        return true;
    case 15:
        return is_name(name, "Accept-Encoding");
    case 16:
        return is_name(name, "Content-Encoding");
    case 17:
        if (!is_name(name, "Transfer-Encoding"))
            return false;
        h->n_encodings++;
        h->is_chunked = is_name(value, "chunked");
        return true;
    default:
        return false;
    }
}

static bool is_listed(const char *const *list, struct rt_span name)
{
    for (; *list; list++)
        if (is_name(name, *list))
            return true;
    return false;
}

static int bad_line(struct head *h, int http, const char *why)
{
    h->why = why;
    return h->http = http;
}

/* Returns the number of '&' characters in the query, or 0 if the target has no query. */
static size_t count_separators(struct rt_span target)
{
    const unsigned char *end = target.p + target.n, *at = memchr(target.p, '?', target.n);
    size_t n = 0;

    while (at && (at = memchr(at + 1, '&', (size_t)(end - at - 1))))
        n++;
    return n;
}

/* Checks that a request line has the form METHOD TARGET HTTP/1.x. Returns 0 or an HTTP status. */
static int check_request_line(struct head *h, struct rt_span line)
{
    const unsigned char *space = memchr(line.p, ' ', line.n), *last = memrchr(line.p, ' ', line.n);
    bool contains_control = has_control(line);

    if (contains_control && memchr(line.p, '\0', line.n))
        return bad_line(h, 400, "the request line holds a NUL");
    if (!space || space == line.p || last <= space + 1)
        return bad_line(h, 400, "the request line is not METHOD PATH VERSION");
    struct rt_span target = rt_span_of(space + 1, (size_t)(last - space - 1));
    struct rt_span version = rt_span_of(last + 1, (size_t)(line.p + line.n - last - 1));
    for (const unsigned char *c = line.p; c < space; c++)
        if (*c < ' ' || *c > 0x7e)
            return bad_line(h, 400, "the method holds a control character");
    if (version.n != 8 || memcmp(version.p, "HTTP/", 5) != 0 || version.p[6] != '.')
        return bad_line(h, 400, "the request line does not end in HTTP/1.1");
    if (version.p[5] != '1' || (version.p[7] != '0' && version.p[7] != '1'))
        return bad_line(h, 505, "the only versions are HTTP/1.0 and HTTP/1.1");
    h->is_old = version.p[7] == '0';
    /* The method and the version contain no control characters. Only the path can contain one. */
    if (contains_control || memchr(target.p, ' ', target.n) || memchr(target.p, '\t', target.n))
        return bad_line(h, 400, "the path holds a blank or a control character");
    if (count_separators(target) >= MOST_ARGUMENTS)
        return bad_line(h, 414, "the query has more than 32 arguments");
    return 0;
}

static const char *why_not(const struct head *h, int *http)
{
    *http = 400;
    if (h->bad_header)
        return "a header is folded, its name holds a blank, or its value a control character";
    if (h->bad_length)
        return "Content-Length is no number";
    if (h->n_lengths > 1)
        return "Content-Length is given twice";
    if (h->n_lengths && h->n_encodings)
        return "Content-Length and Transfer-Encoding do not go together";
    if (h->n_encodings > 1)
        return "Transfer-Encoding is given twice";
    if (h->n_encodings && h->is_old)
        return "HTTP/1.0 has no Transfer-Encoding";
    if (h->n_hosts > 1)
        return "Host is given twice";
    if (!h->n_hosts && !h->is_old)
        return "HTTP/1.1 wants a Host";
    *http = 431;
    if (h->n_kept > MOST_HEADERS)
        return "too many headers";
    *http = 501;
    return h->n_encodings && !h->is_chunked ? "the only Transfer-Encoding is chunked" : NULL;
}

/* Reads a complete head, including the empty line at its end. Every line ends in CR LF. */
static void take_head(struct srv_http_stream *s, struct rt_span head, struct rt_bytes *out)
{
    struct head h = {.http = 0};
    size_t begin = out->n;
    const unsigned char *at = head.p, *end = head.p + head.n - 2;
    /* the bytes from `kept` to `at` have not been appended to `out` yet */
    const unsigned char *kept = at;
    const char *why;
    int http;

    for (bool first = true; at < end; first = false) {
        const unsigned char *lf = memchr(at, '\n', (size_t)(head.p + head.n - at));
        struct rt_span line = rt_span_of(at, (size_t)(lf - at) - 1), name, value;
        bool keep = first;
        if (first && check_request_line(&h, line))
            break;
        if (!first && !cut_header(line, &name, &value))
            h.bad_header = true;
        else if (!first)
            keep = is_kept(&h, name, value) || is_listed(s->also_kept, name);
        h.n_kept += keep;
        if (!keep) {
            rt_bytes_add(out, kept, (size_t)(at - kept));
            kept = lf + 1;
        } else if (!first && value.p + value.n != line.p + line.n) {
            /* libmicrohttpd would keep trailing blanks as part of the value. */
            rt_bytes_add(out, kept, (size_t)(value.p + value.n - kept));
            kept = lf - 1;
        }
        at = lf + 1;
    }
    rt_bytes_add(out, kept, (size_t)(head.p + head.n - kept));
    http = h.http;
    why = http ? h.why : why_not(&h, &http);
    if (why) {
        out->n = begin;
        refuse(s, http, why, out);
        return;
    }
    s->n_requests++;
    s->left = h.length;
    s->stage = h.n_encodings ? SRV_HTTP_CHUNK_LINE : h.length ? SRV_HTTP_BODY : SRV_HTTP_HEAD;
}

/* ---- chunks ---- */

/* Reads a chunk line of the form SIZE[;EXTENSIONS], given without its CR LF. */
static void take_chunk_line(struct srv_http_stream *s, struct rt_span line, struct rt_bytes *out)
{
    uint64_t size = 0;
    size_t n = 0;

    for (; n < line.n; n++) {
        unsigned char c = line.p[n] | 0x20;
        int digit = c >= '0' && c <= '9' && line.p[n] == c ? c - '0'
                    : c >= 'a' && c <= 'f'                 ? c - 'a' + 10
                                                           : -1;
        if (digit < 0)
            break;
        if (size >> 59) {
            refuse(s, 413, "a chunk's size is too large", out);
            return;
        }
        size = size << 4 | (unsigned)digit;
    }
    if (!n || (n < line.n && line.p[n] != ';')) {
        refuse(s, 400, "a chunk's size is no number", out);
        return;
    }
    if (n > DIGITS) {
        refuse(s, 413, "a chunk's size has too many digits", out);
        return;
    }
    if (has_control(line)) {
        refuse(s, 400, "a chunk's extension holds a control character", out);
        return;
    }
    s->left = size;
    s->stage = size ? SRV_HTTP_CHUNK : SRV_HTTP_TRAILERS;
    if (size)
        rt_bytes_addf(out, "%llx\r\n", (unsigned long long)size);
}

void srv_http_stream_passed(struct srv_http_stream *s, uint64_t n)
{
    s->left -= n;
    if (s->left == 0)
        s->stage = s->stage == SRV_HTTP_CHUNK ? SRV_HTTP_CHUNK_END : SRV_HTTP_HEAD;
}

/* ---- lines, as they come ---- */

static size_t line_limit(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_CHUNK_LINE  ? CHUNK_LINE_BYTES
           : s->stage == SRV_HTTP_CHUNK_END ? 2
                                            : s->held.limit;
}

static void refuse_long(struct srv_http_stream *s, bool in_first_line, struct rt_bytes *out)
{
    if (s->stage == SRV_HTTP_CHUNK_LINE)
        refuse(s, 400, "a chunk's line is longer than 256 bytes", out);
    else if (s->stage == SRV_HTTP_CHUNK_END)
        refuse(s, 400, "no end of line behind a chunk", out);
    else if (s->stage == SRV_HTTP_TRAILERS)
        refuse(s, 431, "the trailers are larger than --max_header_bytes", out);
    else if (in_first_line)
        refuse(s, 414, "the request line is longer than --max_header_bytes", out);
    else
        refuse(s, 431, "the headers are larger than --max_header_bytes", out);
}

/* Checks one line of a head, of trailers or of a chunk's size, without its CR LF. Returns true if
 * it is the last line of the current stage. */
static bool is_last_line(struct srv_http_stream *s, struct rt_span line, struct rt_bytes *out)
{
    struct rt_span name, value;

    if (s->stage != SRV_HTTP_TRAILERS)
        return s->stage != SRV_HTTP_HEAD || line.n == 0;
    if (line.n && !cut_header(line, &name, &value))
        refuse(s, 400,
               "a trailer is folded, its name holds a blank, or its value a control character",
               out);
    return line.n == 0;
}

static void take_lines(struct srv_http_stream *s, struct rt_span all, struct rt_bytes *out)
{
    struct rt_span line = rt_span_of(all.p, all.n - 2);

    switch (s->stage) {
    case SRV_HTTP_HEAD:
        s->n_empty = 0;
        take_head(s, all, out);
        break;
    case SRV_HTTP_CHUNK_LINE:
        take_chunk_line(s, line, out);
        break;
    case SRV_HTTP_CHUNK_END: /* The line is empty, because line_limit permits only its CR LF. */
        s->stage = SRV_HTTP_CHUNK_LINE;
        rt_bytes_adds(out, "\r\n");
        break;
    case SRV_HTTP_TRAILERS:
        s->stage = SRV_HTTP_HEAD;
        rt_bytes_adds(out, last_chunk);
        break;
    default:
        break;
    }
}

/*
 * Checks the complete lines of the current stage. `all` contains all received bytes of the stage,
 * including those in `held`. Returns the number of bytes up to the end of the last line of the
 * stage, or 0 if this line has not arrived or a line was refused.
 */
static size_t look_for_end(struct srv_http_stream *s, struct rt_span all, struct rt_bytes *out)
{
    size_t limit = line_limit(s), n = all.n < limit ? all.n : limit;

    while (s->stage != SRV_HTTP_OVER) {
        const unsigned char *lf =
            s->looked < n ? memchr(all.p + s->looked, '\n', n - s->looked) : NULL;
        if (!lf) {
            s->looked = n;
            if (n == limit)
                refuse_long(s, s->line == 0, out);
            return 0;
        }
        size_t at = (size_t)(lf - all.p);
        if (at == s->line || all.p[at - 1] != '\r') {
            refuse(s, 400, "a line ends without CR", out);
            return 0;
        }
        struct rt_span line = rt_span_of(all.p + s->line, at - 1 - s->line);
        s->looked = s->line = at + 1;
        if (is_last_line(s, line, out))
            return at + 1;
    }
    return 0;
}

/* Drops an empty line before a request, as RFC 9112 recommends. Limits the number of these
 * lines. */
static void pass_empty_line(struct srv_http_stream *s, struct rt_bytes *out)
{
    drop_held(s);
    if (++s->n_empty > MOST_EMPTY)
        refuse(s, 400, "too many empty lines before a request", out);
}

/* Reads the lines of a head, a chunk's size, the end of a chunk, or trailers. Returns the number of
 * bytes consumed at p. */
static size_t feed_lines(struct srv_http_stream *s, const unsigned char *p, size_t n,
                         struct rt_bytes *out)
{
    size_t held = s->held.n;
    struct rt_span all = rt_span_of(p, n);

    if (s->stage == SRV_HTTP_HEAD && !held && n >= 2 && p[0] == '\r' && p[1] == '\n') {
        pass_empty_line(s, out);
        return 2;
    }
    if (held == 1 && s->stage == SRV_HTTP_HEAD && s->held.p[0] == '\r' && p[0] == '\n') {
        pass_empty_line(s, out);
        return 1;
    }
    if (s->stage == SRV_HTTP_HEAD && !held && p[0] != '\r' && (p[0] <= ' ' || p[0] > 0x7e)) {
        refuse(s, 400, "this is no HTTP request", out);
        return n;
    }
    if (held) {
        size_t capacity = s->held.limit - held;
        rt_bytes_add(&s->held, p, n < capacity ? n : capacity);
        if (s->held.failed)
            return n;
        all = rt_span_of(s->held.p, s->held.n);
    }
    size_t used = look_for_end(s, all, out);
    if (used) {
        take_lines(s, rt_span_of(all.p, used), out);
        drop_held(s);
        return used - held;
    }
    if (s->stage != SRV_HTTP_OVER && !held)
        rt_bytes_add(&s->held, p, n);
    return n;
}

bool srv_http_stream_feed(struct srv_http_stream *s, const char *p, size_t n, struct rt_bytes *out)
{
    for (size_t at = 0; at < n && s->stage != SRV_HTTP_OVER && !s->held.failed;) {
        uint64_t body = srv_http_stream_body(s);
        if (body) {
            size_t k = body < n - at ? (size_t)body : n - at;
            rt_bytes_add(out, p + at, k);
            srv_http_stream_passed(s, k);
            at += k;
        } else {
            at += feed_lines(s, (const unsigned char *)p + at, n - at, out);
        }
    }
    return !s->held.failed && !out->failed;
}
