/*
 * Extremes over the rows of a batch. A value that mixes rows may still be, element by element, the
 * least or the greatest of the values that the parts of the batch get alone (of bool, false is the
 * less). A batch fails an assertion of the least exactly when one of its parts fails it, so All(x
 * >= 0) and Max(x) < 10 may be asserted of merged requests, and Max(x) > 0 may not. Part of the
 * row-wise analysis (rows.c).
 */
#ifndef RT_ROW_EXTREMES_H
#define RT_ROW_EXTREMES_H

#include "runtime/core/op.h"

enum rt_extreme { RT_NO_EXTREME, RT_LEAST, RT_MOST };

/* The extreme of the only output of `op`, which has no row rule for these inputs. of[k] is the
 * extreme of input k. */
enum rt_extreme rt_extreme_of_output(const struct rt_op *op, int n_in, const struct rt_info *in,
                                     const struct rt_dep *in_dep, const enum rt_extreme *of);

#endif
