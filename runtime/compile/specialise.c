/*
 * Makes a specialisation. Shapes are exact, so three traversals of a segment's nodes suffice:
 *   forward   finds every shape, every value that follows from shapes, and every kernel;
 *   backward  finds the last reader of each value, and whether it must be in a slot (liveness);
 *   forward   writes the steps.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/compile/specialise.h"
#include "runtime/core/device/device_memory.h"
#include "runtime/passes/constant_evaluation.h"
#include "runtime/core/op.h"
#include "runtime/select/upload.h"

enum {
    /* maximum number of nodes in a segment; memory planning takes quadratic time */
    MAX_NODES = 4096,
    /* assumed size, in bytes, of a library's kernel state; libraries do not report the size */
    STATE_BYTES = 32 << 10,
    SMALL_STATE_BYTES = 512,
    MAX_STATE_BYTES = 64 << 20,
};

/* ---- forward: shapes, values, kernels ---- */

static bool has_plain_types(const struct work *w, const struct rt_plan_step *n)
{
    for (int k = 0; k < n->n_in; k++) {
        const enum rt_dtype d = w->value[n->in_value[k]].info.dtype;
        if (!rt_dtype_is_plain(d) || (d != n->def->in_dtype[k] && !pl_takes_value(n->def, k)))
            return false;
    }
    for (int o = 0; o < n->n_out; o++)
        if (!rt_dtype_is_plain((enum rt_dtype)n->def->out_dtype[o]))
            return false;
    return !n->def->out_ref;
}

/* Returns whether the node's kernel may be called directly. The node must only compute values from
 * its inputs, in host memory. */
static bool is_simple(const struct work *w, const struct rt_plan_step *n)
{
    if (!n->prepared || !n->n_out || !has_plain_types(w, n))
        return false;
    return n->effect == RT_PURE || n->effect == RT_RANDOM || (n->n_in && pl_takes_value(n->def, 0));
}

/* Fills w->info with the shapes of the node's inputs, and with the values that infer and prepare
 * may read. */
static enum rt_status gather(struct work *w, const struct rt_plan_step *n)
{
    for (int k = 0; k < n->n_in; k++) {
        struct value *v = &w->value[n->in_value[k]];
        w->info[k] = v->info;
        w->info[k].value = NULL;
        if (!rt_op_reads_value(n->def->op, k, n->n_in) || v->place != CONSTANT)
            continue;
        enum rt_status st = rt_session_load_tensor(w->plan->session, &v->tensor, w->err);
        if (st)
            return st;
        w->info[k].value = &v->tensor;
    }
    return RT_OK;
}

/* Returns whether all input values that the op's `infer` function reads are known. If a value is
 * unknown, no kernel is prepared. */
static bool has_values(const struct work *w, const struct rt_plan_step *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (rt_op_reads_value(n->def->op, k, n->n_in) && !w->info[k].value)
            return false;
    return true;
}

static bool find_value(struct work *w, struct rt_plan_step *n)
{
    struct value *out = &w->value[n->first_value];
    if (n->n_out != 1)
        return false;
    struct rt_info *in = calloc((size_t)n->n_in + 1, sizeof *in);
    if (!in)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct value *v = &w->value[n->in_value[k]];
        in[k] = w->info[k];
        if (v->place == CONSTANT)
            in[k].value = &v->tensor;
    }
    bool no_memory = false; /* if memory runs out during evaluation, the node is run instead */
    bool evaluated =
        rt_plan_evaluate(w->plan->session, n, in, &out->info, &out->tensor, &no_memory);
    free(in);
    if (evaluated) {
        rt_info_of(&out->info, &out->tensor);
        out->place = CONSTANT;
    }
    return evaluated;
}

static bool is_view(const struct work *w, const struct rt_plan_step *n)
{
    if (!n->def->op->is_view || n->n_out != 1 || n->n_in < 1)
        return false;
    const struct rt_info *in = &w->value[n->in_value[0]].info, *out = w->info + n->n_in;
    return in->dtype == out->dtype &&
           rt_count(in->shape.rank, in->shape.dim) == rt_count(out->shape.rank, out->shape.dim);
}

/* Fails if an output exceeds a run's memory limit. Tier 0 then runs the node and reports the
 * error. */
static enum rt_status check_sizes(struct work *w, const struct rt_plan_step *n,
                                  const struct rt_prepared *p)
{
    const size_t limit = w->plan->session->options.run_memory_limit;
    for (int o = 0; o < n->n_out; o++) {
        size_t bytes;
        if (!rt_prepared_bytes(p, o, &bytes) || (limit && bytes > limit))
            return rt_fail(w->err, RT_RESOURCE_EXHAUSTED, "output %d of '%s' is too large", o,
                           n->name);
    }
    return RT_OK;
}

