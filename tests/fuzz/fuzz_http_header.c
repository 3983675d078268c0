/* Parses arbitrary bytes as the value of each header that the server parses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http_header.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    uint64_t n;
    char *value = malloc(size + 1);
    if (!value)
        return;
    if (size)
        memcpy(value, data, size);
    value[size] = '\0';
    srv_http_accepts_gzip(value);
    srv_http_prefers_openmetrics(value);
    srv_http_length(value, &n);
    free(value);
}
