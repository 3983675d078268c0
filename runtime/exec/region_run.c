/* Runs a region on a stream of the run's accelerator. */
#include "runtime/exec/region_run.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/device/device_stream.h"
#include "runtime/core/device/device_tensor.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/trace.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"

/* ---- binding ---- */

static void *at_extent(const struct rt_specialisation *l, const void *block, int extent)
{
    const struct rt_extent *e = &l->extent[extent];
    return e->bytes ? (char *)(uintptr_t)block + e->offset : rt_no_elements();
}

/* Sets argument `a` to the state that it has before each run. */
static void bind_arg(const struct rt_specialisation *l, const struct rt_region *r,
                     struct rt_bound_region *b, int a)
{
    b->arg[a] = r->arg[a];
    if (r->arg_kind[a] == RT_REGION_ACTIVATION)
        b->arg[a].data = at_extent(l, b->memory, (int)(uintptr_t)r->arg[a].data);
}

static bool allocate(const struct rt_region *r, struct rt_bound_region *b)
{
    b->steps.step = calloc((size_t)r->n_kernels + 1, sizeof *b->steps.step);
    b->arg = calloc((size_t)r->n_args + 1, sizeof *b->arg);
    b->steps.n = r->n_kernels;
    if (b->steps.step && b->arg)
        return true;
    free(b->steps.step);
    free(b->arg);
    *b = (struct rt_bound_region){0};
    return false;
}

/* Makes all pointers of the region point into `block`, unless they already do. */
static enum rt_status bind(const struct rt_specialisation *l, const struct rt_region *r,
                           struct rt_bound_region *b, const void *block, struct rt_error *err)
{
    if (b->steps.step && b->memory == block)
        return RT_OK;
    if (b->steps.recorded)
        l->device->forget(l->device, &b->steps);
    if (!b->steps.step && !allocate(r, b))
        return rt_fail_memory(err, "a region", (size_t)r->n_args * sizeof *b->arg);
    b->memory = block;
    for (int a = 0; a < r->n_args; a++)
        bind_arg(l, r, b, a);
    for (int k = 0; k < r->n_kernels; k++) {
        const struct rt_region_kernel *from = &r->kernel[k];
        const struct rt_plan_step *n = &l->plan->node[from->node];
        b->steps.step[k] = (struct rt_region_step){
            .kernel = from->prepared->kernel,
            .run = {.node = n->def,
                    .state = from->prepared->state,
                    .n_in = n->n_in,
                    .n_out = n->n_out,
                    .in = &b->arg[from->in],
                    .out = &b->arg[from->out],
                    .scratch = from->scratch < 0 ? NULL : at_extent(l, block, from->scratch)}};
    }
    return RT_OK;
}

/* ---- running ---- */

struct region_run {
    struct rt_context *c;
    const struct rt_specialisation *l;
    const struct rt_region *r;
    struct rt_bound_region *b;
    struct rt_device *d;
    int stream;
    struct rt_error *err;
};

static enum rt_status enqueue(struct region_run *x, enum rt_copy_kind kind, void *to,
                              const void *from, size_t bytes)
{
    if (kind != RT_COPY_WITHIN)
        atomic_fetch_add_explicit(kind == RT_COPY_IN ? &x->d->totals.bytes_in
                                                     : &x->d->totals.bytes_out,
                                  (int64_t)bytes, memory_order_relaxed);
    return x->d->enqueue_copy(x->d, x->stream, kind, to, from, bytes, x->err);
}

/* Enqueues the copy of a value to address `to` in the accelerator's memory. A value that is already
 * in the accelerator's memory does not pass through the host. */
static enum rt_status copy_in(struct region_run *x, const struct rt_tensor *from, void *to)
{
    struct rt_tensor t = *from;
    const size_t bytes = rt_tensor_bytes(&t);
    const void *address = rt_device_address(x->d, &t);
    if (!bytes)
        return RT_OK;
    if (address)
        return enqueue(x, RT_COPY_WITHIN, to, address, bytes);
    const enum rt_status st = t.data ? RT_OK : rt_context_load(x->c, &t, x->err);
    return st ? st : enqueue(x, RT_COPY_IN, to, t.data, bytes);
}