/* Adds the size of the kernel state for these shapes to the specialisation's total. If the total
 * would exceed its limit, fails, so that the segment ends before this node. */
static enum rt_status count_state(struct work *w, const struct rt_plan_step *n,
                                  const struct rt_prepared *p)
{
    const size_t more = p->release ? STATE_BYTES : SMALL_STATE_BYTES;
    if (p->bytes > MAX_STATE_BYTES || w->state_bytes + p->bytes + more > MAX_STATE_BYTES)
        return rt_fail_memory(w->err, n->name, p->bytes);
    w->state_bytes += p->bytes + more;
    return RT_OK;
}

/* Returns whether all inputs that the kernel reads on the host are constants. */
static bool has_host_inputs(const struct work *w, const struct rt_plan_step *n,
                            const struct rt_kernel *k)
{
    for (int i = 0; i < n->n_in && i < 64; i++)
        if ((k->host_in >> i & 1) && w->value[n->in_value[i]].place != CONSTANT)
            return false;
    return true;
}

/* Chooses and prepares a kernel on the accelerator. Returns false if the node is not assigned to
 * the accelerator or has no kernel there for these shapes. */
static bool chooses_device_kernel(struct work *w, const struct rt_plan_step *n,
                                  struct rt_prepared *p)
{
    struct rt_error ignored = {.arena = NULL};
    if (!n->on_accelerator || n->effect != RT_PURE)
        return false;
    p->device = w->device;
    if (rt_prepared_choose(p, w->info, &ignored) == RT_OK && has_host_inputs(w, n, p->kernel))
        return true;
    rt_prepared_reset(p);
    return false;
}

/* Determines the role of a node with an op in the segment. Sets *ends if the segment ends after the
 * node. */
static enum rt_status walk_op(struct work *w, int i, bool *ends)
{
    struct rt_plan_step *n = sp_node(w, i);
    struct rt_prepared *p = NULL;
    enum rt_status st = RT_OK;
    bool exact = true, simple = is_simple(w, n);

    /* A node without outputs is skipped only if it has no inputs, because a node with inputs may
     * fail (Unpack with num=0). */
    if (!n->n_in && !n->n_out && n->effect == RT_PURE)
        return RT_OK;
    for (int k = 0; k < n->n_in; k++) {
        const struct rt_info *x = &w->value[n->in_value[k]].info;
        exact = exact && rt_shape_is_exact(&x->shape) &&
                !pl_reads_variable(n->def, k, (uint8_t)x->dtype);
    }
    if (!n->n_out || !n->prepared || !exact) {
        w->role[i - w->begin] = NODE;
        for (int o = 0; o < n->n_out; o++) {
            struct rt_info *x = &w->value[n->first_value + o].info;
            *x = (struct rt_info){.dtype = (enum rt_dtype)n->def->out_dtype[o]};
            x->shape.rank = -1;
        }
        *ends = n->n_out > 0 && n->effect != RT_PURE;
        /* A segment does not end at a node that makes a tensor list, because no node needs the
         * list's shape. */
        for (int o = 0; o < n->n_out; o++)
            *ends |= n->def->out_dtype[o] != RT_VARIANT;
        return RT_OK;
    }
    st = gather(w, n);
    simple = simple && has_values(w, n);
    if (!st)
        st = rt_prepared_infer(w->plan->session, n, 0, NULL, w->info, &p, w->err);
    if (st)
        return st;
    for (int o = 0; o < n->n_out; o++) {
        const struct rt_info *x = &w->info[n->n_in + o];
        w->value[n->first_value + o].info = *x;
        exact = exact &&
                (rt_shape_is_exact(&x->shape) || x->dtype == RT_RESOURCE || x->dtype == RT_VARIANT);
    }
    if (exact && find_value(w, n)) {
        w->role[i - w->begin] = EVALUATED;
    } else if (exact && simple && is_view(w, n)) {
        w->role[i - w->begin] = VIEW;
        w->value[n->first_value].root = w->value[n->in_value[0]].root;
    } else if (exact && simple) {
        w->role[i - w->begin] = KERNEL;
        for (int k = 0; k < n->n_in && k < 64; k++)
            if (n->const_in >> k & 1)
                w->info[k].value = &w->value[n->in_value[k]].tensor;
        st = check_sizes(w, n, p);
        if (!st && chooses_device_kernel(w, n, p))
            w->role[i - w->begin] = DEVICE_KERNEL;
        else if (!st)
            st = rt_prepared_choose(p, w->info, w->err);
        if (!st)
            st = count_state(w, n, p);
        if (!st) {
            w->prepared[i - w->begin] = p;
            return RT_OK;
        }
    } else {
        w->role[i - w->begin] = NODE;
        *ends = !exact || n->effect != RT_PURE || n->def->out_ref;
    }
    rt_prepared_free(p);
    return st;
}

