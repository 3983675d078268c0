/* Runs an execution instance, either all steps of its specialisation or a large batch in
 * micro-batches. */
#include <string.h>

#include "runtime/exec/instance.h"
#include "runtime/core/copy.h"
#include "runtime/exec/trace.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/region_run.h"
#include "runtime/session/session_internal.h"
#include "runtime/select/prepared.h"

enum { USED_STEP = 64 };

struct rt_instance *rt_instance_find(struct rt_context *c, int begin)
{
    const struct rt_device *d = rt_context_accelerator(c);
    if (d && atomic_load_explicit(&d->has_failed, memory_order_relaxed))
        return NULL; /* Without a specialisation, all nodes run on the CPU, one at a time. */
    struct rt_instance *f = rt_instance_take(c, begin);
    const int64_t now = atomic_load_explicit(&c->shared->session->runs, memory_order_relaxed);
    if (f && now - atomic_load_explicit(&f->spec->used, memory_order_relaxed) > USED_STEP)
        atomic_store_explicit(&f->spec->used, now, memory_order_relaxed);
    bool bound = f && f->activations == c->activations;
    if (!f) {
        struct rt_specialisation *l = rt_segment_specialisation(c, begin);
        if (!l || (l->n_regions && c->shared->aliases.is_needed)) {
            /* A run that writes ref variables does not use regions, because a region's copy of a
             * variable's value would not follow later writes (alias.h). */
            rt_specialisation_unref(l);
            return NULL;
        }
        f = rt_instance_new(c, l);
        if (!f) {
            rt_specialisation_unref(l);
            return NULL;
        }
    }
    struct rt_error none = {0};
    if (rt_context_scratch(c, &c->activations, &c->activation_capacity, f->spec->activation_bytes,
                           "a layout", &none) != RT_OK ||
        !rt_pool_has_capacity(c->shared->pool, f->spec->slot_bytes)) {
        /* Without the instance, the segment runs node by node. Its values then need less memory at
         * the same time. */
        rt_context_drop_scratch(c);
        rt_instance_free(c, f);
        return NULL;
    }
    if (!bound || f->activations != c->activations)
        rt_instance_bind(c, f);
    return f;
}

/* ---- steps ---- */

static enum rt_status patch(struct rt_context *c, struct rt_instance *f, int first, int n,
                            struct rt_error *err)
{
    for (int k = first; k < first + n; k++) {
        const struct rt_patch *p = &f->spec->patch[k];
        struct rt_tensor *from = &c->value[p->value], *to = &f->arg[p->arg];
        rt_alias_follow(&c->shared->aliases, from);
        /* A tensor in the accelerator's memory is copied to the host only if the step runs on the
         * host. */
        if (!from->data && from->buf && (p->loads || !from->buf->device)) {
            enum rt_status st = rt_context_load(c, from, err);
            if (st)
                return st;
        }
        to->data = from->data;
        to->buf = from->buf;
        to->alias_of = from->alias_of;
        to->storage = from->storage;
    }
    return RT_OK;
}

/* Copies an output's bytes into the activation buffer if the kernel has made a separate tensor for
 * the output. */
static enum rt_status bring_home(struct rt_instance *f, const struct rt_step *s, int o,
                                 struct rt_error *err)
{
    const struct rt_specialisation *l = f->spec;
    struct rt_tensor got = f->arg[s->out + o], *t = &f->arg[s->out + o];
    const size_t bytes = rt_tensor_bytes(&l->arg[s->out + o]);
    enum rt_status st = RT_OK;
    rt_instance_bind_arg(f, s->out + o);
    if (!got.dtype || got.dtype != t->dtype || rt_tensor_bytes(&got) != bytes ||
        (bytes && !got.data))
        st = rt_fail(err, RT_INTERNAL, "kernel %s left output %d of '%s' without its value",
                     s->prepared->kernel->name, o, l->plan->node[s->node].name);
    else if (bytes)
        memmove(t->data, got.data, bytes);
    rt_tensor_clear(&got);
    return st;
}

/* Makes sure that an output in a slot owns its bytes, because a slot outlives the activation
 * buffer. */
static enum rt_status own_bytes(struct rt_context *c, struct rt_run *r, const struct rt_step *s,
                                struct rt_tensor *t, const struct rt_tensor *want,
                                struct rt_error *err)
{
    if (t->dtype != want->dtype || t->rank != want->rank ||
        memcmp(t->dim, want->dim, (size_t)(want->rank > 0 ? want->rank : 0) * sizeof *t->dim) != 0)
        return rt_fail(err, RT_INTERNAL, "kernel %s left '%s' without its value",
                       s->prepared->kernel->name, c->plan->node[s->node].name);
    if (t->buf || !t->data || s->is_view)
        return RT_OK;
    const struct rt_check check = rt_run_as_check(r);
    struct rt_tensor copy;
    enum rt_status st = rt_tensor_copy_checked(&copy, t, c->shared->pool, &check, err);
    if (!st)
        *t = copy;
    return st;
}

