/*
 * Makes a specialisation. Shapes are exact, so three traversals of a segment's nodes suffice:
 *   forward   finds every shape, every value that follows from shapes, and every kernel;
 *   backward  finds the last reader of each value, and whether it must be in a slot (liveness);
 *   forward   writes the steps.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/compile/compile.h"
#include "runtime/passes/constant_evaluation.h"
#include "runtime/core/op.h"
#include "runtime/select/prepared.h"

enum {
    /* maximum number of nodes in a segment; memory planning takes quadratic time */
    MAX_NODES = 4096,
    CHECK_BYTES = 1 << 20,
    CHECK_STEPS = 64,
    /* assumed size, in bytes, of a library's kernel state; libraries do not report the size */
    STATE_BYTES = 32 << 10,
    SMALL_STATE_BYTES = 512,
    MAX_STATE_BYTES = 64 << 20, /* limit on the kernel state of one specialisation, in bytes */
};

enum role {
    SKIPPED,   /* nothing to run, because the node is a constant or a feed, or has no readers */
    VIEW,      /* the node's output is a view of its input */
    EVALUATED, /* the node's output is computed from the shapes alone */
    KERNEL,
    NODE, /* the node is run by rt_exec_node */
};

enum place { NOWHERE, CONSTANT, SLOT, ACTIVATION };

struct value {
    struct rt_info info;
    /* the tensor of a CONSTANT; if the node is EVALUATED, struct work owns the tensor's bytes */
    struct rt_tensor tensor;
    int root; /* index of the value itself or, for a view, of the viewed value */
    int last; /* last node that reads the value's bytes, or -1 if none does */
    int made; /* node that makes the value, or -1 if it is made before the segment */
    int extent;
    /* index among the live values, or -1 if the value is not live where the segment begins */
    int live;
    uint8_t place;
    /* whether the value must be in its slot, because rt_exec_node or later nodes read it there */
    bool slot;
    bool escapes; /* whether a view of the value must be in a slot */
    bool kept;    /* whether the value is fetched, or read after the segment */
};

struct work {
    struct rt_plan *plan;
    int begin, end;
    struct value *value;
    uint8_t *role; /* role of each node of the segment */
    /* prepared kernel of each node, until the node's step takes it over */
    struct rt_prepared **prepared;
    /* step index of each node of the segment, or -1 if the node has no step */
    int *step_of;
    struct rt_info *info; /* scratch array for the inputs and outputs of one node */
    size_t state_bytes;   /* total size of the kernel state, in bytes */
    struct rt_specialisation *l;
    struct rt_error *err;
};

static struct rt_plan_step *node_at(const struct work *w, int i)
{
    return &w->plan->node[i];
}

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

/* Returns whether the node only computes values from its inputs and runs in host memory, so that
 * its kernel may be called directly. */
static bool is_simple(const struct work *w, const struct rt_plan_step *n)
{
    if (n->device || !n->prepared || !n->n_out || !has_plain_types(w, n))
        return false;
    return n->effect == RT_PURE || n->effect == RT_RANDOM || (n->n_in && pl_takes_value(n->def, 0));
}

