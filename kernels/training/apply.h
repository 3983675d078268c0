/*
 * The ops that change variables as an optimiser does (such as ApplyAdam and
 * ResourceSparseApplyMomentum).
 *
 * An update rule computes the new value of a variable's element from an element of the gradient.
 * The rule also reads and updates the elements of the variable's slots at the same position. Up to
 * four ops apply a rule: the variable is a ref variable or a resource variable, and the gradient is
 * dense or has one row for each of a list of indices. All of these ops run the same loop.
 *
 * Owner: rules are static data. Threads: any; the variables are locked while they change.
 */
#ifndef KN_TRAINING_APPLY_H
#define KN_TRAINING_APPLY_H

#include "kernels/entry.h"
#include "runtime/session/resource.h"

enum { KN_RULE_SCALARS = 7 };

struct kn_update {
    void *var[RT_UPDATED_TOGETHER]; /* elements of the variable and of its slots */
    const void *grad;
    /* The hyperparameters, in the order of the op's inputs. They have the type of the variable,
     * except that a global step is an int64. */
    const void *scalar[KN_RULE_SCALARS];
    bool flag; /* the value of the rule's attribute */
    /* the number of elements for each index of a sparse gradient, or 0 if the gradient is dense */
    int64_t inner;
};

/* Updates n neighbouring elements. */
typedef void kn_update_fn(const struct kn_update *u, int64_t n);

struct kn_rule {
    kn_update_fn *fn[RT_N_DTYPES];
    /* number of variable inputs: the variable and its slots, which are the first inputs */
    int n_vars;
    /* index of the gradient's input; the indices of a sparse gradient are the next input */
    int grad;
    const char *flag; /* name of a bool attribute, or NULL */
};

/* TensorFlow's check of a hyperparameter. */
enum kn_scalar_check {
    KN_ANY,
    KN_SINGLE, /* As in TensorFlow, any shape with one element is accepted. */
    KN_POSITIVE,
    KN_POSITIVE_OR_FLAG, /* The value may also be 0 if the attribute kn_rule.flag is true. */
    KN_NOT_NEGATIVE,
    KN_NOT_POSITIVE,
};

struct kn_apply {
    const struct kn_rule *rule;
    bool is_ref, is_sparse;
    enum kn_scalar_check check[KN_RULE_SCALARS];
    /*
     * Rules for the rows of a sparse gradient. needs_inner: a variable whose rows have no elements
     * is refused. needs_rank: the gradient must have the rank of the variable. checks_first: all
     * indices are checked before the first row changes. gather_words: the message about a wrong
     * index is that of TensorFlow's gather ops.
     */
    bool needs_inner, needs_rank, checks_first, gather_words;
    /* Names of the slots in TensorFlow's error messages, if they differ from the names of the
     * inputs. */
    const char *slot[RT_UPDATED_TOGETHER - 1];
    /* whether the error message about the learning rate has a space before its colon */
    bool space_after_lr;
};

enum rt_status kn_apply_run(struct rt_run *r, const struct kn_apply *op);

#endif
