/* The names of status codes, version states and data types, and the sizes of elements. */
#include "clients/c/slipway_client.h"

#include "runtime/base/status.h"

const char *slipway_code_name(enum slipway_code code)
{
    return rt_status_name((enum rt_status)code);
}

static const struct {
    int dtype;
    size_t size;
    const char *name;
} dtypes[] = {
    {SLIPWAY_FLOAT, 4, "DT_FLOAT"},
    {SLIPWAY_DOUBLE, 8, "DT_DOUBLE"},
    {SLIPWAY_INT32, 4, "DT_INT32"},
    {SLIPWAY_UINT8, 1, "DT_UINT8"},
    {SLIPWAY_INT16, 2, "DT_INT16"},
    {SLIPWAY_INT8, 1, "DT_INT8"},
    {SLIPWAY_STRING, sizeof(struct slipway_string), "DT_STRING"},
    {SLIPWAY_COMPLEX64, 8, "DT_COMPLEX64"},
    {SLIPWAY_INT64, 8, "DT_INT64"},
    {SLIPWAY_BOOL, 1, "DT_BOOL"},
    {SLIPWAY_BFLOAT16, 2, "DT_BFLOAT16"},
    {SLIPWAY_UINT16, 2, "DT_UINT16"},
    {SLIPWAY_COMPLEX128, 16, "DT_COMPLEX128"},
    {SLIPWAY_HALF, 2, "DT_HALF"},
    {SLIPWAY_UINT32, 4, "DT_UINT32"},
    {SLIPWAY_UINT64, 8, "DT_UINT64"},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *slipway_dtype_name(int dtype)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "DT_INVALID";
}

size_t slipway_dtype_size(int dtype)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].size;
    return 0;
}

const char *slipway_state_name(int state)
{
    switch (state) {
    case SLIPWAY_STATE_START:
        return "START";
    case SLIPWAY_STATE_LOADING:
        return "LOADING";
    case SLIPWAY_STATE_AVAILABLE:
        return "AVAILABLE";
    case SLIPWAY_STATE_UNLOADING:
        return "UNLOADING";
    case SLIPWAY_STATE_END:
        return "END";
    default:
        return "UNKNOWN";
    }
}

int64_t slipway_count(const struct slipway_tensor *t)
{
    int64_t n = 1;
    bool is_empty = false;
    if (t->rank < 0 || t->rank > SLIPWAY_MAX_RANK)
        return -1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0)
            return -1;
        is_empty |= t->dim[i] == 0;
    }
    if (is_empty)
        return 0;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->dim[i], &n))
            return -1;
    return n;
}
