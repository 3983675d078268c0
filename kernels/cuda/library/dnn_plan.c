#include "kernels/cuda/library/dnn_plan.h"

#include <stdlib.h>

enum {
    MOST_RANK = KN_MAX_SPATIAL + 2,
    MOST_OPERATIONS = 4,
    MOST_CONFIGS = 64, /* maximum number of proposals that are tried for each heuristic mode */
    ALIGNMENT = 16,    /* alignment of all tensors, in bytes */
};

/* A plan that is being made. After one step has failed, the following steps do nothing. */
struct builder {
    const struct dnn_library *d;
    void *device;
    const struct dnn_conv *conv;
    struct dnn_plan *plan; /* owns the descriptors made so far */
    void *operation[MOST_OPERATIONS];
    int n_operations;
    int64_t next_id; /* identifier of the next tensor that is not in memory */
    enum rt_status st;
    struct rt_error *err;
};

static void check(struct builder *b, int status, const char *what)
{
    if (status != DNN_OK && !b->st)
        b->st = dnn_fail(b->d, status, what, b->err);
}

/* Makes a descriptor that lives as long as the plan. */
static void *make(struct builder *b, enum dnn_kind kind, const char *what)
{
    void *made = NULL;
    struct dnn_plan *p = b->plan;
    if (b->st)
        return NULL;
    if (p->n_parts == DNN_MOST_PARTS) {
        b->st = rt_fail(b->err, RT_INTERNAL, "%s: a plan has too many parts", what);
        return NULL;
    }
    check(b, b->d->BackendCreateDescriptor((int)kind, &made), what);
    if (!b->st)
        p->part[p->n_parts++] = made;
    return made;
}

static void set(struct builder *b, void *descriptor, enum dnn_attribute attribute,
                enum dnn_type type, int64_t n, const void *values, const char *what)
{
    if (!b->st)
        check(b, b->d->BackendSetAttribute(descriptor, (int)attribute, (int)type, n, values), what);
}

static void set_int(struct builder *b, void *descriptor, enum dnn_attribute attribute,
                    enum dnn_type type, int value, const char *what)
{
    set(b, descriptor, attribute, type, 1, &value, what);
}

static void set_descriptor(struct builder *b, void *descriptor, enum dnn_attribute attribute,
                           void *value, const char *what)
{
    set(b, descriptor, attribute, DNN_TYPE_DESCRIPTOR, 1, (const void *)&value, what);
}

static void finish(struct builder *b, void *descriptor, const char *what)
{
    if (!b->st)
        check(b, b->d->BackendFinalize(descriptor), what);
}

/* ---- the operation graph ---- */

static enum dnn_data_type type_of(enum kc_precision precision)
{
    return precision == KC_FP16 ? DNN_HALF : precision == KC_BF16 ? DNN_BFLOAT16 : DNN_FLOAT;
}

/* cuDNN lists the dimensions of all tensors in the order batch, channels, spatial axes. With these
 * strides, the channels are innermost in memory. */
static void *make_tensor(struct builder *b, int64_t id, enum dnn_data_type type, bool is_virtual,
                         const int64_t dim[MOST_RANK])
{
    static const char what[] = "a tensor of cuDNN";
    const int rank = b->conv->n_spatial + 2;
    const int64_t alignment = ALIGNMENT;
    int64_t stride[MOST_RANK];
    void *t = make(b, DNN_TENSOR, what);
    int64_t step = dim[1];
    stride[1] = 1;
    for (int i = rank - 1; i >= 2; i--) {
        stride[i] = step;
        step *= dim[i];
    }
    stride[0] = step;
    set_int(b, t, DNN_TENSOR_TYPE, DNN_TYPE_DATA_TYPE, (int)type, what);
    set(b, t, DNN_TENSOR_DIMENSIONS, DNN_TYPE_INT64, rank, dim, what);
    set(b, t, DNN_TENSOR_STRIDES, DNN_TYPE_INT64, rank, stride, what);
    set(b, t, DNN_TENSOR_ID, DNN_TYPE_INT64, 1, &id, what);
    set(b, t, DNN_TENSOR_ALIGNMENT, DNN_TYPE_INT64, 1, &alignment, what);
    set(b, t, DNN_TENSOR_IS_VIRTUAL, DNN_TYPE_BOOL, 1, &is_virtual, what);
    finish(b, t, what);
    return t;
}

