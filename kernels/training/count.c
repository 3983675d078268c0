/* CountUpTo and ResourceCountUpTo, which increment a variable up to a limit. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"

struct count {
    enum rt_dtype dtype; /* of the output */
    int64_t limit, before;
};

/* Increments the value, and sets `before` to the previous value. */
static enum rt_status count(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    struct count *c = arg;

    if (kn_dtype(value) != c->dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a variable of type %s cannot count as %s",
                       rt_dtype_name(kn_dtype(value)), rt_dtype_name(c->dtype));
    if (value->rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input is not a scalar: %s", KN_TEXT(value));
    c->before = kn_int_at(value, 0);
    if (c->before >= c->limit)
        return rt_fail(err, RT_OUT_OF_RANGE, "Reached limit of %lld", (long long)c->limit);
    kn_put_int(value, 0, c->before + 1);
    return RT_OK;
}

static enum rt_status run_count(struct rt_run *r, bool is_ref)
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);
    struct count c = {.dtype = kn_dtype(&r->out[0]), .limit = rt_attr_int(r->node, "limit")};

    if (!v)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 0 of %s is not the handle of a variable",
                       r->node->schema->name);
    if (c.dtype == RT_I32 && kn_check_i32("limit", c.limit, r->err))
        return r->err->code;
    if (!is_ref && !rt_variable_is_initialized(v))
        return rt_fail(r->err, RT_NOT_FOUND, "the variable that should count has no value");
    const struct rt_check check = rt_run_as_check(r);
    const enum rt_status st =
        rt_variable_update(v, is_ref, count, &c, &check, rt_run_state(r), r->err);
    if (!st)
        kn_put_int(&r->out[0], 0, c.before);
    return st;
}

static enum rt_status run_ref(struct rt_run *r)
{
    return run_count(r, true);
}

static enum rt_status run_resource(struct rt_run *r)
{
    return run_count(r, false);
}

#define ENTRY(SYMBOL, NAME, RUN)                                                                   \
    const struct kn_entry SYMBOL = {                                                               \
        .op = {.name = NAME, .effect = RT_WRITES, .infer = kn_infer_scalars},                      \
        .kernels = KN_CPU(NAME, "count_up_to", RT_T(RT_I32) | RT_T(RT_I64), NULL, RUN),            \
    }
ENTRY(kn_count_up_to, "CountUpTo", run_ref);
ENTRY(kn_resource_count_up_to, "ResourceCountUpTo", run_resource);
