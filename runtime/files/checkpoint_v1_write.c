#include "runtime/files/checkpoint_v1_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/regular_file.h"
#include "runtime/base/sort.h"
#include "runtime/core/pool.h"
#include "runtime/core/slice.h"
#include "runtime/core/str.h"
#include "runtime/files/checkpoint_v1_slice.h"
#include "runtime/files/file_writer.h"
#include "runtime/files/sstable.h"

/* Tags of the fields of SavedTensorSlices, SavedTensorSliceMeta, SavedSliceMeta, SavedSlice,
 * TensorSliceProto, TensorShapeProto and VersionDef: the field's number times 8, plus the wire
 * type. */
enum {
    SLICES_META = 1 << 3 | PB_BYTES,
    SLICES_DATA = 2 << 3 | PB_BYTES,
    META_TENSOR = 1 << 3 | PB_BYTES,
    META_VERSIONS = 2 << 3 | PB_BYTES,
    TENSOR_NAME = 1 << 3 | PB_BYTES,
    TENSOR_SHAPE = 2 << 3 | PB_BYTES,
    TENSOR_TYPE = 3 << 3 | PB_VARINT,
    TENSOR_SLICE = 4 << 3 | PB_BYTES,
    SLICE_NAME = 1 << 3 | PB_BYTES,
    SLICE_SLICE = 2 << 3 | PB_BYTES,
    SLICE_DATA = 3 << 3 | PB_BYTES,
    SLICE_EXTENT = 1 << 3 | PB_BYTES,
    EXTENT_START = 1 << 3 | PB_VARINT,
    EXTENT_LENGTH = 2 << 3 | PB_VARINT,
    SHAPE_DIM = 2 << 3 | PB_BYTES,
    DIM_SIZE = 1 << 3 | PB_VARINT,
    VERSIONS_PRODUCER = 1 << 3 | PB_VARINT,
};
enum {
    WRITER = 1, /* the format version that this writer implements */
    /* number of elements between two calls of the run's check */
    CHECK_EVERY = 1 << 14,
    /* an upper bound on the bytes of a slice, a shape and their tags in a message */
    MAX_SLICE_BYTES = 512,
};
/* TensorFlow's limit on a message, and what it allows for everything but names and values. */
#define MAX_MESSAGE (UINT64_C(1) << 31)
enum { TENSORFLOW_HEADER = 1024 };

/* One tensor, or slice of a tensor, to write. */
struct part {
    const char *name;
    size_t
        order; /* index among the caller's tensors, later among the parts in order of the names */
    struct rt_tensor t;
    int rank; /* rank and dimensions of the full tensor */
    int64_t dim[RT_MAX_RANK];
    struct rt_slice slice;
    struct rt_bytes head; /* the bytes of the message before the values */
    struct rt_bytes key;
    uint64_t n_values; /* size of the encoded values, in bytes */
};

struct save {
    struct part *part;
    size_t n;
    const struct rt_checkpoint_run *run;
    size_t held; /* number of bytes that the run's pool counts */
    struct rt_sstable_writer table;
    struct rt_error *err;
};

static enum rt_status hold(struct save *s, uint64_t bytes, const char *what)
{
    const enum rt_status st = rt_pool_hold(rt_checkpoint_run_pool(s->run), bytes, 0, what, s->err);

    if (!st)
        s->held += bytes;
    return st;
}

static enum rt_status check_element(const struct save *s, int64_t i)
{
    return i % CHECK_EVERY ? RT_OK : rt_checkpoint_run_check(s->run, s->err);
}

/* ---- values ---- */

static size_t varint_size(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

/* How the elements of a type are encoded. */
struct encoding {
    /* Maximum size of an encoded element in bytes by TensorFlow's estimate. 0 if TensorFlow does
     * not write the type. */
    unsigned most;
    bool is_copied; /* whether the encoded elements are the bytes in memory */
};

static struct encoding encoding_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct encoding){4, true};
    case RT_F64:
    case RT_C64:
        return (struct encoding){8, true};
    case RT_C128:
        return (struct encoding){16, true};
    case RT_BOOL:
        return (struct encoding){1, true};
    case RT_U8:
    case RT_QU8:
        return (struct encoding){2, false};
    case RT_U16:
    case RT_F16:
        return (struct encoding){3, false};
    case RT_I8:
    case RT_QI8:
    case RT_I16:
    case RT_I32:
    case RT_QI32:
    case RT_I64:
    case RT_STRING:
        return (struct encoding){10, false};
    default:
        return (struct encoding){0, false};
    }
}