/* Makes the descriptor of tensor `which`, whose address dnn_plan_run receives. */
static void *make_named(struct builder *b, enum dnn_tensor which)
{
    const struct dnn_conv *c = b->conv;
    int64_t dim[MOST_RANK] = {
        which == DNN_W      ? c->co
        : which == DNN_BIAS ? 1
                            : c->batch,
        which == DNN_W   ? c->ci / c->groups
        : which == DNN_X ? c->ci
                         : c->co,
    };
    for (int i = 0; i < c->n_spatial; i++)
        dim[2 + i] = which == DNN_X      ? c->axis[i].in
                     : which == DNN_W    ? c->axis[i].size
                     : which == DNN_BIAS ? 1
                                         : c->axis[i].out;
    b->plan->has[which] = true;
    return make_tensor(b, (int64_t)which, type_of(c->precision), false, dim);
}

/* Makes the output of an operation. The last operation writes y. The output of every other
 * operation is a tensor that is not in memory. */
static void *make_result(struct builder *b, bool is_last)
{
    const struct dnn_conv *c = b->conv;
    int64_t dim[MOST_RANK] = {c->batch, c->co};
    if (is_last)
        return make_named(b, DNN_Y);
    for (int i = 0; i < c->n_spatial; i++)
        dim[2 + i] = c->axis[i].out;
    return make_tensor(b, b->next_id++, DNN_FLOAT, true, dim);
}

static void *add_convolution(struct builder *b, bool is_last)
{
    static const char what[] = "a convolution of cuDNN";
    const struct dnn_conv *c = b->conv;
    const float one = 1, zero = 0;
    const int64_t n = c->n_spatial;
    int64_t stride[KN_MAX_SPATIAL], dilation[KN_MAX_SPATIAL], lo[KN_MAX_SPATIAL],
        hi[KN_MAX_SPATIAL];
    void *conv = make(b, DNN_CONVOLUTION, what);
    for (int i = 0; i < c->n_spatial; i++) {
        stride[i] = c->axis[i].stride;
        dilation[i] = c->axis[i].dilation;
        lo[i] = c->axis[i].lo;
        hi[i] = c->axis[i].hi;
    }
    set_int(b, conv, DNN_CONVOLUTION_COMPUTE_TYPE, DNN_TYPE_DATA_TYPE, DNN_FLOAT, what);
    set_int(b, conv, DNN_CONVOLUTION_MODE, DNN_TYPE_CONVOLUTION_MODE, DNN_CROSS_CORRELATION, what);
    set(b, conv, DNN_CONVOLUTION_SPATIAL_DIMS, DNN_TYPE_INT64, 1, &n, what);
    set(b, conv, DNN_CONVOLUTION_STRIDES, DNN_TYPE_INT64, n, stride, what);
    set(b, conv, DNN_CONVOLUTION_DILATIONS, DNN_TYPE_INT64, n, dilation, what);
    set(b, conv, DNN_CONVOLUTION_PRE_PADDINGS, DNN_TYPE_INT64, n, lo, what);
    set(b, conv, DNN_CONVOLUTION_POST_PADDINGS, DNN_TYPE_INT64, n, hi, what);
    finish(b, conv, what);
    void *x = make_named(b, DNN_X), *w = make_named(b, DNN_W), *y = make_result(b, is_last);
    void *op = make(b, DNN_CONVOLUTION_OPERATION, what);
    set_descriptor(b, op, DNN_CONVOLUTION_OPERATION_CONVOLUTION, conv, what);
    set_descriptor(b, op, DNN_CONVOLUTION_OPERATION_X, x, what);
    set_descriptor(b, op, DNN_CONVOLUTION_OPERATION_W, w, what);
    set_descriptor(b, op, DNN_CONVOLUTION_OPERATION_Y, y, what);
    set(b, op, DNN_CONVOLUTION_OPERATION_ALPHA, DNN_TYPE_FLOAT, 1, &one, what);
    set(b, op, DNN_CONVOLUTION_OPERATION_BETA, DNN_TYPE_FLOAT, 1, &zero, what);
    finish(b, op, what);
    b->operation[b->n_operations++] = op;
    return y;
}

