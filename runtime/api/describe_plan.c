/* Describes a plan node by node. A description lists the nodes that remain after the passes, and
 * the places where the plan's specialisations store each node's inputs and outputs. */
#include "runtime/api/describe.h"

#include <string.h>

#include "runtime/plan/specialisation.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/core/op.h"

struct description {
    struct rt_arena *arena;
    struct rt_described_plan *out;
    int capacity;
    struct rt_error *err;
    int outer; /* index of the node whose sub-plan is being described */
    int skip;  /* number of the outer node's inputs that are not passed to the sub-plan as feeds */
};

static enum rt_status no_memory(const struct description *t)
{
    return rt_fail_memory(t->err, "the description of a plan", 0);
}

static void set_tensor(struct rt_described_value *v, const struct rt_tensor *t)
{
    v->dtype = (enum rt_dtype)t->dtype;
    v->shape.rank = t->rank;
    if (t->rank > 0)
        memcpy(v->shape.dim, t->dim, (size_t)t->rank * sizeof *t->dim);
}

/* Sets the location at which argument `a` of a specialisation is stored. */
static void set_arg(struct rt_described_value *v, const struct rt_specialisation *l, int a)
{
    set_tensor(v, &l->arg[a]);
    switch ((enum rt_arg_kind)l->arg_kind[a]) {
    case RT_ARG_CONST:
        v->where = RT_WHERE_CONSTANT;
        break;
    case RT_ARG_ACTIVATION:
        v->where = RT_WHERE_ACTIVATION;
        v->offset = l->extent[(uintptr_t)l->arg[a].data].offset;
        break;
    case RT_ARG_SLOT:
        v->where = RT_WHERE_OWN;
        break;
    }
}

static bool is_view(const struct rt_plan_step *n)
{
    return n->kind == PL_OP && n->def && n->def->op && n->def->op->is_view;
}

static const char *other_kernels(const struct description *t, const struct rt_plan_step *n,
                                 const char *chosen)
{
    const char *text = "";
    for (int k = 0; k < n->n_kernels && text; k++)
        if (!chosen || strcmp(n->kernels[k]->name, chosen) != 0)
            text = rt_arena_printf(t->arena, "%s%s%s", text, *text ? " " : "", n->kernels[k]->name);
    return text;
}

static void set_prepared(const struct description *t, struct rt_described_node *d,
                         const struct rt_plan *p, const struct rt_plan_step *n,
                         const struct rt_prepared *from)
{
    if (!from)
        return;
    d->kernel = from->kernel->name;
    /* A copy, because the kernel may be freed with its plan; without memory there is no reason. */
    d->why = from->why ? rt_arena_strdup(t->arena, from->why) : NULL;
    d->packed_bytes = from->packed_bytes;
    d->scratch_bytes = from->scratch_bytes;
    for (int k = 0; k < n->n_in && k < 64; k++)
        if ((from->packed >> k & 1) && p->constant[n->in_value[k]])
            d->plain_bytes += rt_tensor_bytes(p->constant[n->in_value[k]]);
    for (int o = 0; o < n->n_out; o++)
        if (d->out[o].shape.rank < 0 && from->rank[o] >= 0) {
            d->out[o].shape.rank = from->rank[o];
            memcpy(d->out[o].shape.dim, from->dim[o], sizeof *from->dim);
        }
}

static void set_step(const struct description *t, struct rt_described_node *d,
                     const struct rt_specialisation *l, const struct rt_step *s,
                     const struct rt_plan_step *n)
{
    d->is_step = s->kind != RT_STEP_REF && s->kind != RT_STEP_REGION;
    if (s->kind == RT_STEP_REF && n->n_in && n->n_out) {
        d->out[0].where = RT_WHERE_VIEW;
        d->out[0].dtype = d->in[0].dtype;
        d->out[0].shape = d->in[0].shape;
    }
    if (s->kind != RT_STEP_KERNEL)
        return;
    for (int k = 0; k < n->n_in; k++)
        set_arg(&d->in[k], l, s->in + k);
    for (int o = 0; o < n->n_out; o++) {
        set_arg(&d->out[o], l, s->out + o);
        for (int k = 0; k < n->n_in; k++)
            if (d->out[o].where == RT_WHERE_ACTIVATION &&
                l->arg_kind[s->in + k] == RT_ARG_ACTIVATION &&
                l->arg[s->in + k].data == l->arg[s->out + o].data)
                d->out[o].where = RT_WHERE_IN_PLACE;
        if (s->is_view)
            d->out[o].where = RT_WHERE_VIEW;
    }
    set_prepared(t, d, l->plan, n, s->prepared);
}