/* Returns the varint of an element. Negative numbers are extended to 64 bits. */
static uint64_t varint_at(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case RT_I8:
    case RT_QI8:
        return (uint64_t)(int64_t)((const int8_t *)t->data)[i];
    case RT_U8:
    case RT_QU8:
        return ((const uint8_t *)t->data)[i];
    case RT_I16:
        return (uint64_t)(int64_t)((const int16_t *)t->data)[i];
    case RT_U16:
    case RT_F16:
        return ((const uint16_t *)t->data)[i];
    case RT_I64:
        return (uint64_t)((const int64_t *)t->data)[i];
    default: /* RT_I32 and RT_QI32 */
        return (uint64_t)(int64_t)((const int32_t *)t->data)[i];
    }
}

/* Sets *out to the size of the encoded values, without the tag and the length of a packed field.
 * Sets *estimate to TensorFlow's estimate of it. */
static enum rt_status measure_values(const struct save *s, const struct rt_tensor *t, uint64_t *out,
                                     uint64_t *estimate)
{
    const int64_t n = rt_tensor_count(t);
    const struct encoding encoding = encoding_of((enum rt_dtype)t->dtype);
    enum rt_status st = RT_OK;

    *out = 0;
    *estimate = encoding.most * (uint64_t)n;
    if (encoding.is_copied) {
        *out = rt_tensor_bytes(t);
        return RT_OK;
    }
    for (int64_t i = 0; i < n && !st; i++) {
        st = check_element(s, i);
        if (t->dtype != RT_STRING) {
            *out += varint_size(varint_at(t, i));
            continue;
        }
        const uint64_t bytes = ((const struct rt_str *)t->data)[i].n;
        *out += 1 + varint_size(bytes) + bytes;
        *estimate += bytes;
    }
    return st;
}

/* Writes each string with its tag and length. */
static enum rt_status put_strings(struct save *s, const struct rt_tensor *t, unsigned char tag)
{
    const struct rt_str *str = t->data;
    const int64_t n = rt_tensor_count(t);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        unsigned char code[11] = {tag};
        size_t n_code = 1;
        uint64_t left = str[i].n;
        for (; left > 127; left >>= 7)
            code[n_code++] = (unsigned char)(left | 128);
        code[n_code++] = (unsigned char)left;
        st = check_element(s, i);
        rt_sstable_put(&s->table, code, n_code);
        rt_sstable_put(&s->table, rt_str_data(&str[i]), str[i].n);
        if (!st)
            st = s->table.status;
    }
    return st;
}

static enum rt_status put_varints(struct save *s, const struct rt_tensor *t)
{
    unsigned char piece[4096];
    size_t n_piece = 0;
    const int64_t n = rt_tensor_count(t);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        uint64_t v = varint_at(t, i);
        for (; v > 127; v >>= 7)
            piece[n_piece++] = (unsigned char)(v | 128);
        piece[n_piece++] = (unsigned char)v;
        if (n_piece > sizeof piece - 10 || i + 1 == n) {
            rt_sstable_put(&s->table, piece, n_piece);
            n_piece = 0;
            st = s->table.status;
        }
        if (!st)
            st = check_element(s, i);
    }
    return st;
}

static enum rt_status put_values(struct save *s, const struct rt_tensor *t)
{
    const enum rt_dtype dtype = (enum rt_dtype)t->dtype;

    if (dtype == RT_STRING)
        return put_strings(s, t,
                           (unsigned char)(rt_checkpoint_v1_field(dtype).number << 3 | PB_BYTES));
    if (!encoding_of(dtype).is_copied)
        return put_varints(s, t);
    rt_sstable_put(&s->table, t->data, rt_tensor_bytes(t));
    return s->table.status;
}

/* ---- messages ---- */

static void add_number(struct rt_bytes *b, int tag, int64_t v)
{
    if (v) { /* 0 is the default value, which is not written. */
        rt_bytes_addc(b, (char)tag);
        rt_bytes_add_varint(b, (uint64_t)v);
    }
}

static void add_bytes(struct rt_bytes *b, int tag, const void *p, size_t n)
{
    rt_bytes_addc(b, (char)tag);
    rt_bytes_add_varint(b, n);
    rt_bytes_add(b, p, n);
}

/* Appends a nested message, whose bytes are those of `inner`, and empties `inner`. */
static void add_message(struct rt_bytes *b, int tag, struct rt_bytes *inner)
{
    b->failed |= inner->failed;
    add_bytes(b, tag, inner->p, inner->n);
    rt_bytes_clear(inner);
}

