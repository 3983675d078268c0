/*
 * Declarations shared by the files that implement ParseExample, ParseExampleV2 and
 * ParseSingleExample. The three ops share one implementation with three signatures
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

/* Indices of inputs and outputs by their role, because they differ between ParseExample,
 * ParseExampleV2 and ParseSingleExample. */
struct kn_parse_layout {
    int version; /* the op's version, 1 or 2, or 0 for ParseSingleExample */
    /* index of the input with the examples' names, or -1 if the op has no such input */
    int names;
    /* for each kind of feature, the first input with a key (version 1) or the input with all keys
     * (version 2) */
    int key[3];
    int n[3];     /* number of features of each kind */
    int defaults; /* index of the first of the inputs with the features' default values */
    /* index of the first output with sparse indices, and of the first output with dense values */
    int sparse, vals;
    /* index of the first output with ragged values; the outputs with row splits come after all of
     * these */
    int ragged;
};

struct kn_parse_entry {
    struct rt_span feature;
    int found; /* index of the entry's feature in the feature map */
};

/*
 * Location and length of the list of a feature, unless the feature is dense with a fixed shape. If
 * is_short is set, p points only at the checked elements, in the form that kn_parse_short reads.
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
    /* `entry` is in scratch memory or, if that is too small, in own_entry, which is allocated. */
    struct kn_parse_entry *entry, *own_entry;
    int64_t n_entries, capacity;
    /* for each feature, 1 + the index of the last example that has it */
    int64_t *last;
    struct kn_parse_part *part; /* the location of each list in each example */
    struct kn_feature_memory *memory;
};

/* Fills s->entry and s->n_entries with the entries of one example whose names are in the map. */
enum rt_status kn_parse_entries(struct kn_parse *s, struct rt_span example);
/* Returns the destination of the values of a dense feature with a fixed shape in example e, or NULL
 * if the feature has no elements. */
void *kn_parse_row(struct kn_parse *s, const struct kn_feature *f, int64_t e);
const char *kn_parse_list_name(enum rt_dtype t); /* Returns "float", "int64" or "bytes". */
/* Sets *out to element i of a scalar or vector of names. Returns false if there is no such
 * element. */
bool kn_parse_key(const struct rt_tensor *t, int i, struct rt_span *out);

/*
 * Fast path for one example of a batch in the encoding that protobuf writers normally use, without
 * errors and without repeated names. It reads in one pass the data that kn_parse_batch's general
 * path reads in two. Returns false if the example has another encoding, and removes everything that
 * it recorded about the example. s->memory must be zeroed before the first example.
 */
bool kn_parse_quick(struct kn_parse *s, struct rt_span example);
/* Writes to dst the elements of a part whose is_short is true. Returns false if memory runs out. */
bool kn_parse_short(struct rt_run *r, enum rt_dtype dtype, const struct kn_parse_part *part,
                    void *dst);

enum rt_status kn_parse_batch(struct kn_parse *s);
enum rt_status kn_parse_alone(struct kn_parse *s);

#endif
