#include "runtime/core/types.h"

#include "runtime/core/object.h"
#include "runtime/core/str.h"

size_t rt_dtype_size(enum rt_dtype d)
{
    switch (d) {
#define X(name, number, text, bytes)                                                               \
    case name:                                                                                     \
        return bytes;
        RT_DTYPE_LIST(X)
#undef X
    default:
        return 0;
    }
}

const char *rt_dtype_name(enum rt_dtype d)
{
    switch (d) {
#define X(name, number, text, bytes)                                                               \
    case name:                                                                                     \
        return text;
        RT_DTYPE_LIST(X)
#undef X
    default:
        return "invalid";
    }
}

const char *rt_dtype_proto_name(enum rt_dtype d)
{
    static const char *const names[RT_N_DTYPES] = {
        "DT_INVALID",
        "DT_FLOAT",
        "DT_DOUBLE",
        "DT_INT32",
        "DT_UINT8",
        "DT_INT16",
        "DT_INT8",
        "DT_STRING",
        "DT_COMPLEX64",
        "DT_INT64",
        "DT_BOOL",
        "DT_QINT8",
        "DT_QUINT8",
        "DT_QINT32",
        "DT_BFLOAT16",
        "DT_QINT16",
        "DT_QUINT16",
        "DT_UINT16",
        "DT_COMPLEX128",
        "DT_HALF",
        "DT_RESOURCE",
        "DT_VARIANT",
        "DT_UINT32",
        "DT_UINT64",
        "DT_FLOAT8_E5M2",
        "DT_FLOAT8_E4M3FN",
        "DT_FLOAT8_E4M3FNUZ",
        "DT_FLOAT8_E4M3B11FNUZ",
        "DT_FLOAT8_E5M2FNUZ",
        "DT_INT4",
        "DT_UINT4",
        "DT_INT2",
        "DT_UINT2",
    };
    return (unsigned)d < RT_N_DTYPES ? names[d] : names[0];
}

enum rt_dtype rt_dtype_from_wire(int number, bool *is_ref)
{
    bool ref = number > 100;
    if (is_ref)
        *is_ref = ref;
    if (ref)
        number -= 100;
    return number > 0 && number < RT_N_DTYPES ? (enum rt_dtype)number : RT_NO_DTYPE;
}
