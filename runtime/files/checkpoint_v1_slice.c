#include "runtime/files/checkpoint_v1_slice.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "proto/valid.h"
#include "runtime/base/pieces.h"
#include "runtime/core/pool.h"
#include "runtime/core/str.h"
#include "runtime/core/tensor_proto.h"
#include "runtime/files/slice_set.h"
#include "tensorflow/core/util/saved_tensor_slice.pb-c.h"

/* field numbers of SavedTensorSlices.data and SavedSlice.data */
enum { SLICES_DATA = 2, SLICE_DATA = 3 };
/* number of bytes of the message between two calls of the run's check */
enum { CHECK_BYTES = 1 << 17 };

struct decoder {
    struct rt_checkpoint_v1_field field;
    enum rt_dtype dtype;
    size_t size;  /* size of a value in memory, in bytes */
    int64_t n;    /* number of requested values */
    int64_t have; /* number of values in the message so far; the first n of them are stored */
    char *dst;
    bool has_data;
    size_t n_unchecked; /* number of bytes of the message read since the run's check was last
                         * called */
    const struct rt_checkpoint_run *run;
    struct rt_error *err;
};

struct rt_checkpoint_v1_field rt_checkpoint_v1_field(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct rt_checkpoint_v1_field){5, PB_FIXED32};
    case RT_F64:
        return (struct rt_checkpoint_v1_field){6, PB_FIXED64};
    case RT_STRING:
        return (struct rt_checkpoint_v1_field){8, PB_BYTES};
    case RT_C64:
        return (struct rt_checkpoint_v1_field){9, PB_FIXED32};
    case RT_I64:
        return (struct rt_checkpoint_v1_field){10, PB_VARINT};
    case RT_BOOL:
        return (struct rt_checkpoint_v1_field){11, PB_VARINT};
    case RT_C128:
        return (struct rt_checkpoint_v1_field){12, PB_FIXED64};
    case RT_F16:
    case RT_BF16:
        return (struct rt_checkpoint_v1_field){13, PB_VARINT};
    case RT_U32:
        return (struct rt_checkpoint_v1_field){16, PB_VARINT};
    case RT_U64:
        return (struct rt_checkpoint_v1_field){17, PB_VARINT};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct rt_checkpoint_v1_field){18, PB_BYTES};
    default: /* integer types of up to 32 bits, including quantised types */
        return (struct rt_checkpoint_v1_field){7, PB_VARINT};
    }
}

/* Counts `bytes` more bytes as read. Calls the run's check each time CHECK_BYTES bytes have been
 * read. */
static enum rt_status spend(struct decoder *d, size_t bytes)
{
    d->n_unchecked += bytes;
    if (d->n_unchecked < CHECK_BYTES)
        return RT_OK;
    d->n_unchecked = 0;
    return rt_checkpoint_run_check(d->run, d->err);
}

static enum rt_status malformed(struct decoder *d)
{
    return rt_fail(d->err, RT_DATA_LOSS, "a slice: not a tensorflow.SavedTensorSlices");
}

/* Stores one value, whose bits are the low bits of `bits`. */
static enum rt_status store(struct decoder *d, uint64_t bits, size_t bytes)
{
    if (d->dtype == RT_BOOL)
        bits = bits != 0;
    if (d->have < d->n)
        memcpy(d->dst + (size_t)d->have * d->size, &bits, d->size);
    d->have++;
    return spend(d, bytes);
}

/* Copies values that are represented alike in the message and in memory. */
static enum rt_status store_bytes(struct decoder *d, struct rt_span from)
{
    const int64_t left = d->n > d->have ? d->n - d->have : 0;
    size_t n = from.n;
    enum rt_status st = RT_OK;

    if (n % d->size)
        return malformed(d);
    if (n / d->size > (uint64_t)left)
        n = (size_t)left * d->size;
    for (size_t at = 0; at < n && !st; at += CHECK_BYTES) {
        const size_t piece = n - at < CHECK_BYTES ? n - at : CHECK_BYTES;
        memcpy(d->dst + (size_t)d->have * d->size + at, from.p + at, piece);
        st = spend(d, piece);
    }
    d->have += (int64_t)(from.n / d->size);
    return st;
}

static enum rt_status store_string(struct decoder *d, struct rt_span text)
{
    if (d->have < d->n && !rt_str_set((struct rt_str *)(void *)d->dst + d->have,
                                      rt_checkpoint_run_pool(d->run), text.p, text.n, d->err))
        return d->err->code;
    d->have++;
    return spend(d, text.n + 1);
}

