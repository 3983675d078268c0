/* Functions shared by json.c, json_check.c and json_text.c. All of them are pure. */
#ifndef SRV_JSON_INTERNAL_H
#define SRV_JSON_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Returns whether any of the eight bytes in w is special in a string, that is, '"', '\\' or a byte
 * below 0x20. */
static inline bool srv_json_has_special(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w)) &
           tops;
}

/* Returns the address of the first byte at or after p that is special (see srv_json_has_special),
 * or `end` if there is none. */
static inline const unsigned char *srv_json_plain(const unsigned char *p, const unsigned char *end)
{
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        if (srv_json_has_special(w))
            break;
        p += 8;
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
        p++;
    return p;
}

#endif