static void add_name(struct rt_bytes *b, int tag, const char *name)
{
    if (name[0])
        add_bytes(b, tag, name, strlen(name));
}

static void add_slice(struct rt_bytes *b, int tag, const struct rt_slice *s)
{
    struct rt_bytes slice, extent;

    rt_bytes_init(&slice, SIZE_MAX / 2);
    rt_bytes_init(&extent, SIZE_MAX / 2);
    for (int i = 0; i < s->rank; i++) {
        if (s->length[i] >= 0) {
            add_number(&extent, EXTENT_START, s->start[i]);
            rt_bytes_addc(&extent, EXTENT_LENGTH);
            rt_bytes_add_varint(&extent, (uint64_t)s->length[i]);
        }
        add_message(&slice, SLICE_EXTENT, &extent);
    }
    add_message(b, tag, &slice);
}

static void add_shape(struct rt_bytes *b, int tag, int rank, const int64_t *dim)
{
    struct rt_bytes shape, one;

    rt_bytes_init(&shape, SIZE_MAX / 2);
    rt_bytes_init(&one, SIZE_MAX / 2);
    for (int i = 0; i < rank; i++) {
        add_number(&one, DIM_SIZE, dim[i]);
        add_message(&shape, SHAPE_DIM, &one);
    }
    add_message(b, tag, &shape);
}

/* Makes the part of a slice's message that precedes the values. */
static enum rt_status make_head(struct save *s, struct part *p)
{
    const enum rt_dtype dtype = (enum rt_dtype)p->t.dtype;
    const bool is_packed = dtype != RT_STRING && p->n_values;
    const uint32_t field = rt_checkpoint_v1_field(dtype).number;
    const uint64_t n_tensor = p->n_values + (is_packed ? 1 + varint_size(p->n_values) : 0);
    struct rt_bytes front;

    rt_bytes_init(&front, SIZE_MAX / 2);
    add_name(&front, SLICE_NAME, p->name);
    add_slice(&front, SLICE_SLICE, &p->slice);
    rt_bytes_addc(&front, SLICE_DATA);
    rt_bytes_add_varint(&front, n_tensor);
    rt_bytes_addc(&p->head, SLICES_DATA);
    rt_bytes_add_varint(&p->head, front.n + n_tensor);
    rt_bytes_add(&p->head, front.p, front.n);
    p->head.failed |= front.failed;
    rt_bytes_clear(&front);
    if (is_packed) {
        rt_bytes_addc(&p->head, (char)(field << 3 | PB_BYTES));
        rt_bytes_add_varint(&p->head, p->n_values);
    }
    rt_slice_key(&p->key, rt_span_str(p->name), &p->slice);
    if (p->head.failed || p->key.failed)
        return rt_fail_memory(s->err, "a checkpoint", p->head.n + p->key.n);
    return RT_OK;
}

/* Makes the message that lists the tensors. The parts of a tensor follow one another. */
static enum rt_status make_list(const struct save *s, struct rt_bytes *out)
{
    struct rt_bytes meta, tensor, versions;
    enum rt_status st = RT_OK;

    rt_bytes_init(&meta, SIZE_MAX / 2);
    rt_bytes_init(&tensor, SIZE_MAX / 2);
    rt_bytes_init(&versions, SIZE_MAX / 2);
    for (size_t i = 0; i < s->n && !st; i++) {
        const struct part *p = &s->part[i];
        st = check_element(s, (int64_t)i);
        if (i == 0 || strcmp(p->name, p[-1].name) != 0) {
            if (i)
                add_message(&meta, META_TENSOR, &tensor);
            add_name(&tensor, TENSOR_NAME, p->name);
            add_shape(&tensor, TENSOR_SHAPE, p->rank, p->dim);
            add_number(&tensor, TENSOR_TYPE, p->t.dtype);
        }
        add_slice(&tensor, TENSOR_SLICE, &p->slice);
    }
    if (s->n)
        add_message(&meta, META_TENSOR, &tensor);
    add_number(&versions, VERSIONS_PRODUCER, WRITER);
    add_message(&meta, META_VERSIONS, &versions);
    add_message(out, SLICES_META, &meta);
    rt_bytes_clear(&tensor);
    return st ? st : out->failed ? rt_fail_memory(s->err, "a checkpoint", out->n) : RT_OK;
}

/* ---- the parts ---- */