/* Fills w->info with the shapes and values of the node's inputs that infer and prepare may use. */
static enum rt_status gather(struct work *w, const struct rt_plan_step *n)
{
    for (int k = 0; k < n->n_in; k++) {
        struct value *v = &w->value[n->in_value[k]];
        w->info[k] = v->info;
        w->info[k].value = NULL;
        if (!rt_op_reads_value(n->def->op, k, n->n_in) || v->place != CONSTANT)
            continue;
        enum rt_status st = rt_tensor_load(&v->tensor, w->err);
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
    bool no_memory = false; /* If evaluation runs out of memory, the node is run instead. */
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

/* Refuses an output larger than a run's memory limit. The node then runs in tier 0, which reports
 * the error. */
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

/* Counts the kernel state for these shapes. Fails if the specialisation would exceed its limit on
 * kernel state. After a failure, the segment ends before this node. */
static enum rt_status count_state(struct work *w, const struct rt_plan_step *n,
                                  const struct rt_prepared *p)
{
    const size_t more = p->release ? STATE_BYTES : SMALL_STATE_BYTES;
    if (p->bytes > MAX_STATE_BYTES || w->state_bytes + p->bytes + more > MAX_STATE_BYTES)
        return rt_fail_memory(w->err, n->name, p->bytes);
    w->state_bytes += p->bytes + more;
    return RT_OK;
}

/* Determines the role of an op's node. Sets *ends if the segment ends after the node. */
static enum rt_status walk_op(struct work *w, int i, bool *ends)
{
    struct rt_plan_step *n = node_at(w, i);
    struct rt_prepared *p = NULL;
    enum rt_status st = RT_OK;
    bool exact = true, simple = is_simple(w, n);

    /* A node without outputs is skipped only if it has no inputs either, because a node with inputs
     * may fail (Unpack with num=0). */
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
        if (!st)
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
        struct rt_plan_step *n = node_at(w, i);
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
    const struct rt_plan_step *n = node_at(w, i);
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
        for (int k = 0; k < p->node[i].n_in; k++)
            w->value[p->node[i].in_value[k]].kept = true;
    for (int k = 0; k < p->n_fetches; k++)
        w->value[p->fetch_value[k]].kept = true;
    for (int v = 0; v < p->n_values; v++)
        w->value[v].slot = w->value[v].kept;
    for (int i = w->end - 1; i >= w->begin; i--)
        needs(w, i);
}

/* ---- forward: steps ---- */

/* Grows a full array, so that one more element fits. `list` is the address of the array pointer. */
static bool grow(void *list, int n, size_t size)
{
    void *old, *more;
    /* The capacity is 0 or a power of two, so the array can be full only if n is 0 or a power of
     * two. */
    if (n & (n - 1))
        return true;
    memcpy(&old, list, sizeof old);
    more = realloc(old, (n ? (size_t)n * 2 : 1) * size);
    if (more)
        memcpy(list, &more, sizeof more);
    return more != NULL;
}

static enum rt_status no_memory(struct work *w)
{
    return rt_fail_memory(w->err, "a layout", 0);
}

static enum rt_status add_extent(struct work *w, size_t bytes, int first, int last, int *out)
{
    struct rt_specialisation *l = w->l;
    if (!grow(&l->extent, l->n_extents, sizeof *l->extent))
        return no_memory(w);
    l->extent[l->n_extents] = (struct rt_extent){.bytes = bytes, .first = first, .last = last};
    *out = l->n_extents++;
    return RT_OK;
}

/* Adds to the specialisation an argument that holds value v. An argument in a slot gets a patch.
 * Patches are appended in the order of the arguments, and assign_patches sorts them by value. */
static enum rt_status add_arg(struct work *w, int v, bool is_out, bool load)
{
    struct rt_specialisation *l = w->l;
    const struct value *x = &w->value[v];
    struct value *root = &w->value[x->root];
    if (!grow(&l->arg, l->n_args, sizeof *l->arg) ||
        !grow(&l->arg_kind, l->n_args, sizeof *l->arg_kind))
        return no_memory(w);
    struct rt_tensor *t = &l->arg[l->n_args];
    *t = (struct rt_tensor){.dtype = (uint8_t)x->info.dtype, .rank = (int8_t)x->info.shape.rank};
    memcpy(t->dim, x->info.shape.dim, sizeof t->dim);
    enum rt_status st = RT_OK;
    switch ((enum place)root->place) {
    case CONSTANT:
        if (load)
            st = rt_tensor_load(&root->tensor, w->err);
        t->data = root->tensor.data;
        t->buf = root->tensor.buf;
        l->arg_kind[l->n_args] = RT_ARG_CONST;
        break;
    case ACTIVATION:
        t->data = (void *)(uintptr_t)root->extent; // NOLINT: data holds an index until it is bound
        l->arg_kind[l->n_args] = RT_ARG_ACTIVATION;
        break;
    case SLOT:
        l->arg_kind[l->n_args] = RT_ARG_SLOT;
        if (is_out)
            break;
        if (!grow(&l->patch, l->n_patches, sizeof *l->patch))
            return no_memory(w);
        l->patch[l->n_patches++] = (struct rt_patch){x->root, l->n_args};
        break;
    case NOWHERE:
        return rt_fail(w->err, RT_INTERNAL, "value %d of a layout is nowhere", v);
    }
    l->n_args++;
    return st;
}

/* Returns whether output o may overwrite the input that `infer` names as its alias. If so, assigns
 * the input's extent to the output. */
static bool lies_on_input(struct work *w, int i, int o)
{
    const struct rt_plan_step *n = node_at(w, i);
    const struct rt_prepared *p = w->prepared[i - w->begin];
    const int a = p->alias[o];
    if (a < 0 || a >= n->n_in)
        return false;
    const int root = w->value[n->in_value[a]].root;
    struct value *out = &w->value[n->first_value + o];
    if (w->value[root].place != ACTIVATION)
        return false;
    const int x = w->value[root].extent;
    struct rt_extent *e = &w->l->extent[x];
    size_t bytes;
    if (!rt_prepared_bytes(p, o, &bytes) || e->last != i || e->first == i || e->bytes != bytes)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct value *other = &w->value[w->value[n->in_value[k]].root];
        if (k != a && other->place == ACTIVATION && other->extent == x)
            return false;
    }
    for (int k = 0; k < o; k++) {
        const struct value *other = &w->value[n->first_value + k];
        if (other->place == ACTIVATION && other->extent == x)
            return false;
    }
    out->extent = x;
    e->last = out->last > i ? out->last : i;
    return true;
}

static enum rt_status place_outputs(struct work *w, int i, bool is_view)
{
    const struct rt_plan_step *n = node_at(w, i);
    const struct rt_prepared *p = w->prepared[i - w->begin];
    enum rt_status st = RT_OK;
    for (int o = 0; o < n->n_out && !st; o++) {
        struct value *v = &w->value[n->first_value + o];
        v->place = is_view || v->slot || v->escapes ? SLOT : ACTIVATION;
        size_t bytes;
        if (is_view || (v->place == ACTIVATION && lies_on_input(w, i, o)))
            continue;
        if (!rt_prepared_bytes(p, o, &bytes))
            return no_memory(w);
        if (v->place == SLOT) {
            if (__builtin_add_overflow(w->l->slot_bytes, bytes, &w->l->slot_bytes))
                return no_memory(w);
            continue;
        }
        st = add_extent(w, bytes, i, v->last > i ? v->last : i, &v->extent);
    }
    return st;
}

static enum rt_status add_step(struct work *w, int i, enum rt_step_kind kind, struct rt_step **out)
{
    struct rt_specialisation *l = w->l;
    if (!grow(&l->step, l->n_steps, sizeof *l->step))
        return no_memory(w);
    w->step_of[i - w->begin] = l->n_steps;
    *out = &l->step[l->n_steps++];
    **out = (struct rt_step){.kind = (uint8_t)kind, .node = i, .scratch = -1};
    return RT_OK;
}

static enum rt_status add_kernel(struct work *w, int i)
{
    struct rt_specialisation *l = w->l;
    const struct rt_plan_step *n = node_at(w, i);
    struct rt_prepared *p = w->prepared[i - w->begin];
    const bool is_view = p->kernel->flags & RT_K_VIEWS;
    struct rt_step *s;
    int scratch = -1;
    enum rt_status st = place_outputs(w, i, is_view);
    if (!st && p->scratch_bytes)
        st = add_extent(w, p->scratch_bytes, i, i, &scratch);
    if (!st)
        st = add_step(w, i, RT_STEP_KERNEL, &s);
    if (st)
        return st;
    s->is_view = is_view;
    s->scratch = scratch;
    s->prepared = p;
    w->prepared[i - w->begin] = NULL;
    s->in = l->n_args;
    for (int k = 0; k < n->n_in && !st; k++)
        st = add_arg(w, n->in_value[k], false, !n->lazy && !(k < 64 && p->packed >> k & 1));
    s->out = l->n_args;
    for (int o = 0; o < n->n_out && !st; o++)
        st = add_arg(w, n->first_value + o, true, false);
    return st;
}

static enum rt_status add_node(struct work *w, int i)
{
    const struct rt_plan_step *n = node_at(w, i);
    struct rt_step *s;
    enum rt_status st = add_step(w, i, RT_STEP_NODE, &s);
    if (st)
        return st;
    for (int k = 0; k < n->n_in && k < 64; k++)
        if ((n->last_use >> k & 1) && w->value[n->in_value[k]].last == i)
            s->last_use |= UINT64_C(1) << k;
    for (int o = 0; o < n->n_out; o++)
        w->value[n->first_value + o].place = SLOT;
    return RT_OK;
}

static enum rt_status add_ref(struct work *w, int i)
{
    struct rt_step *s;
    enum rt_status st = add_step(w, i, RT_STEP_REF, &s);
    if (st)
        return st;
    s->in = w->l->n_args;
    return add_arg(w, node_at(w, i)->first_value, false, false);
}

static enum rt_status add_steps(struct work *w)
{
    enum rt_status st = RT_OK;
    for (int i = w->begin; i < w->end && !st; i++) {
        const struct rt_plan_step *n = node_at(w, i);
        switch ((enum role)w->role[i - w->begin]) {
        case SKIPPED:
            break;
        case VIEW:
        case EVALUATED:
            if (w->value[n->first_value].slot)
                st = add_ref(w, i);
            break;
        case KERNEL:
            st = add_kernel(w, i);
            break;
        case NODE:
            st = add_node(w, i);
            break;
        }
    }
    return st;
}

/* Makes the last reader of each slot clear the slot, unless the slot is read after the segment. */
static enum rt_status add_clears(struct work *w)
{
    const struct rt_plan *p = w->plan;
    struct rt_specialisation *l = w->l;
    int *count = calloc((size_t)l->n_steps + 1, sizeof *count);
    if (!count)
        return no_memory(w);
    for (int round = 0; round < 2; round++) {
        for (int v = 0; v < p->n_values; v++) {
            const struct value *x = &w->value[v];
            if (x->kept || p->constant[v] || (x->place != SLOT && !x->slot))
                continue;
            int at = x->last > x->made ? x->last : x->made;
            int s = at < w->begin ? -1 : w->step_of[at - w->begin];
            if (s < 0)
                continue;
            if (round)
                l->clear[l->step[s].clear + l->step[s].n_clear++] = v;
            else
                count[s]++;
        }
        for (int s = 0; s < l->n_steps && !round; s++) {
            l->step[s].clear = l->n_clears;
            l->n_clears += count[s];
        }
        if (!round && !(l->clear = calloc((size_t)l->n_clears + 1, sizeof *l->clear))) {
            free(count);
            return no_memory(w);
        }
    }
    free(count);
    return RT_OK;
}

static int by_value(const void *a, const void *b)
{
    const struct rt_patch *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1) : x->arg - y->arg;
}