/* Describes node i if a region of the accelerator runs its kernel. */
static void set_region(const struct description *t, struct rt_described_node *d,
                       const struct rt_specialisation *l, const struct rt_plan_step *n, int i)
{
    for (int r = 0; r < l->n_regions; r++)
        for (int k = 0; k < l->region[r].n_kernels; k++) {
            const struct rt_region *region = &l->region[r];
            const struct rt_region_kernel *kernel = &region->kernel[k];
            if (kernel->node != i)
                continue;
            d->is_step = d->on_accelerator = true;
            for (int j = 0; j < n->n_in; j++)
                set_tensor(&d->in[j], &region->arg[kernel->in + j]);
            for (int o = 0; o < n->n_out; o++) {
                const struct rt_tensor *arg = &region->arg[kernel->out + o];
                set_tensor(&d->out[o], arg);
                d->out[o].where = RT_WHERE_DEVICE;
                d->out[o].offset = l->extent[(uintptr_t)arg->data].offset;
            }
            set_prepared(t, d, l->plan, n, kernel->prepared);
            return;
        }
}

static const char *name_of_value(const struct description *t, const struct rt_plan *p,
                                 struct pl_edge e)
{
    const char *name = p->node[e.node].name;
    if (!name)
        name = "";
    return e.out ? rt_arena_printf(t->arena, "%s:%d", name, e.out)
                 : rt_arena_strdup(t->arena, name);
}

/* Returns the name of the step that uses operand `operand` of a node's epilogue. The name of the
 * operand's own node may not identify the step: a constant that a fusion makes has the name of the
 * fused node. */
static const char *name_of_folded(const struct description *t, const char *fused, int operand)
{
    static const char *const with_operand[] = {"mul", "add", "residual", "residual_first"};
    for (const char *p = fused; operand >= 0 && *p;) {
        const size_t n = strcspn(p, " ");
        for (size_t i = 0; i < sizeof with_operand / sizeof *with_operand; i++)
            if (strlen(with_operand[i]) == n && memcmp(p, with_operand[i], n) == 0 && !operand--)
                return rt_arena_printf(t->arena, "(%.*s)", (int)n, p);
        p += n;
        p += *p == ' ';
    }
    return "(folded)";
}

/* Copies the known properties of the producer's output to the description of an input. */
static void set_from_giver(const struct description *t, const struct rt_plan *p, struct pl_edge e,
                           const int *described, struct rt_described_value *v)
{
    if (described[e.node] < 0)
        return;
    const struct rt_described_node *giver = &t->out->node[described[e.node]];
    if (e.out >= giver->n_out)
        return;
    const struct rt_described_value *from = &giver->out[e.out];
    if (v->shape.rank < 0)
        v->shape = from->shape;
    v->dtype = from->dtype;
    if (p->node[e.node].kind == PL_FEED) {
        v->where = RT_WHERE_FEED;
        v->feed = from->feed;
    }
}

static struct rt_described_node *add_node(struct description *t)
{
    struct rt_described_plan *out = t->out;
    if (out->n_nodes == t->capacity) {
        const int capacity = t->capacity ? t->capacity * 2 : 256;
        struct rt_described_node *more = rt_arena_array(t->arena, (size_t)capacity, sizeof *more);
        if (!more)
            return NULL;
        if (out->n_nodes)
            memcpy(more, out->node, (size_t)out->n_nodes * sizeof *more);
        out->node = more;
        t->capacity = capacity;
    }
    return &out->node[out->n_nodes++];
}

static double flops_of(const struct description *t, const struct rt_plan_step *n,
                       const struct rt_described_node *d)
{
    struct rt_trace_output *x =
        rt_arena_array(t->arena, (size_t)(n->n_in + n->n_out) + 1, sizeof *x);
    bool known = x && n->def;
    for (int k = 0; k < n->n_in + n->n_out && known; k++) {
        const struct rt_described_value *v = k < n->n_in ? &d->in[k] : &d->out[k - n->n_in];
        x[k] = (struct rt_trace_output){v->dtype, v->shape};
        known = v->shape.rank >= 0;
    }
    return known ? rt_node_flops(n->def, x, n->n_in, x + n->n_in, n->n_out) : 0;
}

/* Returns the type of a feed. In a loop or branch, the feed has the type of the enclosing node's
 * input. */
static enum rt_dtype feed_dtype(const struct description *t, const struct rt_plan *p, int feed,
                                int depth)
{
    const struct rt_described_node *outer = depth ? &t->out->node[t->outer] : NULL;
    return !outer                         ? (enum rt_dtype)p->feed_dtype[feed]
           : feed + t->skip < outer->n_in ? outer->in[feed + t->skip].dtype
                                          : (enum rt_dtype)0;
}

/* Returns the reason why the CPU runs a step although the session has an accelerator, or NULL. */
static const char *why_on_cpu(const struct rt_plan *p, const struct rt_plan_step *n,
                              const struct rt_described_node *d, const struct rt_specialisation *l)
{
    if (!p->session->options.accelerators.n || !d->is_step || d->on_accelerator)
        return NULL;
    if (n->kind != PL_OP)
        return "control flow";
    if (n->effect != RT_PURE)
        return "the op has state or effects";
    if (!n->on_accelerator)
        return "the GPU has no kernel for this op and these types";
    return l ? "no kernel of the GPU takes these shapes and attributes"
             : "its shapes are not known before the run";
}

