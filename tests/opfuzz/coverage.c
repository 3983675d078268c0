#include "tests/opfuzz/coverage.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *counters;
static size_t n_counters;

/* The constructors that clang adds to a program call this function with the bounds of the section
 * of the counters. Only one section is used: the program's own, if it is linked statically. */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop)
{
    if (!counters) {
        counters = start;
        n_counters = (size_t)(stop - start);
    }
}

const int32_t *coverage_new_places(size_t *n)
{
    static bool *is_known;
    static int32_t *place;

    *n = 0;
    if (!is_known) {
        is_known = calloc(n_counters + 1, sizeof *is_known);
        place = calloc(n_counters + 1, sizeof *place);
        if (!is_known || !place)
            abort();
    }
    for (size_t i = 0; i < n_counters; i += sizeof(uint64_t)) {
        const size_t size = n_counters - i < sizeof(uint64_t) ? n_counters - i : sizeof(uint64_t);
        uint64_t word = 0;
        memcpy(&word, counters + i, size);
        if (word == 0)
            continue;
        for (size_t k = i; k < i + size; k++)
            if (counters[k] && !is_known[k]) {
                is_known[k] = true;
                place[(*n)++] = (int32_t)k;
            }
        memset(counters + i, 0, size);
    }
    return place;
}
