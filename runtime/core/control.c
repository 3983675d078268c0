/*
 * Ops that the runtime itself implements: placeholders, constants, arguments, NoOps and control
 * flow (calls, branches, loops). Passes replace calls and branches, so this file only declares
 * these ops and their possible effects. A stateful call has the effect RT_IO until a pass has
 * examined its body.
 */
#include "runtime/core/control.h"
#include "runtime/core/op.h"
#include "runtime/plan/plan.h"

static enum rt_status infer_nothing(struct rt_infer *x)
{
    (void)x;
    return RT_OK;
}

static enum rt_status run_nothing(struct rt_run *r)
{
    (void)r;
    return RT_OK;
}

static enum rt_status run_placeholder(struct rt_run *r)
{
    const struct rt_shape *s = rt_attr_shape(r->node, "shape");
    char text[200];
    if (s && s->rank >= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "You must feed a value for placeholder tensor '%s' with dtype %s and shape "
                       "%s",
                       r->node->name, rt_dtype_name((enum rt_dtype)r->node->out_dtype[0]),
                       rt_shape_text(text, sizeof text, s->rank, s->dim));
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "You must feed a value for placeholder tensor '%s' with dtype %s", r->node->name,
                   rt_dtype_name((enum rt_dtype)r->node->out_dtype[0]));
}

static enum rt_status run_unplanned(struct rt_run *r)
{
    return rt_fail(r->err, RT_INTERNAL, "%s was not taken apart by the plan", r->node->name);
}

static enum rt_status check_map(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *types = rt_attr(n, "output_types"), *shapes = rt_attr(n, "output_shapes");

    return types->n == shapes->n
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT,
                         "`output_shapes` must be the same length as `output_types` (%zu vs. %zu)",
                         shapes->n, types->n);
}

struct row {
    struct rt_op op;
    struct rt_kernel kernel;
};

#define CHECKED_ROW(NAME, EFFECT, CHECK, INFER, RUN)                                               \
    {                                                                                              \
        .op = {.name = NAME, .effect = EFFECT, .check = CHECK, .infer = INFER}, .kernel = {        \
            .op = NAME,                                                                            \
            .device = "CPU",                                                                       \
            .name = "control",                                                                     \
            .run = RUN,                                                                            \
            .flags = RT_K_LAZY                                                                     \
        }                                                                                          \
    }

#define ROW(NAME, EFFECT, INFER, RUN) CHECKED_ROW(NAME, EFFECT, NULL, INFER, RUN)

static const struct row rows[] = {
    ROW("NoOp", RT_PURE, infer_nothing, run_nothing),
    ROW("ControlTrigger", RT_PURE, infer_nothing, run_nothing),
    ROW("Const", RT_PURE, NULL, run_unplanned),
    ROW("HostConst", RT_PURE, NULL, run_unplanned),
    ROW("Placeholder", RT_IO, NULL, run_placeholder),
    ROW("PlaceholderV2", RT_IO, NULL, run_placeholder),
    ROW("_Arg", RT_PURE, NULL, run_unplanned),
    ROW("PartitionedCall", RT_PURE, NULL, run_unplanned),
    ROW("StatefulPartitionedCall", RT_IO, NULL, run_unplanned),
    ROW("StatelessIf", RT_PURE, NULL, run_unplanned),
    ROW("If", RT_IO, NULL, run_unplanned),
    ROW("StatelessCase", RT_PURE, NULL, run_unplanned),
    ROW("Case", RT_IO, NULL, run_unplanned),
    ROW("StatelessWhile", RT_PURE, NULL, run_unplanned),
    ROW("While", RT_IO, NULL, run_unplanned),
    ROW("For", RT_PURE, NULL, run_unplanned),
    CHECKED_ROW("MapDefun", RT_PURE, check_map, NULL, run_unplanned),
    ROW("BatchFunction", RT_IO, NULL, run_unplanned),
    /* TensorFlow 1's control flow ops. The token executor moves their tensors itself, without
     * kernels. */
    ROW("Switch", RT_PURE, NULL, run_unplanned),
    ROW("RefSwitch", RT_PURE, NULL, run_unplanned),
    ROW("Merge", RT_PURE, NULL, run_unplanned),
    ROW("RefMerge", RT_PURE, NULL, run_unplanned),
    ROW("Enter", RT_PURE, NULL, run_unplanned),
    ROW("RefEnter", RT_PURE, NULL, run_unplanned),
    ROW("Exit", RT_PURE, NULL, run_unplanned),
    ROW("RefExit", RT_PURE, NULL, run_unplanned),
    ROW("NextIteration", RT_PURE, NULL, run_unplanned),
    ROW("RefNextIteration", RT_PURE, NULL, run_unplanned),
    ROW("LoopCond", RT_PURE, NULL, run_unplanned),
};

bool rt_register_control(struct rt_registry *r)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rt_registry_add_op(r, &rows[i].op) || !rt_registry_add_kernel(r, &rows[i].kernel))
            return false;
    return true;
}

bool pl_truth(const struct rt_tensor *t, bool *truth)
{
    if (t->rank > 0) {
        *truth = rt_tensor_count(t) > 0;
        return true;
    }
    switch (t->dtype) {
#define CASE(D, T)                                                                                 \
    case D:                                                                                        \
        *truth = *(const T *)t->data != 0;                                                         \
        return true;
        CASE(RT_BOOL, uint8_t)
        CASE(RT_I8, int8_t)
        CASE(RT_U8, uint8_t)
        CASE(RT_I16, int16_t)
        CASE(RT_U16, uint16_t)
        CASE(RT_I32, int32_t)
        CASE(RT_U32, uint32_t)
        CASE(RT_I64, int64_t)
        CASE(RT_U64, uint64_t)
        CASE(RT_F32, float)
        CASE(RT_F64, double)
#undef CASE
    case RT_STRING:
        *truth = rt_strs(t)->n > 0;
        return true;
    default:
        return false;
    }
}

int pl_n_sliced(const struct rt_node *n)
{
    const char *op = n && n->schema ? n->schema->name : "";
    const struct rt_attr *types = strcmp(op, "MapDefun") == 0        ? rt_attr(n, "Targuments")
                                  : strcmp(op, "BatchFunction") == 0 ? rt_attr(n, "Tin")
                                                                     : NULL;
    return types ? (int)types->n : 0;
}

bool pl_is_token(const struct rt_node *n)
{
    static const char *const names[] = {"Switch", "Merge",         "Enter",
                                        "Exit",   "NextIteration", "LoopCond"};
    const char *op = n->schema ? n->schema->name : "";
    if (strncmp(op, "Ref", 3) == 0)
        op += 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}
