/*
 * Resources of a session: variables here; tables, stacks and the like are objects of the kernels
 * that make them. A resource is found by its key (kind, container, shared name or node name): the
 * same key is the same object wherever the handle stands.
 *
 * Threads: any. Owner: references are counted (rt_object_ref): one each in the session and in every
 * handle.
 * Locks: one per variable, held inside a function only; under it a lazy value is loaded and
 * `change` runs, neither of which may come back to a variable. on_write is called without it, and
 * set before another thread has the variable.
 */
#ifndef RT_RESOURCE_H
#define RT_RESOURCE_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_state; /* runtime/session/state.h */

/* A variable: a tensor under a lock. Readers share the buffer, so a writer puts another tensor in
 * (or writes in place when it alone holds the bytes). */
struct rt_variable;
extern const struct rt_object_type rt_variable_type;

/* `shape`: what handles promise, may be unknown; assignments of ResourceVariables are checked
 * against it by their kernels. refs 1. */
struct rt_variable *rt_variable_new(const char *name, enum rt_dtype dtype,
                                    const struct rt_shape *shape);
/* The variable behind a handle; NULL when it is something else. */
struct rt_variable *rt_variable_of(const struct rt_tensor *handle);
enum rt_dtype rt_variable_dtype(const struct rt_variable *v);
const struct rt_shape *rt_variable_shape(const struct rt_variable *v); /* as declared */
bool rt_variable_is_initialized(struct rt_variable *v);
/* *out gets a reference (maybe lazy). FAILED_PRECONDITION with TensorFlow's text when it was never
 * assigned: `is_ref` chooses between TF1's ("Attempting to use uninitialized value NAME") and
 * TF2's ("Could not find variable NAME. ..."). */
enum rt_status rt_variable_read(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                struct rt_error *err);
/* *t is a view of the variable as it was read: it becomes the same view of the value as it is now,
 * unless an assignment of another number of elements came between. */
void rt_variable_follow(struct rt_variable *v, struct rt_tensor *t);
/* The value becomes what rt_state_keep makes of `t`, or stays what it was (RT_RESOURCE_EXHAUSTED,
 * RT_UNIMPLEMENTED: see there). Marks it as written: plans that froze it are retired. */
enum rt_status rt_variable_assign(struct rt_variable *v, const struct rt_tensor *t,
                                  const struct rt_state *state, struct rt_error *err);
/*
 * Changes the value under the variable's lock: `change` gets a tensor whose bytes may be written
 * (copied first when shared, into memory of `state`; loaded when lazy). A failure of `change` may
 * leave a part changed. Texts that `change` puts in count in the state already
 * (rt_state_keep_strings).
 */
enum rt_status rt_variable_update(struct rt_variable *v, bool is_ref,
                                  enum rt_status (*change)(void *arg, struct rt_tensor *value,
                                                           struct rt_error *err),
                                  void *arg, const struct rt_state *state, struct rt_error *err);
/*
 * For plans. Mutable: something that is served writes it, so no plan may take its value as a
 * constant. Freezing reads the value and remembers that a plan holds it: the next write makes the
 * variable mutable and calls on_write, once.
 */
bool rt_variable_is_mutable(struct rt_variable *v);
void rt_variable_set_mutable(struct rt_variable *v);
enum rt_status rt_variable_freeze(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                  struct rt_error *err);
void rt_variable_on_write(struct rt_variable *v, void (*fn)(void *arg), void *arg);
/* Brings a lazy value into memory. Nothing to do when there is no value. */
enum rt_status rt_variable_load(struct rt_variable *v, struct rt_error *err);
/* Forgets the value (DestroyResourceOp). */
void rt_variable_destroy(struct rt_variable *v, const struct rt_state *state);

#endif
