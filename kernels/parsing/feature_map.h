/*
 * Which features an op of the Example family asks for, and how a name in an example finds its
 * place. Made once when the names are constants (prepare), else for each run.
 *
 * Examples of a batch mostly carry the same names in the same order, so a reader remembers what
 * the last example had at each position and looks only the others up.
 */
#ifndef KN_CPU_FEATURE_MAP_H
#define KN_CPU_FEATURE_MAP_H

#include "runtime/core/op.h"

enum kn_feature_kind { KN_DENSE, KN_SPARSE, KN_RAGGED };

struct kn_feature {
    struct rt_span name;
    uint8_t kind;   /* enum kn_feature_kind */
    uint8_t dtype;  /* RT_F32, RT_I64, RT_STRING */
    uint8_t splits; /* ragged: RT_I32 or RT_I64 */
    bool is_padded; /* dense of unknown length */
    bool may_miss;  /* dense list of a sequence: nothing is an empty list */
    int at;         /* among its kind */
    int list;       /* among those that are not dense and fixed, or -1 */
    int def;        /* dense: the input that holds its default, or -1 */
    int64_t stride; /* dense: elements of one, or of one step when padded */
    uint32_t head;  /* dense floats: how a Feature of `stride` of them begins, or 0 */
    const struct rt_shape *shape;
};

struct kn_feature_map {
    int n, n_dense, n_sparse, n_ragged; /* in this order */
    int n_lists;
    bool has_twins; /* two features of one name */
    uint32_t mask;
    struct kn_feature_slot {
        uint32_t hash;
        int32_t index; /* + 1; 0: free */
    } * slot;          /* open addressing */
    struct kn_feature *feature;
};

/* Room for n features in one block that `alloc` gives (zeroed, or NULL). */
struct kn_feature_map *kn_feature_map_new(int n, void *(*alloc)(void *arg, size_t bytes),
                                          void *arg);
/* After all names are there. */
void kn_feature_map_index(struct kn_feature_map *m);
int kn_feature_map_find(const struct kn_feature_map *m, struct rt_span name); /* or -1 */

/*
 * What a reader remembers of the last example: at each position, the bytes of the entry up to its
 * value (they lie in that example), and what its name is. Zero it.
 */
enum { KN_REMEMBERED = 256 };
struct kn_feature_memory {
    struct {
        const uint8_t *head;
        uint32_t n;
        int32_t found;
    } at[KN_REMEMBERED];
    int n;
};

/* ---- names, and other few bytes ---- */

static inline uint64_t kn_load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t kn_load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* memcmp for a few bytes. */
static inline bool kn_same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    if (n >= 8) {
        for (size_t i = 0; i + 8 < n; i += 8)
            if (kn_load64(a + i) != kn_load64(b + i))
                return false;
        return kn_load64(a + n - 8) == kn_load64(b + n - 8);
    }
    if (n >= 4)
        return kn_load32(a) == kn_load32(b) && kn_load32(a + n - 4) == kn_load32(b + n - 4);
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* ---- shapes ---- */

/* One of each example: fixed, or with a first dimension that is padded. False: neither. */
bool kn_dense_shape(const struct rt_shape *s, bool *is_padded, int64_t *stride);

/* "%.*s" of a span. */
#define KN_SPAN(s) (int)(s).n, (const char *)(s).p

#endif