static enum rt_status run_kernel(struct rt_context *c, struct rt_instance *f, int k,
                                 struct rt_error *err)
{
    const struct rt_specialisation *l = f->spec;
    const struct rt_step *s = &l->step[k];
    struct rt_bound_step *b = &f->step[k];
    const int n_out = b->r.n_out, first = l->plan->node[s->node].first_value;
    struct rt_tensor *out = b->r.out;
    const uint8_t *kind = l->arg_kind + s->out;
    enum rt_status st = RT_OK;

    for (int o = 0; o < n_out && !st; o++) {
        if (kind[o] != RT_ARG_SLOT)
            continue;
        if (s->is_view)
            out[o] = (struct rt_tensor){0};
        else
            st = rt_tensor_new(&out[o], c->shared->pool, (enum rt_dtype)l->arg[s->out + o].dtype,
                               l->arg[s->out + o].rank, l->arg[s->out + o].dim, err);
    }
    if (!st)
        st = b->run(&b->r);
    for (int o = 0; o < n_out && !st; o++) {
        if (kind[o] == RT_ARG_SLOT) {
            st = own_bytes(c, &b->r, s, &out[o], &l->arg[s->out + o], err);
            c->value[first + o] = out[o];
            out[o] = (struct rt_tensor){0};
        } else if (out[o].data !=
                   rt_instance_place(f, &l->extent[(uintptr_t)l->arg[s->out + o].data]))
            st = bring_home(f, s, o, err);
    }
    /* If the step failed, drops the outputs that have not been moved to the context's values. */
    for (int o = 0; o < n_out && st; o++) {
        if (kind[o] == RT_ARG_SLOT || out[o].buf)
            rt_tensor_clear(&out[o]);
        rt_instance_bind_arg(f, s->out + o);
    }
    return st;
}

static enum rt_status run_ref(struct rt_context *c, struct rt_instance *f, const struct rt_step *s)
{
    const struct rt_plan_step *n = &c->plan->node[s->node];
    rt_tensor_ref(&c->value[n->first_value], &f->arg[s->in]);
    return RT_OK;
}

/* Runs a step of any kind and traces it. Then applies the step's patches, clears the slots that no
 * later step reads, and checks the deadline if the step requires it. */
static enum rt_status run_step(struct rt_context *c, struct rt_instance *f, int k,
                               struct rt_error *err)
{
    const struct rt_specialisation *l = f->spec;
    const struct rt_step *s = &l->step[k];
    struct rt_trace *trace = c->shared->trace;
    int64_t start_ns = trace ? rt_trace_now(trace) : 0;
    enum rt_status st = RT_OK;

    f->step[k].r.err = err;
    switch ((enum rt_step_kind)s->kind) {
    case RT_STEP_KERNEL:
        if (trace)
            rt_trace_kernel(trace, &l->plan->node[s->node], s->prepared->kernel, f->step[k].r.in);
        st = run_kernel(c, f, k, err);
        if (st)
            rt_exec_fail_at(&l->plan->node[s->node], err);
        else if (trace) {
            const struct rt_plan_step *n = &l->plan->node[s->node];
            rt_trace_ran(trace, n, &l->arg[s->out], start_ns);
        }
        break;
    case RT_STEP_NODE:
        st = rt_exec_in_place(c, s->node, s->last_use, err);
        break;
    case RT_STEP_REGION:
        st = rt_region_run(c, l, &l->region[s->region], f->arg, err);
        break;
    case RT_STEP_REF:
        st = run_ref(c, f, s);
        break;
    }
    if (!st && s->n_patch)
        st = patch(c, f, s->patch, s->n_patch, err);
    for (int j = 0; j < s->n_clear; j++)
        rt_tensor_clear(&c->value[l->clear[s->clear + j]]);
    if (!st && s->check)
        st = rt_context_check(c, err);
    return st;
}

/* ---- micro-batches ---- */

struct micro_batches {
    struct rt_context *c;
    int64_t rows; /* number of rows of the complete batch */
    struct rt_tensor feed[RT_MICRO_BATCH_ARGS], part[RT_MICRO_BATCH_ARGS],
        whole[RT_MICRO_BATCH_ARGS];
};

