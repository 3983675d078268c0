/* Writes the steps of a specialisation, with their arguments, patches and clears. */
#include <stdlib.h>
#include <string.h>

#include "runtime/compile/specialise.h"
#include "runtime/session/session_internal.h"

enum { CHECK_BYTES = 1 << 20, CHECK_STEPS = 64 };

bool sp_grow(void *list, int n, size_t size)
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

enum rt_status sp_no_memory(struct work *w)
{
    return rt_fail_memory(w->err, "a layout", 0);
}

enum rt_status sp_add_extent(struct work *w, bool on_device, size_t bytes, int first, int last,
                             int *out)
{
    struct rt_specialisation *l = w->l;
    if (!sp_grow(&l->extent, l->n_extents, sizeof *l->extent))
        return sp_no_memory(w);
    l->extent[l->n_extents] =
        (struct rt_extent){.bytes = bytes, .first = first, .last = last, .on_device = on_device};
    *out = l->n_extents++;
    return RT_OK;
}

/* An argument in a slot requires a patch. This code appends patches in the order of the arguments;
 * assign_patches sorts them by value. */
enum rt_status sp_add_arg(struct work *w, int v, bool is_out, enum sp_need need)
{
    struct rt_specialisation *l = w->l;
    const struct value *x = &w->value[v];
    struct value *root = &w->value[x->root];
    if (!sp_grow(&l->arg, l->n_args, sizeof *l->arg) ||
        !sp_grow(&l->arg_kind, l->n_args, sizeof *l->arg_kind))
        return sp_no_memory(w);
    struct rt_tensor *t = &l->arg[l->n_args];
    *t = sp_tensor_of(w, v);
    enum rt_status st = RT_OK;
    switch ((enum place)root->place) {
    case CONSTANT:
        if (need == SP_BYTES)
            st = rt_session_load_tensor(w->plan->session, &root->tensor, w->err);
        t->data = root->tensor.data;
        t->buf = root->tensor.buf;
        l->arg_kind[l->n_args] = RT_ARG_CONST;
        break;
    case ACTIVATION:
        t->data = (void *)(uintptr_t)root->extent; // NOLINT: `data` stores an extent's index
        l->arg_kind[l->n_args] = RT_ARG_ACTIVATION;
        break;
    case SLOT:
    case DEVICE:
        l->arg_kind[l->n_args] = RT_ARG_SLOT;
        if (is_out)
            break;
        if (!sp_grow(&l->patch, l->n_patches, sizeof *l->patch))
            return sp_no_memory(w);
        l->patch[l->n_patches++] =
            (struct rt_patch){.value = x->root, .arg = l->n_args, .loads = need != SP_REFERENCE};
        break;
    case NOWHERE:
        return rt_fail(w->err, RT_INTERNAL, "value %d of a layout is nowhere", v);
    }
    l->n_args++;
    return st;
}

bool sp_lies_on_input(struct work *w, int i, int o, enum place place, int last)
{
    const struct rt_plan_step *n = sp_node(w, i);
    const struct rt_prepared *p = w->prepared[i - w->begin];
    const int a = p->alias[o];
    if (a < 0 || a >= n->n_in)
        return false;
    const int root = w->value[n->in_value[a]].root;
    struct value *out = &w->value[n->first_value + o];
    if (w->value[root].place != place || w->value[root].leaves ||
        w->value[root].region != out->region)
        return false;
    const int x = w->value[root].extent;
    struct rt_extent *e = &w->l->extent[x];
    size_t bytes;
    if (!rt_prepared_bytes(p, o, &bytes) || e->last != i || e->first == i || e->bytes != bytes)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct value *other = &w->value[w->value[n->in_value[k]].root];
        if (k != a && other->place == place && other->extent == x)
            return false;
    }
    for (int k = 0; k < o; k++) {
        const struct value *other = &w->value[n->first_value + k];
        if (other->place == place && other->extent == x)
            return false;
    }
    out->extent = x;
    e->last = last;
    return true;
}

