/*
 * Resources of a session. This header defines variables. Tables, stacks and other resources are
 * defined by the kernels that make them. A session finds a resource by its key (kind, container,
 * and shared name or node name): handles with equal keys point to the same object.
 *
 * Threads: any. Owner: resources are reference-counted (rt_object_ref). The session holds one
 * reference, and every handle holds one. Locks: each variable has a lock, which is never held
 * between two calls. The lock is held while a lazy value is loaded and while `change` runs, so
 * neither the loader nor `change` may call a function that locks a variable. Such a change may take
 * as long as a run, so functions with a parameter `check`, which may be NULL, call it while they
 * wait for the lock (rt_mutex_lock_checked), and fail if it fails. on_write is called without the
 * lock, and is set before a second thread can access the variable.
 */
#ifndef RT_RESOURCE_H
#define RT_RESOURCE_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_state;

/* A variable is a tensor guarded by a lock. Readers share the tensor's buffer. A writer
 * therefore replaces the tensor, or writes in place if the variable holds the only reference to
 * the buffer. */
struct rt_variable;
extern const struct rt_object_type rt_variable_type;

/* Makes a variable. Its only reference belongs to the caller. `shape` is the declared shape of the
 * handle's op, and may be unknown. The kernels that assign resource variables check new values
 * against `shape`. Returns NULL if memory runs out. */
struct rt_variable *rt_variable_new(const char *name, enum rt_dtype dtype,
                                    const struct rt_shape *shape);
/* Makes `v` a variable of a single run (TemporaryVariable). rt_variable_end returns true if `v` is
 * such a variable of this name and has not been ended; other handles can still use it. */
void rt_variable_set_temporary(struct rt_variable *v);
bool rt_variable_end(struct rt_variable *v, struct rt_span name);
/* Returns the variable that a handle points to, or NULL if the handle points to another kind of
 * object. */
struct rt_variable *rt_variable_of(const struct rt_tensor *handle);
enum rt_dtype rt_variable_dtype(const struct rt_variable *v);
const struct rt_shape *rt_variable_shape(const struct rt_variable *v);
bool rt_variable_is_initialized(struct rt_variable *v);
/* Sets *out to a reference to the value, which may be lazy. If the variable has no value, returns
 * RT_FAILED_PRECONDITION with TensorFlow's message. `is_ref` chooses between the message of
 * TensorFlow 1 ("Attempting to use uninitialized value NAME") and that of TensorFlow 2 ("Could not
 * find variable NAME. ..."). */
enum rt_status rt_variable_read(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                const struct rt_check *check, struct rt_error *err);
/* Changes *t from a view of an earlier value of the variable to a view of the current value at the
 * same offset. Leaves *t unchanged if the variable no longer has a value, or if the number of
 * elements has changed since *t was made. */
void rt_variable_follow(struct rt_variable *v, struct rt_tensor *t);
/*
 * Sets the value to a reference to `t` or to a copy of `t`, as rt_state_keep does. The call is a
 * write, so plans that froze the variable are rebuilt. On failure the value is unchanged. Returns
 * RT_INVALID_ARGUMENT if the dtypes of `t` and the variable differ, and RT_RESOURCE_EXHAUSTED or
 * RT_UNIMPLEMENTED if rt_state_keep fails.
 */
enum rt_status rt_variable_assign(struct rt_variable *v, const struct rt_tensor *t,
                                  const struct rt_check *check, const struct rt_state *state,
                                  struct rt_error *err);
/*
 * Changes the value under the variable's lock. `change` receives a tensor whose bytes it may write.
 * A lazy value is loaded first (rt_tensor_load_checked with `check`, which may be NULL). A shared
 * value is copied into memory of `state` first. If `change` fails, the value may be partly changed.
 * Strings that `change` stores must already be counted in the state (rt_state_keep_strings).
 */
enum rt_status rt_variable_update(struct rt_variable *v, bool is_ref,
                                  enum rt_status (*change)(void *arg, struct rt_tensor *value,
                                                           struct rt_error *err),
                                  void *arg, const struct rt_check *check,
                                  const struct rt_state *state, struct rt_error *err);
/* Changes n variables, at most RT_UPDATED_TOGETHER, as rt_variable_update changes one. All n
 * variables are locked during the change. values[i] belongs to v[i]. A variable may occur several
 * times. */
enum { RT_UPDATED_TOGETHER = 4 };
enum rt_status rt_variables_update(
    struct rt_variable *const *v, int n, bool is_ref,
    enum rt_status (*change)(void *arg, struct rt_tensor *const *values, struct rt_error *err),
    void *arg, const struct rt_check *check, const struct rt_state *state, struct rt_error *err);
/*
 * The compiler calls these functions. A variable is mutable if a served signature writes it. No
 * plan may use the value of a mutable variable as a constant. rt_variable_freeze reads the value
 * and marks the variable as frozen, because a plan will contain the value as a constant. The next
 * write to a frozen variable makes the variable mutable and calls on_write once.
 */
bool rt_variable_is_mutable(struct rt_variable *v);
void rt_variable_set_mutable(struct rt_variable *v);
enum rt_status rt_variable_freeze(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                  struct rt_error *err);
void rt_variable_on_write(struct rt_variable *v, void (*fn)(void *arg), void *arg);
/* Loads a lazy value into memory (rt_tensor_load_checked). Returns RT_OK even if the variable has
 * no value. */
enum rt_status rt_variable_load(struct rt_variable *v, const struct rt_check *check,
                                struct rt_error *err);
/* Drops the value, as DestroyResourceOp does. The call is a write. If the variable has no value,
 * returns RT_NOT_FOUND with TensorFlow's message unless `may_lack_value` is set. */
enum rt_status rt_variable_destroy(struct rt_variable *v, bool may_lack_value,
                                   const struct rt_check *check, const struct rt_state *state,
                                   struct rt_error *err);

/* rt_run_node_resource sets *out to a new reference to a resource that belongs to the node alone,
 * as rt_run_resource does for a resource that a node names. Nodes of the same name in the graphs of
 * two functions have different resources. rt_run_only_resource does so for a resource that all
 * nodes of the session share. */
struct rt_make;
struct rt_run;
enum rt_status rt_run_node_resource(struct rt_run *r, const char *kind,
                                    enum rt_status (*make)(const struct rt_make *make,
                                                           struct rt_object **out),
                                    struct rt_object **out);
enum rt_status rt_run_only_resource(struct rt_run *r, const char *kind,
                                    enum rt_status (*make)(const struct rt_make *make,
                                                           struct rt_object **out),
                                    struct rt_object **out);

#endif
