/* A header's value, read as each of those that are read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t n;
    char *value = malloc(size + 1);
    if (!value)
        return 0;
    if (size)
        memcpy(value, data, size);
    value[size] = '\0';
    srv_http_accepts_gzip(value);
    srv_http_length(value, &n);
    free(value);
    return 0;
}
