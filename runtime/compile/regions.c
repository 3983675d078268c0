/*
 * Decides which kernels form regions of the accelerator, and adds the regions to a specialisation.
 * A region is as long as possible and ends only at a step that the host runs. Nodes without a step,
 * such as views, do not end a region.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/compile/specialise.h"
#include "runtime/session/session_internal.h"
#include "runtime/select/upload.h"

/* ---- which kernels form regions ---- */

static enum rt_status begin_region(struct work *w, int i)
{
    if (!sp_grow(&w->region, w->n_regions, sizeof *w->region))
        return sp_no_memory(w);
    w->region[w->n_regions++] = (struct region_nodes){.first = i, .last = i, .last_step = -1};
    return RT_OK;
}

static enum rt_status group_kernels(struct work *w)
{
    enum rt_status st = RT_OK;
    bool open = false;
    for (int i = w->begin; i < w->end && !st; i++) {
        const enum role role = (enum role)w->role[i - w->begin];
        if (role == KERNEL || role == NODE)
            open = false;
        if (role != DEVICE_KERNEL)
            continue;
        if (!open)
            st = begin_region(w, i);
        open = true;
        if (!st)
            w->region[w->n_regions - 1].last = i;
    }
    for (int r = 0; r < w->n_regions && !st; r++)
        for (int i = w->region[r].first; i <= w->region[r].last; i++)
            w->region_of[i - w->begin] = r;
    return st;
}

static int region_of_kernel(const struct work *w, int i)
{
    return w->role[i - w->begin] == DEVICE_KERNEL ? w->region_of[i - w->begin] : -1;
}

/* Records which inputs of node i are needed outside the regions that make them. */
static void note_readers(struct work *w, int i)
{
    const struct rt_plan_step *n = sp_node(w, i);
    const enum role role = (enum role)w->role[i - w->begin];
    const int region = region_of_kernel(w, i);
    for (int k = 0; k < n->n_in; k++) {
        struct value *root = &w->value[w->value[n->in_value[k]].root];
        if (root->region < 0 || (role == DEVICE_KERNEL && root->region == region))
            continue;
        root->leaves |= role == KERNEL || role == DEVICE_KERNEL;
        root->to_host |= role == KERNEL;
        root->stays |= role == DEVICE_KERNEL || role == NODE;
    }
}

/* Finds the values that leave their region. A value leaves its region if the host or another region
 * reads the value, or if the value or a view of it must be in a slot. */
static void find_leaving(struct work *w)
{
    for (int i = w->begin; i < w->end; i++) {
        const struct rt_plan_step *n = sp_node(w, i);
        const int region = region_of_kernel(w, i);
        for (int o = 0; o < n->n_out && region >= 0; o++) {
            struct value *v = &w->value[n->first_value + o];
            v->region = region;
            v->leaves = v->slot || v->escapes;
            v->to_host = v->fetched || (v->escapes && w->plan->compiled);
            v->stays |= v->escapes;
        }
        note_readers(w, i);
    }
}

enum rt_status sp_find_regions(struct work *w)
{
    const int n = w->end - w->begin;
    if (!w->device)
        return RT_OK;
    w->region_of = malloc(((size_t)n + 1) * sizeof *w->region_of);
    if (!w->region_of)
        return sp_no_memory(w);
    for (int i = 0; i < n; i++)
        w->region_of[i] = -1;
    const enum rt_status st = group_kernels(w);
    if (!st)
        find_leaving(w);
    return st;
}

/* ---- a region's kernels ---- */

struct building {
    struct work *w;
    int region;
    struct rt_region *r;
};

static enum rt_status place_outputs(struct building *b, int i)
{
    struct work *w = b->w;
    const struct rt_plan_step *n = sp_node(w, i);
    const struct rt_prepared *p = w->prepared[i - w->begin];
    enum rt_status st = RT_OK;
    for (int o = 0; o < n->n_out && !st; o++) {
        struct value *v = &w->value[n->first_value + o];
        const int end = w->region[b->region].last;
        const int last = v->leaves || v->last > end ? end : v->last > i ? v->last : i;
        size_t bytes;
        v->place = DEVICE;
        if (sp_lies_on_input(w, i, o, DEVICE, last))
            continue;
        if (!rt_prepared_bytes(p, o, &bytes))
            return sp_no_memory(w);
        st = sp_add_extent(w, true, bytes, i, last, &v->extent);
    }
    return st;
}

