#include "runtime/core/tensor_proto.h"

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/pieces.h"

enum rt_status rt_shape_from_proto(const Tensorflow__TensorShapeProto *p, int *rank,
                                   int64_t dim[RT_MAX_RANK], struct rt_error *err)
{
    *rank = 0;
    if (!p)
        return RT_OK;
    if (p->unknown_rank) {
        *rank = -1;
        return RT_OK;
    }
    if (p->n_dim > RT_MAX_RANK)
        return rt_fail(err, RT_UNIMPLEMENTED, "a shape of %zu dimensions: at most %d are known",
                       p->n_dim, RT_MAX_RANK);
    for (size_t i = 0; i < p->n_dim; i++) {
        if (p->dim[i]->size < -1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Shape [%lld] has dimensions below -1: dimension %zu",
                           (long long)p->dim[i]->size, i);
        dim[i] = p->dim[i]->size;
    }
    *rank = (int)p->n_dim;
    return RT_OK;
}

/* The typed values of a TensorProto: n values, which begin at `p` and have the representation
 * `form`. */
struct values {
    const void *p;
    size_t n;
    enum { I32, F32, F64, I64, U32, U64, BOOLS, BYTES8, STRINGS, NONE } form;
};

static struct values values_of(const Tensorflow__TensorProto *p, enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct values){p->float_val, p->n_float_val, F32};
    case RT_F64:
        return (struct values){p->double_val, p->n_double_val, F64};
    case RT_F16:
    case RT_BF16:
        return (struct values){p->half_val, p->n_half_val, I32};
    case RT_C64:
        return (struct values){p->scomplex_val, p->n_scomplex_val, F32};
    case RT_C128:
        return (struct values){p->dcomplex_val, p->n_dcomplex_val, F64};
    case RT_I64:
        return (struct values){p->int64_val, p->n_int64_val, I64};
    case RT_U32:
        return (struct values){p->uint32_val, p->n_uint32_val, U32};
    case RT_U64:
        return (struct values){p->uint64_val, p->n_uint64_val, U64};
    case RT_BOOL:
        return (struct values){p->bool_val, p->n_bool_val, BOOLS};
    case RT_STRING:
        return (struct values){p->string_val, p->n_string_val, STRINGS};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct values){p->float8_val.data, p->float8_val.len, BYTES8};
    case RT_RESOURCE:
    case RT_VARIANT:
    case RT_NO_DTYPE:
    case RT_N_DTYPES:
        return (struct values){NULL, 0, NONE};
    default: /* integer types of up to 32 bits, including quantised types */
        return (struct values){p->int_val, p->n_int_val, I32};
    }
}

/* The number of elements that are converted between two checks. */
enum { PIECE = 1 << 20 };

/* Converts the values with indexes `from` to `n - 1` into elements of `size` bytes. */
static void store_piece(const struct values *v, char *dst, size_t size, int64_t from, int64_t n)
{
    if (v->form == I32 && size == 2) {
        for (int64_t i = from; i < n; i++)
            ((uint16_t *)dst)[i] = (uint16_t)((const int32_t *)v->p)[i];
    } else if (v->form == I32 && size == 1) {
        for (int64_t i = from; i < n; i++)
            ((uint8_t *)dst)[i] = (uint8_t)((const int32_t *)v->p)[i];
    } else if (v->form == BOOLS) {
        for (int64_t i = from; i < n; i++)
            ((uint8_t *)dst)[i] = ((const protobuf_c_boolean *)v->p)[i] != 0;
    } else {
        /* These values are represented alike in the message and in memory. */
        memcpy(dst + (size_t)from * size, (const char *)v->p + (size_t)from * size,
               (size_t)(n - from) * size);
    }
}

static enum rt_status store(const struct values *v, char *dst, size_t size, int64_t n,
                            const struct rt_check *check, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (int64_t from = 0; from < n && !st; from += PIECE) {
        const bool is_last = n - from <= PIECE;
        store_piece(v, dst, size, from, is_last ? n : from + PIECE);
        st = is_last ? RT_OK : rt_check_call(check, err);
    }
    return st;
}

/* Fills elements `from` to `n - 1` with copies of element `from - 1`. Each memcpy doubles the
 * filled part, up to PIECE elements. */
static enum rt_status repeat_last(char *dst, size_t size, int64_t from, int64_t n,
                                  const struct rt_check *check, struct rt_error *err)
{
    char *at = dst + (size_t)(from - 1) * size;
    enum rt_status st = RT_OK;

    for (int64_t have = 1, left = n - from; left > 0 && !st;) {
        const int64_t most = have < PIECE ? have : PIECE, k = left < most ? left : most;
        memcpy(at + (size_t)have * size, at, (size_t)k * size);
        have += k;
        left -= k;
        st = k < PIECE ? RT_OK : rt_check_call(check, err);
    }
    return st;
}

