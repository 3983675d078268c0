/*
 * The features that an op such as ParseExample requests, and a hash table that finds a feature by
 * its name. If the names are constants, the hash table is made when the kernel is prepared,
 * otherwise in each run.
 *
 * The examples of a batch usually have the same names in the same order. A reader therefore
 * remembers the names of the previous example by position, and looks up a name only if it differs.
 */
#ifndef KN_PARSING_FEATURE_MAP_H
#define KN_PARSING_FEATURE_MAP_H

#include "runtime/core/op.h"

enum kn_feature_kind { KN_DENSE, KN_SPARSE, KN_RAGGED };

struct kn_feature {
    struct rt_span name;
    uint8_t kind;   /* an enum kn_feature_kind */
    uint8_t dtype;  /* the element type: RT_F32, RT_I64 or RT_STRING */
    uint8_t splits; /* type of a ragged feature's row splits, RT_I32 or RT_I64 */
    bool is_padded; /* whether the feature is dense with a first dimension of unknown length */
    bool may_miss;  /* whether a dense feature list that is missing is treated as empty */
    int at;         /* index among the features of the same kind */
    /* index among the features whose number of elements varies, or -1 for a dense feature with a
     * fixed shape */
    int list;
    int def; /* index of the input with a dense feature's default, or -1 if there is none */
    /* for a dense feature, the number of elements per example or, if is_padded is set, per index of
     * the first dimension */
    int64_t stride;
    /* if the feature is a short dense float feature, the first four bytes of a Feature with
     * `stride` values, otherwise 0 */
    uint32_t head;
    const struct rt_shape *shape;
};

struct kn_feature_map {
    int n, n_dense, n_sparse, n_ragged; /* features are ordered by kind: dense, sparse, ragged */
    int n_lists;
    bool has_twins; /* set if two features have the same name */
    uint32_t mask;
    struct kn_feature_slot {
        uint32_t hash;
        int32_t index; /* 1 + the index of the feature, or 0 if the slot is free */
    } * slot;          /* hash table with open addressing */
    struct kn_feature *feature;
};

/* Creates a map for n features in a single block of memory from `alloc`, which returns zeroed
 * memory or NULL. */
struct kn_feature_map *kn_feature_map_new(int n, void *(*alloc)(void *arg, size_t bytes),
                                          void *arg);
/* Builds the hash table, and sets the members `at`, `list` and `head` of each feature. Called after
 * all names are set. */
void kn_feature_map_index(struct kn_feature_map *m);
/* Returns the index of the feature with this name, or -1 if there is none. */
int kn_feature_map_find(const struct kn_feature_map *m, struct rt_span name);

/*
 * The entries of the previous example. For each position, `head` points to the n bytes that precede
 * the entry's value, and `found` is the index of the feature with the entry's name. The bytes are
 * not copied; they are in the memory of the previous example. The number of positions must be set
 * to 0 before the first example.
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

/* ---- comparing names and other short byte strings ---- */

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

/* Returns whether two byte strings of n bytes are equal. The function is fast for short strings. */
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

/* Reads the shape of a dense feature in one example. Sets *is_padded if the first dimension is
 * unknown and will be padded, and *stride to the number of elements per example or, if padded, per
 * step. Returns false if other dimensions of the shape are unknown. */
bool kn_dense_shape(const struct rt_shape *s, bool *is_padded, int64_t *stride);

/* Expands to the arguments of "%.*s" for a span in an error message. The length is limited, because
 * formatting a span of hundreds of megabytes would take long, and the message is truncated
 * anyway. */
#define KN_SPAN(s)                                                                                 \
    (int)((s).n < RT_MAX_ERROR_BYTES ? (s).n : RT_MAX_ERROR_BYTES), (const char *)(s).p

#endif
