/* Parses an HTTP response once as a whole and once byte by byte. Both must give the same result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/http/http_response.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct cl_http_response whole, bytes;
    size_t used = 0, one, total = 0;
    cl_http_response_init(&whole, 1 << 16);
    cl_http_response_init(&bytes, 1 << 16);
    enum rt_status a = cl_http_response_feed(&whole, (const char *)data, size, &used, &err),
                   b = RT_OK;
    while (!b && total < size && bytes.stage != CL_HTTP_DONE) {
        b = cl_http_response_feed(&bytes, (const char *)data + total, 1, &one, &err);
        total += one;
    }
    if (a != b)
        abort();
    if (!a && (whole.stage != bytes.stage || whole.status != bytes.status || used != total ||
               whole.body.n != bytes.body.n ||
               (whole.body.n && memcmp(whole.body.p, bytes.body.p, whole.body.n) != 0)))
        abort();
    (void)cl_http_response_end(&whole, &err);
    cl_http_response_clear(&whole);
    cl_http_response_clear(&bytes);
}