static enum rt_status fill_strings(const Tensorflow__TensorProto *p, struct rt_str *dst, int64_t n,
                                   const struct rt_check *check, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && p->n_string_val && !st; i++) {
        size_t k = (size_t)i < p->n_string_val ? (size_t)i : p->n_string_val - 1;
        if (k < (size_t)i)
            rt_str_copy(&dst[i], &dst[k]);
        else if (!rt_str_set(&dst[i], NULL, p->string_val[k].data, p->string_val[k].len, err))
            return err->code;
        st = rt_check_tick(check, (uint64_t)i, err);
    }
    return st;
}

/* Reads strings from tensor_content: the lengths of all strings as varints, followed by the bytes
 * of all strings. */
static enum rt_status strings_from_content(struct rt_span content, struct rt_str *dst, int64_t n,
                                           const struct rt_check *check, struct rt_error *err)
{
    struct rt_span lengths = content, data = content;
    uint64_t len, total = 0;
    enum rt_status st;

    for (int64_t i = 0; i < n; i++) {
        if (!pb_varint(&data, &len) || len > content.n)
            return rt_fail(err, RT_INVALID_ARGUMENT, "tensor_content: length %lld of %lld is bad",
                           (long long)i, (long long)n);
        total += len; /* `total` cannot overflow, because it is at most `2 * content.n`. */
        if (total > content.n)
            break;
        if ((st = rt_check_tick(check, (uint64_t)i, err)))
            return st;
    }
    if (total != data.n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "tensor_content: %zu bytes of strings, their lengths say otherwise", data.n);
    for (int64_t i = 0; i < n; i++) {
        pb_varint(&lengths, &len);
        if (!rt_str_set(&dst[i], NULL, data.p, (size_t)len, err))
            return err->code;
        data.p += len;
        if ((st = rt_check_tick(check, (uint64_t)i, err)))
            return st;
    }
    return RT_OK;
}

/* Kernels rely on bools being 0 or 1. */
static enum rt_status check_bools(struct rt_span content, const struct rt_check *check,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < content.n && !st; i++) {
        if (content.p[i] > 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "tensor_content: byte %zu is no bool", i);
        st = rt_check_tick(check, i, err);
    }
    return st;
}

static enum rt_status fill(const Tensorflow__TensorProto *p, struct rt_tensor *t,
                           const struct rt_check *check, struct rt_error *err)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    size_t size = rt_dtype_size(dtype);
    int64_t n = rt_tensor_count(t);
    struct rt_span content = rt_span_of(p->tensor_content.data, p->tensor_content.len);
    enum rt_status st;

    if (dtype == RT_STRING)
        return content.n ? strings_from_content(content, t->data, n, check, err)
                         : fill_strings(p, t->data, n, check, err);
    if (content.n) {
        st = dtype == RT_BOOL ? check_bools(content, check, err) : RT_OK;
        return st ? st : rt_copy_pieces(t->data, content.p, content.n, check, err);
    }
    struct values v = values_of(p, dtype);
    int64_t have = (int64_t)v.n;
    if (dtype == RT_C64 || dtype == RT_C128)
        have /= 2;
    if (have > n)
        have = n;
    if (!have)
        return rt_zero_pieces(t->data, (size_t)n * size, check, err);
    st = store(&v, t->data, size, have, check, err);
    return st ? st : repeat_last(t->data, size, have, n, check, err);
}

enum rt_status rt_tensor_from_proto(const Tensorflow__TensorProto *p, size_t limit,
                                    struct rt_tensor *out, struct rt_pool *pool,
                                    const struct rt_check *check, struct rt_error *err)
{
    bool is_ref;
    char buffer[128];
    int rank;
    int64_t dim[RT_MAX_RANK];
    struct rt_tensor t;
    enum rt_dtype dtype = rt_dtype_from_wire((int)p->dtype, &is_ref);
    size_t size = rt_dtype_size(dtype), content = p->tensor_content.len, present;

    *out = (struct rt_tensor){0};
    if (dtype == RT_NO_DTYPE || is_ref)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of type %d, which does not exist",
                       (int)p->dtype);
    enum rt_status st = rt_shape_from_proto(p->tensor_shape, &rank, dim, err);
    if (st)
        return st;
    if (rank < 0)
        rank = 0; /* TensorFlow reads a shape of unknown rank as a scalar. */
    const int64_t n = rt_count(rank, dim);
    if (n < 0 || (n == 0 && rt_shape_check(dtype, rank, dim, NULL, NULL)))
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of shape %s",
                       rt_shape_text(buffer, sizeof buffer, rank, dim));
    if (n && !rt_dtype_is_plain(dtype) && dtype != RT_STRING)
        return rt_fail(err, RT_UNIMPLEMENTED, "a %s tensor as a value", rt_dtype_name(dtype));
    /* The shape is checked against the number of bytes in the message before memory is allocated
     * for the tensor. */
    if (content && n) {
        if (dtype != RT_STRING && ((uint64_t)n > SIZE_MAX / size || (size_t)n * size != content))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "tensor_content holds %zu bytes, not those of shape %s and type %s",
                           content, rt_shape_text(buffer, sizeof buffer, rank, dim),
                           rt_dtype_name(dtype));
        if (dtype == RT_STRING && (uint64_t)n > content)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "tensor_content holds %zu bytes, too few for %lld strings", content,
                           (long long)n);
        present = (size_t)n;
    } else {
        present = values_of(p, dtype).n;
    }
    if ((uint64_t)n > present && (uint64_t)n > limit / size)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "a tensor of shape %s and type %s of which %zu values are given: more than "
                       "%zu bytes",
                       rt_shape_text(buffer, sizeof buffer, rank, dim), rt_dtype_name(dtype),
                       present, limit);
    st = rt_tensor_new_checked(&t, pool, dtype, rank, dim, check, err);
    if (st)
        return st;
    if (n)
        st = fill(p, &t, check, err);
    if (st)
        rt_tensor_clear(&t);
    else
        *out = t;
    return st;
}

