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
    bool no_fusion;     /* no nodes are fused */
    bool no_winograd;   /* convolutions do not use Winograd transforms */
    bool no_autotune;   /* kernels are chosen by rule, never by timing */
    bool no_specialise; /* nothing is compiled for exact shapes; plans run node by node */
    bool bf16; /* constant matrices and filters may be packed as bfloat16; sums stay float32 */
};

#endif
