/*
 * A row of table.inc is one symbol that describes an op and all its kernels.
 *
 *   const struct kn_entry kn_abs = {
 *       .op = {.name = "Abs", .infer = ..., .rows = rt_rows_same},
 *       .kernels = KN_KERNELS({.op = "Abs", .device = "CPU", .name = "abs", .run = run}),
 *   };
 */
#ifndef KN_ENTRY_H
#define KN_ENTRY_H

#include "runtime/core/op.h"

struct kn_entry {
    struct rt_op op;
    /* The array ends with a row whose op is NULL. `kernels` is NULL if the op has no kernel. */
    const struct rt_kernel *kernels;
};

/* Makes the value of .kernels at file scope from one or more brace-enclosed rows of struct
 * rt_kernel. */
#define KN_KERNELS(...)                                                                            \
    (const struct rt_kernel[])                                                                     \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .op = NULL                                                                             \
        }                                                                                          \
    }

/* Makes .kernels for the common case: one CPU kernel that accepts the types in `types_` for
 * attribute T. */
#define KN_CPU(op_, name_, types_, prepare_, run_)                                                 \
    KN_KERNELS({.op = (op_),                                                                       \
                .device = "CPU",                                                                   \
                .name = (name_),                                                                   \
                .types = (types_),                                                                 \
                .prepare = (prepare_),                                                             \
                .run = (run_)})

/* Makes a row of KN_KERNELS for a kernel that requires type `in_` for attribute T and type `out_`
 * for attribute `attr_`. */
#define KN_CPU_PAIR(op_, name_, in_, attr_, out_, prepare_, run_)                                  \
    {                                                                                              \
        .op = (op_), .device = "CPU", .name = (name_), .types = RT_T(in_),                         \
        .and_type_attr = (attr_), .and_types = RT_T(out_), .prepare = (prepare_), .run = (run_)    \
    }

#endif
