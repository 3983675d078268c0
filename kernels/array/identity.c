/* Ops that return a reference to their input and never copy it. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status pass(struct rt_run *r)
{
    for (int k = 0; k < r->n_out; k++)
        if (!r->out[k].data || r->out[k].data != r->in[k].data)
            rt_out_tensor(r, k, &r->in[k]);
    return RT_OK;
}

/* TensorFlow's Snapshot and DeepCopy copy the input. A reference is equivalent, because a tensor
 * that is not an alias of a variable does not change while it is read. */
static enum rt_status pass_copy(struct rt_run *r)
{
    const enum rt_status st = pass(r);

    r->out[0].alias_of = 0;
    return st;
}

static enum rt_status infer_each(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[k].shape;
    return RT_OK;
}

static void rows_each_own(struct rt_rows *r)
{
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = r->in_dep[k];
}

/* Defines the only kernel of an op. The kernel accepts all types and passes lazy values on without
 * loading them. */
#define PASS(op_, name_)                                                                           \
    KN_KERNELS({.op = (op_),                                                                       \
                .device = "CPU",                                                                   \
                .name = (name_),                                                                   \
                .flags = RT_K_LAZY | RT_K_VIEWS,                                                   \
                .run = pass})

#define SAME(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = infer_each, .rows = rows_each_own, .is_view = true},        \
        .kernels = PASS(op_, #symbol),                                                             \
    };
SAME(identity, "Identity")
SAME(guarantee_const, "GuaranteeConst")
SAME(identity_n, "IdentityN")
SAME(stop_gradient, "StopGradient")
SAME(prevent_gradient, "PreventGradient")
SAME(placeholder_with_default, "PlaceholderWithDefault")

#define COPY(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = infer_each, .rows = rows_each_own},                         \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .flags = RT_K_LAZY | RT_K_VIEWS,                                    \
                               .run = pass_copy}),                                                 \
    };
COPY(snapshot, "Snapshot")
COPY(deep_copy, "DeepCopy")

/* ---- EnsureShape ---- */

static enum rt_status ensure_infer(struct rt_infer *x)
{
    const struct rt_shape *want = rt_attr_shape(x->node, "shape"), *in = &x->in[0].shape;

    x->out[0].shape = *in;
    if (want->rank < 0 || !kn_shape_known(in))
        return RT_OK;
    bool fits = want->rank == in->rank;
    for (int i = 0; fits && i < in->rank; i++)
        fits = want->dim[i] < 0 || want->dim[i] == in->dim[i];
    if (fits)
        return RT_OK;
    return rt_fail(x->err, RT_INVALID_ARGUMENT,
                   "Shape of tensor %s %s is not compatible with expected shape %s.", "input",
                   KN_TEXT(in), KN_TEXT(want));
}

static enum rt_status ensure_run(struct rt_run *r)
{
    struct rt_info out;
    enum rt_status st = kn_infer_now(r, ensure_infer, &out);

    return st ? st : pass(r);
}

const struct kn_entry kn_ensure_shape = {
    .op = {.name = "EnsureShape", .infer = ensure_infer, .rows = rows_each_own, .is_view = true},
    .kernels = KN_KERNELS({.op = "EnsureShape",
                           .device = "CPU",
                           .name = "ensure_shape",
                           .flags = RT_K_LAZY | RT_K_VIEWS,
                           .run = ensure_run}),
};

/* ---- Print, PrintV2: kernels do not write to logs, so nothing is printed ---- */

static void rows_print(struct rt_rows *r)
{
    r->out_dep[0] = r->in_dep[0];
}

static enum rt_status print_v2_run(struct rt_run *r)
{
    const struct rt_span to = rt_attr_str(r->node, "output_stream");
    static const char *const known[] = {"stdout", "stderr", "log(info)", "log(warning)",
                                        "log(error)"};

    const bool is_file = to.n >= 7 && memcmp(to.p, "file://", 7) == 0;
    bool is_known = is_file && to.n > 7;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known = is_known || rt_span_is(to, known[i]);
    if (is_known && r->in[0].rank == 0)
        return RT_OK;
    if (is_known)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input is expected to be scalar, but got %s",
                       KN_TEXT(&r->in[0]));
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Unknown output stream: %.*s, Valid streams are: stdout stderr log(info) "
                   "log(warning) log(error)",
                   is_file ? 0 : (int)(to.n < 200 ? to.n : 200), (const char *)to.p);
}

const struct kn_entry kn_print = {
    .op = {.name = "Print", .effect = RT_IO, .infer = kn_infer_copy, .rows = rows_print},
    .kernels = PASS("Print", "print"),
};
const struct kn_entry kn_print_v2 = {
    .op = {.name = "PrintV2", .effect = RT_IO},
    .kernels = KN_CPU("PrintV2", "print_v2", 0, NULL, print_v2_run),
};