static enum rt_status store_varints(struct decoder *d, struct rt_span packed)
{
    enum rt_status st = RT_OK;
    uint64_t value;

    while (packed.n && !st) {
        const size_t before = packed.n;
        if (!pb_varint(&packed, &value))
            return malformed(d);
        st = store(d, value, before - packed.n);
    }
    return st;
}

/* Stores the values of a field. Ignores a field of another wire type, as protobuf does. */
static enum rt_status take_values(struct decoder *d, const struct pb_field *f)
{
    if (f->type != PB_BYTES)
        return f->type == d->field.wire ? store(d, f->value, f->whole.n) : RT_OK;
    if (d->dtype == RT_STRING)
        return store_string(d, f->bytes);
    return d->field.wire == PB_VARINT ? store_varints(d, f->bytes) : store_bytes(d, f->bytes);
}

/* Reads a message and the nested messages that lead to the values. `level` is 0 for the
 * SavedTensorSlices, 1 for its SavedSlice and 2 for the TensorProto. Several occurrences of a
 * nested message are read as one message, as in protobuf. */
static enum rt_status take_message(struct decoder *d, struct rt_span rest, int level)
{
    static const uint32_t nested[] = {SLICES_DATA, SLICE_DATA};
    struct pb_field f;
    enum rt_status st = RT_OK;
    int more = 0;

    d->has_data |= level == 2;
    while (!st && (more = pb_field_next(&rest, &f)) == 1) {
        if (level < 2 && f.number == nested[level] && f.type == PB_BYTES)
            st = take_message(d, f.bytes, level + 1);
        else if (level == 2 && f.number == d->field.number)
            st = take_values(d, &f);
        if (!st)
            st = spend(d, f.type == PB_BYTES ? 1 : f.whole.n);
    }
    return st ? st : more < 0 ? malformed(d) : RT_OK;
}

enum rt_status rt_checkpoint_v1_validate(struct rt_span message, const char *what,
                                         const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct rt_check check;

    return pb_validate(&tensorflow__saved_tensor_slices__descriptor, message, what,
                       rt_checkpoint_run_as_check(run, &check), err);
}

enum rt_status rt_checkpoint_v1_decode(struct rt_span message, enum rt_dtype dtype, int64_t n,
                                       void *dst, const struct rt_checkpoint_run *run,
                                       struct rt_error *err)
{
    /* A complex element is stored as two values. */
    const int parts = dtype == RT_C64 || dtype == RT_C128 ? 2 : 1;
    struct decoder d = {.field = rt_checkpoint_v1_field(dtype),
                        .dtype = dtype,
                        .size = rt_dtype_size(dtype) / (size_t)parts,
                        .n = n * parts,
                        .dst = dst,
                        .run = run,
                        .err = err};
    enum rt_status st = rt_checkpoint_v1_validate(message, "a slice", run, err);

    if (!st)
        st = take_message(&d, message, 0);
    if (!st && !d.has_data)
        return rt_fail(err, RT_DATA_LOSS, "a slice without data");
    if (!st && d.have / parts != n)
        st = rt_fail(err, RT_DATA_LOSS, "a slice of %lld values of type %s has %lld values",
                     (long long)n, rt_dtype_name(dtype), (long long)(d.have / parts));
    return st;
}

/* ---- the description of a tensor ---- */

/* memory of a slice while the slices are compared, in bytes */
enum { BYTES_PER_SLICE = sizeof(struct rt_slice) + RT_SLICE_SET_BYTES };

enum { TENSORFLOW_MAX_RANK = 254 };

typedef Tensorflow__SavedSliceMeta slice_meta;

/* Reads the type and the shape of an entry. Fails if they differ from those of an earlier entry. */
static enum rt_status describe_shape(struct rt_checkpoint_v1_description *to, const slice_meta *m,
                                     struct rt_error *err)
{
    char before[128], now[128];
    bool is_ref;
    int rank;
    int64_t dim[RT_MAX_RANK];
    const enum rt_status st = rt_shape_from_proto(m->shape, &rank, dim, err);

