/*
 * What the files of the Example family share: ParseExample, ParseExampleV2 and ParseSingleExample
 * are one op in three dresses (parse_example.c), which parses a batch (parse_batch.c) or one
 * example alone (parse_alone.c).
 *
 * Features of an example are looked at from the last to the first, since the last of a name
 * counts; so the first complaint is about the last faulty feature, as TensorFlow's.
 */
#ifndef KN_CPU_PARSE_EXAMPLE_H
#define KN_CPU_PARSE_EXAMPLE_H

#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/wire_example.h"

/* Inputs and outputs by role; the three ops have them in different places. */
struct kn_parse_layout {
    int version;      /* 1, 2; 0: ParseSingleExample */
    int names;        /* input, or -1 */
    int key[3];       /* per kind: the first input (v1), the vector (v2) */
    int n[3];         /* features per kind */
    int defaults;     /* first input */
    int sparse, vals; /* first outputs: sparse indices; dense values */
    int ragged;       /* first output, values then splits */
};

struct kn_parse_entry {
    struct rt_span feature;
    int found; /* in the map */
};

/*
 * A list of a feature that is not dense and fixed: where it lies, and how long it is. `is_short`:
 * its elements alone are there, checked, in the form that kn_parse_short reads.
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
    int64_t n;                                /* examples */
    int64_t e;                                /* the one at hand */
    struct kn_parse_entry *entry, *own_entry; /* own: grown beyond the scratch */
    int64_t n_entries, capacity;
    int64_t *last;              /* per feature: the last example that had it, + 1 */
    struct kn_parse_part *part; /* per list and example */
    struct kn_feature_memory *memory;
};

/* Finds the entries of one example whose names we know: s->entry, s->n_entries. */
enum rt_status kn_parse_entries(struct kn_parse *s, struct rt_span example);
/* Where a dense feature of fixed shape of example e goes. NULL: it has no elements. */
void *kn_parse_row(struct kn_parse *s, const struct kn_feature *f, int64_t e);
const char *kn_parse_list_name(enum rt_dtype t); /* "float", "int64", "bytes" */
/* A scalar or vector of names: element i. False: it is not there. */
bool kn_parse_key(const struct rt_tensor *t, int i, struct rt_span *out);

/*
 * One example of a batch in the form that writers of protobuf give it: no surprise, no fault, no
 * name twice. False: it is not in that form, and what was noted of it is to be forgotten. Reads in
 * one go what kn_parse_batch's own way reads in two. s->memory must be zero before the first.
 */
bool kn_parse_quick(struct kn_parse *s, struct rt_span example);
/* The elements of a short part. False: out of memory. */
bool kn_parse_short(struct rt_run *r, enum rt_dtype dtype, const struct kn_parse_part *part,
                    void *dst);

enum rt_status kn_parse_batch(struct kn_parse *s);
enum rt_status kn_parse_alone(struct kn_parse *s);

#endif