/* Makes the tensor of a value that leaves the region, and enqueues the copy of its bytes. */
static enum rt_status copy_out(struct region_run *x, const struct rt_crossing *out)
{
    const struct rt_tensor *from = &x->b->arg[out->arg];
    struct rt_tensor *t = &x->c->value[out->value];
    struct rt_pool *pool = x->c->shared->pool;
    const enum rt_dtype dtype = (enum rt_dtype)from->dtype;
    const size_t bytes = rt_tensor_bytes(from);
    struct rt_device *d = x->d;
    enum rt_status st = out->stays && bytes
                            ? rt_device_tensor(d, pool, t, dtype, from->rank, from->dim, x->err)
                            : rt_tensor_new(t, pool, dtype, from->rank, from->dim, x->err);
    if (st || !bytes)
        return st;
    if (!out->stays)
        return enqueue(x, RT_COPY_OUT, t->data, from->data, bytes);
    st = enqueue(x, RT_COPY_WITHIN, rt_device_address(d, t), from->data, bytes);
    if (st || !out->to_host)
        return st;
    atomic_fetch_add_explicit(&d->totals.bytes_out, (int64_t)bytes, memory_order_relaxed);
    return rt_device_tensor_enqueue_load(t, x->stream, from->data, x->err);
}

/* Marks the tensors whose bytes have been copied to the host as loaded. */
static void finish_out(struct region_run *x)
{
    for (int k = 0; k < x->r->n_out; k++) {
        const struct rt_crossing *out = &x->r->out[k];
        struct rt_tensor *t = &x->c->value[out->value];
        if (out->stays && out->to_host && rt_tensor_bytes(t))
            rt_device_tensor_loaded(t);
    }
}

/* Lets no other tensor use the memory of the values that leave the region, because the accelerator
 * may still copy to it. */
static void keep_out(struct region_run *x)
{
    for (int k = 0; k < x->r->n_out; k++)
        if (x->c->value[x->r->out[k].value].buf)
            rt_device_keep(x->d, x->c->value[x->r->out[k].value].buf);
}

/* Waits until the stream has done all its work, including the region's steps. Returns the first
 * failure. */
static enum rt_status wait(struct region_run *x, enum rt_status st,
                           const struct rt_region_step *failed)
{
    struct rt_error ignored = {0};
    const enum rt_status waited =
        x->d->wait(x->d, x->stream, st ? &(const struct rt_region_step *){NULL} : &failed,
                   st ? &ignored : x->err);
    st = st ? st : waited;
    if (st && failed)
        rt_exec_fail_at(&x->l->plan->node[x->r->kernel[failed - x->b->steps.step].node], x->err);
    return st;
}

static enum rt_status run_kernels(struct region_run *x, struct rt_region_steps *steps,
                                  const struct rt_region_step **failed)
{
    for (int k = 0; k < steps->n; k++) {
        steps->step[k].run.ctx = x->c;
        steps->step[k].run.err = x->err;
        steps->step[k].run.left = RT_WORK;
    }
    return x->d->enqueue_steps(x->d, x->stream, steps, failed, x->err);
}

/* Runs the kernels one at a time, so that each has its own times in the trace. */
static enum rt_status run_traced(struct region_run *x)
{
    struct rt_trace *trace = x->c->shared->trace;
    enum rt_status st = wait(x, RT_OK, NULL); /* for the copies */
    for (int k = 0; k < x->r->n_kernels && !st; k++) {
        const struct rt_plan_step *n = &x->l->plan->node[x->r->kernel[k].node];
        struct rt_region_steps one = {.step = &x->b->steps.step[k], .n = 1};
        const struct rt_region_step *failed = NULL;
        const int64_t start_ns = rt_trace_now(trace);
        rt_trace_kernel(trace, n, one.step->kernel, one.step->run.in);
        st = wait(x, run_kernels(x, &one, &failed), failed);
        if (!st)
            rt_trace_ran(trace, n, one.step->run.out, start_ns);
        if (one.recorded)
            x->d->forget(x->d, &one);
    }
    return st;
}

