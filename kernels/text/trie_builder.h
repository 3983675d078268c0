/*
 * Builds a trie as a double array (model.h) from a list of keys.
 *
 * Owner: the caller frees the units with rt_pool_free. Threads: any; the function has no state.
 */
#ifndef KN_TEXT_TRIE_BUILDER_H
#define KN_TEXT_TRIE_BUILDER_H

#include "kernels/text/model.h"
#include "runtime/core/op.h"

struct kn_trie_key {
    struct rt_span text;
    uint32_t value; /* less than 2^31 */
};

/* Sorts the n keys, which must contain at least one byte and no NUL, and builds their trie. Refuses
 * keys that are equal. Sets *out to a vector of 4-byte units. A trie without keys has no units.
 * `what` names the trie in error messages. Allocates from make->pool, and calls make->check
 * meanwhile. Does not use the other members of `make` except `err`. */
enum rt_status kn_trie_build(const struct rt_make *make, struct kn_trie_key *keys, size_t n,
                             const char *what, struct kn_vector *out);

#endif
