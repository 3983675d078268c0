/*
 * The models of TensorFlow Text's fast tokenizers: a FlatBuffer with one table, whose vectors are
 * views into the bytes of a tensor. Models come from outside, so every offset and index is checked
 * before it is used.
 *
 * A trie is an array of 32-bit units, a double array in the format of the library Darts-clone. A
 * node is the index of its unit; node 0 is the root.
 *
 * Owner: the views belong to the caller's bytes. Threads: any; all functions are pure.
 */
#ifndef KN_TEXT_MODEL_H
#define KN_TEXT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/span.h"

enum { KN_NO_NODE = -1 };

/* A vector of a FlatBuffer: n elements of `size` bytes, at any alignment. */
struct kn_vector {
    const unsigned char *p;
    size_t n, size;
};

/* The root table of a FlatBuffer. */
struct kn_flat_table {
    struct rt_span bytes;
    size_t table, vtable; /* offsets in `bytes` */
    size_t table_size, n_fields;
};

/* Finds the root table. Returns false if it does not lie within the bytes. */
bool kn_flat_open(struct rt_span bytes, struct kn_flat_table *out);
/* Sets *out to a field of at most 4 bytes, or to 0 if the table lacks the field. Returns false if
 * the field does not lie within the table. */
bool kn_flat_number(const struct kn_flat_table *t, size_t field, size_t size, uint32_t *out);
/* Sets *out to a vector whose elements have `size` bytes; a string is a vector of bytes. The vector
 * is empty if the table lacks the field. Returns false if it does not lie within the bytes. */
bool kn_flat_vector(const struct kn_flat_table *t, size_t field, size_t size,
                    struct kn_vector *out);

/* Returns whether the table has a field. */
bool kn_flat_has(const struct kn_flat_table *t, size_t field);
/* Finds the table in a field. Returns false if the table lacks the field, or if the field or its
 * table do not lie within the bytes. */
bool kn_flat_child(const struct kn_flat_table *t, size_t field, struct kn_flat_table *out);
/* Sets *out to the bytes of string i of a vector of strings (whose elements have 4 bytes), which
 * must exist. Returns false if the string does not lie within the bytes. */
bool kn_flat_string(const struct kn_flat_table *t, const struct kn_vector *strings, size_t i,
                    struct rt_span *out);

/* Returns the 32-bit number `at` (0, 1, ...) of element i, which must exist. */
static inline uint32_t kn_vector_u32(const struct kn_vector *v, size_t i, size_t at)
{
    uint32_t x; /* FlatBuffers are little-endian, as are all machines that Slipway runs on */

    memcpy(&x, v->p + i * v->size + at * sizeof x, sizeof x);
    return x;
}

enum {
    KN_TRIE_HAS_VALUE = 1 << 8, /* bit of a unit: the node has a value */
    KN_TRIE_IS_FAR = 1 << 9,    /* bit of a unit: the offset to the children counts units of 256 */
    KN_TRIE_OFFSET_SHIFT = 10,  /* the bits above are the offset */
    KN_TRIE_FAR_SHIFT = 8,
};
#define KN_TRIE_IS_VALUE                                                                           \
    UINT32_C(0x80000000) /* bit of a unit that holds a value: it is no node                        \
                          */

/* Returns unit i of a trie, which must exist. */
static inline uint32_t kn_trie_unit(const struct kn_vector *units, size_t i)
{
    uint32_t x;

    memcpy(&x, units->p + i * sizeof x, sizeof x);
    return x;
}

/* Returns the index of the unit from which a node's children are found by exclusive or. */
static inline size_t kn_trie_children(const struct kn_vector *units, int64_t node)
{
    const uint32_t unit = kn_trie_unit(units, (size_t)node);

    return (size_t)node ^ (size_t)(unit >> KN_TRIE_OFFSET_SHIFT)
                              << (unit & KN_TRIE_IS_FAR ? KN_TRIE_FAR_SHIFT : 0);
}

/* Returns the child of a node for a byte, which must not be 0, or KN_NO_NODE. The node must be less
 * than the number of units, and so is the child. */
static inline int64_t kn_trie_child(const struct kn_vector *units, int64_t node, unsigned char byte)
{
    const size_t at = kn_trie_children(units, node) ^ byte;

    if (at >= units->n || (kn_trie_unit(units, at) & (KN_TRIE_IS_VALUE | 0xff)) != byte)
        return KN_NO_NODE;
    return (int64_t)at;
}

/* Sets *out to the value of a node. Returns false if the node has none. */
static inline bool kn_trie_value(const struct kn_vector *units, int64_t node, uint32_t *out)
{
    const size_t at = kn_trie_children(units, node);

    if (!(kn_trie_unit(units, (size_t)node) & KN_TRIE_HAS_VALUE) || at >= units->n)
        return false;
    *out = kn_trie_unit(units, at) & ~KN_TRIE_IS_VALUE;
    return true;
}

#endif