/* ---- from bytes ---- */

/* What distinguishes the two functions that parse bytes: the type that they require, and the words
 * of their error messages. */
struct rules {
    bool takes_any;
    enum rt_dtype want;
    const char *no_message, *no_tensor;
};

static enum rt_status check_type(const struct rules *u, enum rt_dtype found, struct rt_error *err)
{
    if (u->takes_any || found == u->want)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Type mismatch between parsed tensor (%s) and dtype (%s)", rt_dtype_name(found),
                   rt_dtype_name(u->want));
}

static enum rt_status from_message(const Tensorflow__TensorProto *p, const struct rules *u,
                                   size_t limit, struct rt_tensor *out, struct rt_pool *pool,
                                   const struct rt_check *check, struct rt_error *err)
{
    const enum rt_dtype dtype = rt_dtype_from_wire((int)p->dtype, NULL);
    struct rt_error why = {0};
    enum rt_status st = RT_OK;

    /* rt_tensor_from_proto would also refuse handles, but its error message would not report the
     * wrong type. */
    if (dtype == RT_RESOURCE || dtype == RT_VARIANT)
        st = check_type(u, dtype, err);
    if (st)
        return st;
    st = rt_tensor_from_proto(p, limit, out, pool, check, &why);
    if (st)
        return rt_fail(err, st, "%s: %s", u->no_tensor, why.msg);
    st = check_type(u, (enum rt_dtype)out->dtype, err);
    if (st)
        rt_tensor_clear(out);
    return st;
}

static enum rt_status parse(struct rt_span bytes, const struct rules *u, size_t limit,
                            struct rt_tensor *out, struct rt_pool *pool,
                            const struct rt_check *check, struct rt_error *err)
{
    const ProtobufCMessageDescriptor *type = &tensorflow__tensor_proto__descriptor;
    struct rt_error why = {0};
    size_t unpacked = 0;
    enum rt_status st = pb_unpacked_bytes_checked(type, bytes, check, &unpacked, err);

    *out = (struct rt_tensor){0};
    if (!st)
        st = rt_pool_charge(pool, unpacked, "a parsed tensor", err);
    if (st)
        return st;
    Tensorflow__TensorProto *p = pb_unpack_checked(type, bytes, "the message", check, &why);
    if (!p) {
        st = pb_unpack_failed(&why, RT_INVALID_ARGUMENT);
        st = st == RT_INVALID_ARGUMENT ? rt_fail(err, st, "%s: %s", u->no_message, why.msg)
                                       : rt_fail(err, st, "%s", why.msg);
    } else {
        st = from_message(p, u, limit, out, pool, check, err);
    }
    pb_free(p);
    rt_pool_discharge(pool, unpacked);
    return st;
}

enum rt_status rt_tensor_parse(struct rt_span bytes, enum rt_dtype want, size_t limit,
                               struct rt_tensor *out, struct rt_pool *pool,
                               const struct rt_check *check, struct rt_error *err)
{
    const struct rules u = {.want = want,
                            .no_message = "Could not parse `serialized` as TensorProto",
                            .no_tensor = "Cannot parse tensor from proto"};

    return parse(bytes, &u, limit, out, pool, check, err);
}

enum rt_status rt_tensor_parse_any(struct rt_span bytes, size_t limit, struct rt_tensor *out,
                                   struct rt_pool *pool, const struct rt_check *check,
                                   struct rt_error *err)
{
    const struct rules u = {.takes_any = true,
                            .no_message = "Could not parse serialized proto",
                            .no_tensor = "Could not construct tensor from proto"};

    return parse(bytes, &u, limit, out, pool, check, err);
}
