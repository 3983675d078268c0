/*
 * Passes bytes through the stream filter. The filter's output must not depend on how the bytes are
 * split, and must pass unchanged through the filter a second time. The output may be longer than
 * the input only by the canned request that replaces a refused request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http_stream.h"
#include "tests/fuzz/cost.h"

enum { MAX_HEAD = 512, REFUSAL = 64 };

static struct srv_http_stream feed(const char *p, size_t n, size_t step, struct rt_bytes *out)
{
    struct srv_http_stream s;
    srv_http_stream_init(&s, MAX_HEAD);
    rt_bytes_init(out, 4 * n + 1024);
    for (size_t at = 0; at < n; at += step)
        if (!srv_http_stream_feed(&s, p + at, step < n - at ? step : n - at, out))
            abort();
    if (s.held.n > MAX_HEAD)
        abort();
    return s;
}

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_bytes whole, bytes, again;
    struct srv_http_stream a = feed((const char *)data, size, size ? size : 1, &whole);
    struct srv_http_stream b = feed((const char *)data, size, 1, &bytes);
    struct srv_http_stream c = feed(whole.p, whole.n, 7, &again);

    if (whole.n > size + REFUSAL || whole.n != bytes.n || a.stage != b.stage || a.http != b.http ||
        a.n_requests != b.n_requests || (whole.n && memcmp(whole.p, bytes.p, whole.n) != 0))
        abort();
    if (c.refused || again.n != whole.n || c.n_requests != a.n_requests ||
        (whole.n && memcmp(whole.p, again.p, whole.n) != 0))
        abort();
    srv_http_stream_clear(&a);
    srv_http_stream_clear(&b);
    srv_http_stream_clear(&c);
    rt_bytes_clear(&whole);
    rt_bytes_clear(&bytes);
    rt_bytes_clear(&again);
}
