/*
 * What the ops of the SequenceExample family share: which features each of its two halves, the
 * context and the feature lists, asks for, and where their inputs and outputs are.
 */
#ifndef KN_CPU_PARSE_SEQUENCE_H
#define KN_CPU_PARSE_SEQUENCE_H

#include "kernels/parsing/feature_map.h"

struct kn_sequence_half {
    const char *prefix; /* "context_" or "feature_list_" */
    struct kn_feature_map *map;
    /* First outputs, -1 where the op has none. */
    int indices, values, shapes, dense, lengths, ragged, splits, inner;
};

/* Index of the first input or output of this name; -1: the op has none. */
int kn_input_named(const struct rt_node *n, const char *prefix, const char *name);
int kn_output_named(const struct rt_node *n, const char *prefix, const char *name);
/* Counts of keys, types and shapes agree, and shapes are known. */
enum rt_status kn_half_check(const struct rt_node *n, struct rt_error *err);
/* Fills *h; its map is for free(). Names point into attributes and inputs. */
enum rt_status kn_half_make(struct rt_run *r, const char *prefix, struct kn_sequence_half *h);
/* Defaults of dense context features have the shapes that the node says. */
enum rt_status kn_half_defaults(struct rt_run *r, const struct kn_sequence_half *context);

#endif
