#include "runtime/files/checkpoint_v1_slice.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/pieces.h"
#include "runtime/core/pool.h"
#include "runtime/core/str.h"
#include "runtime/files/slice_set.h"

/* field numbers of SavedTensorSlices.data and SavedSlice.data */
enum { SLICES_DATA = 2, SLICE_DATA = 3 };
/* number of bytes of the message between two calls of the run's check */
enum { CHECK_BYTES = 1 << 17 };

/* The field of a TensorProto that contains the values of a dtype. */
struct form {
    uint32_t field;
    enum pb_wire_type wire; /* wire type of a value that is not packed */
};

struct decoder {
    struct form form;
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

static struct form form_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct form){5, PB_FIXED32};
    case RT_F64:
        return (struct form){6, PB_FIXED64};
    case RT_STRING:
        return (struct form){8, PB_BYTES};
    case RT_C64:
        return (struct form){9, PB_FIXED32};
    case RT_I64:
        return (struct form){10, PB_VARINT};
    case RT_BOOL:
        return (struct form){11, PB_VARINT};
    case RT_C128:
        return (struct form){12, PB_FIXED64};
    case RT_F16:
    case RT_BF16:
        return (struct form){13, PB_VARINT};
    case RT_U32:
        return (struct form){16, PB_VARINT};
    case RT_U64:
        return (struct form){17, PB_VARINT};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct form){18, PB_BYTES};
    default: /* integer types of up to 32 bits, including quantised types */
        return (struct form){7, PB_VARINT};
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

static enum rt_status take_values(struct decoder *d, const struct pb_field *f)
{
    if (d->dtype == RT_STRING)
        return f->type == PB_BYTES ? store_string(d, f->bytes) : malformed(d);
    if (f->type == PB_BYTES && d->form.wire == PB_VARINT)
        return store_varints(d, f->bytes);
    if (f->type == PB_BYTES)
        return store_bytes(d, f->bytes);
    return f->type == d->form.wire ? store(d, f->value, f->whole.n) : malformed(d);
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
        if (level < 2 && f.number == nested[level])
            st = f.type == PB_BYTES ? take_message(d, f.bytes, level + 1) : malformed(d);
        else if (level == 2 && f.number == d->form.field)
            st = take_values(d, &f);
        if (!st)
            st = spend(d, f.type == PB_BYTES ? 1 : f.whole.n);
    }
    return st ? st : more < 0 ? malformed(d) : RT_OK;
}

enum rt_status rt_checkpoint_v1_decode(struct rt_span message, enum rt_dtype dtype, int64_t n,
                                       void *dst, const struct rt_checkpoint_run *run,
                                       struct rt_error *err)
{
    /* A complex element is stored as two values. */
    const int parts = dtype == RT_C64 || dtype == RT_C128 ? 2 : 1;
    struct decoder d = {.form = form_of(dtype),
                        .dtype = dtype,
                        .size = rt_dtype_size(dtype) / (size_t)parts,
                        .n = n * parts,
                        .dst = dst,
                        .run = run,
                        .err = err};
    enum rt_status st = take_message(&d, message, 0);

    if (!st && !d.has_data)
        return rt_fail(err, RT_DATA_LOSS, "a slice without data");
    if (!st && d.have / parts != n)
        st = rt_fail(err, RT_DATA_LOSS, "a slice of %lld values of type %s has %lld values",
                     (long long)n, rt_dtype_name(dtype), (long long)(d.have / parts));
    return st;
}

/* memory of a slice while the slices are compared, in bytes */
enum { BYTES_PER_SLICE = sizeof(struct rt_slice) + RT_SLICE_SET_BYTES };

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

enum rt_status rt_checkpoint_v1_add_slices(struct rt_checkpoint_v1_slices *to, const char *name,
                                           int rank, const Tensorflow__SavedSliceMeta *m,
                                           const struct rt_checkpoint_run *run,
                                           struct rt_error *err)
{
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    const size_t bytes = m->n_slice * BYTES_PER_SLICE;
    struct rt_check check;
    const struct rt_check *asked = rt_checkpoint_run_as_check(run, &check);
    enum rt_status st = rt_pool_hold(pool, bytes, 0, "the slices of a tensor", err);

    if (st)
        return st;
    struct rt_slice *more = realloc(to->all, (to->n + m->n_slice + 1) * sizeof *more);
    if (!more) {
        rt_pool_release(pool, bytes);
        return rt_fail_memory(err, "slices", bytes);
    }
    to->all = more;
    for (size_t i = 0; i < m->n_slice && !st; i++) {
        st = rt_check_tick(asked, i, err);
        if (!st)
            st = add_slice(&more[to->n + i], name, rank, m->slice[i], err);
    }
    to->n += m->n_slice;
    return st;
}

void rt_checkpoint_v1_free_slices(struct rt_checkpoint_v1_slices *s,
                                  const struct rt_checkpoint_run *run)
{
    free(s->all);
    rt_pool_release(rt_checkpoint_run_pool(run), s->n * BYTES_PER_SLICE);
}
