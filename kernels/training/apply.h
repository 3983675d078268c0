/*
 * The ops that change variables as an optimiser does (ApplyAdam, ResourceSparseApplyMomentum and
 * the like). An update rule says how an element of a variable, with the elements of the variable's
 * slots at the same place, changes by an element of the gradient. A rule has up to four ops: for
 * ref variables and for resource variables, and with a dense gradient or with one that has a row
 * for each of some indices. All of them run the rule's only loop.
 *
 * Owner: rules are static data. Threads: any; the variables are locked while they change.
 */
#ifndef KN_TRAINING_APPLY_H
#define KN_TRAINING_APPLY_H

#include "kernels/entry.h"
#include "runtime/session/resource.h"

enum { KN_RULE_SCALARS = 7 }; /* maximum number of hyperparameters of a rule */

struct kn_update {
    void *var[RT_UPDATED_TOGETHER]; /* elements of the variable and of its slots */
    const void *grad;
    /* The hyperparameters, in the order of the op's inputs. They are of the variable's type, except
     * that a global step is an int64. */
    const void *scalar[KN_RULE_SCALARS];
    bool flag; /* the value of the rule's attribute */
    /* the number of elements for each index of a sparse gradient, or 0 if the gradient is dense */
    int64_t inner;
};

/* Changes n neighbouring elements. */
typedef void kn_update_fn(const struct kn_update *u, int64_t n);

struct kn_rule {
    kn_update_fn *fn[RT_N_DTYPES];
    int n_vars; /* The variable and its slots are the first inputs. */
    int grad;   /* index of the gradient's input; indices, if there are any, are the next input */
    const char *flag; /* name of a bool attribute, or NULL */
};

/* How TensorFlow checks a hyperparameter. */
enum kn_scalar_check {
    KN_ANY,
    KN_SINGLE, /* TensorFlow only requires one element. */
    KN_POSITIVE,
    KN_POSITIVE_OR_FLAG, /* The value may be zero if the rule's attribute is true. */
    KN_NOT_NEGATIVE,
    KN_NOT_POSITIVE,
};

struct kn_apply {
    const struct kn_rule *rule;
    bool is_ref, is_sparse;
    enum kn_scalar_check check[KN_RULE_SCALARS];
    /* How sparse ops treat rows: whether a variable whose rows have no elements is refused, whether
     * the gradient must have the rank of the variable, whether all indices are checked before the
     * first row changes, and whether a wrong index is reported in the words of a gather. */
    bool needs_inner, needs_rank, checks_first, gather_words;
    /* What TensorFlow's error messages call the slots, where it is not the name of the input. */
    const char *slot[RT_UPDATED_TOGETHER - 1];
    bool space_after_lr; /* whether a space follows the sentence about a learning rate */
};

enum rt_status kn_apply_run(struct rt_run *r, const struct kn_apply *op);

#endif
