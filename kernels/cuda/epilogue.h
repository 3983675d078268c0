/* The epilogues (runtime/fusion/epilogue.h) of GPU kernels. */
#ifndef KC_HOST_EPILOGUE_H
#define KC_HOST_EPILOGUE_H

#include "kernels/cuda/device/epilogue.h"
#include "runtime/core/op.h"
#include "runtime/fusion/epilogue.h"

/* Returns whether a GPU kernel can apply the node's epilogue. No GPU kernel can broadcast a
 * residual. */
bool kc_epilogue_can(const struct rt_prep *p);
/* Returns the node's epilogue with the addresses of the run's tensors. */
struct kc_epilogue kc_epilogue_bind(const struct rt_epilogue *e, const struct rt_run *r);
/* Returns the number of elements, 4 or 1, that device code can process at a time: 4 if the length
 * of the output's last axis is a multiple of 4 and all addresses are multiples of 16 bytes. */
int kc_epilogue_width(const struct kc_epilogue *e, const void *out, int64_t columns);

/*
 * The steps of an epilogue that a library applies. The device kernel `finish` applies the other
 * steps to the output of the library.
 */
struct kc_epilogue_part {
    bool has_mul, has_add, has_residual, has_act;
};
/* Returns whether the epilogue has a step that `done` does not contain. */
bool kc_epilogue_is_left(const struct rt_epilogue *e, const struct kc_epilogue_part *done);
/* Sets *residual to the address of the run's residual, or to NULL if the epilogue has none. If the
 * output shares the residual's memory, copies the residual to `copy` first. */
enum rt_status kc_epilogue_residual(const struct rt_epilogue *e, const struct rt_run *r, void *copy,
                                    const void **residual);
/* Applies the steps that are not in `done` to output 0, in place. */
enum rt_status kc_epilogue_finish(const struct rt_epilogue *e, const struct kc_epilogue_part *done,
                                  const struct rt_run *r, const void *residual);

#endif