/* Assigns each step and live value its range of patches. Sorting has made the patches of one value
 * adjacent, and the values of a step's outputs are consecutive. */
static void assign_patches(struct work *w)
{
    struct rt_specialisation *l = w->l;
    if (l->n_patches)
        qsort(l->patch, (size_t)l->n_patches, sizeof *l->patch, by_value);
    for (int at = 0; at < l->n_patches;) {
        const int v = l->patch[at].value;
        int n = 1;
        while (at + n < l->n_patches && l->patch[at + n].value == v)
            n++;
        if (w->value[v].made >= w->begin) {
            struct rt_step *s = &l->step[w->step_of[w->value[v].made - w->begin]];
            if (!s->n_patch)
                s->patch = at;
            s->n_patch += n;
        } else if (w->value[v].live >= 0) {
            l->live[w->value[v].live].patch = at;
            l->live[w->value[v].live].n_patch = n;
        }
        at += n;
    }
}

static void set_checks(struct work *w)
{
    struct rt_specialisation *l = w->l;
    size_t bytes = 0;
    for (int k = 0, n = 0; k < l->n_steps; k++) {
        struct rt_step *s = &l->step[k];
        const struct rt_plan_step *at = node_at(w, s->node);
        if (s->kind == RT_STEP_KERNEL)
            for (int j = s->in; j < s->out + at->n_out; j++)
                bytes += rt_tensor_bytes(&l->arg[j]);
        s->check = ++n >= CHECK_STEPS || bytes >= CHECK_BYTES || s->kind == RT_STEP_NODE;
        if (s->check) {
            bytes = 0;
            n = 0;
        }
    }
}