static enum rt_status describe_node(struct description *t, struct rt_plan *p, int i, int depth,
                                    const struct rt_specialisation *l, const struct rt_step *step,
                                    int *described)
{
    const struct rt_plan_step *n = &p->node[i];
    const int base = n->def ? n->def->schema->n_in : 0;
    described[i] = t->out->n_nodes;
    struct rt_described_node *d = add_node(t);
    if (!d)
        return no_memory(t);
    *d = (struct rt_described_node){.name = rt_arena_strdup(t->arena, n->name ? n->name : ""),
                                    .op = rt_trace_op(n),
                                    .depth = depth,
                                    .segment = -1};
    d->n_in = n->n_in;
    d->n_out = n->n_out;
    d->in = rt_arena_array(t->arena, (size_t)(n->n_in + n->n_out) + 1, sizeof *d->in);
    const char *fused = rt_node_fused(n->def, t->arena);
    d->fused = fused ? rt_arena_strdup(t->arena, fused) : NULL;
    if (!d->name || !d->in || !d->fused)
        return no_memory(t);
    d->out = d->in + n->n_in;
    for (int k = 0; k < n->n_in + n->n_out; k++)
        d->in[k].shape.rank = -1;
    for (int k = 0; k < n->n_in; k++) {
        const struct rt_tensor *value = p->constant[n->in_value[k]];
        const char *giver = p->node[n->in[k].node].name;
        d->in[k].from = value && giver && n->name && strcmp(giver, n->name) == 0
                            ? name_of_folded(t, d->fused, k - base)
                            : name_of_value(t, p, n->in[k]);
        set_from_giver(t, p, n->in[k], described, &d->in[k]);
        if (value) {
            set_tensor(&d->in[k], value);
            d->in[k].where = RT_WHERE_CONSTANT;
        }
        if (!d->in[k].from)
            return no_memory(t);
    }
    for (int o = 0; o < n->n_out; o++) {
        const struct rt_tensor *value = p->constant[n->first_value + o];
        if (value)
            set_tensor(&d->out[o], value);
        else if (n->def)
            d->out[o].dtype = (enum rt_dtype)n->def->out_dtype[o];
        d->out[o].where = value                ? RT_WHERE_CONSTANT
                          : n->kind == PL_FEED ? RT_WHERE_FEED
                                               : RT_WHERE_UNKNOWN;
        if (value)
            t->out->constant_bytes += rt_tensor_bytes(value);
        if (n->kind == PL_FEED) {
            d->out[o].dtype = feed_dtype(t, p, n->feed, depth);
            d->out[o].feed = n->feed;
        }
    }
    d->is_step = n->kind != PL_CONST && n->kind != PL_FEED && (n->kind != PL_OP || n->def);
    if (l) {
        d->segment = t->out->n_segments;
        d->is_step = false;
        for (int o = 0; o < n->n_out && !step && is_view(n); o++)
            d->out[o].where = RT_WHERE_VIEW;
    }
    if (step)
        set_step(t, d, l, step, n);
    if (l && n->on_accelerator)
        set_region(t, d, l, n, i);
    if (!d->kernel && d->is_step && n->prepared)
        set_prepared(t, d, p, n, rt_prepared_last(n->prepared));
    d->why_on_cpu = why_on_cpu(p, n, d, l);
    d->others = other_kernels(t, n, d->kernel);
    d->flops = flops_of(t, n, d);
    return d->others ? RT_OK : no_memory(t);
}

static enum rt_status describe_all(struct description *t, struct rt_plan *p, int depth)
{
    int *described = rt_arena_array(t->arena, (size_t)p->n_nodes + 1, sizeof *described);
    enum rt_status st = described ? RT_OK : no_memory(t);
    for (int i = 0; i < p->n_nodes && described; i++)
        described[i] = -1;
    for (int i = 0; i < p->n_nodes && !st;) {
        struct rt_specialisation *l = rt_segment_last(p, i);
        const int end = l ? l->end : i + 1;
        int step = 0;
        for (; i < end && !st; i++) {
            while (l && step < l->n_steps && l->step[step].node < i)
                step++;
            const bool has = l && step < l->n_steps && l->step[step].node == i;
            if (p->node[i].kind == PL_GONE)
                continue;
            st = describe_node(t, p, i, depth, l, has ? &l->step[step] : NULL, described);
            for (int k = 0; k < p->node[i].n_sub && !st; k++)
                if (p->node[i].sub[k]) {
                    const int outer = t->outer, skip = t->skip;
                    t->outer = described[i];
                    t->skip = p->node[i].kind == PL_IF || p->node[i].kind == PL_CASE;
                    st = describe_all(t, p->node[i].sub[k], depth + 1);
                    t->outer = outer;
                    t->skip = skip;
                }
        }
        if (l) {
            t->out->n_segments++;
            if (l->activation_bytes > t->out->activation_bytes)
                t->out->activation_bytes = l->activation_bytes;
        }
        rt_specialisation_unref(l);
    }
    return st;
}

enum rt_status rt_plan_describe(struct rt_plan *p, struct rt_arena *arena,
                                struct rt_described_plan *out, struct rt_error *err)
{
    struct description t = {.arena = arena, .out = out, .err = err};
    *out = (struct rt_described_plan){0};
    return describe_all(&t, p, 0);
}
