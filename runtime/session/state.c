#include "runtime/session/state.h"
#include "runtime/core/copy.h"

bool rt_state_init(struct rt_state *s, size_t limit_bytes, const char *flag)
{
    *s = (struct rt_state){.pool = rt_pool_new_plain(limit_bytes, flag)};
    return s->pool;
}

bool rt_state_init_weights(struct rt_state *s, size_t limit_bytes, const char *flag)
{
    s->weights = rt_pool_new_plain(limit_bytes, flag);
    return s->weights;
}

void rt_state_admit_weights(struct rt_state *s, int64_t bytes)
{
    if (bytes <= 0)
        return;
    /* The limit rises by 2.25 times `bytes`. A pool rounds a block up by at most a quarter of its
     * size. Moreover, a tensor that is stored in slices or as strings exists twice for a while,
     * because it is read completely before it is copied to its destination. */
    const size_t n = (size_t)bytes;
    rt_pool_raise_limit(s->weights, n + n / 4);
    rt_pool_raise_limit(s->weights, n);
}

void rt_state_clear(struct rt_state *s)
{
    rt_pool_unref(s->weights);
    rt_pool_unref(s->pool);
    *s = (struct rt_state){0};
}

void rt_state_serve(struct rt_state *s, size_t more)
{
    size_t limit = 0;
    if (more && __builtin_add_overflow(rt_pool_in_use(s->pool), more, &limit))
        limit = 0;
    rt_pool_set_limit(s->pool, limit, "--state_memory_limit_bytes");
    s->is_serving = true;
}

/* ---- credit: the bytes that freeing a value would release ---- */

static bool is_sole(const struct rt_buffer *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

static struct rt_text *text_of(const struct rt_str *s)
{
    return s->n < sizeof s->u.in ? NULL : s->u.out;
}

/* Returns the total size, in bytes, of the texts in `pool` that only these n strings reference. A
 * text that several of these strings share is counted only if these strings are adjacent. */
size_t rt_state_strings(const struct rt_pool *pool, const struct rt_str *s, int64_t n)
{
    size_t bytes = 0;
    for (int64_t i = 0, next; i < n; i = next) {
        struct rt_text *text = text_of(&s[i]);
        for (next = i + 1; next < n && text && text_of(&s[next]) == text; next++)
            ;
        if (text && atomic_load(&text->pool) == pool &&
            atomic_load(&text->refs) == (size_t)(next - i))
            bytes += text->capacity;
    }
    return bytes;
}

static size_t tensor_credit(const struct rt_pool *pool, const struct rt_tensor *t)
{
    const struct rt_buffer *b = t->buf;
    if (!b || b->kind != RT_BUF_HEAP || atomic_load(&b->pool) != pool || !is_sole(b))
        return 0;
    const size_t texts =
        t->dtype == RT_STRING ? rt_state_strings(pool, rt_strs(t), rt_tensor_count(t)) : 0;
    return rt_buffer_counted_bytes(b) + texts;
}

/* ---- moving values into the state ---- */

static enum rt_status move_strings(struct rt_pool *pool, const struct rt_str *s, int64_t n,
                                   size_t credit, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int64_t i = 0; i < n && !st; i++)
        if (text_of(&s[i]))
            st = rt_text_move(text_of(&s[i]), pool, credit, err);
    return st;
}

enum rt_status rt_state_keep_strings(struct rt_pool *pool, const struct rt_str *str, int64_t n,
                                     const struct rt_str *old, size_t credit, struct rt_error *err)
{
    if (!pool)
        return RT_OK;
    struct rt_error why = {0};
    enum rt_status st = move_strings(pool, str, n, credit, &why);
    /* Counts the bytes of `old` only after a refusal, because counting is slow. */
    const size_t more = st && old ? rt_state_strings(pool, old, n) : 0;
    if (more) {
        why = (struct rt_error){0};
        st = move_strings(pool, str, n, credit + more, &why);
    }
    if (st && err)
        rt_error_copy(err, &why);
    return st;
}

