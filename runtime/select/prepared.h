/*
 * A prepared kernel consists of the kernel chosen for a step and given input shapes, and of the
 * kernel's state (select/prepared.c). Tier 0 finds prepared kernels in the step's cache. The
 * compilation of a specialisation makes its own prepared kernels.
 *
 * Owner: the step's cache, or the caller of rt_prepared_get if the kernel is not cached. Packed
 * constants belong to the session. Threads: any thread may look up and add prepared kernels; a
 * prepared kernel is immutable once it is in a cache.
 */
#ifndef RT_PREPARED_H
#define RT_PREPARED_H

#include "runtime/core/device/device_memory.h"
#include "runtime/core/kernel.h"
#include "runtime/plan/plan.h"

struct pl_benchmark;
struct rt_context;
struct rt_session;

/* A constant in the packed form that a kernel reads. */
struct rt_pack {
    void *data;                     /* address in the memory of `device` */
    struct rt_device *device;       /* accelerator that holds the pack, or NULL for the host */
    struct rt_device_memory memory; /* memory that holds the pack if `device` is set */
    size_t bytes;
    struct rt_pack *next; /* next pack in the list of a benchmark */
    /* For a pack of an accelerator: the number of prepared kernels that use it, guarded by the
     * session's mu, and its key in the session's map. The pack is freed with the last of them.
     * Packs of the host stay until the session ends. */
    int refs;
    char *key;
    size_t key_bytes;
};
/* Frees the packs of a session, and drops its references to the constants' buffers. Called when the
 * session ends. */
void rt_packs_clear(struct rt_session *s);

struct rt_prepared {
    struct rt_prepared *next;
    const struct rt_kernel *kernel;
    void *state;
    void (*release)(void *state);
    size_t scratch_bytes;
    /* Bit k is set if input k is used in packed form, so that its unpacked bytes are not needed. */
    uint64_t packed;
    const char *why; /* reason why this kernel was chosen, for the log */
    /* The benchmark that times the kernel on generated packed constants; NULL outside
     * benchmarks. */
    struct pl_benchmark *benchmark;
    /* accelerator that runs the kernel, or NULL for the CPU; set before rt_prepared_choose */
    struct rt_device *device;
    struct rt_pack **pack; /* references to packs of the accelerator */
    int n_packs;
    size_t packed_bytes;
    int n_key;
    int64_t *key;
    bool is_cached;
    int8_t *alias;
    int8_t *rank; /* rank of each output, or -1 if it is known only when the node has run */
    int64_t (*dim)[RT_MAX_RANK];
    void *blocks; /* linked list of the memory that rt_prep_alloc allocated */
    size_t bytes; /* total size of the prepared kernel and of `blocks`, in bytes */
    struct rt_session *session;
    struct rt_plan_step *node;
};
struct rt_prepared_cache;
struct rt_prepared_cache *rt_prepared_cache_new(struct rt_arena *arena);
void rt_prepared_cache_clear(struct rt_prepared_cache *c);
/* Finds or makes the prepared kernel of step `n` for the inputs `in`. If the prepared kernel is not
 * in a cache (is_cached), the caller must free it with rt_prepared_free. */
enum rt_status rt_prepared_get(struct rt_context *c, struct rt_plan_step *n,
                               const struct rt_tensor *in, struct rt_prepared **out,
                               struct rt_error *err);
void rt_prepared_free(struct rt_prepared *p);
/* Sets *bytes to the size of output o, whose shape is known. Returns false if the size
 * overflows. */
bool rt_prepared_bytes(const struct rt_prepared *p, int o, size_t *bytes);
/* Calls the infer function of the op, which must have one. Fails if rt_shape_check refuses the
 * known dimensions of an inferred shape, so that the next infer function may multiply them. */
enum rt_status rt_infer_shapes(struct rt_infer *x);
/*
 * Two steps to prepare a kernel. rt_prepared_infer finds the shapes, and rt_prepared_choose chooses
 * the kernel. `info` has n_in inputs, followed by n_out outputs that the functions fill in. In the
 * first step, inputs may have only the values that rt_infer.in allows; in the second step, only
 * those that rt_prep.in allows.
 */
enum rt_status rt_prepared_infer(struct rt_session *session, struct rt_plan_step *n, int n_key,
                                 const int64_t *key, struct rt_info *info, struct rt_prepared **out,
                                 struct rt_error *err);
enum rt_status rt_prepared_choose(struct rt_prepared *p, const struct rt_info *info,
                                  struct rt_error *err);
/* Undoes rt_prepared_choose, so that a kernel on the CPU can be chosen instead of one on the
 * accelerator. */
void rt_prepared_reset(struct rt_prepared *p);
bool rt_prepared_uses_pack(struct rt_prepared_cache *c, int input);
/* Returns the prepared kernel that was added to the cache last, or NULL if the cache is empty. */
const struct rt_prepared *rt_prepared_last(const struct rt_prepared_cache *c);

#endif
