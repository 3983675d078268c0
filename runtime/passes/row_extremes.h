/*
 * What a value that mixes the rows of a batch may be all the same, element by element: the least or
 * the most of what each part of the batch gets alone (of bool, false is the less). A batch fails an
 * assertion of the least just when one of its parts does, so All(x >= 0) and Max(x) < 10 may be
 * asserted of merged requests, and Max(x) > 0 may not. Part of the proof of the rows (rows.c).
 */
#ifndef RT_ROW_EXTREMES_H
#define RT_ROW_EXTREMES_H

#include "runtime/core/op.h"

enum rt_extreme { RT_NO_EXTREME, RT_LEAST, RT_MOST };

/* Of the only output of `op`, which has no row rule for these inputs. of[k]: of input k. */
enum rt_extreme rt_extreme_of_output(const struct rt_op *op, int n_in, const struct rt_info *in,
                                     const struct rt_dep *in_dep, const enum rt_extreme *of);

#endif
