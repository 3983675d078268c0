/*
 * Extremes over the parts of a batch, for the row-wise analysis (rows.c). An element of a value
 * that mixes rows can be an extreme: the least or the greatest of the values that the element would
 * have if each part of the batch were run alone. (For bool, false is less than true.) An assertion
 * about a least value fails for a batch exactly when it fails for one of the parts. Merged requests
 * may therefore assert All(x >= 0) and Max(x) < 10, but not Max(x) > 0.
 */
#ifndef RT_ROW_EXTREMES_H
#define RT_ROW_EXTREMES_H

#include "runtime/core/op.h"

enum rt_extreme { RT_NO_EXTREME, RT_LEAST, RT_MOST };

/*
 * Returns which extreme the only output of `op` is. RT_LEAST means the least of the values that the
 * output would have if each part of the batch were run alone, and RT_MOST the greatest.
 * RT_NO_EXTREME means that neither is known. The output must be RT_DEP_MIXED. of[k] is the extreme
 * of input k.
 */
enum rt_extreme rt_extreme_of_output(const struct rt_op *op, int n_in, const struct rt_info *in,
                                     const struct rt_dep *in_dep, const enum rt_extreme *of);

#endif
