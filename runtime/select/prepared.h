/*
 * A prepared kernel is the chosen kernel of a step with its state, for given shapes of the inputs
 * (select/prepared.c). Tier 0 finds prepared kernels in the step's cache, and the compilation of a
 * specialisation makes its own.
 *
 * Owner: the step's cache, or the caller of rt_prepared_get if the kernel is not cached. Packed
 * constants belong to the session. Threads: any thread may look up and add prepared kernels; a
 * prepared kernel is immutable once it is in a cache.
 */
#ifndef RT_PREPARED_H
#define RT_PREPARED_H

#include "runtime/core/kernel.h"
#include "runtime/plan/plan.h"

struct pl_benchmark;
struct rt_context;
struct rt_map;
struct rt_session;

/* A constant in the packed form that a kernel reads. */
struct rt_pack {
    void *data;
    size_t bytes;
    struct rt_pack *next; /* next pack in the list of a benchmark */
};
void rt_packs_clear(struct rt_map *packs);

struct rt_prepared {
    struct rt_prepared *next;
    const struct rt_kernel *kernel;
    void *state;
    void (*release)(void *state);
    size_t scratch_bytes;
    /* bit k is set if input k is used in packed form, so that its unpacked bytes are not needed */
    uint64_t packed;
    const char *why; /* reason why this kernel was chosen, for the log */
    /* The benchmark that times the kernel on generated packed constants, or NULL if the kernel is
     * not prepared for a benchmark. */
    struct pl_benchmark *benchmark;
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
/* Finds or makes the prepared kernel of step `n` for the inputs `in`. If is_cached of the prepared
 * kernel is false, the caller must free it with rt_prepared_free. */
enum rt_status rt_prepared_get(struct rt_context *c, struct rt_plan_step *n,
                               const struct rt_tensor *in, struct rt_prepared **out,
                               struct rt_error *err);
void rt_prepared_free(struct rt_prepared *p);
/* Sets *bytes to the size of output o, whose shape is known. Returns false if the size
 * overflows. */
bool rt_prepared_bytes(const struct rt_prepared *p, int o, size_t *bytes);
/* Calls the infer function of the op, which must have one. The inferred shapes must pass
 * rt_shape_check, as far as their dimensions are known, so that the infer function of the next op
 * may multiply the dimensions. */
enum rt_status rt_infer_shapes(struct rt_infer *x);
/*
 * These functions prepare a kernel in two steps. rt_prepared_infer finds the shapes, and
 * rt_prepared_choose the kernel. `info` has n_in inputs, followed by n_out outputs that the
 * functions fill in. In the first step, the inputs have the values that rt_infer.in may hold, and
 * in the second step those that rt_prep.in may hold.
 */
enum rt_status rt_prepared_infer(struct rt_session *session, struct rt_plan_step *n, int n_key,
                                 const int64_t *key, struct rt_info *info, struct rt_prepared **out,
                                 struct rt_error *err);
enum rt_status rt_prepared_choose(struct rt_prepared *p, const struct rt_info *info,
                                  struct rt_error *err);
bool rt_prepared_uses_pack(struct rt_prepared_cache *c, int input);
/* Returns the prepared kernel that was added last, or NULL if there is none. */
const struct rt_prepared *rt_prepared_last(const struct rt_prepared_cache *c);

#endif