static enum rt_status run_on_stream(struct region_run *x, const struct rt_tensor *arg)
{
    const struct rt_specialisation *l = x->l;
    const struct rt_region_step *failed = NULL;
    enum rt_status st = RT_OK;
    for (int k = 0; k < x->r->n_in && !st; k++)
        st = copy_in(x, &arg[x->r->in[k].arg], at_extent(l, x->b->memory, x->r->in[k].extent));
    if (!st)
        st = x->c->shared->trace ? run_traced(x) : run_kernels(x, &x->b->steps, &failed);
    for (int k = 0; k < x->r->n_out && !st; k++)
        st = copy_out(x, &x->r->out[k]);
    st = wait(x, st, failed);
    if (!st)
        finish_out(x);
    else if (atomic_load(&x->d->is_hung))
        keep_out(x);
    return st;
}

static enum rt_status check(void *arg, struct rt_error *err)
{
    return rt_context_check(arg, err);
}

enum rt_status rt_region_run(struct rt_context *c, const struct rt_specialisation *l,
                             struct rt_region *r, const struct rt_tensor *arg, struct rt_error *err)
{
    struct rt_device *d = rt_context_accelerator(c);
    const struct rt_check may_wait = {check, c};
    struct rt_stream stream;
    enum rt_status st = rt_stream_take(d, l->device_bytes, &may_wait, &stream, err);
    if (st)
        return st;
    struct region_run x = {.c = c,
                           .l = l,
                           .r = r,
                           .b = &r->bound[stream.index],
                           .d = d,
                           .stream = stream.index,
                           .err = err};
    st = bind(l, r, x.b, stream.block, err);
    if (!st)
        st = run_on_stream(&x, arg);
    rt_stream_give(d, &stream);
    c->shared->nodes_run += r->n_kernels - 1; /* the region itself has been counted as one step */
    return st;
}

/* ---- loops ---- */

/* Returns whether a step that is assigned to the accelerator reads value v. */
static bool reads_on_accelerator(const struct rt_plan *p, int v)
{
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; p->node[i].on_accelerator && k < p->node[i].n_in; k++)
            if (p->node[i].in_value[k] == v)
                return true;
    return false;
}

static bool is_invariant(const struct rt_plan_step *loop, int k)
{
    const struct rt_plan *condition = loop->sub[0], *body = loop->sub[1];
    const int in_condition = condition->feed_value[k], in_body = body->feed_value[k];
    return in_body >= 0 && body->fetch_value[k] == in_body &&
           (reads_on_accelerator(body, in_body) ||
            (in_condition >= 0 && reads_on_accelerator(condition, in_condition)));
}

enum rt_status rt_region_copy_invariants(struct rt_context *c, const struct rt_plan_step *loop,
                                         struct rt_tensor *in, struct rt_error *err)
{
    struct rt_device *d = rt_context_accelerator(c);
    enum rt_status st = RT_OK;
    if (!d || atomic_load_explicit(&d->has_failed, memory_order_relaxed))
        return RT_OK;
    for (int k = 0; k < loop->n_in && !st; k++) {
        struct rt_tensor copy;
        if (!rt_dtype_is_plain((enum rt_dtype)in[k].dtype) || in[k].alias_of || !in[k].buf ||
            in[k].buf->device || in[k].buf->size != rt_tensor_bytes(&in[k]) ||
            !is_invariant(loop, k))
            continue;
        st = rt_context_load(c, &in[k], err);
        if (!st)
            st = rt_device_tensor_copy(d, &copy, &in[k], err);
        if (st)
            break;
        rt_tensor_clear(&in[k]);
        in[k] = copy;
    }
    return st;
}
