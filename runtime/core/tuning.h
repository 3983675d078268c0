/*
 * Optimisation options of a session. The session's owner sets them, and kernels read them when they
 * are prepared.
 *
 * Threads: the options must not change while a session uses them.
 */
#ifndef RT_TUNING_H
#define RT_TUNING_H

#include <stdbool.h>

/* Each member whose name begins with "no_" disables one optimisation. Every member is zero by
 * default, which suits normal use. */
struct rt_tuning {
    bool no_fusion;
    bool no_winograd;
    bool no_autotune;   /* disables the timing of kernels, so that every kernel is chosen by rule */
    bool no_specialise; /* disables compilation for exact shapes, so that plans run node by node */
    /* allows packing constant matrices and filters as bfloat16; sums remain float32 */
    bool bf16;
    /* Whether matmuls and convolutions on the accelerator keep the precision of float32. Otherwise,
     * the accelerator may round their inputs to TF32, which is faster. */
    bool full_precision;
};

#endif