static enum rt_status parse_slice(struct part *p, struct rt_span text, struct rt_error *err)
{
    char shape[128];

    p->rank = p->t.rank;
    memcpy(p->dim, p->t.dim, sizeof p->dim);
    p->slice = (struct rt_slice){.rank = p->t.rank};
    for (int i = 0; i < p->rank; i++)
        p->slice.length[i] = -1;
    if (!text.n)
        return RT_OK;
    const enum rt_status st = rt_slice_parse(text, &p->rank, p->dim, &p->slice, err);
    if (st)
        return st;
    struct rt_slice resolved = p->slice;
    rt_slice_resolve(&resolved, p->rank, p->dim);
    if (p->rank == p->t.rank &&
        memcmp(resolved.length, p->t.dim, (size_t)p->rank * sizeof *p->dim) == 0)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Slice in shape_and_slice specification does not match the shape of the tensor "
                   "to  save: %.*s, tensor: %s",
                   (int)text.n, (const char *)text.p,
                   rt_shape_text(shape, sizeof shape, p->t.rank, p->t.dim));
}

static enum rt_status check_type(enum rt_dtype dtype, struct rt_error *err)
{
    if (encoding_of(dtype).most || dtype == RT_U32 || dtype == RT_U64)
        return RT_OK;
    return rt_fail(err, RT_UNIMPLEMENTED, "Saving data type %s not yet supported",
                   rt_dtype_name(dtype));
}

/* Checks that a part has the shape and the type of the preceding part of the same tensor. */
static enum rt_status check_same(const struct part *p, const struct part *before,
                                 struct rt_error *err)
{
    char a[128], b[128];

    if (strcmp(p->name, before->name) != 0)
        return RT_OK;
    if (p->rank != before->rank ||
        memcmp(p->dim, before->dim, (size_t)p->rank * sizeof *p->dim) != 0)
        return rt_fail(
            err, RT_INTERNAL,
            "Mismatching shapes: existing tensor = %s, trying to add name %s, shape = %s",
            rt_shape_text(a, sizeof a, before->rank, before->dim), p->name,
            rt_shape_text(b, sizeof b, p->rank, p->dim));
    if (p->t.dtype != before->t.dtype)
        return rt_fail(err, RT_INTERNAL,
                       "Mismatching types: existing type = %s, trying to add name %s, type = %s",
                       rt_dtype_name((enum rt_dtype)before->t.dtype), p->name,
                       rt_dtype_name((enum rt_dtype)p->t.dtype));
    return RT_OK;
}

static enum rt_status check_size(const struct part *p, uint64_t estimate, struct rt_error *err)
{
    struct rt_bytes front;

    if (!encoding_of((enum rt_dtype)p->t.dtype).most)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Tensor slice serialization not implemented for dtype %d", p->t.dtype);
    rt_bytes_init(&front, SIZE_MAX / 2);
    add_name(&front, SLICE_NAME, p->name);
    add_slice(&front, SLICE_SLICE, &p->slice);
    const uint64_t bytes = front.n + TENSORFLOW_HEADER + estimate;
    rt_bytes_clear(&front);
    if (bytes <= MAX_MESSAGE)
        return RT_OK;
    return rt_fail(
        err, RT_INVALID_ARGUMENT,
        "Tensor slice is too large to serialize (conservative estimate: %" PRIu64 " bytes)", bytes);
}

static enum rt_status prepare_part(struct save *s, struct part *p, struct rt_span slice)
{
    struct rt_check check;
    uint64_t estimate = 0;
    enum rt_status st = rt_checkpoint_run_check(s->run, s->err);

    if (!st)
        st = parse_slice(p, slice, s->err);
    if (!st)
        st = check_type((enum rt_dtype)p->t.dtype, s->err);
    if (!st && p > s->part)
        st = check_same(p, p - 1, s->err);
    if (!st)
        st = rt_tensor_load_checked(&p->t, rt_checkpoint_run_as_check(s->run, &check), s->err);
    if (!st)
        st = measure_values(s, &p->t, &p->n_values, &estimate);
    if (!st)
        st = check_size(p, estimate, s->err);
    /* The name is in the message, the key and the list. */
    if (!st)
        st = hold(s, 4 * (strlen(p->name) + MAX_SLICE_BYTES), "the names of a checkpoint");
    if (!st && p->t.dtype != RT_STRING && p->n_values > rt_tensor_bytes(&p->t))
        st = hold(s, p->n_values - rt_tensor_bytes(&p->t), "the values of a checkpoint");
    return st ? st : make_head(s, p);
}