/* Adds an element-wise operation on x and, if `other` is not NULL, on the tensor `other`. */
static void *add_pointwise(struct builder *b, enum dnn_pointwise_mode mode, void *x, void *other,
                           bool is_last)
{
    static const char what[] = "an epilogue of cuDNN";
    void *pointwise = make(b, DNN_POINTWISE, what);
    set_int(b, pointwise, DNN_POINTWISE_MODE, DNN_TYPE_POINTWISE_MODE, (int)mode, what);
    set_int(b, pointwise, DNN_POINTWISE_PRECISION, DNN_TYPE_DATA_TYPE, DNN_FLOAT, what);
    finish(b, pointwise, what);
    void *y = make_result(b, is_last), *op = make(b, DNN_POINTWISE_OPERATION, what);
    set_descriptor(b, op, DNN_POINTWISE_OPERATION_POINTWISE, pointwise, what);
    set_descriptor(b, op, DNN_POINTWISE_OPERATION_X, x, what);
    if (other)
        set_descriptor(b, op, DNN_POINTWISE_OPERATION_B, other, what);
    set_descriptor(b, op, DNN_POINTWISE_OPERATION_Y, y, what);
    finish(b, op, what);
    b->operation[b->n_operations++] = op;
    return y;
}

/* Makes the graph of operations. The residual is added before the bias: if the bias came first,
 * cuDNN would offer only engines that are compiled at run time. */
static void *make_graph(struct builder *b)
{
    static const char what[] = "a graph of cuDNN";
    const struct dnn_conv *c = b->conv;
    void *y = add_convolution(b, !c->has_residual && !c->has_bias && !c->has_relu);
    if (c->has_residual)
        y = add_pointwise(b, DNN_ADD, y, make_named(b, DNN_RESIDUAL), !c->has_bias && !c->has_relu);
    if (c->has_bias)
        y = add_pointwise(b, DNN_ADD, y, make_named(b, DNN_BIAS), !c->has_relu);
    if (c->has_relu)
        add_pointwise(b, DNN_RELU, y, NULL, true);
    void *graph = make(b, DNN_GRAPH, what);
    set(b, graph, DNN_GRAPH_OPERATIONS, DNN_TYPE_DESCRIPTOR, b->n_operations,
        (const void *)b->operation, what);
    finish(b, graph, what);
    return graph;
}

/* ---- the engine ---- */

/* Reads the notes of a config's engine. Returns false if cuDNN does not provide them. */
static bool read_notes(struct builder *b, void *config)
{
    const struct dnn_library *d = b->d;
    int note[DNN_N_NOTES] = {0}, behavior[DNN_N_BEHAVIOR_NOTES] = {0};
    int64_t n = 0, n_behavior = 0, got = 0;
    void *engine = NULL;
    if (d->BackendCreateDescriptor(DNN_ENGINE, &engine) != DNN_OK)
        return false;
    const bool is_known =
        d->BackendGetAttribute(config, DNN_CONFIG_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &got,
                               (void *)&engine) == DNN_OK &&
        d->BackendGetAttribute(engine, DNN_ENGINE_INDEX, DNN_TYPE_INT64, 1, &got,
                               &b->plan->engine) == DNN_OK &&
        d->BackendGetAttribute(engine, DNN_ENGINE_NUMERICAL_NOTES, DNN_TYPE_NUMERICAL_NOTE,
                               DNN_N_NOTES, &n, note) == DNN_OK &&
        d->BackendGetAttribute(engine, DNN_ENGINE_BEHAVIOR_NOTES, DNN_TYPE_BEHAVIOR_NOTE,
                               DNN_N_BEHAVIOR_NOTES, &n_behavior, behavior) == DNN_OK;
    b->plan->notes = 0;
    b->plan->is_compiled = false;
    for (int64_t k = 0; is_known && k < n && k < DNN_N_NOTES; k++)
        b->plan->notes |= 1u << note[k];
    for (int64_t k = 0; is_known && k < n_behavior && k < DNN_N_BEHAVIOR_NOTES; k++)
        b->plan->is_compiled |= behavior[k] == DNN_NOTE_RUNTIME_COMPILATION;
    d->BackendDestroyDescriptor(engine);
    return is_known;
}

