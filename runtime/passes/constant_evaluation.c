/*
 * Constant evaluation computes values that follow from constants, or from shapes alone.
 *
 * A fold is one run of one kernel. A model of a few hundred bytes can request any amount of work (a
 * convolution of two outputs of Fill), so each fold has a time limit. A second time limit applies
 * to all folds of a session together. If a fold exceeds either limit, the node is computed in each
 * run instead, because runs have deadlines. The limits apply to the thread's processor time, and a
 * fold stays on one thread. The same nodes are therefore folded whether the machine is busy or
 * idle. The first FREE_NS of a fold are not counted, so that the small folds of a session that
 * serves for months never use up the session's time.
 */
#include "runtime/passes/constant_evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/exec/fold.h"
#include "runtime/exec/context.h"

enum { MAX_VALUE_ELEMENTS = 256, MAX_READ_ELEMENTS = 4096 };
enum {
    FREE_NS = 100 * 1000,
    FOLD_NS = 500 * 1000 * 1000, /* The largest legitimate folds, casts of 16 MiB, take 20 ms. */
    /* time limit of rt_plan_evaluate, which evaluates only small values */
    EVALUATE_NS = 10 * 1000 * 1000,
};
enum { FOLD_BYTES = 256 << 20 };

void rt_info_of(struct rt_info *x, const struct rt_tensor *t)
{
    x->dtype = (enum rt_dtype)t->dtype;
    x->shape.rank = t->rank;
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
    x->value = t;
}

bool rt_shape_is_exact(const struct rt_shape *s)
{
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] < 0)
            return false;
    return s->rank >= 0;
}

/* ---- folding ---- */

/* Runs a fold. As in a run, the memory is charged to a separate pool. The result is charged to the
 * session's state `folded`. */
static enum rt_status run_fold(struct rt_session *s, const struct rt_fold *n,
                               const struct rt_tensor *in, int k_out, int64_t cpu_end_ns,
                               struct rt_tensor *out, struct rt_error *err)
{
    const size_t limit = s->options.run_memory_limit;
    struct rt_pool *pool = rt_pool_new(limit && limit < FOLD_BYTES ? limit : FOLD_BYTES);
    if (!pool)
        return rt_fail_memory(err, "a fold", 0);
    rt_session_share_budget(s, pool);
    struct rt_run_shared shared = {
        .session = s,
        .pool = pool,
        .cpu_end_ns = cpu_end_ns,
        .cancelled = s->options.cancelled ? s->options.cancelled : &s->ends,
        .alone = true,
    };
    const struct rt_check check = rt_session_as_check(s);
    struct rt_tensor result = {0};
    /* A fold must flush subnormal numbers to zero, as a run does, to produce the same values. */
    const unsigned before = rt_flush_subnormals();
    enum rt_status st = rt_fold_node(&shared, n, in, k_out, &result, err);
    rt_restore_subnormals(before);
    if (!st && result.dtype == RT_VARIANT)
        st = rt_fail(err, RT_UNIMPLEMENTED, "objects are made in the run");
    if (!st)
        st = rt_state_keep(&s->folded, out, &result, NULL, &check, err);
    rt_tensor_clear(&result);
    rt_pool_unref(pool);
    return st;
}

static enum rt_status fold(struct rt_session *s, const struct rt_fold *n,
                           const struct rt_tensor *in, int k_out, int64_t most_ns,
                           struct rt_tensor *out, struct rt_error *err)
{
    const int64_t begin = rt_thread_cpu_ns(), left = atomic_load(&s->fold_ns);
    enum rt_status st = rt_session_check(s, err);
    *out = (struct rt_tensor){0};
    if (!st && left <= 0)
        st = rt_fail(err, RT_DEADLINE_EXCEEDED, "the time for all folds ended");
    if (st)
        return st;
    st = run_fold(s, n, in, k_out, begin + FREE_NS + (left < most_ns ? left : most_ns), out, err);
    const int64_t took = rt_thread_cpu_ns() - begin;
    if (took > FREE_NS)
        atomic_fetch_sub(&s->fold_ns, took - FREE_NS);
    return st;
}

enum rt_status rt_plan_fold(struct rt_session *s, const struct pl_node *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err)
{
    const struct rt_fold f = {n->def, n->name, n->n_in, n->n_out};
    return fold(s, &f, in, k_out, FOLD_NS, out, err);
}

/* ---- small values ---- */

bool rt_plan_evaluate(struct rt_session *s, const struct rt_plan_step *n, const struct rt_info *in,
                      const struct rt_info *out, struct rt_tensor *result, bool *no_memory)
{
    bool by_shape = n->def->op->rows == rt_rows_shape;
    if (n->n_out != 1 || n->effect != RT_PURE || !rt_dtype_is_plain(out->dtype))
        return false;
    if (rt_shape_is_exact(&out->shape) &&
        rt_count(out->shape.rank, out->shape.dim) > MAX_VALUE_ELEMENTS)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct rt_tensor *v = in[k].value;
        if (v ? rt_tensor_is_lazy(v) || rt_tensor_count(v) > MAX_READ_ELEMENTS
              : !by_shape || !rt_shape_is_exact(&in[k].shape))
            return false;
    }
    struct rt_tensor *t = calloc((size_t)n->n_in + 1, sizeof *t);
    if (!t) {
        *no_memory = true;
        return false;
    }
    for (int k = 0; k < n->n_in; k++) {
        if (in[k].value) {
            t[k] = *in[k].value;
            continue;
        }
        t[k].dtype = (uint8_t)in[k].dtype;
        t[k].rank = (int8_t)in[k].shape.rank;
        memcpy(t[k].dim, in[k].shape.dim, sizeof t[k].dim);
    }
    struct rt_error err = {0};
    const struct rt_fold f = {n->def, n->name, n->n_in, n->n_out};
    const enum rt_status st = fold(s, &f, t, 0, EVALUATE_NS, result, &err);
    free(t);
    if (st == RT_RESOURCE_EXHAUSTED)
        *no_memory = true;
    return st == RT_OK;
}
