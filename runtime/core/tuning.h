/*
 * Optimisation options of a session, which its owner sets and kernels read when they are prepared.
 *
 * Threads: never changed while a session uses it.
 */
#ifndef RT_TUNING_H
#define RT_TUNING_H

#include <stdbool.h>

/* Each member named no_ switches one optimisation off. All members zero are the defaults, which
 * suit every user. */
struct rt_tuning {
    bool no_fusion;     /* disables the fusion of nodes */
    bool no_winograd;   /* disables Winograd transforms in convolutions */
    bool no_autotune;   /* disables the timing of kernels, so that all are chosen by rule */
    bool no_specialise; /* disables compilation for exact shapes, so that plans run node by node */
    /* allows constant matrices and filters to be packed as bfloat16; sums stay float32 */
    bool bf16;
};

#endif
