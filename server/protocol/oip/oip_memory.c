/* Reads inputs from shared memory and writes outputs to it, which Triton adds to the protocol as
 * the extension system_shared_memory. */
#include "server/protocol/oip/oip.h"

#include <stdlib.h>

#include "server/base/shared_memory.h"

enum rt_status srv_oip_tensor_parameter(struct srv_oip_region *region, uint64_t *n_classes,
                                        struct rt_span name, const struct srv_oip_value *v,
                                        struct rt_error *err)
{
    const bool is_bytes = rt_span_is(name, "shared_memory_byte_size");

    if (rt_span_is(name, "shared_memory_region")) {
        if (!v->is_text || !v->text.n)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "the parameter shared_memory_region is no name of a region");
        region->name = v->text;
        return RT_OK;
    }
    if (n_classes && rt_span_is(name, "classification")) {
        if (!v->is_number || v->number > INT64_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "the parameter classification is no integer of at least 0");
        *n_classes = v->number;
        return RT_OK;
    }
    if (!is_bytes && !rt_span_is(name, "shared_memory_offset"))
        return srv_oip_check_parameter(name, v->is_set, err);
    if (!v->is_number || v->number > INT64_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the parameter %s is no integer of at least 0",
                       is_bytes ? "shared_memory_byte_size" : "shared_memory_offset");
    *(is_bytes ? &region->bytes : &region->offset) = v->number;
    region->has_bytes |= is_bytes;
    return RT_OK;
}

enum rt_status srv_oip_check_region(const struct srv_oip_region *region, struct rt_span name,
                                    struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);

    if ((region->name.p != NULL) == region->has_bytes && (region->name.p || !region->offset))
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "tensor \"%.*s\" has only one of the parameters shared_memory_region and "
                   "shared_memory_byte_size",
                   (int)shown.n, (const char *)shown.p);
}

static enum rt_status check_on(const struct srv_inference *inf, struct rt_error *err)
{
    return inf->shared_memory
               ? RT_OK
               : rt_fail(err, RT_UNIMPLEMENTED,
                         "the parameter \"shared_memory_region\" asks for shared memory, which "
                         "this server does not have: --system_shared_memory_bytes is 0");
}

/* ---- inputs ---- */

/* Fills the strings of a tensor from a copy of the region's bytes. */
static enum rt_status read_strings(struct srv_inference *inf, const struct srv_oip_input *in,
                                   struct rt_tensor *t, struct rt_error *err)
{
    struct srv_oip_input raw = *in;
    const size_t n = (size_t)in->region.bytes;
    size_t budget = inf->budget;
    char *p = malloc(n + 1);

    if (!p)
        return rt_fail_memory(err, "an input in shared memory", n);
    const struct rt_span bytes = rt_span_of(p, n);
    enum rt_status st =
        srv_region_read(inf->shared_memory, in->region.name, in->region.offset, p, n, err);
    raw.is_raw = true;
    raw.values = srv_cursor_of(&bytes, n);
    raw.name =
        rt_span_str(inf->job->signature->def->inputs[in->feed].alias); /* in->name is freed */
    if (!st)
        st = srv_oip_fill_raw(&raw, t, &budget, err);
    free(p);
    return st;
}

/* Reads the values of all inputs in shared memory. Runs on a worker. */
static enum rt_status read_regions(struct srv_job *job)
{
    struct srv_inference *inf = job->inference;
    const struct srv_oip_request *r = inf->request;
    enum rt_status st = RT_OK;

    job->prepare = NULL;
    for (int i = 0; i < r->n_inputs && !st; i++) {
        const struct srv_oip_input *in = &r->inputs[i];
        if (!in->region.name.p)
            continue;
        struct rt_tensor *t = &job->feeds[in->feed];
        if (in->dtype == RT_STRING) {
            st = read_strings(inf, in, t, &job->err);
            continue;
        }
        st = srv_region_read(inf->shared_memory, in->region.name, in->region.offset, t->data,
                             rt_tensor_bytes(t), &job->err);
        uint8_t *bools = in->dtype == RT_BOOL ? t->data : NULL;
        for (int64_t k = 0, n = rt_tensor_count(t); bools && k < n; k++)
            bools[k] = bools[k] != 0; /* kernels require booleans to be 0 or 1 */
    }
    return st;
}

enum rt_status srv_oip_bind_region(struct srv_inference *inf, struct srv_oip_input *in,
                                   struct rt_tensor *out, size_t *budget, struct rt_error *err)
{
    struct rt_error why = {0};
    size_t bytes = 0;
    enum rt_status st = check_on(inf, err);

    if (st)
        return st;
    if (rt_shape_check(in->dtype, in->rank, in->dim, &bytes, &why))
        return srv_oip_fail_input(err, in->name, "has a shape that is refused: %s", why.msg);
    /* an element of a tensor of strings has a length of 4 bytes in the region */
    if (in->dtype == RT_STRING ? (uint64_t)rt_count(in->rank, in->dim) > in->region.bytes / 4
                               : bytes != in->region.bytes)
        return srv_oip_fail_input(err, in->name,
                                  "has a shared_memory_byte_size of %llu, which is not the size of "
                                  "its shape",
                                  (unsigned long long)in->region.bytes);
    st = srv_region_check(inf->shared_memory, in->region.name, in->region.offset, in->region.bytes,
                          err);
    /* strings take memory for a copy of the region, and for each string */
    if (!st && in->dtype == RT_STRING &&
        __builtin_add_overflow(bytes, 2 * in->region.bytes, &bytes))
        bytes = SIZE_MAX;
    if (!st)
        st = srv_oip_take(budget, bytes, in->name, err);
    if (!st)
        st = rt_tensor_new(out, NULL, in->dtype, in->rank, in->dim, err);
    inf->job->inference = inf;
    inf->job->prepare = read_regions;
    return st;
}

/* ---- outputs ---- */

static enum rt_status write_region(const struct srv_inference *inf,
                                   const struct srv_oip_region *region, const struct rt_tensor *t,
                                   const char *name, struct rt_error *err)
{
    struct srv_cancellation cancellation = srv_job_cancellation(inf->job);
    const size_t n = srv_oip_raw_bytes(t);
    struct rt_bytes bytes;

    if (n > region->bytes)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "output \"%s\" has %zu bytes, but its shared_memory_byte_size is %llu", name,
                       n, (unsigned long long)region->bytes);
    if (t->dtype != RT_STRING)
        return srv_region_write(inf->shared_memory, region->name, region->offset, t->data, n, err);
    rt_bytes_init(&bytes, n + 1);
    srv_oip_write_raw(&bytes, t, &cancellation);
    enum rt_status st = srv_cancellation_status(&cancellation, err);
    if (!st && bytes.failed)
        st = rt_fail_memory(err, "an output in shared memory", n);
    if (!st)
        st = srv_region_write(inf->shared_memory, region->name, region->offset, bytes.p, bytes.n,
                              err);
    rt_bytes_clear(&bytes);
    return st;
}

enum rt_status srv_oip_write_regions(const struct srv_inference *inf, struct rt_error *err)
{
    const struct srv_oip_request *r = inf->request;
    enum rt_status st = RT_OK;

    for (int i = 0; i < r->n_order && !st; i++) {
        if (!srv_oip_in_region(r, i))
            continue;
        st = check_on(inf, err);
        if (!st)
            st = write_region(inf, &r->order_output[i]->region, srv_oip_result(inf, i),
                              inf->job->signature->def->outputs[r->order[i]].alias, err);
    }
    return st;
}
