#include "runtime/session/resource.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/thread.h"
#include "runtime/core/copy.h"
#include "runtime/session/state.h"

struct rt_variable {
    struct rt_object object;
    char *name;
    enum rt_dtype dtype;
    struct rt_shape shape;
    atomic_bool has_value; /* changed under mu */
    struct rt_mutex mu;
    /* The dtype is RT_NO_DTYPE if the variable has no value. mu guards this member and the members
     * after it. */
    struct rt_tensor value;
    /* Version of the value's storage. Incremented when TensorFlow would allocate a new buffer. */
    uint32_t storage;
    bool is_mutable, is_frozen;
    bool is_temporary; /* whether rt_variable_end will succeed */
    void (*on_write)(void *arg);
    void *on_write_arg;
};

static void variable_free(struct rt_object *o)
{
    struct rt_variable *v = (struct rt_variable *)o;
    rt_tensor_clear(&v->value);
    rt_mutex_clear(&v->mu);
    free(v->name);
    free(v);
}

const struct rt_object_type rt_variable_type = {.name = "variable", .free = variable_free};

struct rt_variable *rt_variable_new(const char *name, enum rt_dtype dtype,
                                    const struct rt_shape *shape)
{
    struct rt_variable *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->name = strdup(name);
    if (!v->name) {
        free(v);
        return NULL;
    }
    rt_object_init(&v->object, &rt_variable_type);
    rt_mutex_init(&v->mu);
    v->dtype = dtype;
    if (shape)
        v->shape = *shape;
    else
        v->shape.rank = -1;
    return v;
}

void rt_variable_set_temporary(struct rt_variable *v)
{
    rt_mutex_lock(&v->mu);
    v->is_temporary = true;
    rt_mutex_unlock(&v->mu);
}

bool rt_variable_end(struct rt_variable *v, struct rt_span name)
{
    rt_mutex_lock(&v->mu);
    const bool ends = v->is_temporary && rt_span_is(name, v->name);
    v->is_temporary &= !ends;
    rt_mutex_unlock(&v->mu);
    return ends;
}

struct rt_variable *rt_variable_of(const struct rt_tensor *handle)
{
    if (handle->dtype != RT_RESOURCE || rt_tensor_count(handle) != 1)
        return NULL;
    struct rt_object *o = rt_tensor_handle(handle);
    return o && o->type == &rt_variable_type ? (struct rt_variable *)o : NULL;
}

enum rt_dtype rt_variable_dtype(const struct rt_variable *v)
{
    return v->dtype;
}

const struct rt_shape *rt_variable_shape(const struct rt_variable *v)
{
    return &v->shape;
}

bool rt_variable_is_initialized(struct rt_variable *v)
{
    return atomic_load(&v->has_value);
}

static enum rt_status fail_uninitialized(const struct rt_variable *v, bool is_ref,
                                         struct rt_error *err)
{
    if (is_ref)
        return rt_fail(err, RT_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                       v->name);
    return rt_fail(err, RT_FAILED_PRECONDITION,
                   "Could not find variable %s. This could mean that the variable has been "
                   "deleted. In TF1, it can also mean the variable is uninitialized. Debug info: "
                   "container=localhost, status error message=Resource localhost/%s/"
                   "N10tensorflow3VarE does not exist.",
                   v->name, v->name);
}

enum rt_status rt_variable_read(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                const struct rt_check *check, struct rt_error *err)
{
    enum rt_status st = rt_mutex_lock_checked(&v->mu, check, err);
    if (st)
        return st;
    if (v->value.dtype) {
        rt_tensor_ref(out, &v->value);
        out->storage = v->storage;
    } else
        st = fail_uninitialized(v, is_ref, err);
    rt_mutex_unlock(&v->mu);
    return st;
}

void rt_variable_follow(struct rt_variable *v, struct rt_tensor *t)
{
    struct rt_buffer *old = NULL;
    rt_mutex_lock(&v->mu);
    const struct rt_tensor *now = &v->value;
    if (now->dtype && v->storage == t->storage && now->buf != t->buf && now->buf && t->buf) {
        const size_t bytes = rt_tensor_bytes(t), all = rt_tensor_bytes(now);
        const char *first = atomic_load(&t->buf->data);
        /* A view of the entire value has offset 0. The view's data pointer is not used, because a
         * lazy value has no data pointer. */
        const size_t at = bytes == all ? 0 : (size_t)((const char *)t->data - first);
        if (at <= all && bytes <= all - at) {
            old = t->buf;
            t->buf = rt_buffer_ref(now->buf);
            t->data = now->data ? (char *)now->data + at : NULL;
        }
    }
    rt_mutex_unlock(&v->mu);
    rt_buffer_unref(old);
}

