/* Where(condition) returns the coordinates of the non-zero elements. The output's shape is known
 * only after the run. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* For each of n elements, sets m[i] to 1 if element `from` + i is not zero, and otherwise to 0. */
static bool marks(const struct rt_tensor *t, int64_t from, unsigned char *m, int64_t n)
{
    switch (kn_dtype(t)) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            m[i] = ((const T *)t->data)[from + i] != 0;                                            \
        return true;
        KN_INTS(X)
        KN_FLOATS(X)
        KN_COMPLEX(X)
        X(RT_BOOL, uint8_t)
        X(RT_QI8, int8_t)
        X(RT_QU8, uint8_t)
        X(RT_QI16, int16_t)
        X(RT_QU16, uint16_t)
        X(RT_QI32, int32_t)
#undef X
    case RT_F16:
    case RT_BF16: /* every value except 0.0 and -0.0 is true */
        for (int64_t i = 0; i < n; i++)
            m[i] = (((const uint16_t *)t->data)[from + i] & 0x7fff) != 0;
        return true;
    default:
        return false;
    }
}

static enum rt_status where_run(struct rt_run *r)
{
    enum { CHUNK = 1 << 18 }; /* number of elements that are marked between two deadline checks */
    const struct rt_tensor *t = &r->in[0];
    const int64_t n = rt_tensor_count(t);
    int64_t dim[2] = {0, t->rank}, at[RT_MAX_RANK] = {0};

    if (t->rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "WhereOp : Unhandled input dimensions: 0");
    unsigned char *m = rt_scratch(r, (size_t)n + 1);
    if (!m)
        return r->err->code;
    for (int64_t i = 0; i == 0 || i < n; i += CHUNK) {
        const int64_t some = n - i < CHUNK ? n - i : CHUNK;
        if (!marks(t, i, m + i, some))
            return rt_fail(r->err, RT_UNIMPLEMENTED, "Where: no kernel for %s",
                           rt_dtype_name(kn_dtype(t)));
        for (int64_t k = i; k < i + some; k++)
            dim[0] += m[k];
        if (n > CHUNK && rt_run_check(r))
            return r->err->code;
    }
    int64_t *o = rt_out(r, 0, 2, dim);
    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (m[i])
            for (int k = 0; k < t->rank; k++)
                *o++ = at[k];
        for (int k = t->rank - 1; k >= 0 && ++at[k] == t->dim[k]; k--)
            at[k] = 0;
    }
    return RT_OK;
}

const struct kn_entry kn_where = {
    .op = {.name = "Where"},
    .kernels = KN_CPU("Where", "where", 0, NULL, where_run),
};