static enum rt_status add_evaluated(struct work *w)
{
    struct rt_specialisation *l = w->l;
    for (int i = w->begin; i < w->end; i++) {
        if (w->role[i - w->begin] != EVALUATED)
            continue;
        if (!grow(&l->evaluated, l->n_evaluated, sizeof *l->evaluated))
            return no_memory(w);
        l->evaluated[l->n_evaluated++] = w->value[node_at(w, i)->first_value].tensor;
        w->value[node_at(w, i)->first_value].tensor = (struct rt_tensor){0};
    }
    return RT_OK;
}

static enum rt_status make(struct work *w, const struct rt_live *live, int n_live)
{
    const struct rt_plan *p = w->plan;
    struct rt_specialisation *l = w->l;
    l->plan = w->plan;
    l->begin = w->begin;
    atomic_init(&l->refs, 1);
    l->live = calloc((size_t)n_live + 1, sizeof *l->live);
    if (!l->live)
        return no_memory(w);
    for (int v = 0; v < p->n_values; v++) {
        struct value *x = &w->value[v];
        x->root = v;
        x->last = x->made = x->live = -1;
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
    st = add_steps(w);
    if (!st)
        st = add_clears(w);
    if (!st)
        st = add_evaluated(w);
    if (st)
        return st;
    assign_patches(w);
    set_checks(w);
    l->activation_bytes = rt_memory_plan_place(l->extent, l->n_extents);
    if (l->activation_bytes == SIZE_MAX)
        return no_memory(w);
    size_t evaluated = 0;
    for (int k = 0; k < l->n_evaluated; k++)
        evaluated += sizeof *l->evaluated + rt_tensor_bytes(&l->evaluated[k]);
    l->bytes = w->state_bytes + evaluated + sizeof *l + (size_t)l->n_args * (sizeof *l->arg + 1) +
               (size_t)l->n_steps * sizeof *l->step + (size_t)l->n_extents * sizeof *l->extent +
               (size_t)l->n_patches * sizeof *l->patch + (size_t)n_live * sizeof *l->live;
    return RT_OK;
}

enum rt_status rt_specialisation_new(struct rt_plan *p, int begin, const struct rt_live *live,
                                     int n_live, struct rt_specialisation **out,
                                     struct rt_error *err)
{
    struct rt_error own = {0};
    int n = p->n_nodes - begin > MAX_NODES ? MAX_NODES : p->n_nodes - begin;
    struct work w = {.plan = p, .begin = begin, .end = begin, .err = err ? err : &own};
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
        st = make(&w, live, n_live);
    } else
        st = no_memory(&w);
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
    if (st && w.l) {
        atomic_init(&w.l->refs, 1);
        rt_specialisation_unref(w.l);
    } else
        *out = w.l;
    return st;
}
