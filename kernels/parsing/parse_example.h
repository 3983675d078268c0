/*
 * Shared by the files of the Example family. ParseExample, ParseExampleV2 and ParseSingleExample
 * are one op with three signatures (parse_example.c); it parses a batch (parse_batch.c) or a single
 * example (parse_alone.c).
 *
 * The features of an example are read from the last to the first, because the last of several
 * features of one name counts. The first error is therefore about the last faulty feature, as in
 * TensorFlow.
 */
#ifndef KN_PARSING_PARSE_EXAMPLE_H
#define KN_PARSING_PARSE_EXAMPLE_H

#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/wire_example.h"

/* Indices of inputs and outputs by their role. The three ops have them in different places. */
struct kn_parse_layout {
    int version;  /* 1 or 2; 0: ParseSingleExample */
    int names;    /* index of the input, or -1 */
    int key[3];   /* per kind: first input of keys (version 1) or the vector of keys (version 2) */
    int n[3];     /* number of features per kind */
    int defaults; /* index of the first input of defaults */
    int sparse, vals; /* first output of sparse indices; first output of dense values */
    int ragged;       /* first output of ragged values; the row splits follow */
};

struct kn_parse_entry {
    struct rt_span feature;
    int found; /* index in the feature map */
};

/*
 * Location and length of the list of a feature that is not dense with a fixed shape. `is_short`: p
 * points at the checked elements alone, in the form that kn_parse_short reads.
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
    /* own_entry: allocated when the scratch memory is too small */
    struct kn_parse_entry *entry, *own_entry;
    int64_t n_entries, capacity;
    int64_t *last;              /* per feature: index of the last example that has it, + 1 */
    struct kn_parse_part *part; /* the part of each list in each example */
    struct kn_feature_memory *memory;
};

/* Fills s->entry and s->n_entries with the entries of one example whose names are in the map. */
enum rt_status kn_parse_entries(struct kn_parse *s, struct rt_span example);
/* Destination of the values of a dense feature with a fixed shape in example e. NULL: it has no
 * elements. */
void *kn_parse_row(struct kn_parse *s, const struct kn_feature *f, int64_t e);
const char *kn_parse_list_name(enum rt_dtype t); /* "float", "int64" or "bytes" */
/* *out: element i of a scalar or vector of names. False: there is no such element. */
bool kn_parse_key(const struct rt_tensor *t, int i, struct rt_span *out);

/*
 * Fast path for one example of a batch that is encoded as protobuf writers encode it: without
 * errors and without repeated names. It reads in one pass what the general path of kn_parse_batch
 * reads in two. False: the example has another encoding, and everything that was recorded of it is
 * undone. s->memory must be zeroed before the first example.
 */
bool kn_parse_quick(struct kn_parse *s, struct rt_span example);
/* Writes the elements of a short part to dst. False: out of memory. */
bool kn_parse_short(struct rt_run *r, enum rt_dtype dtype, const struct kn_parse_part *part,
                    void *dst);

enum rt_status kn_parse_batch(struct kn_parse *s);
enum rt_status kn_parse_alone(struct kn_parse *s);

#endif