static enum rt_status walk(struct work *w)
{
    const struct rt_plan *p = w->plan;
    int last = p->n_nodes - w->begin > MAX_NODES ? w->begin + MAX_NODES : p->n_nodes;
    for (int i = w->begin; i < last; i++) {
        struct rt_plan_step *n = sp_node(w, i);
        bool ends = false;
        enum rt_status st = RT_OK;
        for (int o = 0; o < n->n_out; o++)
            w->value[n->first_value + o].made = i;
        if (n->kind == PL_OP && n->def)
            st = walk_op(w, i, &ends);
        else if (n->kind != PL_OP && n->kind != PL_CONST && n->kind != PL_FEED) {
            w->role[i - w->begin] = NODE;
            ends = true;
        }
        if (st && i == w->begin)
            return st;
        /* If the node cannot be compiled, tier 0 runs it and reports the error. */
        w->end = st ? i : i + 1;
        if (st || ends)
            return RT_OK;
    }
    w->end = last;
    return RT_OK;
}

/* ---- backward: liveness ---- */

static void read_until(struct value *v, int i)
{
    if (i > v->last)
        v->last = i;
}

static void needs(struct work *w, int i)
{
    const struct rt_plan_step *n = sp_node(w, i);
    struct value *in = w->value, *out = &w->value[n->first_value];
    uint8_t *role = &w->role[i - w->begin];
    int until = i;
    bool escapes = false, read = false;

    switch ((enum role) * role) {
    case SKIPPED:
    case EVALUATED:
        return;
    case VIEW:
        in += n->in_value[0];
        if (out->slot)
            read_until(in, i);
        read_until(in, out->last);
        in->escapes |= out->escapes || out->slot;
        return;
    case NODE:
        for (int k = 0; k < n->n_in; k++) {
            in[n->in_value[k]].slot = true;
            read_until(&in[n->in_value[k]], i);
        }
        return;
    case KERNEL:
    case DEVICE_KERNEL:
        break;
    }
    for (int o = 0; o < n->n_out; o++)
        read |= out[o].last >= 0 || out[o].slot || out[o].escapes;
    if (!read) {
        *role = SKIPPED;
        return;
    }
    if (w->prepared[i - w->begin]->kernel->flags & RT_K_VIEWS)
        for (int o = 0; o < n->n_out; o++) {
            until = out[o].last > until ? out[o].last : until;
            escapes |= out[o].slot || out[o].escapes;
        }
    for (int k = 0; k < n->n_in; k++) {
        read_until(&in[n->in_value[k]], until);
        in[n->in_value[k]].escapes |= escapes;
    }
}

static void find_needs(struct work *w)
{
    const struct rt_plan *p = w->plan;
    for (int i = w->end; i < p->n_nodes; i++)
        for (int k = 0; k < p->node[i].n_in; k++) {
            w->value[p->node[i].in_value[k]].kept = true;
            w->value[p->node[i].in_value[k]].stays = true;
        }
    for (int k = 0; k < p->n_fetches; k++) {
        w->value[p->fetch_value[k]].kept = true;
        w->value[p->fetch_value[k]].fetched = p->compiled != NULL;
    }
    for (int v = 0; v < p->n_values; v++)
        w->value[v].slot = w->value[v].kept;
    for (int i = w->end - 1; i >= w->begin; i--)
        needs(w, i);
}

/* Checks that the activations of the regions fit in the memory that the server, and the session,
 * may use of the accelerator. */
static enum rt_status check_device_memory(const struct work *w)
{
    if (!rt_device_blocks_fit(w->device, w->l->device_bytes))
        return rt_fail(w->err, RT_RESOURCE_EXHAUSTED,
                       "the activations do not fit in the accelerator's memory");
    return rt_activations_admit(w->plan->session, w->device, w->l->device_bytes, w->err);
}

/* Checks that the constants of a session that waits for the accelerator's memory have room there,
 * so that no attempt takes the last memory from the sessions that use the accelerator. */
static enum rt_status check_room(const struct work *w)
{
    struct rt_session *s = w->plan->session;
    if (!w->device || rt_device_claim_is_complete(w->device, &s->claim[w->accelerator]))
        return RT_OK;
    return rt_fail(w->err, RT_RESOURCE_EXHAUSTED, "%s:%d has no room for the session's constants",
                   w->device->type, w->device->index);
}

