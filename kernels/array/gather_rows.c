#include "kernels/array/gather_rows.h"

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"

enum {
    CHUNK = 4096, /* maximum number of rows that are copied between two deadline checks */
    MOVE = 16,
    MOVES = 16, /* maximum number of 16-byte moves per row; longer rows are copied by memcpy */
};

#define HAS_OUTSIDE(T)                                                                             \
    KN_CLONES static bool has_outside_##T(const T *index, int64_t n, int64_t limit)                \
    {                                                                                              \
        bool is_outside = false;                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            is_outside |= index[i] < 0 || index[i] >= limit;                                       \
        return is_outside;                                                                         \
    }
HAS_OUTSIDE(int32_t)
HAS_OUTSIDE(int64_t)

int64_t kn_first_outside(const struct rt_tensor *index, int64_t limit)
{
    const int64_t n = rt_tensor_count(index);

    if (index->dtype == RT_I32
            ? !has_outside_int32_t(index->data, n, limit)
            : index->dtype == RT_I64 && !has_outside_int64_t(index->data, n, limit))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (kn_int_at(index, i) < 0 || kn_int_at(index, i) >= limit)
            return i;
    return -1;
}

/* Types for copying rows of 4, 8 and 16 bytes. Their alignment is 1, because rows are aligned only
 * to the size of their elements. */
typedef uint32_t four __attribute__((aligned(1), may_alias));
typedef uint64_t eight __attribute__((aligned(1), may_alias));
struct sixteen {
    char byte[MOVE];
};

#define GATHER_ROWS(T)                                                                             \
    KN_CLONES static void gather_words_##T(const T *index, int64_t n, const four *src,             \
                                           four *restrict dst)                                     \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = src[index[i]];                                                                \
    }                                                                                              \
    KN_CLONES static void gather_pairs_##T(const T *index, int64_t n, const eight *src,            \
                                           eight *restrict dst)                                    \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = src[index[i]];                                                                \
    }                                                                                              \
    static void gather_rows_##T(const T *index, int64_t n, const char *src, size_t bytes,          \
                                char *dst)                                                         \
    {                                                                                              \
        if (bytes == sizeof(four)) {                                                               \
            gather_words_##T(index, n, (const void *)src, (void *)dst);                            \
        } else if (bytes == sizeof(eight)) {                                                       \
            gather_pairs_##T(index, n, (const void *)src, (void *)dst);                            \
        } else if (bytes % MOVE || bytes > MOVES * MOVE) {                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                memcpy(dst + (size_t)i * bytes, src + (size_t)index[i] * bytes, bytes);            \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++, dst += bytes) {                                        \
                const struct sixteen *from = (const void *)(src + (size_t)index[i] * bytes);       \
                for (size_t k = 0; k < bytes / MOVE; k++)                                          \
                    ((struct sixteen *)(void *)dst)[k] = from[k];                                  \
            }                                                                                      \
        }                                                                                          \
    }
GATHER_ROWS(int32_t)
GATHER_ROWS(int64_t)

enum rt_status kn_gather_rows(struct rt_run *r, const struct rt_tensor *index, int64_t first,
                              int64_t n, const void *src, size_t bytes, void *dst, int64_t *left)
{
    const int64_t size = (int64_t)(bytes / sizeof(float)) + 1;
    const int64_t most = RT_WORK / size < CHUNK ? RT_WORK / size + 1 : CHUNK;
    char *to = dst;

    for (int64_t i = 0; i < n && bytes; i += most, to += (size_t)most * bytes) {
        const int64_t some = n - i < most ? n - i : most;
        if (rt_run_spend(r, left, some * size))
            return r->err->code;
        if (index->dtype == RT_I32)
            gather_rows_int32_t((const int32_t *)index->data + first + i, some, src, bytes, to);
        else if (index->dtype == RT_I64)
            gather_rows_int64_t((const int64_t *)index->data + first + i, some, src, bytes, to);
        else
            for (int64_t k = 0; k < some; k++)
                memcpy(to + (size_t)k * bytes,
                       (const char *)src + (size_t)kn_int_at(index, first + i + k) * bytes, bytes);
    }
    return RT_OK;
}