/* Records a write. Returns whether a plan has frozen the value; the caller must then call on_write.
 * A variable may be both mutable and frozen: one thread may freeze the variable, after
 * rt_variable_is_mutable has returned false, while another makes it mutable. */
static bool note_write(struct rt_variable *v)
{
    bool notify = v->is_frozen;
    v->is_mutable = v->is_mutable || v->is_frozen;
    v->is_frozen = false;
    return notify;
}

enum rt_status rt_variable_assign(struct rt_variable *v, const struct rt_tensor *t,
                                  const struct rt_check *check, const struct rt_state *state,
                                  struct rt_error *err)
{
    struct rt_tensor next, old;
    struct rt_error why = {0};
    if (t->dtype != v->dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Trying to assign variable with wrong dtype. Expected %s got %s",
                       rt_dtype_name(v->dtype), rt_dtype_name((enum rt_dtype)t->dtype));
    enum rt_status st = rt_state_keep(state, &next, t, NULL, check, &why);
    const enum rt_status waited = rt_mutex_lock_checked(&v->mu, check, err);
    if (waited) {
        if (!st)
            rt_tensor_clear(&next);
        return waited;
    }
    /* If the limit was reached, tries again. The second attempt may exceed the limit by the bytes
     * of the old value, which will be freed. */
    if (st == RT_RESOURCE_EXHAUSTED) {
        why = (struct rt_error){0};
        st = rt_state_keep(state, &next, t, &v->value, check, &why);
    }
    if (st) {
        rt_mutex_unlock(&v->mu);
        rt_error_copy(err, &why);
        return st;
    }
    old = v->value;
    v->value = next;
    atomic_store(&v->has_value, true);
    if (!old.dtype || rt_tensor_count(&old) != rt_tensor_count(&next))
        v->storage++;
    bool notify = note_write(v);
    rt_mutex_unlock(&v->mu);
    rt_state_replaced(state, &old);
    rt_tensor_clear(&old);
    if (notify && v->on_write)
        v->on_write(v->on_write_arg);
    return RT_OK;
}

/* Makes the value of a locked variable writable. Loads a lazy value, and copies a shared one. */
static enum rt_status own_value(struct rt_variable *v, bool is_ref, const struct rt_check *check,
                                const struct rt_state *state, struct rt_error *err)
{
    struct rt_tensor own;
    enum rt_status st = RT_OK;

    if (!v->value.dtype)
        return fail_uninitialized(v, is_ref, err);
    st = rt_tensor_load_checked(&v->value, check, err);
    if (st || rt_tensor_is_sole(&v->value))
        return st;
    st = rt_tensor_copy_checked(&own, &v->value, state ? state->pool : NULL, check, err);
    if (st)
        return st;
    rt_tensor_clear(&v->value);
    v->value = own;
    return RT_OK;
}

/* Copies the n variables at v to `out`, sorted by address and without duplicates. Returns their
 * number. */
static int sort_variables(struct rt_variable *const *v, int n, struct rt_variable **out)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < count && (uintptr_t)out[at] < (uintptr_t)v[i])
            at++;
        if (at < count && out[at] == v[i])
            continue;
        memmove(out + at + 1, out + at, (size_t)(count - at) * sizeof(*out));
        out[at] = v[i];
        count++;
    }
    return count;
}