static enum rt_status make(struct work *w, const struct rt_live *live, int n_live)
{
    const struct rt_plan *p = w->plan;
    struct rt_specialisation *l = w->l;
    l->plan = w->plan;
    l->begin = w->begin;
    l->session = p->session;
    l->accelerator = w->accelerator;
    l->device = w->device;
    atomic_init(&l->refs, 1);
    l->live = calloc((size_t)n_live + 1, sizeof *l->live);
    if (!l->live)
        return sp_no_memory(w);
    for (int v = 0; v < p->n_values; v++) {
        struct value *x = &w->value[v];
        x->root = v;
        x->last = x->made = x->live = x->region = x->copied_to = -1;
        if (p->constant[v]) {
            x->tensor = *p->constant[v];
            rt_info_of(&x->info, &x->tensor);
            x->place = CONSTANT;
        }
    }
    l->n_live = n_live;
    for (int k = 0; k < n_live; k++) {
        struct value *x = &w->value[live[k].value];
        l->live[k] = live[k];
        l->live[k].patch = l->live[k].n_patch = 0;
        x->info = (struct rt_info){.dtype = (enum rt_dtype)live[k].dtype, .shape = live[k].shape};
        x->place = SLOT;
        x->live = k;
    }
    enum rt_status st = walk(w);
    /* A feed's node may be anywhere in the plan's order, even inside the segment. */
    for (int k = 0; k < n_live; k++)
        w->value[live[k].value].made = -1;
    if (st)
        return st;
    l->end = w->end;
    find_needs(w);
    st = sp_find_regions(w);
    if (!st)
        st = sp_add_steps(w);
    if (!st)
        st = sp_finish_steps(w);
    if (st)
        return st;
    l->activation_bytes = rt_memory_plan_place(l->extent, l->n_extents, false);
    l->device_bytes = l->n_regions ? rt_memory_plan_place(l->extent, l->n_extents, true) : 0;
    if (l->activation_bytes == SIZE_MAX || l->device_bytes == SIZE_MAX)
        return sp_no_memory(w);
    st = l->n_regions ? check_device_memory(w) : RT_OK;
    if (st)
        return st;
    size_t evaluated = 0;
    for (int k = 0; k < l->n_evaluated; k++)
        evaluated += sizeof *l->evaluated + rt_tensor_bytes(&l->evaluated[k]);
    size_t regions = 0;
    for (int k = 0; k < l->n_regions; k++)
        regions += sp_region_bytes(&l->region[k]);
    l->bytes = w->state_bytes + evaluated + regions + sizeof *l +
               (size_t)l->n_args * (sizeof *l->arg + 1) + (size_t)l->n_steps * sizeof *l->step +
               (size_t)l->n_extents * sizeof *l->extent + (size_t)l->n_patches * sizeof *l->patch +
               (size_t)n_live * sizeof *l->live;
    return RT_OK;
}

enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, int accelerator, struct rt_specialisation **out,
                                     struct rt_error *err)
{
    struct rt_error own = {0};
    int n = p->n_nodes - begin > MAX_NODES ? MAX_NODES : p->n_nodes - begin;
    struct work w = {.plan = p,
                     .begin = begin,
                     .end = begin,
                     .accelerator = accelerator,
                     .device = p->session->options.accelerators.device[accelerator],
                     .err = err ? err : &own};
    w.value = calloc((size_t)p->n_values + 1, sizeof *w.value);
    w.role = calloc((size_t)n + 1, sizeof *w.role);
    w.prepared = calloc((size_t)n + 1, sizeof *w.prepared);
    w.step_of = malloc(((size_t)n + 1) * sizeof *w.step_of);
    w.info = calloc((size_t)(p->max_in + p->max_out) + 1, sizeof *w.info);
    w.l = calloc(1, sizeof *w.l);
    enum rt_status st = RT_OK;
    if (w.value && w.role && w.prepared && w.step_of && w.info && w.l) {
        for (int i = 0; i <= n; i++)
            w.step_of[i] = -1;
        st = check_room(&w);
        if (!st)
            st = make(&w, live, n_live);
    } else
        st = sp_no_memory(&w);
    for (int i = 0; w.prepared && i < n; i++)
        rt_prepared_free(w.prepared[i]);
    for (int i = 0; w.role && w.value && i < n; i++)
        if (w.role[i] == EVALUATED)
            rt_tensor_clear(&w.value[p->node[begin + i].first_value].tensor);
    free(w.value);
    free(w.role);
    free(w.prepared);
    free(w.step_of);
    free(w.info);
    free(w.region_of);
    free(w.region);
    if (st && w.l) {
        atomic_init(&w.l->refs, 1);
        rt_specialisation_unref(w.l);
    } else
        *out = w.l;
    return st;
}
