/*
 * Element types. The list contains all types of TensorFlow, with TensorFlow's numbers
 * (tensorflow/core/framework/types.proto). In messages, a ref type has the number of its base type
 * plus 100. In the runtime, a ref is a handle (graph.h).
 */
#ifndef RT_TYPES_H
#define RT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enum name, number, TensorFlow's short name, bytes per element in memory) */
#define RT_DTYPE_LIST(X)                                                                           \
    X(RT_F32, 1, "float", 4)                                                                       \
    X(RT_F64, 2, "double", 8)                                                                      \
    X(RT_I32, 3, "int32", 4)                                                                       \
    X(RT_U8, 4, "uint8", 1)                                                                        \
    X(RT_I16, 5, "int16", 2)                                                                       \
    X(RT_I8, 6, "int8", 1)                                                                         \
    X(RT_STRING, 7, "string", sizeof(struct rt_str))                                               \
    X(RT_C64, 8, "complex64", 8)                                                                   \
    X(RT_I64, 9, "int64", 8)                                                                       \
    X(RT_BOOL, 10, "bool", 1)                                                                      \
    X(RT_QI8, 11, "qint8", 1)                                                                      \
    X(RT_QU8, 12, "quint8", 1)                                                                     \
    X(RT_QI32, 13, "qint32", 4)                                                                    \
    X(RT_BF16, 14, "bfloat16", 2)                                                                  \
    X(RT_QI16, 15, "qint16", 2)                                                                    \
    X(RT_QU16, 16, "quint16", 2)                                                                   \
    X(RT_U16, 17, "uint16", 2)                                                                     \
    X(RT_C128, 18, "complex128", 16)                                                               \
    X(RT_F16, 19, "half", 2)                                                                       \
    X(RT_RESOURCE, 20, "resource", sizeof(struct rt_object *))                                     \
    X(RT_VARIANT, 21, "variant", sizeof(struct rt_object *))                                       \
    X(RT_U32, 22, "uint32", 4)                                                                     \
    X(RT_U64, 23, "uint64", 8)                                                                     \
    X(RT_F8_E5M2, 24, "float8_e5m2", 1)                                                            \
    X(RT_F8_E4M3FN, 25, "float8_e4m3fn", 1)                                                        \
    X(RT_F8_E4M3FNUZ, 26, "float8_e4m3fnuz", 1)                                                    \
    X(RT_F8_E4M3B11FNUZ, 27, "float8_e4m3b11fnuz", 1)                                              \
    X(RT_F8_E5M2FNUZ, 28, "float8_e5m2fnuz", 1)                                                    \
    X(RT_I4, 29, "int4", 1)                                                                        \
    X(RT_U4, 30, "uint4", 1)                                                                       \
    X(RT_I2, 31, "int2", 1)                                                                        \
    X(RT_U2, 32, "uint2", 1)

enum rt_dtype {
    RT_NO_DTYPE = 0,
#define X(name, number, text, bytes) name = number,
    RT_DTYPE_LIST(X)
#undef X
        RT_N_DTYPES = 33
};

#define RT_T(d) (UINT64_C(1) << (d)) /* bit of type d in a set of types (uint64_t) */

/* returns the size of an element in bytes, or 0 if d is not a type */
size_t rt_dtype_size(enum rt_dtype d);
/* returns a name like "float", or "invalid" if d is not a type */
const char *rt_dtype_name(enum rt_dtype d);
/* Returns a name like "DT_FLOAT", the form that protobuf uses in JSON and text. */
const char *rt_dtype_proto_name(enum rt_dtype d);
/* Converts a type number of a message. Returns RT_NO_DTYPE if the number is not a type. For a ref
 * type, returns the base type and sets *is_ref. */
enum rt_dtype rt_dtype_from_wire(int number, bool *is_ref);
/* Returns whether elements are plain bytes, that is, neither strings nor objects. */
static inline bool rt_dtype_is_plain(enum rt_dtype d)
{
    return d != RT_STRING && d != RT_RESOURCE && d != RT_VARIANT;
}

#endif