/* Returns whether no run allocated the buffer: it belongs to no pool, or to the pool of weights. */
static bool is_foreign(const struct rt_state *s, const struct rt_buffer *b)
{
    const struct rt_pool *pool = b->kind == RT_BUF_HEAP ? atomic_load(&b->pool) : NULL;
    return !pool || (s && pool == s->weights);
}

/* Returns whether the buffer belongs to the model: no run allocated it, and loading has not
 * ended. */
static bool is_of_model(const struct rt_state *s, const struct rt_buffer *b)
{
    return !s || (!s->is_serving && is_foreign(s, b));
}

/* Returns whether the tensor's buffer may move into the state. A run must have allocated the
 * buffer, or a state must already hold it. The tensor must occupy at least half of the buffer,
 * because a smaller part would keep the entire buffer alive. The tensor must begin at the start of
 * the buffer, as rt_variable_follow requires. */
static bool may_move(const struct rt_state *s, const struct rt_tensor *t)
{
    const struct rt_buffer *b = t->buf;
    return !is_foreign(s, b) && !b->device && t->data == atomic_load(&b->data) &&
           rt_tensor_bytes(t) >= b->size / 2;
}

static enum rt_status retain(const struct rt_state *s, struct rt_tensor *out,
                             const struct rt_tensor *t, size_t credit, const struct rt_check *check,
                             struct rt_error *err)
{
    enum rt_status st = RT_OK;
    if (t->buf ? is_of_model(s, t->buf) : !t->data) {
        rt_tensor_ref(out, t);
        out->alias_of = 0;
        return RT_OK;
    }
    if (t->buf && may_move(s, t)) {
        rt_tensor_ref(out, t);
        out->alias_of = 0;
    } else /* if `credit` is not 0, rt_buffer_move charges the copy to the pool */
        st = rt_tensor_copy_checked(out, t, s && !credit ? s->pool : NULL, check, err);
    if (!st && s && out->buf)
        st = rt_buffer_move(out->buf, s->pool, credit, err);
    if (!st && s && out->dtype == RT_STRING)
        st = move_strings(s->pool, rt_strs(out), rt_tensor_count(out), credit, err);
    if (st)
        rt_tensor_clear(out);
    return st;
}

/*
 * Refuses tensors that contain objects, because objects must not be stored in variables. A variable
 * that contained its own handle would never be freed. Stacks, TensorArrays and lists are charged to
 * the run that makes them, but in a variable they could grow from run to run. TensorFlow stores
 * handles of these objects, but destroys the objects at the end of the run.
 */
static enum rt_status refuse_objects(const struct rt_tensor *t, struct rt_error *err)
{
    if ((t->dtype != RT_RESOURCE && t->dtype != RT_VARIANT) || !rt_tensor_count(t))
        return RT_OK;
    return rt_fail(err, RT_UNIMPLEMENTED, "a variable of %s: objects are not kept between runs",
                   rt_dtype_name((enum rt_dtype)t->dtype));
}

enum rt_status rt_state_keep(const struct rt_state *s, struct rt_tensor *out,
                             const struct rt_tensor *t, const struct rt_tensor *old,
                             const struct rt_check *check, struct rt_error *err)
{
    struct rt_error why = {0};
    enum rt_status st = refuse_objects(t, err);

    if (st)
        return st;
    st = retain(s, out, t, 0, check, &why);
    /* Counts the bytes of `old` only after a refusal, because counting is slow. */
    const size_t credit = st == RT_RESOURCE_EXHAUSTED && s && old ? tensor_credit(s->pool, old) : 0;
    if (credit) {
        why = (struct rt_error){0};
        st = retain(s, out, t, credit, check, &why);
    }
    if (st && err)
        rt_error_copy(err, &why);
    return st;
}

void rt_state_replaced(const struct rt_state *s, const struct rt_tensor *old)
{
    const struct rt_buffer *b = old->buf;
    if (s && s->is_serving && b && b->kind == RT_BUF_LAZY && is_sole(b))
        rt_pool_raise_limit(s->pool, b->size);
}