static enum rt_status place_outputs(struct work *w, int i, bool is_view)
{
    const struct rt_plan_step *n = sp_node(w, i);
    const struct rt_prepared *p = w->prepared[i - w->begin];
    enum rt_status st = RT_OK;
    for (int o = 0; o < n->n_out && !st; o++) {
        struct value *v = &w->value[n->first_value + o];
        v->place = is_view || v->slot || v->escapes ? SLOT : ACTIVATION;
        size_t bytes;
        const int last = v->last > i ? v->last : i;
        if (is_view || (v->place == ACTIVATION && sp_lies_on_input(w, i, o, ACTIVATION, last)))
            continue;
        if (!rt_prepared_bytes(p, o, &bytes))
            return sp_no_memory(w);
        if (v->place == SLOT) {
            if (__builtin_add_overflow(w->l->slot_bytes, bytes, &w->l->slot_bytes))
                return sp_no_memory(w);
            continue;
        }
        st = sp_add_extent(w, false, bytes, i, last, &v->extent);
    }
    return st;
}

enum rt_status sp_add_step(struct work *w, int i, enum rt_step_kind kind, struct rt_step **out)
{
    struct rt_specialisation *l = w->l;
    if (!sp_grow(&l->step, l->n_steps, sizeof *l->step))
        return sp_no_memory(w);
    w->step_of[i - w->begin] = l->n_steps;
    *out = &l->step[l->n_steps++];
    **out = (struct rt_step){.kind = (uint8_t)kind, .node = i, .scratch = -1};
    return RT_OK;
}

static enum rt_status add_kernel(struct work *w, int i)
{
    struct rt_specialisation *l = w->l;
    const struct rt_plan_step *n = sp_node(w, i);
    struct rt_prepared *p = w->prepared[i - w->begin];
    const bool is_view = p->kernel->flags & RT_K_VIEWS;
    struct rt_step *s;
    int scratch = -1;
    enum rt_status st = place_outputs(w, i, is_view);
    if (!st && p->scratch_bytes)
        st = sp_add_extent(w, false, p->scratch_bytes, i, i, &scratch);
    if (!st)
        st = sp_add_step(w, i, RT_STEP_KERNEL, &s);
    if (st)
        return st;
    s->is_view = is_view;
    s->scratch = scratch;
    s->prepared = p;
    w->prepared[i - w->begin] = NULL;
    s->in = l->n_args;
    for (int k = 0; k < n->n_in && !st; k++)
        st = sp_add_arg(w, n->in_value[k], false,
                        n->lazy || (k < 64 && p->packed >> k & 1) ? SP_COMPUTED_BYTES : SP_BYTES);
    s->out = l->n_args;
    for (int o = 0; o < n->n_out && !st; o++)
        st = sp_add_arg(w, n->first_value + o, true, SP_REFERENCE);
    return st;
}

static enum rt_status add_node(struct work *w, int i)
{
    const struct rt_plan_step *n = sp_node(w, i);
    struct rt_step *s;
    enum rt_status st = sp_add_step(w, i, RT_STEP_NODE, &s);
    if (st)
        return st;
    for (int k = 0; k < n->n_in && k < 64; k++)
        if ((n->last_use >> k & 1) && w->value[n->in_value[k]].last == i)
            s->last_use |= UINT64_C(1) << k;
    for (int o = 0; o < n->n_out; o++)
        w->value[n->first_value + o].place = SLOT;
    return RT_OK;
}

enum rt_status sp_add_ref(struct work *w, int i)
{
    struct rt_step *s;
    enum rt_status st = sp_add_step(w, i, RT_STEP_REF, &s);
    if (st)
        return st;
    s->in = w->l->n_args;
    return sp_add_arg(w, sp_node(w, i)->first_value, false, SP_REFERENCE);
}

