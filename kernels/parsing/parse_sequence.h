/*
 * Declarations shared by ParseSequenceExample, ParseSequenceExampleV2 and
 * ParseSingleSequenceExample. A node has two halves, the context and the feature lists. The
 * functions below determine the requested features of each half, and the indices of its inputs and
 * outputs.
 */
#ifndef KN_PARSING_PARSE_SEQUENCE_H
#define KN_PARSING_PARSE_SEQUENCE_H

#include "kernels/parsing/feature_map.h"

struct kn_sequence_half {
    const char *prefix; /* "context_" or "feature_list_" */
    struct kn_feature_map *map;
    /* Index of the first output of each role, or -1 if the op has no such output. */
    int indices, values, shapes, dense, lengths, ragged, splits, inner;
};

/* Returns the index of the first input or output with this name, or -1 if the op has none. */
int kn_input_named(const struct rt_node *n, const char *prefix, const char *name);
int kn_output_named(const struct rt_node *n, const char *prefix, const char *name);
/* Refuses a node if the numbers of its keys, types and shapes differ, or if its shapes are not
 * fully known. */
enum rt_status kn_half_check(const struct rt_node *n, struct rt_error *err);
/* Initialises *h. h->map must be freed with rt_pool_free. The names in the map point into
 * attributes and inputs. */
enum rt_status kn_half_make(struct rt_run *r, const char *prefix, struct kn_sequence_half *h);
/* Fails if the default of a dense context feature differs in shape from the feature's shape in the
 * node's attribute. */
enum rt_status kn_half_defaults(struct rt_run *r, const struct kn_sequence_half *context);

#endif