static size_t row_bytes(const struct rt_tensor *t)
{
    return t->dim[0] > 0 ? rt_tensor_bytes(t) / (size_t)t->dim[0] : 0;
}

static void take_rows(struct micro_batches *r, int64_t at, int64_t n)
{
    const struct rt_plan *p = r->c->plan;

    for (int k = 0; k < p->n_feeds; k++) {
        const struct rt_tensor *t = &r->c->value[p->feed_value[k]];
        rt_tensor_ref(&r->feed[k], t);
        r->feed[k].dim[0] = n;
        if (t->data)
            r->feed[k].data = (char *)t->data + (size_t)at * row_bytes(t);
    }
}

static enum rt_status put_rows(struct micro_batches *r, int64_t at, int64_t n, struct rt_error *err)
{
    const struct rt_plan *p = r->c->plan;
    enum rt_status st = RT_OK;

    for (int k = 0; k < p->n_fetches && !st; k++) {
        const struct rt_tensor *t = &r->part[k];
        struct rt_tensor *w = &r->whole[k];
        st = rt_context_load(r->c, &r->part[k], err);
        if (!st && (t->rank < 1 || t->dim[0] != n))
            st = rt_fail(err, RT_INTERNAL, "fetch %d of %lld rows has others", k, (long long)n);
        if (!st && !at) {
            int64_t dim[RT_MAX_RANK];
            memcpy(dim, t->dim, sizeof dim);
            dim[0] = r->rows;
            st = rt_tensor_new(w, r->c->shared->pool, (enum rt_dtype)t->dtype, t->rank, dim, err);
        }
        if (!st && (t->rank != w->rank || t->dtype != w->dtype ||
                    memcmp(t->dim + 1, w->dim + 1, (size_t)(t->rank - 1) * sizeof *t->dim) != 0))
            st = rt_fail(err, RT_INTERNAL, "fetch %d changes its shape between rows", k);
        if (!st && rt_tensor_bytes(t))
            memcpy((char *)w->data + (size_t)at * row_bytes(w), t->data, rt_tensor_bytes(t));
    }
    return st;
}

static enum rt_status run_micro_batches(struct rt_context *c, const struct rt_specialisation *l,
                                        struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    struct micro_batches r = {.c = c, .rows = l->live[0].shape.dim[0]};
    enum rt_status st = RT_OK;

    for (int k = 0; k < p->n_feeds && !st; k++)
        st = rt_context_load(c, &c->value[p->feed_value[k]], err);
    for (int64_t at = 0; at < r.rows && !st; at += l->micro_batch) {
        const int64_t n = r.rows - at < l->micro_batch ? r.rows - at : l->micro_batch;
        take_rows(&r, at, n);
        st = rt_plan_run(l->plan, c->shared, r.feed, r.part, err);
        if (!st)
            st = put_rows(&r, at, n, err);
        for (int k = 0; k < p->n_feeds; k++)
            rt_tensor_clear(&r.feed[k]);
        for (int k = 0; k < p->n_fetches; k++)
            rt_tensor_clear(&r.part[k]);
        if (!st)
            st = rt_context_check(c, err);
    }
    for (int k = 0; k < p->n_fetches; k++)
        if (st)
            rt_tensor_clear(&r.whole[k]);
        else
            c->value[p->fetch_value[k]] = r.whole[k];
    return st;
}

enum rt_status rt_instance_run(struct rt_context *c, struct rt_instance *f, struct rt_error *err)
{
    const struct rt_specialisation *l = f->spec;
    const bool traced = c->shared->trace != NULL;
    const int n = l->n_steps;
    enum rt_status st = RT_OK;

    if (l->micro_batch)
        return run_micro_batches(c, l, err);
    for (int k = 0; k < l->n_live && !st; k++)
        st = patch(c, f, l->live[k].patch, l->live[k].n_patch, err);
    for (int k = 0; k < n && !st; k++) {
        struct rt_bound_step *b = &f->step[k];
        if (!b->simple || traced) {
            st = run_step(c, f, k, err);
            continue;
        }
        b->r.err = err;
        st = b->run(&b->r);
        if (st == RT_OK && b->r.out->data == b->data)
            continue;
        if (!st)
            st = bring_home(f, &l->step[k], 0, err);
        if (st) {
            rt_tensor_clear(b->r.out);
            rt_instance_bind_arg(f, l->step[k].out);
            rt_exec_fail_at(&l->plan->node[l->step[k].node], err);
        }
    }
    c->shared->nodes_run += n;
    return st;
}
