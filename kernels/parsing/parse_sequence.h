/*
 * Shared by the ops of the SequenceExample family. A node has two halves, the context and the
 * feature lists; this module finds the features that each half asks for, and the indices of its
 * inputs and outputs.
 */
#ifndef KN_PARSING_PARSE_SEQUENCE_H
#define KN_PARSING_PARSE_SEQUENCE_H

#include "kernels/parsing/feature_map.h"

struct kn_sequence_half {
    const char *prefix; /* "context_" or "feature_list_" */
    struct kn_feature_map *map;
    /* Indices of the first outputs; -1 where the op has none. */
    int indices, values, shapes, dense, lengths, ragged, splits, inner;
};

/* Index of the first input or output of this name. -1: the op has none. */
int kn_input_named(const struct rt_node *n, const char *prefix, const char *name);
int kn_output_named(const struct rt_node *n, const char *prefix, const char *name);
/* Refuses a node whose counts of keys, types and shapes differ, or whose shapes are not fully
 * known. */
enum rt_status kn_half_check(const struct rt_node *n, struct rt_error *err);
/* Fills *h. h->map must be freed by rt_pool_free. The names in the map point into attributes and
 * inputs. */
enum rt_status kn_half_make(struct rt_run *r, const char *prefix, struct kn_sequence_half *h);
/* Refuses defaults of dense context features whose shapes differ from the node's attribute. */
enum rt_status kn_half_defaults(struct rt_run *r, const struct kn_sequence_half *context);

#endif