static int by_name(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int c = strcmp(x->name, y->name);

    return c ? c : (x->order > y->order) - (x->order < y->order);
}

static int compare_keys(const struct part *x, const struct part *y)
{
    const size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    const int c = memcmp(x->key.p, y->key.p, n);

    return c ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

static int by_key(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int c = compare_keys(x, y);

    return c ? c : (x->order > y->order) - (x->order < y->order);
}

/* Sorts the parts by their names, and prepares them in this order, as TensorFlow does. */
static enum rt_status prepare(struct save *s, const struct rt_span *slices)
{
    struct rt_check check;
    enum rt_status st =
        rt_sort_alloc(s->part, s->n, sizeof *s->part, by_name, "the names of a checkpoint",
                      rt_checkpoint_run_as_check(s->run, &check), s->err);

    for (size_t i = 0; i < s->n && !st; i++) {
        struct part *p = &s->part[i];
        st = prepare_part(s, p, slices ? slices[p->order] : rt_span_of(NULL, 0));
        p->order = i;
    }
    return st;
}

static enum rt_status to_file(void *arg, const void *p, size_t n, struct rt_error *err)
{
    return rt_file_writer_put(arg, p, n, err);
}

/* Writes the list, and the messages of the slices sorted by their keys. Of slices with equal keys,
 * only the first is written. */
static enum rt_status write_table(struct save *s)
{
    struct rt_bytes list;
    struct rt_check check;

    rt_bytes_init(&list, SIZE_MAX / 2);
    enum rt_status st = make_list(s, &list);
    if (!st) {
        rt_sstable_add(&s->table, rt_span_of("", 0), rt_span_of(list.p, list.n));
        st = s->table.status;
    }
    rt_bytes_clear(&list);
    if (!st)
        st = rt_sort_alloc(s->part, s->n, sizeof *s->part, by_key, "the keys of a checkpoint",
                           rt_checkpoint_run_as_check(s->run, &check), s->err);
    for (size_t i = 0; i < s->n && !st; i++) {
        const struct part *p = &s->part[i];
        if (i && compare_keys(p - 1, p) == 0)
            continue;
        rt_sstable_add_key(&s->table, rt_span_of(p->key.p, p->key.n), p->head.n + p->n_values);
        rt_sstable_put(&s->table, p->head.p, p->head.n);
        st = put_values(s, &p->t);
    }
    if (!st && !rt_sstable_end(&s->table))
        st = s->table.status ? s->table.status
                             : rt_fail_memory(s->err, "a checkpoint", s->table.file.n);
    return st;
}

static void save_clear(struct save *s)
{
    for (size_t i = 0; i < s->n; i++) {
        rt_tensor_clear(&s->part[i].t);
        rt_bytes_clear(&s->part[i].head);
        rt_bytes_clear(&s->part[i].key);
    }
    free(s->part);
    rt_pool_release(rt_checkpoint_run_pool(s->run), s->held);
}

enum rt_status rt_checkpoint_v1_write(const char *path, int n, const char *const *names,
                                      const struct rt_tensor *tensors, const struct rt_span *slices,
                                      const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct save s = {.run = run, .err = err};
    struct rt_file_writer file;
    enum rt_status st = hold(&s, 2 * (uint64_t)n * sizeof *s.part, "the names of a checkpoint");

    if (!st && !(s.part = calloc((size_t)n + 1, sizeof *s.part)))
        st = rt_fail_memory(err, "a checkpoint", (size_t)n * sizeof *s.part);
    for (int i = 0; i < n && !st; i++) {
        struct part *p = &s.part[s.n++];
        *p = (struct part){.name = names[i], .order = (size_t)i};
        rt_tensor_ref(&p->t, &tensors[i]);
        rt_bytes_init(&p->head, SIZE_MAX / 2);
        rt_bytes_init(&p->key, SIZE_MAX / 2);
    }
    if (!st)
        st = prepare(&s, slices);
    if (!st)
        st = strlen(path) > 4000 ? rt_fail_errno_as_tensorflow(err, path, ENAMETOOLONG)
                                 : rt_file_writer_open(&file, path, run, err);
    if (!st) {
        rt_sstable_begin_sink(&s.table, to_file, &file, err);
        st = write_table(&s);
        rt_sstable_clear(&s.table);
        st = rt_file_writer_publish(&file, rt_file_writer_close(&file, st, err), err);
    }
    save_clear(&s);
    return st;
}