/* At the start of the region, copies a value from outside into the region's block. */
static enum rt_status bring_in(struct building *b, int v)
{
    struct work *w = b->w;
    struct value *x = &w->value[v];
    const struct region_nodes *nodes = &w->region[b->region];
    const int64_t n = rt_count(x->info.shape.rank, x->info.shape.dim);
    size_t bytes;
    if (x->copied_to == b->region)
        return RT_OK;
    if (n < 0 || __builtin_mul_overflow((size_t)n, rt_dtype_size(x->info.dtype), &bytes))
        return sp_no_memory(w);
    if (!sp_grow(&b->r->in, b->r->n_in, sizeof *b->r->in))
        return sp_no_memory(w);
    const int last = x->last < nodes->last ? x->last : nodes->last;
    enum rt_status st = sp_add_extent(w, true, bytes, nodes->first,
                                      last > nodes->first ? last : nodes->first, &x->copy);
    if (!st)
        st = sp_add_arg(w, v, false, SP_REFERENCE);
    if (st)
        return st;
    x->copied_to = b->region;
    b->r->in[b->r->n_in++] =
        (struct rt_crossing){.arg = w->l->n_args - 1, .value = -1, .extent = x->copy};
    return RT_OK;
}

static enum rt_status share(struct building *b, struct value *x, void **address)
{
    struct work *w = b->w;
    struct rt_region *r = b->r;
    if (!sp_grow(&r->shared, r->n_shared, sizeof *r->shared))
        return sp_no_memory(w);
    struct rt_upload **u = &r->shared[r->n_shared];
    const enum rt_status st = rt_upload_ref(w->plan->session, w->device, &x->tensor, u, w->err);
    if (!st) {
        *address = rt_upload_address(*u);
        r->n_shared++;
    }
    return st;
}

/* Sets *address to the constant's address in the accelerator's memory. A constant without a buffer,
 * or one computed for this specialisation, is uploaded for this region alone. */
static enum rt_status upload(struct building *b, struct value *x, void **address)
{
    struct work *w = b->w;
    const bool is_evaluated = x->made >= 0 && w->role[x->made - w->begin] == EVALUATED;
    if (!is_evaluated && x->tensor.buf)
        return share(b, x, address);
    if (!sp_grow(&b->r->upload, b->r->n_uploads, sizeof *b->r->upload))
        return sp_no_memory(w);
    struct rt_device_memory *own = &b->r->upload[b->r->n_uploads];
    const enum rt_status st = rt_upload_new(w->plan->session, w->device, &x->tensor, own, w->err);
    if (!st) {
        *address = own->address;
        b->r->n_uploads++;
    }
    return st;
}

static enum rt_status add_arg(struct building *b, int v)
{
    struct rt_region *r = b->r;
    if (!sp_grow(&r->arg, r->n_args, sizeof *r->arg) ||
        !sp_grow(&r->arg_kind, r->n_args, sizeof *r->arg_kind))
        return sp_no_memory(b->w);
    r->arg[r->n_args] = sp_tensor_of(b->w, v);
    r->arg_kind[r->n_args++] = RT_REGION_ACTIVATION;
    return RT_OK;
}

static enum rt_status add_input(struct building *b, int i, int k)
{
    struct work *w = b->w;
    const struct rt_prepared *p = w->prepared[i - w->begin];
    const int v = sp_node(w, i)->in_value[k], root = w->value[v].root;
    struct value *x = &w->value[root];
    const bool on_host = k < 64 && (p->kernel->host_in >> k & 1);
    const bool is_packed = k < 64 && (p->packed >> k & 1);
    enum rt_status st = add_arg(b, v);
    if (st)
        return st;
    const int a = b->r->n_args - 1;
    if (x->place == CONSTANT) {
        b->r->arg_kind[a] = on_host ? RT_REGION_HOST : RT_REGION_CONST;
        if (on_host) {
            st = rt_session_load_tensor(w->plan->session, &x->tensor, w->err);
            b->r->arg[a].data = x->tensor.data;
        } else if (!is_packed)
            st = upload(b, x, &b->r->arg[a].data);
        return st;
    }
    int extent = x->extent;
    if (x->place != DEVICE || x->region != b->region) {
        st = bring_in(b, root);
        extent = x->copy;
    }
    b->r->arg[a].data = (void *)(uintptr_t)extent; // NOLINT: `data` stores an extent's index
    return st;
}