/* Returns whether an engine with the given notes meets the requirements of dnn_plan_new. */
static bool is_allowed(unsigned notes, enum kc_precision precision)
{
    const unsigned refused = 1u << DNN_NOTE_DOWN_CONVERT | 1u << DNN_NOTE_REDUCED_REDUCTION |
                             1u << DNN_NOTE_FFT | 1u << DNN_NOTE_NONDETERMINISTIC |
                             1u << DNN_NOTE_WINOGRAD_6X6 | 1u << DNN_NOTE_WINOGRAD_13X13;
    return !(notes & refused) && (precision != KC_FLOAT32 || !(notes & 1u << DNN_NOTE_TENSOR_CORE));
}

/* Finalises the plan of a config. Returns false if cuDNN refuses it or its workspace is too
 * large. */
static bool try_config(struct builder *b, void *config)
{
    const struct dnn_library *d = b->d;
    struct dnn_plan *p = b->plan;
    void *made = NULL;
    int64_t bytes = 0, n = 0;
    if (!read_notes(b, config) || p->is_compiled || !is_allowed(p->notes, b->conv->precision) ||
        d->BackendCreateDescriptor(DNN_PLAN, &made) != DNN_OK)
        return false;
    if (d->BackendSetAttribute(made, DNN_PLAN_CONFIG, DNN_TYPE_DESCRIPTOR, 1,
                               (const void *)&config) == DNN_OK &&
        d->BackendSetAttribute(made, DNN_PLAN_DEVICE, DNN_TYPE_DESCRIPTOR, 1,
                               (const void *)&b->device) == DNN_OK &&
        d->BackendFinalize(made) == DNN_OK &&
        d->BackendGetAttribute(made, DNN_PLAN_WORKSPACE_BYTES, DNN_TYPE_INT64, 1, &n, &bytes) ==
            DNN_OK &&
        bytes >= 0 && bytes <= DNN_MOST_WORKSPACE) {
        p->workspace_bytes = (size_t)bytes;
        p->plan = made;
        return true;
    }
    d->BackendDestroyDescriptor(made);
    return false;
}

/* Asks a heuristic of cuDNN for configs, and sets the plan to the first one that can be used. */
static void try_heuristic(struct builder *b, void *graph, enum dnn_heuristic_mode mode)
{
    static const char what[] = "a heuristic of cuDNN";
    const struct dnn_library *d = b->d;
    void *heuristic = make(b, DNN_HEURISTIC, what), *config[MOST_CONFIGS];
    int64_t n = 0;
    int n_made = 0;
    set_descriptor(b, heuristic, DNN_HEURISTIC_GRAPH, graph, what);
    set_int(b, heuristic, DNN_HEURISTIC_MODE, DNN_TYPE_HEURISTIC_MODE, (int)mode, what);
    set_descriptor(b, heuristic, DNN_HEURISTIC_DEVICE, b->device, what);
    /* cuDNN cannot finalise a heuristic that has no engine for the graph. */
    if (b->st || d->BackendFinalize(heuristic) != DNN_OK)
        return;
    while (n_made < MOST_CONFIGS &&
           d->BackendCreateDescriptor(DNN_CONFIG, &config[n_made]) == DNN_OK)
        n_made++;
    if (d->BackendGetAttribute(heuristic, DNN_HEURISTIC_RESULTS, DNN_TYPE_DESCRIPTOR, n_made, &n,
                               (void *)config) != DNN_OK)
        n = 0;
    for (int k = 0; k < n_made; k++) {
        if (k < n && !b->plan->plan && try_config(b, config[k]))
            b->plan->part[b->plan->n_parts++] = config[k];
        else
            d->BackendDestroyDescriptor(config[k]);
    }
}