enum rt_status sp_add_steps(struct work *w)
{
    enum rt_status st = RT_OK;
    for (int i = w->begin; i < w->end && !st; i++) {
        const struct rt_plan_step *n = sp_node(w, i);
        const int region = sp_region_of(w, i);
        if (region >= 0) {
            st = sp_add_region(w, region);
            i = w->region[region].last;
            continue;
        }
        switch ((enum role)w->role[i - w->begin]) {
        case SKIPPED:
        case DEVICE_KERNEL:
            break;
        case VIEW:
        case EVALUATED:
            if (w->value[n->first_value].slot)
                st = sp_add_ref(w, i);
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

/* Returns the index of the step that clears a slot whose last reader is node i, or -1 if node i has
 * no step. */
static int clearing_step(const struct work *w, int i)
{
    const int region = sp_region_of(w, i);
    return region >= 0 ? w->region[region].last_step : w->step_of[i - w->begin];
}

/* Makes the last reader of each slot clear the slot. Slots that are read after the segment are not
 * cleared. */
static enum rt_status add_clears(struct work *w)
{
    const struct rt_plan *p = w->plan;
    struct rt_specialisation *l = w->l;
    int *count = calloc((size_t)l->n_steps + 1, sizeof *count);
    if (!count)
        return sp_no_memory(w);
    for (int round = 0; round < 2; round++) {
        for (int v = 0; v < p->n_values; v++) {
            const struct value *x = &w->value[v];
            if (x->kept || p->constant[v] ||
                (x->place != SLOT && !x->slot && !(x->place == DEVICE && x->leaves)))
                continue;
            int at = x->last > x->made ? x->last : x->made;
            int s = at < w->begin ? -1 : clearing_step(w, at);
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
            return sp_no_memory(w);
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

/* Returns the index of the step that makes the value of a patch, or -1 if the value is made before
 * the segment. */
static int making_step(const struct work *w, const struct rt_patch *p)
{
    const int made = w->value[p->value].made;
    return made < w->begin ? -1 : w->step_of[made - w->begin];
}

/* Sorts the patches by the step that makes their value. Patches of one step keep their order. */
static enum rt_status sort_by_step(struct work *w)
{
    struct rt_specialisation *l = w->l;
    int *first = calloc((size_t)l->n_steps + 2, sizeof *first);
    struct rt_patch *sorted = malloc(((size_t)l->n_patches + 1) * sizeof *sorted);
    if (!first || !sorted) {
        free(first);
        free(sorted);
        return sp_no_memory(w);
    }
    for (int k = 0; k < l->n_patches; k++)
        first[making_step(w, &l->patch[k]) + 2]++;
    for (int s = 1; s < l->n_steps + 2; s++)
        first[s] += first[s - 1];
    for (int k = 0; k < l->n_patches; k++)
        sorted[first[making_step(w, &l->patch[k]) + 1]++] = l->patch[k];
    free(first);
    free(l->patch);
    l->patch = sorted;
    return RT_OK;
}

/* Sorts the patches so that the patches of each step or live value are adjacent. Sets the range of
 * patches of each step and live value. */
static enum rt_status assign_patches(struct work *w)
{
    struct rt_specialisation *l = w->l;
    if (!l->n_patches)
        return RT_OK;
    qsort(l->patch, (size_t)l->n_patches, sizeof *l->patch, by_value);
    const enum rt_status st = sort_by_step(w);
    for (int at = 0; at < l->n_patches && !st; at++) {
        const int step = making_step(w, &l->patch[at]), live = w->value[l->patch[at].value].live;
        int *first = step >= 0 ? &l->step[step].patch : live >= 0 ? &l->live[live].patch : NULL;
        int *n = step >= 0 ? &l->step[step].n_patch : live >= 0 ? &l->live[live].n_patch : NULL;
        if (n && !(*n)++)
            *first = at;
    }
    return st;
}

static void set_checks(struct work *w)
{
    struct rt_specialisation *l = w->l;
    size_t bytes = 0;
    for (int k = 0, n = 0; k < l->n_steps; k++) {
        struct rt_step *s = &l->step[k];
        const struct rt_plan_step *at = sp_node(w, s->node);
        if (s->kind == RT_STEP_KERNEL)
            for (int j = s->in; j < s->out + at->n_out; j++)
                bytes += rt_tensor_bytes(&l->arg[j]);
        s->check = ++n >= CHECK_STEPS || bytes >= CHECK_BYTES || s->kind == RT_STEP_NODE ||
                   s->kind == RT_STEP_REGION;
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
        if (!sp_grow(&l->evaluated, l->n_evaluated, sizeof *l->evaluated))
            return sp_no_memory(w);
        l->evaluated[l->n_evaluated++] = w->value[sp_node(w, i)->first_value].tensor;
        w->value[sp_node(w, i)->first_value].tensor = (struct rt_tensor){0};
    }
    return RT_OK;
}

enum rt_status sp_finish_steps(struct work *w)
{
    enum rt_status st = add_clears(w);
    if (!st)
        st = add_evaluated(w);
    if (!st)
        st = assign_patches(w);
    if (!st)
        set_checks(w);
    return st;
}