    if (m->shape && m->shape->n_dim > TENSORFLOW_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "tensor \"%s\": Too many dimensions in tensor",
                       m->name);
    if (st)
        return rt_fail_prefix(err, "tensor \"%s\": ", m->name);
    if (rank < 0)
        return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\" has a shape of unknown rank", m->name);
    rt_shape_text(now, sizeof now, rank, dim);
    if (rt_count(rank, dim) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "tensor \"%s\": a tensor of shape %s", m->name,
                       now);
    if (to->is_described &&
        (rank != to->rank || (rank && memcmp(dim, to->dim, (size_t)rank * sizeof *dim) != 0)))
        return rt_fail(err, RT_INTERNAL,
                       "Incompatible tensor shapes detected for tensor %s: existing = %s, new = %s",
                       m->name, rt_shape_text(before, sizeof before, to->rank, to->dim), now);
    if (to->is_described && (int)m->type != to->wire_type)
        return rt_fail(err, RT_INTERNAL,
                       "Incompatible tensor types detected for tensor %s: existing = %s, new = %s",
                       m->name, rt_dtype_name(rt_dtype_from_wire(to->wire_type, &is_ref)),
                       rt_dtype_name(rt_dtype_from_wire((int)m->type, &is_ref)));
    to->is_described = true;
    to->wire_type = (int)m->type;
    to->rank = rank;
    memcpy(to->dim, dim, sizeof dim);
    return RT_OK;
}

static enum rt_status add_slice(struct rt_slice *s, const char *name, int rank,
                                const Tensorflow__TensorSliceProto *from, struct rt_error *err)
{
    if (!rt_slice_from_proto(s, rank, from))
        return rt_fail(
            err, RT_INTERNAL,
            "tensor \"%s\": Mismatching ranks: a slice of %zu dimensions, the tensor has %d", name,
            from->n_extent, rank);
    for (int i = 0; i < rank; i++) {
        const bool is_full = s->start[i] == 0 && s->length[i] == -1;
        if (!is_full && (s->start[i] < 0 || s->length[i] <= 0))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "tensor \"%s\": Expected non-negative start and positive length but got "
                           "start = %lld, length = %lld",
                           name, (long long)s->start[i], (long long)s->length[i]);
    }
    return RT_OK;
}

static enum rt_status add_slices(struct rt_checkpoint_v1_description *to, const slice_meta *m,
                                 const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    const size_t bytes = m->n_slice * BYTES_PER_SLICE;
    struct rt_check check;
    const struct rt_check *asked = rt_checkpoint_run_as_check(run, &check);
    enum rt_status st = rt_pool_hold(pool, bytes, 0, "the slices of a tensor", err);

    if (st)
        return st;
    struct rt_slice *more = realloc(to->slices, (to->n_slices + m->n_slice + 1) * sizeof *more);
    if (!more) {
        rt_pool_release(pool, bytes);
        return rt_fail_memory(err, "slices", bytes);
    }
    to->slices = more;
    for (size_t i = 0; i < m->n_slice && !st; i++) {
        st = rt_check_tick(asked, i, err);
        if (!st)
            st = add_slice(&more[to->n_slices + i], m->name, to->rank, m->slice[i], err);
    }
    to->n_slices += m->n_slice;
    return st;
}

enum rt_status rt_checkpoint_v1_describe(struct rt_checkpoint_v1_description *to,
                                         struct rt_span entry, const struct rt_checkpoint_run *run,
                                         struct rt_error *err)
{
    const ProtobufCMessageDescriptor *d = &tensorflow__saved_slice_meta__descriptor;
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    struct rt_check check;
    const struct rt_check *asked = rt_checkpoint_run_as_check(run, &check);
    size_t held;
    enum rt_status st = pb_unpacked_bytes_checked(d, entry, asked, &held, err);

    if (!st)
        st = rt_pool_hold(pool, held, 0, "an entry of a checkpoint's list", err);
    if (st)
        return st;
    slice_meta *m = pb_unpack_checked(d, entry, "the list", asked, err);
    st = m ? describe_shape(to, m, err) : pb_unpack_failed(err, RT_DATA_LOSS);
    if (!st)
        st = add_slices(to, m, run, err);
    pb_free(m);
    rt_pool_release(pool, held);
    return st;
}

void rt_checkpoint_v1_free_description(struct rt_checkpoint_v1_description *d,
                                       const struct rt_checkpoint_run *run)
{
    free(d->slices);
    rt_pool_release(rt_checkpoint_run_pool(run), d->n_slices * BYTES_PER_SLICE);
}