/* clang's analysis of locks cannot follow locks in a loop. */
RT_NO_ANALYSIS
enum rt_status rt_variables_update(
    struct rt_variable *const *v, int n, bool is_ref,
    enum rt_status (*change)(void *arg, struct rt_tensor *const *values, struct rt_error *err),
    void *arg, const struct rt_check *check, const struct rt_state *state, struct rt_error *err)
{
    struct rt_variable *locked[RT_UPDATED_TOGETHER];
    struct rt_tensor *values[RT_UPDATED_TOGETHER] = {NULL};
    bool notify[RT_UPDATED_TOGETHER] = {false};
    enum rt_status st = RT_OK;

    assert(n <= RT_UPDATED_TOGETHER);
    const int n_sorted = sort_variables(v, n, locked);
    int n_locked = 0;
    while (n_locked < n_sorted && !(st = rt_mutex_lock_checked(&locked[n_locked]->mu, check, err)))
        n_locked++;
    for (int i = 0; i < n && !st; i++) {
        st = own_value(v[i], is_ref, check, state, err);
        values[i] = &v[i]->value;
    }
    if (!st) {
        for (int i = 0; i < n_locked; i++)
            notify[i] = note_write(locked[i]);
        st = change(arg, values, err);
    }
    for (int i = 0; i < n_locked; i++)
        rt_mutex_unlock(&locked[i]->mu);
    for (int i = 0; i < n_locked; i++)
        if (notify[i] && locked[i]->on_write)
            locked[i]->on_write(locked[i]->on_write_arg);
    return st;
}

struct single {
    enum rt_status (*change)(void *arg, struct rt_tensor *value, struct rt_error *err);
    void *arg;
};

static enum rt_status change_single(void *arg, struct rt_tensor *const *values,
                                    struct rt_error *err)
{
    const struct single *s = arg;
    return s->change(s->arg, values[0], err);
}

enum rt_status rt_variable_update(struct rt_variable *v, bool is_ref,
                                  enum rt_status (*change)(void *arg, struct rt_tensor *value,
                                                           struct rt_error *err),
                                  void *arg, const struct rt_check *check,
                                  const struct rt_state *state, struct rt_error *err)
{
    struct single s = {change, arg};
    return rt_variables_update(&v, 1, is_ref, change_single, &s, check, state, err);
}

bool rt_variable_is_mutable(struct rt_variable *v)
{
    rt_mutex_lock(&v->mu);
    bool yes = v->is_mutable;
    rt_mutex_unlock(&v->mu);
    return yes;
}

void rt_variable_set_mutable(struct rt_variable *v)
{
    rt_mutex_lock(&v->mu);
    bool notify = v->is_frozen;
    v->is_mutable = true;
    v->is_frozen = false;
    rt_mutex_unlock(&v->mu);
    if (notify && v->on_write)
        v->on_write(v->on_write_arg);
}

enum rt_status rt_variable_freeze(struct rt_variable *v, bool is_ref, struct rt_tensor *out,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;
    rt_mutex_lock(&v->mu);
    if (!v->value.dtype)
        st = fail_uninitialized(v, is_ref, err);
    else {
        rt_tensor_ref(out, &v->value);
        v->is_frozen = true;
    }
    rt_mutex_unlock(&v->mu);
    return st;
}

void rt_variable_on_write(struct rt_variable *v, void (*fn)(void *arg), void *arg)
{
    v->on_write = fn;
    v->on_write_arg = arg;
}

enum rt_status rt_variable_load(struct rt_variable *v, const struct rt_check *check,
                                struct rt_error *err)
{
    enum rt_status st = rt_mutex_lock_checked(&v->mu, check, err);
    if (st)
        return st;
    if (v->value.dtype)
        st = rt_tensor_load_checked(&v->value, check, err);
    rt_mutex_unlock(&v->mu);
    return st;
}

enum rt_status rt_variable_destroy(struct rt_variable *v, bool may_lack_value,
                                   const struct rt_check *check, const struct rt_state *state,
                                   struct rt_error *err)
{
    const enum rt_status st = rt_mutex_lock_checked(&v->mu, check, err);
    if (st)
        return st;
    struct rt_tensor old = v->value;
    const bool has_value = old.dtype != 0;
    v->value = (struct rt_tensor){0};
    atomic_store(&v->has_value, false);
    v->storage++;
    bool notify = note_write(v);
    rt_mutex_unlock(&v->mu);
    rt_state_replaced(state, &old);
    rt_tensor_clear(&old);
    if (notify && v->on_write)
        v->on_write(v->on_write_arg);
    if (!has_value && !may_lack_value)
        return rt_fail(err, RT_NOT_FOUND, "Resource localhost/%s/<unknown> does not exist.",
                       v->name);
    return RT_OK;
}
