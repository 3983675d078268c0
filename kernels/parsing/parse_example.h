/*
 * Declarations shared by the files that implement ParseExample, ParseExampleV2 and
 * ParseSingleExample. The three ops have different signatures but share one implementation
 * (parse_example.c), which parses a batch (parse_batch.c) or a single example (parse_alone.c).
 *
 * The features of an example are read from last to first, because the last of several features with
 * the same name takes precedence. The reported error is therefore that of the last faulty feature,
 * as in TensorFlow.
 */
#ifndef KN_PARSING_PARSE_EXAMPLE_H
#define KN_PARSING_PARSE_EXAMPLE_H

#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/wire_example.h"

/* Indices of inputs and outputs by their role. The indices differ between ParseExample,
 * ParseExampleV2 and ParseSingleExample. */
struct kn_parse_layout {
    int version; /* the op's version, 1 or 2, or 0 for ParseSingleExample */
    /* index of the input with the examples' names, or -1 if the op has no such input */
    int names;
    /* for each kind of feature, the first input that holds one key (version 1) or the input that
     * holds all keys (version 2) */
    int key[3];
    int n[3];     /* number of features of each kind */
    int defaults; /* index of the first input that holds a feature's default value */
    /* `sparse` is the index of the first output with sparse indices, and `vals` that of the first
     * output with dense values */
    int sparse, vals;
    /* index of the first output with ragged values; the outputs with row splits follow those with
     * ragged values */
    int ragged;
};

struct kn_parse_entry {
    struct rt_span feature;
    int found; /* index of the entry's feature in the feature map */
};

/*
 * The location and length of a feature's list. Not used for a dense feature with a fixed shape. If
 * is_short is set, the elements have been checked, and p points to them for kn_parse_short.
 */
struct kn_parse_part {
    const uint8_t *p;
    uint32_t bytes;
    bool is_short;
    int64_t n;
};

struct kn_parse {
    struct rt_run *r;
    const struct kn_parse_layout *l;
    const struct kn_feature_map *map;
    int64_t n; /* number of examples */
    int64_t e; /* index of the current example */
    /* `entry` points to scratch memory. If the scratch memory is too small, `entry` points to
     * own_entry, an allocated array. */
    struct kn_parse_entry *entry, *own_entry;
    int64_t n_entries, capacity;
    /* for each feature, 1 + the index of the last example that has it */
    int64_t *last;
    struct kn_parse_part *part; /* the location of the list of each feature in each example */
    struct kn_feature_memory *memory;
};

/* Fills s->entry and s->n_entries with the entries of one example whose names are in the map. */
enum rt_status kn_parse_entries(struct kn_parse *s, struct rt_span example);
/* Returns the address at which the values of dense feature f, which has a fixed shape, are written
 * for example e, or NULL if the feature has no elements. */
void *kn_parse_row(struct kn_parse *s, const struct kn_feature *f, int64_t e);
const char *kn_parse_list_name(enum rt_dtype t); /* Returns "float", "int64" or "bytes". */
/* Sets *out to element i of a scalar or vector of names. Returns false if there is no such
 * element. */
bool kn_parse_key(const struct rt_tensor *t, int i, struct rt_span *out);

/*
 * Parses an example of a batch in one pass instead of the two passes of kn_parse_batch. Returns
 * false if the example has errors, repeated names, or an encoding that protobuf writers do not
 * normally use. In that case, everything recorded about the example is removed. s->memory->n must
 * be 0 before the first example.
 */
bool kn_parse_quick(struct kn_parse *s, struct rt_span example);
/* Writes the elements of a list to dst. part->is_short must be set. Returns false if memory runs
 * out. */
bool kn_parse_short(struct rt_run *r, enum rt_dtype dtype, const struct kn_parse_part *part,
                    void *dst);

enum rt_status kn_parse_batch(struct kn_parse *s);
enum rt_status kn_parse_alone(struct kn_parse *s);

#endif
