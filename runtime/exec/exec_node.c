/* Runs one node: makes its inputs readable, prepares and runs its kernel, and checks its
 * outputs. */
#include "runtime/exec/executor.h"
#include "runtime/exec/region_run.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/session/resource.h"
#include "runtime/exec/trace.h"
#include "runtime/core/op.h"

/* Makes an input readable for the kernel: loads lazy bytes, and replaces a variable's handle with
 * the variable's value. The replaced handle is moved to *handle, and *in holds a reference to the
 * value. After the kernel has run, the caller drops this reference and restores the handle. */
static enum rt_status make_ready(struct rt_context *c, const struct rt_plan_step *n, int k,
                                 struct rt_tensor *in, struct rt_tensor *handle, bool lazy_ok,
                                 struct rt_error *err)
{
    if (n->def && pl_reads_variable(n->def, k, in->dtype)) {
        struct rt_variable *v = rt_variable_of(in);
        if (!v)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "input %d of '%s' is a handle of something that is no variable", k,
                           n->name);
        struct rt_tensor value;
        const struct rt_check check = rt_context_as_check(c);
        enum rt_status st = rt_alias_read(&c->shared->aliases, v, &value, &check, err);
        if (st)
            return st;
        *handle = *in;
        *in = value;
    }
    if (n->def && in->dtype != n->def->in_dtype[k] &&
        !(in->dtype == RT_RESOURCE && !pl_follows_refs(n->def, k)) && !pl_takes_value(n->def, k))
        return rt_fail(err, RT_INVALID_ARGUMENT, "input %d of '%s' is %s, expected %s", k, n->name,
                       rt_dtype_name((enum rt_dtype)in->dtype),
                       rt_dtype_name((enum rt_dtype)n->def->in_dtype[k]));
    /* A kernel that accepts a lazy input may store the input as state. State must not be in
     * accelerator memory, so an input in accelerator memory is always loaded. */
    if (in->buf && in->buf->kind == RT_BUF_LAZY && !in->data && (!lazy_ok || in->buf->device))
        return rt_context_load(c, in, err);
    return RT_OK;
}

static bool may_take(const struct rt_tensor *t)
{
    return t->buf && t->buf->kind == RT_BUF_HEAP && t->data &&
           rt_dtype_is_plain((enum rt_dtype)t->dtype) && rt_tensor_is_sole(t);
}

