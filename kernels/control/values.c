/* ToBool, Timestamp, DeviceIndex and FakeParam. Their outputs select branches, or replace inputs
 * that a branch does not use. */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/clock.h"

/* ---- ToBool ---- */

/* The types of the scalars that ToBool converts, as in TensorFlow. */
#define BOOLEAN                                                                                    \
    (KN_SET(KN_SIGNED) | KN_SET(KN_FLOATS) | RT_T(RT_U8) | RT_T(RT_BOOL) | RT_T(RT_STRING))

static bool is_true(const struct rt_tensor *t)
{
    switch (kn_dtype(t)) {
    case RT_STRING:
        return rt_strs(t)->n > 0;
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return KN_GET(dt, *(const T *)t->data) != 0;
        KN_SIGNED(X)
        KN_FLOATS(X)
        X(RT_U8, uint8_t)
        X(RT_BOOL, bool)
#undef X
    default:
        return false;
    }
}

static enum rt_status to_bool_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];

    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    if (t->rank == 0 && !(BOOLEAN & RT_T(t->dtype)))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s cannot be converted to a boolean",
                       rt_dtype_name(kn_dtype(t)));
    *(bool *)r->out[0].data = t->rank == 0 ? is_true(t) : rt_tensor_count(t) > 0;
    return RT_OK;
}

const struct kn_entry kn_to_bool = {
    .op = {.name = "ToBool", .infer = kn_infer_scalars},
    .kernels = KN_CPU("ToBool", "to_bool", 0, NULL, to_bool_run),
};

/* ---- Timestamp ---- */

static enum rt_status timestamp_run(struct rt_run *r)
{
    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    *(double *)r->out[0].data = (double)rt_wall_ns() / 1e9;
    return RT_OK;
}

const struct kn_entry kn_timestamp = {
    .op = {.name = "Timestamp", .effect = RT_RANDOM, .infer = kn_infer_scalars},
    .kernels = KN_CPU("Timestamp", "timestamp", 0, NULL, timestamp_run),
};

/* ---- DeviceIndex ---- */

static enum rt_status device_run(struct rt_run *r)
{
    const struct rt_attr *a = rt_attr(r->node, "device_names");
    const int32_t n = a ? (int32_t)a->n : 0;
    int32_t at = 0;

    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    while (at < n && !rt_span_is(a->v.strs[at], "CPU"))
        at++;
    *(int32_t *)r->out[0].data = at;
    return RT_OK;
}

const struct kn_entry kn_device_index = {
    .op = {.name = "DeviceIndex", .infer = kn_infer_scalars},
    .kernels = KN_CPU("DeviceIndex", "device_index", 0, NULL, device_run),
};

/* ---- FakeParam ---- */

static enum rt_status fake_infer(struct rt_infer *x)
{
    const struct rt_shape *s = rt_attr_shape(x->node, "shape");

    x->out[0].shape = *s;
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] < 0)
            x->out[0].shape.dim[d] = 0;
    if (s->rank < 0)
        x->out[0].shape.rank = 0;
    return RT_OK;
}

static enum rt_status fake_run(struct rt_run *r)
{
    const enum rt_status st = kn_outputs(r, fake_infer);

    if (st || !rt_dtype_is_plain(kn_dtype(&r->out[0])))
        return st;
    return kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
}

const struct kn_entry kn_fake_param = {
    .op = {.name = "FakeParam", .infer = fake_infer},
    .kernels = KN_KERNELS({.op = "FakeParam",
                           .device = "CPU",
                           .name = "fake_param",
                           .type_attr = "dtype",
                           .run = fake_run}),
};