enum rt_status dnn_plan_new(const struct dnn_library *d, void *device, const struct dnn_conv *conv,
                            struct dnn_plan **out, struct rt_error *err)
{
    struct dnn_plan *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return rt_fail_memory(err, "a plan of cuDNN", sizeof *p);
    p->library = d;
    struct builder b = {
        .d = d, .device = device, .conv = conv, .plan = p, .next_id = DNN_N_TENSORS, .err = err};
    void *graph = make_graph(&b);
    try_heuristic(&b, graph, DNN_HEURISTIC_A);
    if (!p->plan)
        try_heuristic(&b, graph, DNN_HEURISTIC_FALLBACK);
    if (b.st || !p->plan) {
        dnn_plan_free(p);
        /* cuDNN refuses convolutions that it cannot compute, for example because the tensors are
         * too large. */
        if (b.st)
            err->code = RT_FAILED_PRECONDITION;
        return b.st ? RT_FAILED_PRECONDITION
                    : rt_fail(err, RT_FAILED_PRECONDITION,
                              "cuDNN has no precompiled engine for the convolution");
    }
    *out = p;
    return RT_OK;
}

void dnn_plan_free(struct dnn_plan *p)
{
    if (!p)
        return;
    if (p->plan)
        p->library->BackendDestroyDescriptor(p->plan);
    while (p->n_parts)
        p->library->BackendDestroyDescriptor(p->part[--p->n_parts]);
    free(p);
}

/* ---- devices ---- */

static enum rt_status device_new(const struct dnn_library *d, enum dnn_attribute attribute,
                                 enum dnn_type type, int64_t n, const void *values, void **out,
                                 struct rt_error *err)
{
    void *device = NULL;
    *out = NULL;
    int status = d->BackendCreateDescriptor(DNN_DEVICE, &device);
    if (status == DNN_OK)
        status = d->BackendSetAttribute(device, (int)attribute, (int)type, n, values);
    if (status == DNN_OK)
        status = d->BackendFinalize(device);
    if (status != DNN_OK) {
        const enum rt_status st = dnn_fail(d, status, "the GPU's properties for cuDNN", err);
        dnn_device_free(d, device);
        return st;
    }
    *out = device;
    return RT_OK;
}

enum rt_status dnn_device_of(const struct dnn_library *d, struct cudnnContext *handle, void **out,
                             struct rt_error *err)
{
    return device_new(d, DNN_DEVICE_HANDLE, DNN_TYPE_HANDLE, 1, (const void *)&handle, out, err);
}

enum rt_status dnn_device_read(const struct dnn_library *d, const char *json, size_t bytes,
                               void **out, struct rt_error *err)
{
    return device_new(d, DNN_DEVICE_JSON, DNN_TYPE_CHAR, (int64_t)bytes, json, out, err);
}

void dnn_device_free(const struct dnn_library *d, void *device)
{
    if (device)
        d->BackendDestroyDescriptor(device);
}

/* ---- running ---- */

enum rt_status dnn_plan_run(const struct dnn_plan *p, struct cudnnContext *handle,
                            const void *const address[DNN_N_TENSORS], void *workspace,
                            struct rt_error *err)
{
    const struct dnn_library *d = p->library;
    int64_t id[DNN_N_TENSORS];
    const void *pointer[DNN_N_TENSORS];
    void *pack = NULL;
    int n = 0;
    for (int k = 0; k < DNN_N_TENSORS; k++)
        if (p->has[k]) {
            id[n] = k;
            pointer[n++] = address[k];
        }
    int status = d->BackendCreateDescriptor(DNN_VARIANT_PACK, &pack);
    if (status == DNN_OK)
        status = d->BackendSetAttribute(pack, DNN_PACK_IDS, DNN_TYPE_INT64, n, id);
    if (status == DNN_OK)
        status = d->BackendSetAttribute(pack, DNN_PACK_POINTERS, DNN_TYPE_POINTER, n,
                                        (const void *)pointer);
    if (status == DNN_OK)
        status = d->BackendSetAttribute(pack, DNN_PACK_WORKSPACE, DNN_TYPE_POINTER, 1,
                                        (const void *)&workspace);
    if (status == DNN_OK)
        status = d->BackendFinalize(pack);
    if (status == DNN_OK)
        status = d->BackendExecute(handle, p->plan, pack);
    const enum rt_status st =
        status == DNN_OK ? RT_OK : dnn_fail(d, status, "a convolution by cuDNN", err);
    if (pack)
        d->BackendDestroyDescriptor(pack);
    return st;
}
