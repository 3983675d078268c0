/*
 * The ops Cast and Bitcast. Cast converts between all pairs of types. As in TensorFlow, a float
 * outside the range of the integer type is converted as x86's instructions convert it. The result
 * is the minimum integer or, for types narrower than 32 bits, the low bits of an int32.
 *
 * Some types have other rules for whole vectors, as in TensorFlow. The elements of whole vectors
 * saturate, and only those that remain at the end of the tensor wrap around.
 */
#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"

#include <math.h>
#include <string.h>

/* ---- to integers ---- */

static inline int32_t i32_of_double(double x)
{
    return (int32_t)(x > -2147483649.0 && x < 2147483648.0 ? x : -2147483648.0);
}
static inline int32_t i32_of_float(float x)
{
    return (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}
static inline int32_t i32_of_int(int64_t x)
{
    return (int32_t)x;
}
static inline int64_t i64_of_double(double x)
{
    return (int64_t)(x >= -0x1p63 && x < 0x1p63 ? x : -0x1p63);
}
static inline int64_t i64_of_int(int64_t x)
{
    return x;
}
static inline uint32_t u32_of_double(double x)
{
    return (uint32_t)i64_of_double(x);
}
static inline uint32_t u32_of_int(int64_t x)
{
    return (uint32_t)x;
}
/* Values above half of the unsigned range are converted through `x - 2^63`. */
static inline uint64_t u64_of_double(double x)
{
    const uint64_t low = (uint64_t)i64_of_double(x), high = (uint64_t)i64_of_double(x - 0x1p63);
    return low | (high & (0 - (low >> 63)));
}
static inline uint64_t u64_of_int(int64_t x)
{
    return (uint64_t)x;
}

#define I32_OF(x)                                                                                  \
    _Generic((x), float : i32_of_float, double : i32_of_double, default : i32_of_int)(x)
#define TO_RT_I8(x)  ((int8_t)I32_OF(x))
#define TO_RT_I16(x) ((int16_t)I32_OF(x))
#define TO_RT_I32(x) I32_OF(x)
#define TO_RT_U8(x)  ((uint8_t)I32_OF(x))
#define TO_RT_U16(x) ((uint16_t)I32_OF(x))
#define TO_RT_U32(x)                                                                               \
    _Generic((x), float : u32_of_double, double : u32_of_double, default : u32_of_int)(x)
#define TO_RT_I64(x)                                                                               \
    _Generic((x), float : i64_of_double, double : i64_of_double, default : i64_of_int)(x)
#define TO_RT_U64(x)                                                                               \
    _Generic((x), float : u64_of_double, double : u64_of_double, default : u64_of_int)(x)
#define TO_RT_BOOL(x) ((x) != 0)
#define TO_RT_F32(x)  KN_PUT_RT_F32(x)
#define TO_RT_F64(x)  KN_PUT_RT_F64(x)
#define TO_RT_F16(x)  KN_PUT_RT_F16(x)
#define TO_RT_BF16(x) KN_PUT_RT_BF16(x)
#define TO_RT_C64(x)  ((float _Complex)(float)(x))
#define TO_RT_C128(x) ((double _Complex)(double)(x))

/* ---- to integers, by whole vectors ---- */

/*
 * Returns x between `least` and `most`, without its fraction, and `least` for a NaN and from `end`
 * on. `least` is negative, -0.0 for instance. The bits of floats are compared as integers, because
 * these comparisons are the cheapest ones of a vector. As unsigned integers, the bits of negative
 * numbers exceed those of positive numbers, and a larger magnitude has larger bits.
 */
static inline int32_t saturated_float(float x, float least, float most, float end)
{
    const uint32_t low = kn_float_bits(least), u = kn_float_bits(x), v = u > low ? low : u;
    const int32_t high = (int32_t)kn_float_bits(most), w = (int32_t)v > high ? high : (int32_t)v;
    const bool is_over = (int32_t)u >= (int32_t)kn_float_bits(end);
    return (int32_t)kn_bits_float(is_over ? low : (uint32_t)w);
}
static inline int32_t saturated_double(double x, double least, double most, double end)
{
    const int32_t low = (int32_t)least, high = (int32_t)most, last = (int32_t)(end - 1);
    const int32_t i = i32_of_double(x), j = i < low || i > last ? low : i;
    return j > high ? high : j;
}
/* Values above half of the range are converted through `x - 2^31`. */
static inline uint32_t vector_u32(double x)
{
    const uint32_t low = (uint32_t)i32_of_double(x), high = (uint32_t)i32_of_double(x - 0x1p31);
    return low | (high & (0 - (low >> 31)));
}

#define SATURATED(x, least, most, end)                                                             \
    _Generic((x), float : saturated_float, double : saturated_double)(x, least, most, end)
#define VECTOR_RT_I8(x)  ((int8_t)SATURATED(x, INT8_MIN, INT8_MAX, 0x1p31f))
#define VECTOR_RT_I16(x) ((int16_t)SATURATED(x, INT16_MIN, INT16_MAX, 0x1p31f))
#define VECTOR_RT_U8(x)  ((uint8_t)SATURATED(x, -0.0f, UINT8_MAX, 0x1p31f))
#define VECTOR_RT_U16(x) ((uint16_t)SATURATED(x, -0.0f, UINT16_MAX, 0x1p31f))
#define VECTOR_RT_U32(x) vector_u32(x)
/* Two instructions narrow the vector, to u16 and then to u8. The second one takes u16 for i16. */
#define PACKED_RT_U8(x) ((uint8_t)SATURATED(x, -0.0f, UINT8_MAX, 0x1p15f))

/* Only the real part of a complex number is converted, unless the destination is complex too. */
#define FROM_RT_C64(x)  __real__(x)
#define FROM_RT_C128(x) __real__(x)

/* ---- the table: entry [from][to] ---- */

/* Defines a loop that converts whole vectors of WIDTH elements by VECTOR, and the rest by PUT. Rows
 * begin at multiples of WIDTH in the tensor, and only the last one ends elsewhere. */
#define CAST_VECTORS(FAST, FROM, S, TO, D, C, GET, PUT, WIDTH, VECTOR)                             \
    FAST static void FROM##_to_##TO(void *dst, const void *src, int64_t n)                         \
    {                                                                                              \
        D *d = dst;                                                                                \
        const S *s = src;                                                                          \
        const int64_t whole = n - n % (WIDTH);                                                     \
        for (int64_t i = 0; i < whole; i++) {                                                      \
            const C x = GET(s[i]);                                                                 \
            d[i] = VECTOR(x);                                                                      \
        }                                                                                          \
        for (int64_t i = whole; i < n; i++) {                                                      \
            const C x = GET(s[i]);                                                                 \
            d[i] = PUT(x);                                                                         \
        }                                                                                          \
    }
#define CAST_ROW(FAST, FROM, S, TO, D, C, GET, PUT)                                                \
    CAST_VECTORS(FAST, FROM, S, TO, D, C, GET, PUT, 1, PUT)

/* The types that models most often convert from have loops for several instruction sets. */
#define TO_FROM(TO, D, FROM, S) CAST_ROW(, FROM, S, TO, D, KN_C(FROM), KN_GET_##FROM, TO_##TO)
#define TO_FROM_FAST(TO, D, FROM, S)                                                               \
    CAST_ROW(KN_CLONES, FROM, S, TO, D, KN_C(FROM), KN_GET_##FROM, TO_##TO)
#define TO_FROM_C64(TO, D, FROM, S)  CAST_ROW(, FROM, S, TO, D, float, FROM_RT_C64, TO_##TO)
#define TO_FROM_C128(TO, D, FROM, S) CAST_ROW(, FROM, S, TO, D, double, FROM_RT_C128, TO_##TO)
#define KN_FOR_CAST(M, ...)          KN_FOR_NUMBERS(M, __VA_ARGS__) KN_FOR_BOOL(M, __VA_ARGS__)
KN_FOR_CAST(TO_FROM, RT_I8, int8_t)
KN_FOR_CAST(TO_FROM, RT_I16, int16_t)
KN_FOR_CAST(TO_FROM_FAST, RT_I32, int32_t)
KN_FOR_CAST(TO_FROM, RT_I64, int64_t)
KN_FOR_CAST(TO_FROM_FAST, RT_U8, uint8_t)
KN_FOR_CAST(TO_FROM, RT_U16, uint16_t)
KN_FOR_CAST(TO_FROM, RT_U32, uint32_t)
KN_FOR_CAST(TO_FROM, RT_U64, uint64_t)
KN_FOR_CAST(TO_FROM, RT_BOOL, bool)

/* Like kn_from_f16, but gives 0 for a subnormal number, as all conversions to integers do. Loops
 * over this function vectorise without arithmetic on floats. */
static inline float normal_of_f16(struct kn_half h)
{
    const uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
    const uint32_t normal = (rest << 13) + ((127 - 15) << 23);
    const uint32_t special = (rest << 13) | 0x7f800000;
    const uint32_t u = rest < 0x0400 ? 0 : rest < 0x7c00 ? normal : special;
    return kn_bits_float(u | sign);
}

/* The widths of vectors and the kinds of saturation are those of TensorFlow 2.21 for x86-64. */
#define NARROW(FAST, FROM, S, C, GET, WIDTH, U8)                                                   \
    CAST_VECTORS(FAST, FROM, S, RT_I8, int8_t, C, GET, TO_RT_I8, WIDTH, VECTOR_RT_I8)              \
    CAST_VECTORS(FAST, FROM, S, RT_I16, int16_t, C, GET, TO_RT_I16, WIDTH, VECTOR_RT_I16)          \
    CAST_VECTORS(FAST, FROM, S, RT_U8, uint8_t, C, GET, TO_RT_U8, WIDTH, U8)                       \
    CAST_VECTORS(FAST, FROM, S, RT_U16, uint16_t, C, GET, TO_RT_U16, WIDTH, VECTOR_RT_U16)
#define U32_BY_8(FAST, FROM, S, C, GET)                                                            \
    CAST_VECTORS(FAST, FROM, S, RT_U32, uint32_t, C, GET, TO_RT_U32, 8, VECTOR_RT_U32)
#define KN_FOR_NARROW(M, ...)                                                                      \
    M(RT_I8, int8_t, __VA_ARGS__)                                                                  \
    M(RT_I16, int16_t, __VA_ARGS__)                                                                \
    M(RT_U8, uint8_t, __VA_ARGS__)                                                                 \
    M(RT_U16, uint16_t, __VA_ARGS__)
#define KN_FOR_WIDE_INTS(M, ...)                                                                   \
    KN_FOR_I32_I64(M, __VA_ARGS__) M(RT_U64, uint64_t, __VA_ARGS__) KN_FOR_BOOL(M, __VA_ARGS__)
#define KN_FOR_OTHERS(M, ...) KN_FOR_WIDE_INTS(M, __VA_ARGS__) KN_FOR_FLOATS_COMPLEX(M, __VA_ARGS__)
NARROW(KN_CLONES, RT_F32, float, float, , 32, VECTOR_RT_U8)
U32_BY_8(KN_CLONES, RT_F32, float, float, )
KN_FOR_OTHERS(TO_FROM_FAST, RT_F32, float)
NARROW(KN_CLONES, RT_F64, double, double, , 16, PACKED_RT_U8)
U32_BY_8(, RT_F64, double, double, )
KN_FOR_OTHERS(TO_FROM, RT_F64, double)
NARROW(KN_CLONES, RT_F16, struct kn_half, float, normal_of_f16, 16, PACKED_RT_U8)
U32_BY_8(KN_CLONES, RT_F16, struct kn_half, float, normal_of_f16)
KN_FOR_OTHERS(TO_FROM_FAST, RT_F16, struct kn_half)
NARROW(KN_CLONES, RT_BF16, struct kn_bfloat, float, kn_from_bf16, 8, VECTOR_RT_U8)
U32_BY_8(KN_CLONES, RT_BF16, struct kn_bfloat, float, kn_from_bf16)
KN_FOR_OTHERS(TO_FROM_FAST, RT_BF16, struct kn_bfloat)
KN_FOR_NARROW(TO_FROM_C64, RT_C64, float _Complex)
U32_BY_8(, RT_C64, float _Complex, float, FROM_RT_C64)
KN_FOR_WIDE_INTS(TO_FROM_C64, RT_C64, float _Complex)
KN_FOR_FLOATS(TO_FROM_C64, RT_C64, float _Complex)
NARROW(KN_CLONES, RT_C128, double _Complex, double, FROM_RT_C128, 16, PACKED_RT_U8)
TO_FROM_C128(RT_U32, uint32_t, RT_C128, double _Complex)
KN_FOR_WIDE_INTS(TO_FROM_C128, RT_C128, double _Complex)
KN_FOR_FLOATS(TO_FROM_C128, RT_C128, double _Complex)
#define COMPLEX_F(x) ((float _Complex)(x))
#define COMPLEX_D(x) ((double _Complex)(x))
CAST_ROW(, RT_C64, float _Complex, RT_C64, float _Complex, float _Complex, , COMPLEX_F)
CAST_ROW(, RT_C64, float _Complex, RT_C128, double _Complex, float _Complex, , COMPLEX_D)
CAST_ROW(, RT_C128, double _Complex, RT_C64, float _Complex, double _Complex, , COMPLEX_F)
CAST_ROW(, RT_C128, double _Complex, RT_C128, double _Complex, double _Complex, , COMPLEX_D)

#define TABLE_TO(TO, D, FROM) [TO] = FROM##_to_##TO,
#define TABLE_FROM(FROM)      [FROM] = {KN_FOR_CAST(TABLE_TO, FROM)},
static kn_map_row *const rows[RT_N_DTYPES][RT_N_DTYPES] = {
    TABLE_FROM(RT_I8) TABLE_FROM(RT_I16) TABLE_FROM(RT_I32) TABLE_FROM(RT_I64) TABLE_FROM(RT_U8)
        TABLE_FROM(RT_U16) TABLE_FROM(RT_U32) TABLE_FROM(RT_U64) TABLE_FROM(RT_F32)
            TABLE_FROM(RT_F64) TABLE_FROM(RT_F16) TABLE_FROM(RT_BF16) TABLE_FROM(RT_BOOL)
                TABLE_FROM(RT_C64) TABLE_FROM(RT_C128)};

/*
 * With the attribute Truncate, the bits that the narrower mantissa cannot hold are cleared before
 * the conversion. As in TensorFlow, numbers that become subnormal are still rounded, and so is
 * every number converted from double to bfloat16.
 */
static inline float cut_float(float x, int bits)
{
    return x != x ? x : kn_bits_float(kn_float_bits(x) & ~((UINT32_C(1) << bits) - 1));
}
static inline double cut_double(double x, int bits)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    u &= ~((UINT64_C(1) << bits) - 1);
    double y;
    memcpy(&y, &u, sizeof y);
    return x != x ? x : y;
}
#define CUT_F32_F16(x)  kn_to_f16(cut_float(x, 23 - 10))
#define CUT_F32_BF16(x) kn_to_bf16(cut_float(x, 23 - 7))
#define CUT_F64_F16(x)  kn_to_f16((float)cut_double(x, 52 - 10))
#define CUT_F64_F32(x)  ((float)cut_double(x, 52 - 23))
CAST_ROW(, RT_F32, float, cut_F16, struct kn_half, float, , CUT_F32_F16)
CAST_ROW(, RT_F32, float, cut_BF16, struct kn_bfloat, float, , CUT_F32_BF16)
CAST_ROW(, RT_F64, double, cut_F16, struct kn_half, double, , CUT_F64_F16)
CAST_ROW(, RT_F64, double, cut_F32, float, double, , CUT_F64_F32)

static kn_map_row *truncating_row(enum rt_dtype from, enum rt_dtype to)
{
    if (from == RT_F32)
        return to == RT_F16 ? RT_F32_to_cut_F16 : to == RT_BF16 ? RT_F32_to_cut_BF16 : NULL;
    if (from == RT_F64)
        return to == RT_F16 ? RT_F64_to_cut_F16 : to == RT_F32 ? RT_F64_to_cut_F32 : NULL;
    return NULL;
}

/* ---- Cast ---- */

/* Returns the integer type in which a quantized type is stored. Conversions treat quantized numbers
 * as these integers. */
static enum rt_dtype stored_as(enum rt_dtype d)
{
    switch (d) {
    case RT_QI8:
        return RT_I8;
    case RT_QU8:
        return RT_U8;
    case RT_QI16:
        return RT_I16;
    case RT_QU16:
        return RT_U16;
    case RT_QI32:
        return RT_I32;
    default:
        return d;
    }
}

static enum rt_status cast_prepare(struct rt_prep *p, void **state)
{
    const enum rt_dtype from = stored_as(p->in[0].dtype), to = stored_as(p->out[0].dtype);
    kn_map_row *row = rt_attr_bool(p->node, "Truncate") ? truncating_row(from, to) : NULL;
    if (!row)
        row = rows[from][to];
    if (from == to)
        return RT_OK; /* a plain copy needs no prepared state */
    if (!row)
        return rt_fail(p->err, RT_UNIMPLEMENTED, "Cast %s to %s is not supported",
                       rt_dtype_name(p->in[0].dtype), rt_dtype_name(p->out[0].dtype));
    kn_map_row **k = rt_prep_alloc(p, sizeof *k);
    if (!k)
        return p->err->code;
    *k = row;
    *state = k;
    return RT_OK;
}

static enum rt_status copy_bytes(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    void *d = r->out[0].data;
    if (in->data == d || rt_tensor_count(in) == 0 || kn_hand_on(r, 0))
        return RT_OK;
    rt_copy_elements((enum rt_dtype)in->dtype, d, in->data, rt_tensor_count(in));
    return RT_OK;
}

static enum rt_status cast_run(struct rt_run *r)
{
    return r->state ? kn_map_run(r) : copy_bytes(r);
}

const struct kn_entry kn_cast = {
    .op = {.name = "Cast", .infer = kn_infer_same, .rows = rt_rows_same},
    .kernels = KN_KERNELS({.op = "Cast",
                           .device = "CPU",
                           .name = "cast",
                           .type_attr = "SrcT",
                           .prepare = cast_prepare,
                           .run = cast_run}),
};

/* ---- Bitcast: the same bytes under another type ---- */

static enum rt_status bitcast_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *out = &x->out[0].shape;
    /* The type is read from the attribute T, because the input's dtype is RT_NO_DTYPE if no kernel
     * implements the producer. */
    const int64_t from = (int64_t)rt_dtype_size(rt_attr_dtype(x->node, "T"));
    const int64_t to = (int64_t)rt_dtype_size(rt_attr_dtype(x->node, "type"));
    if (!from || !to)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Cannot bitcast from %d to %d",
                       (int)x->in[0].dtype, (int)x->out[0].dtype);
    x->alias[0] = 0;
    if (in->rank < 0)
        return RT_OK;
    struct rt_shape s = *in;
    if (from > to) {
        if (s.rank == RT_MAX_RANK)
            return rt_fail(x->err, RT_UNIMPLEMENTED, "Bitcast: rank %d is above %d", s.rank + 1,
                           RT_MAX_RANK);
        s.dim[s.rank++] = from / to;
    } else if (from < to) {
        if (s.rank == 0 || (s.dim[s.rank - 1] >= 0 && s.dim[s.rank - 1] != to / from))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Cannot bitcast from %d to %d",
                           (int)x->in[0].dtype, (int)x->out[0].dtype);
        s.rank--;
    }
    *out = s;
    return RT_OK;
}

/* Marks the op as row-wise unless the batch axis is the last dimension and Bitcast adds or removes
 * a dimension. */
static void bitcast_rows(struct rt_rows *r)
{
    if (r->in[0].shape.rank == r->out[0].shape.rank)
        rt_rows_same(r);
    else
        rt_rows_reshape(r);
}

const struct kn_entry kn_bitcast = {
    .op = {.name = "Bitcast", .infer = bitcast_infer, .rows = bitcast_rows},
    .kernels = KN_CPU("Bitcast", "bitcast", 0, NULL, copy_bytes),
};