static enum rt_status add_kernel(struct building *b, int i)
{
    struct work *w = b->w;
    struct rt_region *r = b->r;
    const struct rt_plan_step *n = sp_node(w, i);
    struct rt_prepared *p = w->prepared[i - w->begin];
    int scratch = -1;
    if (!sp_grow(&r->kernel, r->n_kernels, sizeof *r->kernel))
        return sp_no_memory(w);
    enum rt_status st = place_outputs(b, i);
    if (!st && p->scratch_bytes)
        st = sp_add_extent(w, true, p->scratch_bytes, i, i, &scratch);
    struct rt_region_kernel kernel = {.node = i, .scratch = scratch, .in = r->n_args};
    for (int k = 0; k < n->n_in && !st; k++)
        st = add_input(b, i, k);
    kernel.out = r->n_args;
    for (int o = 0; o < n->n_out && !st; o++) {
        st = add_arg(b, n->first_value + o);
        if (!st)
            r->arg[r->n_args - 1].data =
                (void *)(uintptr_t)w->value[n->first_value + o].extent; // NOLINT: as above
    }
    if (st)
        return st;
    kernel.prepared = p;
    w->prepared[i - w->begin] = NULL;
    r->kernel[r->n_kernels++] = kernel;
    return RT_OK;
}

/* At the end of the region, copies each value that leaves it into a separate tensor. */
static enum rt_status add_outputs(struct building *b)
{
    struct rt_region *r = b->r;
    for (int k = 0; k < r->n_kernels; k++) {
        const struct rt_plan_step *n = sp_node(b->w, r->kernel[k].node);
        for (int o = 0; o < n->n_out; o++) {
            const struct value *v = &b->w->value[n->first_value + o];
            if (!v->leaves)
                continue;
            if (!sp_grow(&r->out, r->n_out, sizeof *r->out))
                return sp_no_memory(b->w);
            r->out[r->n_out++] = (struct rt_crossing){.arg = r->kernel[k].out + o,
                                                      .value = n->first_value + o,
                                                      .extent = -1,
                                                      .to_host = v->to_host,
                                                      .stays = v->stays || !v->to_host};
        }
    }
    return RT_OK;
}

enum rt_status sp_add_region(struct work *w, int region)
{
    const struct region_nodes nodes = w->region[region];
    struct rt_specialisation *l = w->l;
    struct rt_step *s;
    if (!sp_grow(&l->region, l->n_regions, sizeof *l->region))
        return sp_no_memory(w);
    struct building b = {.w = w, .region = region, .r = &l->region[l->n_regions]};
    *b.r = (struct rt_region){0};
    enum rt_status st = sp_add_step(w, nodes.first, RT_STEP_REGION, &s);
    if (st)
        return st;
    s->region = l->n_regions++;
    const int step = l->n_steps - 1;
    for (int i = nodes.first; i <= nodes.last && !st; i++) {
        if (w->role[i - w->begin] != DEVICE_KERNEL)
            continue;
        w->step_of[i - w->begin] = step;
        st = add_kernel(&b, i);
    }
    if (!st)
        st = add_outputs(&b);
    /* Sets the slots of the views among the region's nodes. A view refers to the separate tensor
     * that the region makes of the viewed value. */
    for (int i = nodes.first; i <= nodes.last && !st; i++) {
        const enum role role = (enum role)w->role[i - w->begin];
        if ((role == VIEW || role == EVALUATED) && w->value[sp_node(w, i)->first_value].slot)
            st = sp_add_ref(w, i);
    }
    w->region[region].last_step = l->n_steps - 1;
    return st;
}

size_t sp_region_bytes(const struct rt_region *r)
{
    return sizeof *r + (size_t)r->n_kernels * (sizeof *r->kernel + sizeof(struct rt_region_step)) +
           (size_t)r->n_args * (2 * sizeof *r->arg + 1) +
           (size_t)(r->n_in + r->n_out) * sizeof(struct rt_crossing) +
           (size_t)r->n_shared * sizeof *r->shared;
}
