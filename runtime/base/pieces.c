#include "runtime/base/pieces.h"

#include <string.h>

enum rt_status rt_copy_pieces(void *dst, const void *src, size_t n, const struct rt_check *check,
                              struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t at = 0; at < n && !st; at += RT_PIECE_BYTES) {
        const size_t some = n - at < RT_PIECE_BYTES ? n - at : RT_PIECE_BYTES;
        memcpy((char *)dst + at, (const char *)src + at, some);
        st = some < RT_PIECE_BYTES ? RT_OK : rt_check_call(check, err);
    }
    return st;
}

enum rt_status rt_zero_pieces(void *dst, size_t n, const struct rt_check *check,
                              struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t at = 0; at < n && !st; at += RT_PIECE_BYTES) {
        const size_t some = n - at < RT_PIECE_BYTES ? n - at : RT_PIECE_BYTES;
        memset((char *)dst + at, 0, some);
        st = some < RT_PIECE_BYTES ? RT_OK : rt_check_call(check, err);
    }
    return st;
}