static enum rt_status make_outputs(struct rt_context *c, const struct rt_plan_step *n,
                                   const struct rt_prepared *p, struct rt_tensor *in,
                                   uint64_t last_use, struct rt_tensor *out, struct rt_error *err)
{
    for (int o = 0; o < n->n_out; o++) {
        if (p->rank[o] < 0 || (p->kernel->flags & RT_K_VIEWS))
            continue;
        enum rt_dtype d = (enum rt_dtype)n->def->out_dtype[o];
        int a = p->alias[o];
        size_t bytes;
        if (a >= 0 && a < n->n_in && a < 64 && (last_use >> a & 1) && may_take(&in[a]) &&
            rt_dtype_is_plain(d) && rt_prepared_bytes(p, o, &bytes) &&
            bytes == rt_tensor_bytes(&in[a])) {
            /* The output takes over the input's reference to the buffer, so the input's data
             * pointer stays valid. */
            out[o] = in[a];
            in[a].buf = NULL;
            out[o].alias_of = 0;
            out[o].dtype = (uint8_t)d;
            out[o].rank = p->rank[o];
            memcpy(out[o].dim, p->dim[o], sizeof p->dim[o]);
            continue;
        }
        enum rt_status st = rt_context_tensor(c, &out[o], d, p->rank[o], p->dim[o], err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Checks that the kernel has set output o and that its dtype is the node's declared dtype, on which
 * readers rely. A kernel that takes a tensor out of a stack, list or array may return another
 * dtype. A ref output is a handle and is not checked. */
static enum rt_status check_output(const struct rt_plan_step *n, const struct rt_kernel *k, int o,
                                   const struct rt_tensor *out, struct rt_error *err)
{
    const enum rt_dtype want = (enum rt_dtype)n->def->out_dtype[o];
    const bool is_ref = o < 64 && (n->def->out_ref >> o & 1);
    if (!out->dtype)
        return rt_fail(err, RT_INTERNAL, "kernel %s left output %d of '%s' without a value",
                       k->name, o, n->name);
    if (out->dtype != want && !is_ref)
        return rt_fail(err, RT_INTERNAL,
                       "Output %d of type %s does not match declared output type %s for node %s", o,
                       rt_dtype_name((enum rt_dtype)out->dtype), rt_dtype_name(want), n->name);
    return RT_OK;
}

enum rt_status rt_exec_op(struct rt_context *c, struct rt_plan_step *n, struct rt_tensor *in,
                          uint64_t last_use, struct rt_tensor *out, struct rt_error *err)
{
    struct rt_prepared *p = NULL;
    struct rt_tensor *handle = c->handle;
    int n_handles = 0; /* 1 + the index of the last input that was a handle */
    bool lazy_kernel = n->lazy;
    enum rt_status st = RT_OK;

    for (int k = 0; k < n->n_in && !st; k++) {
        /* The plain bytes of a constant are loaded only if the chosen kernel reads them. */
        bool later = lazy_kernel || (k < 64 && (n->const_in >> k & 1) &&
                                     !rt_op_reads_value(n->def->op, k, n->n_in));
        handle[k].dtype = RT_NO_DTYPE;
        st = make_ready(c, n, k, &in[k], &handle[k], later, err);
        if (!handle[k].dtype)
            continue;
        n_handles = k + 1;
        /* The kernel must not take over the bytes of a variable. */
        if (k < 64)
            last_use &= ~(UINT64_C(1) << k);
    }
    if (!st)
        st = rt_prepared_get(c, n, in, &p, err);
    if (!st && !lazy_kernel)
        for (int k = 0; k < n->n_in && k < 64 && !st; k++)
            if ((n->const_in >> k & 1) && !(p->packed >> k & 1) && in[k].buf &&
                in[k].buf->kind == RT_BUF_LAZY)
                st = rt_context_load(c, &in[k], err);
    if (!st)
        st = make_outputs(c, n, p, in, last_use, out, err);
    if (!st)
        st = rt_context_scratch(c, &c->scratch, &c->scratch_capacity, p->scratch_bytes, n->name,
                                err);
    if (!st && c->shared->trace)
        rt_trace_kernel(c->shared->trace, n, p->kernel, in);
    if (!st) {
        struct rt_run r = {.node = n->def,
                           .state = p->state,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .in = in,
                           .out = out,
                           .scratch = c->scratch,
                           .ctx = c,
                           .err = err,
                           .last_use = last_use,
                           .left = RT_WORK};
        st = p->kernel->run(&r);
    }
    for (int o = 0; o < n->n_out && !st; o++)
        st = check_output(n, p->kernel, o, &out[o], err);
    for (int k = 0; k < n_handles; k++)
        if (handle[k].dtype) {
            rt_tensor_clear(&in[k]);
            in[k] = handle[k];
        }
    if (p && !p->is_cached)
        rt_prepared_free(p);
    return st;
}

enum { MAX_DEPTH = 200 };

enum rt_status rt_exec_check_depth(const struct rt_context *c, struct rt_error *err)
{
    return c->shared->depth < MAX_DEPTH ? RT_OK
                                        : rt_fail(err, RT_RESOURCE_EXHAUSTED,
                                                  "calls are nested more than %d deep", MAX_DEPTH);
}

static enum rt_status run_sub(struct rt_context *c, struct rt_plan *p, const struct rt_tensor *in,
                              struct rt_tensor *out, struct rt_error *err)
{
    enum rt_status st = rt_exec_check_depth(c, err);
    if (st)
        return st;
    c->shared->depth++;
    st = rt_plan_run(p, c->shared, in, out, err);
    c->shared->depth--;
    return st;
}

static enum rt_status truth_of(const struct rt_plan_step *n, const struct rt_tensor *t, bool *yes,
                               struct rt_error *err)
{
    if (n->was_switch && t->rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The second input must be a scalar, but it has shape %s",
                       rt_shape_text((char[100]){0}, 100, t->rank, t->dim));
    if (!pl_truth(t, yes))
        return rt_fail(err, RT_INVALID_ARGUMENT, "'%s': a %s is no condition", n->name,
                       rt_dtype_name((enum rt_dtype)t->dtype));
    return RT_OK;
}

static enum rt_status choose(const struct rt_plan_step *n, const struct rt_tensor *in, int *branch,
                             struct rt_error *err)
{
    bool yes = false;
    if (n->kind == PL_CASE) {
        if (in->dtype != RT_I32 || in->rank != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "'%s': branch_index must be a scalar int32",
                           n->name);
        int32_t b = *(const int32_t *)in->data;
        *branch = b < 0 || b >= n->n_sub ? n->n_sub - 1 : b;
        return RT_OK;
    }
    enum rt_status st = truth_of(n, in, &yes, err);
    *branch = yes ? 0 : 1;
    return st;
}

/* Runs a loop's condition or body once. The first iteration takes a context, which later iterations
 * reuse. */
static enum rt_status run_turn(struct rt_context *c, struct rt_plan *p, struct rt_context **own,
                               const struct rt_tensor *in, struct rt_tensor *out,
                               struct rt_error *err)
{
    if (!*own && !(*own = rt_context_take(p, c->shared)))
        return rt_fail_memory(err, "a run", (size_t)p->n_values * sizeof *in);
    return rt_context_run(*own, in, out, err);
}

static enum rt_status run_turns(struct rt_context *c, const struct rt_plan_step *n,
                                struct rt_context **check, struct rt_context **body,
                                struct rt_error *err)
{
    struct rt_tensor *now = c->loop, *next = now + n->n_in;
    for (;;) {
        struct rt_tensor more = {0};
        bool yes = false;
        enum rt_status st = rt_context_check(c, err);
        if (!st)
            st = run_turn(c, n->sub[0], check, now, &more, err);
        if (!st)
            st = rt_context_load(c, &more, err);
        if (!st)
            st = truth_of(n, &more, &yes, err);
        rt_tensor_clear(&more);
        if (st || !yes)
            return st;
        /* The body may take over the loop's values, because only the loop has references to
         * them. */
        c->shared->moving = true;
        st = run_turn(c, n->sub[1], body, now, next, err);
        c->shared->moving = false;
        for (int k = 0; k < n->n_in; k++) {
            rt_tensor_clear(&now[k]);
            now[k] = next[k];
            next[k] = (struct rt_tensor){0};
        }
        if (st)
            return st;
    }
}

static enum rt_status run_while(struct rt_context *c, const struct rt_plan_step *n,
                                struct rt_tensor *in, struct rt_tensor *out, struct rt_error *err)
{
    struct rt_tensor *now = c->loop;
    struct rt_context *check = NULL, *body = NULL;
    enum rt_status st = rt_exec_check_depth(c, err);
    if (st)
        return st;
    for (int k = 0; k < n->n_in; k++)
        rt_tensor_ref(&now[k], &in[k]);
    st = rt_region_copy_invariants(c, n, now, err);
    c->shared->depth++;
    if (!st)
        st = run_turns(c, n, &check, &body, err);
    c->shared->depth--;
    if (check)
        rt_context_give(check);
    if (body)
        rt_context_give(body);
    for (int k = 0; k < n->n_in; k++) {
        if (!st)
            out[k] = now[k];
        else
            rt_tensor_clear(&now[k]);
        now[k] = (struct rt_tensor){0};
    }
    return st;
}

/* Reads input k of a For, which is the start, the limit or the step of its index. */
static enum rt_status read_bound(struct rt_context *c, struct rt_tensor *in, int k, int64_t *bound,
                                 struct rt_error *err)
{
    static const char *const names[] = {"start", "limit", "delta"};
    char shape[200];
    const enum rt_status st = rt_context_load(c, &in[k], err);

    if (st)
        return st;
    if (in[k].dtype != RT_I32 || in[k].rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be a scalar, but %s", names[k],
                       rt_shape_text(shape, sizeof shape, in[k].rank, in[k].dim));
    *bound = *(const int32_t *)in[k].data;
    return RT_OK;
}

/* Checks that the values have the types that the node declares. In a further iteration, the values
 * are arguments of the body. */
static enum rt_status check_for_types(const struct rt_plan_step *n, const struct rt_tensor *value,
                                      bool is_last, struct rt_error *err)
{
    for (int k = 0; k < n->n_out; k++) {
        const char *is = rt_dtype_name((enum rt_dtype)value[k].dtype);
        const char *want = rt_dtype_name((enum rt_dtype)n->def->out_dtype[k]);
        if (value[k].dtype == n->def->out_dtype[k])
            continue;
        return is_last ? rt_fail(err, RT_INTERNAL, "Expect %d-th output is of type %s but get %s",
                                 k, want, is)
                       : rt_fail(err, RT_INVALID_ARGUMENT,
                                 "Expects arg[%d] to be %s but %s is provided", k + 1, want, is);
    }
    return RT_OK;
}

/* Runs the body of a For with the values `now`, and replaces these with its results. */
static enum rt_status run_for_turn(struct rt_context *c, const struct rt_plan_step *n,
                                   struct rt_context **body, int64_t index, struct rt_error *err)
{
    struct rt_tensor *now = c->loop, *next = now + n->n_in;
    enum rt_status st = rt_context_check(c, err);

    if (!st)
        st = rt_context_tensor(c, &now[0], RT_I32, 0, NULL, err);
    if (st)
        return st;
    *(int32_t *)now[0].data = (int32_t)index;
    /* The body may take over the values, because only the loop has references to them. */
    c->shared->moving = true;
    st = run_turn(c, n->sub[0], body, now, next, err);
    c->shared->moving = false;
    rt_tensor_clear(&now[0]);
    for (int k = 0; k < n->n_out; k++) {
        rt_tensor_clear(&now[k + 1]);
        now[k + 1] = next[k];
        next[k] = (struct rt_tensor){0};
    }
    return st;
}

static enum rt_status run_for(struct rt_context *c, const struct rt_plan_step *n,
                              struct rt_tensor *in, struct rt_tensor *out, struct rt_error *err)
{
    struct rt_tensor *now = c->loop;
    struct rt_context *body = NULL;
    int64_t bound[3] = {0};
    enum rt_status st = rt_exec_check_depth(c, err);

    for (int k = 0; k < 3 && !st; k++)
        st = read_bound(c, in, k, &bound[k], err);
    if (st)
        return st;
    const int64_t start = bound[0], limit = bound[1], delta = bound[2];
    if (delta > 0 ? start > limit : delta < 0 ? start < limit : start != limit)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Invalid start/limit/delta: %d %d %d", (int)start,
                       (int)limit, (int)delta);
    for (int k = 0; k < n->n_out; k++)
        rt_tensor_ref(&now[k + 1], &in[k + 1 + PL_FOR_SKIP]);
    c->shared->depth++;
    for (int64_t i = start; (delta > 0 ? i < limit : i > limit) && !st; i += delta) {
        const bool is_last = delta > 0 ? i + delta >= limit : i + delta <= limit;
        st = run_for_turn(c, n, &body, i, err);
        if (!st)
            st = check_for_types(n, now + 1, is_last, err);
    }
    c->shared->depth--;
    if (body)
        rt_context_give(body);
    for (int k = 0; k < n->n_out; k++) {
        if (!st)
            out[k] = now[k + 1];
        else
            rt_tensor_clear(&now[k + 1]);
        now[k + 1] = (struct rt_tensor){0};
    }
    return st;
}

static enum rt_status run_rows(struct rt_context *c, const struct rt_plan_step *n,
                               struct rt_tensor *in, struct rt_tensor *out, struct rt_error *err)
{
    static const struct rt_exec_runner runner = {rt_context_run};
    const enum rt_status st = rt_exec_check_depth(c, err);

    if (st)
        return st;
    return n->kind == PL_MAP ? rt_exec_map(c, n, &runner, in, out, err)
                             : rt_exec_batch(c, n, &runner, in, out, err);
}

enum rt_status rt_exec_node(struct rt_context *c, int i, struct rt_tensor *in, uint64_t last_use,
                            struct rt_tensor *out, struct rt_error *err)
{
    struct rt_plan_step *n = &c->plan->node[i];
    enum rt_status st = RT_OK;
    int branch = 0;
    c->shared->nodes_run++;
    struct rt_trace *trace = c->shared->trace;
    int64_t start_ns = trace ? rt_trace_now(trace) : 0;
    switch ((enum pl_kind)n->kind) {
    case PL_OP:
        if (!n->def)
            return RT_OK; /* A step without an op only orders other steps. */
        st = rt_exec_op(c, n, in, last_use, out, err);
        break;
    case PL_CONST:
        rt_tensor_ref(&out[0], &n->value);
        break;
    case PL_CALL:
        st = run_sub(c, n->sub[0], in + n->call_skip, out, err);
        break;
    case PL_IF:
    case PL_CASE:
        st = rt_context_load(c, &in[0], err);
        if (!st)
            st = choose(n, &in[0], &branch, err);
        if (!st)
            st = run_sub(c, n->sub[branch], in + 1, out, err);
        break;
    case PL_WHILE:
        st = run_while(c, n, in, out, err);
        break;
    case PL_FOR:
        st = run_for(c, n, in, out, err);
        break;
    case PL_MAP:
    case PL_BATCH:
        st = run_rows(c, n, in, out, err);
        break;
    case PL_FEED:
    case PL_GONE:
        break;
    }
    if (st) {
        for (int o = 0; o < n->n_out; o++)
            rt_tensor_clear(&out[o]);
        rt_exec_fail_at(n, err);
    } else if (trace) {
        rt_trace_ran(trace, n, out, start_ns);
    }
    return st;
}
