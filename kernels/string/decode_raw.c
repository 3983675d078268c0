/* DecodeRaw reinterprets the bytes of strings as numbers. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

/* Reverses the bytes of each of n elements of `size` bytes. */
static void swap_bytes(char *p, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            const char c = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = c;
        }
}

static enum rt_status decode_raw_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    const enum rt_dtype dtype = rt_attr_dtype(r->node, "out_type");
    const size_t size = rt_dtype_size(dtype);
    const int64_t n = rt_tensor_count(in);
    const size_t bytes = n ? rt_strs(in)[0].n : 0;
    int64_t dim[RT_MAX_RANK + 1];

    for (int64_t i = 1; i < n; i++)
        if (rt_strs(in)[i].n != bytes)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "DecodeRaw requires input strings to all be the same size, but element "
                           "%lld has size %zu != %zu",
                           (long long)i, bytes, rt_strs(in)[i].n);
    if (bytes % size != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input to DecodeRaw has length %zu that is not a multiple of %zu, the size "
                       "of %s",
                       bytes, size, rt_dtype_name(dtype));
    if (in->rank)
        memcpy(dim, in->dim, (size_t)in->rank * sizeof *dim);
    dim[in->rank] = (int64_t)(bytes / size);
    char *out = rt_out(r, 0, in->rank + 1, dim);
    if (!out)
        return r->err->code;
    for (int64_t i = 0; i < n && bytes; i++) {
        char *to = out + (size_t)i * bytes;
        memcpy(to, rt_str_data(&rt_strs(in)[i]), bytes);
        if (dtype == RT_BOOL)
            for (size_t k = 0; k < bytes; k++)
                to[k] = to[k] != 0;
        const bool is_complex = dtype == RT_C64 || dtype == RT_C128;
        if (!rt_attr_bool(r->node, "little_endian"))
            swap_bytes(to, dim[in->rank] * (is_complex ? 2 : 1), is_complex ? size / 2 : size);
    }
    return RT_OK;
}

/* DecodeRaw has no row rule, because it requires every string of a batch to be as long as the
 * first. */
const struct kn_entry kn_decode_raw = {
    .op = {.name = "DecodeRaw"},
    .kernels = KN_CPU("DecodeRaw", "decode_raw", 0, NULL, decode_raw_run),
};
