/* Reads the index of a checkpoint. The index is a table of messages sorted by key (sstable.h). */
#include "runtime/files/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "runtime/base/pieces.h"
#include "runtime/core/pool.h"
#include "runtime/core/tensor_proto.h"
#include "runtime/files/slice_set.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb-c.h"

enum {
    /*
     * Limit on the total size of the names in an index: FREE_NAME_BYTES plus NAME_BYTES_PER_BYTE
     * times the size of the entries without their names. An entry counts as FIXED_BYTES plus the
     * size of its message, up to VALUE_BYTES; in a sparse file, a larger message may occupy no disk
     * space. TensorFlow's entries have 15 to 30 bytes, which allows names of 700 bytes on average.
     * Without the limit, an entry of five bytes could have a name of 64 KiB.
     */
    FREE_NAME_BYTES = 1 << 20,
    NAME_BYTES_PER_BYTE = 32,
    FIXED_BYTES = 8,
    VALUE_BYTES = 64,
    /* minimum increase of the pool's charge for the index, in bytes */
    HOLD_STEP = 1 << 16,
};

/* The state of reading an index. Entries are either added to the checkpoint or only measured. */
struct reader {
    struct rt_checkpoint *c;
    const struct rt_check *check; /* check of the run; may be NULL */
    size_t name_bytes;            /* number of bytes that the names of further entries may occupy */
    /* The members below are set only if entries are measured. */
    int64_t *weight_bytes;
    int64_t *shard_size; /* shard sizes (rt_bundle_check_file); allocated by read_header */
    bool shard_failed;   /* whether the error concerns a shard, not the index */
};

static size_t index_bytes(const struct rt_checkpoint *c)
{
    return rt_arena_used(c->arena) + (size_t)c->capacity * sizeof *c->entry +
           (size_t)c->n_shards * sizeof *c->shard;
}

/* Reduces the pool's charge to the memory of the index. Called when the unpacked messages have been
 * freed. */
static void release_surplus(struct rt_checkpoint *c)
{
    const size_t all = index_bytes(c);

    if (all >= c->held)
        return;
    rt_pool_release(c->pool, c->held - all);
    c->held = all;
}

/* Makes the pool count the memory of the index and `bytes` more bytes. */
static enum rt_status hold(struct rt_checkpoint *c, size_t bytes, struct rt_error *err)
{
    size_t all = index_bytes(c) + bytes;

    if (all <= c->held)
        return RT_OK;
    all = all < c->held + HOLD_STEP ? c->held + HOLD_STEP : all;
    const enum rt_status st =
        rt_pool_hold(c->pool, all - c->held, 0, "the index of a checkpoint", err);
    if (!st)
        c->held = all;
    return st;
}

static enum rt_status read_header(struct reader *r, struct rt_span value, struct rt_error *err)
{
    struct rt_checkpoint *c = r->c;
    enum rt_status st = RT_OK;
    Tensorflow__BundleHeaderProto *h = pb_unpack_checked(
        &tensorflow__bundle_header_proto__descriptor, value, "header", r->check, err);
    if (!h)
        return pb_unpack_failed(err, RT_DATA_LOSS);
    /* TensorFlow takes any value but BIG for LITTLE. */
    c->is_swapped = h->endianness == TENSORFLOW__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG;
    if (h->version && h->version->min_consumer > 1)
        st = rt_fail(err, RT_UNIMPLEMENTED, "needs a reader of version %d, this is 1",
                     (int)h->version->min_consumer);
    else if (h->num_shards < 1 || h->num_shards > RT_BUNDLE_MAX_SHARDS)
        st = rt_fail(err, RT_DATA_LOSS, "%d shards", (int)h->num_shards);
    c->n_shards = st ? 0 : h->num_shards;
    pb_free(h);
    if (!st)
        st = hold(c, 0, err);
    if (st || !r->weight_bytes)
        return st;
    r->shard_size = malloc((size_t)c->n_shards * sizeof *r->shard_size);
    if (!r->shard_size)
        return rt_fail_memory(err, "shards", (size_t)c->n_shards * sizeof *r->shard_size);
    for (int i = 0; i < c->n_shards; i++)
        r->shard_size[i] = -1;
    return RT_OK;
}

/* Makes each read of the tensor fail with the status and the message of `why`. Opening the
 * checkpoint succeeds, because its other tensors can be read. */
static enum rt_status refuse_reads(struct rt_checkpoint *c, struct rt_bundle_entry *e,
                                   const struct rt_error *why, struct rt_error *err)
{
    e->refusal = why->code;
    e->why_not = rt_arena_strdup(c->arena, why->msg);
    return e->why_not ? RT_OK : rt_fail_memory(err, "an entry", sizeof why->msg);
}

static enum rt_status read_parts(const struct reader *r, struct rt_bundle_entry *e,
                                 const Tensorflow__BundleEntryProto *p, struct rt_error *err)
{
    struct rt_checkpoint *c = r->c;
    struct rt_error why = {0};
    if (p->n_slices > INT32_MAX)
        return rt_fail(err, RT_DATA_LOSS, "%zu slices", p->n_slices);
    enum rt_status st = hold(c, p->n_slices * (sizeof(struct rt_slice) + RT_SLICE_SET_BYTES), err);
    if (st)
        return st;
    struct rt_slice *part = rt_arena_array(c->arena, p->n_slices, sizeof *part);
    if (!part)
        return rt_fail_memory(err, "slices", p->n_slices * sizeof *part);
    for (size_t i = 0; i < p->n_slices && !st; i++) {
        const Tensorflow__TensorSliceProto *s = p->slices[i];
        st = rt_check_tick(r->check, i, err);
        if (st)
            return st;
        if (!rt_slice_from_proto(&part[i], e->pub.shape.rank, s))
            st = rt_fail(&why, RT_INTERNAL,
                         "Mismatching ranks: a slice of %zu dimensions, the tensor has %d",
                         s->n_extent, e->pub.shape.rank);
    }
    if (!st)
        st = rt_slice_set_check(part, p->n_slices, e->pub.shape.rank, e->pub.shape.dim, r->check,
                                &why);
    if (st == RT_INTERNAL)
        st = refuse_reads(c, e, &why, err);
    else if (st)
        rt_error_copy(err, &why);
    if (st)
        return st;
    e->n_parts = (int)p->n_slices;
    e->parts = part;
    e->pub.is_sliced = true;
    return RT_OK;
}

static enum rt_status fill_entry(const struct reader *r, struct rt_bundle_entry *e,
                                 const Tensorflow__BundleEntryProto *p, struct rt_error *err)
{
    struct rt_checkpoint *c = r->c;
    struct rt_error why = {0};
    bool is_ref;

    e->pub.dtype = rt_dtype_from_wire((int)p->dtype, &is_ref);
    e->pub.shard = p->shard_id;
    e->pub.bytes = p->size;
    e->offset = p->offset;
    e->crc = p->crc32c;
    if (p->shard_id < 0 || p->shard_id >= c->n_shards)
        return rt_fail(err, RT_DATA_LOSS, "shard %d of %d", (int)p->shard_id, c->n_shards);
    if (p->offset < 0 || p->size < 0 || p->offset > INT64_MAX - p->size)
        return rt_fail(err, RT_DATA_LOSS, "%lld bytes at %lld", (long long)p->size,
                       (long long)p->offset);
    if (rt_shape_from_proto(p->shape, &e->pub.shape.rank, e->pub.shape.dim, &why) ||
        e->pub.dtype == RT_NO_DTYPE || is_ref) {
        /* A newer TensorFlow may have written the entry. */
        e->pub.shape.rank = -1;
        if (!why.code)
            rt_fail(&why, RT_UNIMPLEMENTED, "a type that is not known");
        why.code = RT_UNIMPLEMENTED;
        return refuse_reads(c, e, &why, err);
    }
    size_t capacity;
    if (e->pub.shape.rank < 0 ||
        rt_shape_check(e->pub.dtype, e->pub.shape.rank, e->pub.shape.dim, &capacity, NULL))
        return rt_fail(err, RT_DATA_LOSS, "a shape with unknown or too many elements");
    const int64_t bytes = (int64_t)capacity;
    if (p->n_slices) {
        e->pub.bytes = bytes;
        return read_parts(r, e, p, err);
    }
    if (rt_dtype_is_plain(e->pub.dtype) && bytes != p->size)
        return rt_fail(err, RT_DATA_LOSS, "%lld bytes where shape and type make %lld",
                       (long long)p->size, (long long)bytes);
    return RT_OK;
}

/* Decodes an entry into *e. Its name and slices are allocated in the checkpoint's arena. */
static enum rt_status read_entry(struct reader *r, struct rt_span key, struct rt_span value,
                                 struct rt_bundle_entry *e, struct rt_error *err)
{
    struct rt_checkpoint *c = r->c;
    const size_t counted = FIXED_BYTES + (value.n < VALUE_BYTES ? value.n : VALUE_BYTES);

    r->name_bytes += counted * NAME_BYTES_PER_BYTE;
    if (key.n > r->name_bytes)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "names that are too long; the next has %zu bytes", key.n);
    r->name_bytes -= key.n;
    /* The memory of the unpacked message counts against the pool until the complete index has been
     * read. */
    size_t unpacked;
    enum rt_status st = pb_unpacked_bytes_checked(&tensorflow__bundle_entry_proto__descriptor,
                                                  value, r->check, &unpacked, err);
    if (!st)
        st = hold(c, key.n + unpacked, err);
    if (st)
        return st;
    char *name = rt_arena_strndup(c->arena, (const char *)key.p, key.n);
    if (!name)
        return rt_fail_memory(err, "a name", key.n);
    *e = (struct rt_bundle_entry){.key = rt_span_of(name, key.n), .pub.name = name};
    Tensorflow__BundleEntryProto *p = pb_unpack_checked(&tensorflow__bundle_entry_proto__descriptor,
                                                        value, "entry", r->check, err);
    st = p ? fill_entry(r, e, p, err) : pb_unpack_failed(err, RT_DATA_LOSS);
    pb_free(p);
    if (st)
        rt_fail_prefix(err, "entry \"%s\": ", name);
    return st;
}

static enum rt_status keep_entry(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                 struct rt_error *err)
{
    if (c->n_entries == c->capacity) {
        const int capacity = c->capacity ? c->capacity * 2 : 64;
        const enum rt_status st = hold(c, (size_t)(capacity - c->capacity) * sizeof *c->entry, err);
        if (st)
            return st;
        struct rt_bundle_entry *more = realloc(c->entry, (size_t)capacity * sizeof *more);
        if (!more)
            return rt_fail_memory(err, "the index", (size_t)capacity * sizeof *more);
        c->entry = more;
        c->capacity = capacity;
    }
    /* Keys are sorted. Keys of slices begin with a zero byte and therefore precede all names. */
    if (!e->pub.name[0])
        c->first_public = c->n_entries + 1;
    c->entry[c->n_entries++] = *e;
    return RT_OK;
}

/* Checks that entry e lies inside its shard. Adds the minimum memory of the loaded entry to
 * *r->weight_bytes: its stored bytes and, for a string tensor, its array of strings. */
static enum rt_status measure_entry(struct reader *r, const struct rt_bundle_entry *e,
                                    struct rt_error *err)
{
    int64_t elements = 0;
    const enum rt_status st = rt_bundle_check_file(r->c, e, r->shard_size, err);

    r->shard_failed = st != RT_OK;
    if (st || !e->pub.name[0])
        return st;
    if ((e->pub.dtype == RT_STRING &&
         __builtin_mul_overflow(rt_count(e->pub.shape.rank, e->pub.shape.dim),
                                (int64_t)sizeof(struct rt_str), &elements)) ||
        __builtin_add_overflow(*r->weight_bytes, elements, r->weight_bytes) ||
        __builtin_add_overflow(*r->weight_bytes, e->pub.bytes, r->weight_bytes))
        return rt_fail(err, RT_DATA_LOSS, "more bytes than can be counted");
    return RT_OK;
}

static enum rt_status on_entry(void *arg, struct rt_span key, struct rt_span value,
                               struct rt_error *err)
{
    struct reader *r = arg;
    struct rt_bundle_entry e;

    if (!r->c->n_shards) {
        if (key.n)
            return rt_fail(err, RT_DATA_LOSS, "the header is missing");
        return read_header(r, value, err);
    }
    enum rt_status st = read_entry(r, key, value, &e, err);
    if (st)
        return st;
    if (!r->weight_bytes)
        return keep_entry(r->c, &e, err);
    st = measure_entry(r, &e, err);
    rt_arena_reset(r->c->arena);
    return st;
}

/* Reads all entries of an index into a new checkpoint, or only measures them. Does not allocate the
 * checkpoint's shards. */
static enum rt_status read_index(struct reader *r, const char *prefix,
                                 const struct rt_sstable_source *index, struct rt_error *err)
{
    struct rt_checkpoint *c = calloc(1, sizeof *c);
    struct rt_check check;

    if (!c)
        return rt_fail_memory(err, "a checkpoint", sizeof *c);
    r->c = c;
    r->check = rt_checkpoint_run_as_check(index->run, &check);
    r->name_bytes = FREE_NAME_BYTES;
    atomic_init(&c->refs, 1);
    rt_mutex_init(&c->mu);
    c->prefix = strdup(prefix);
    c->pool = rt_pool_ref(rt_checkpoint_run_pool(index->run));
    c->arena = rt_arena_new(SIZE_MAX);
    if (!c->prefix || !c->arena)
        return rt_fail_memory(err, "a checkpoint", sizeof *c);
    enum rt_status st = rt_sstable_read(index, on_entry, r, err);
    r->check = NULL; /* `check` ends here */
    if (st == RT_OK && !c->n_shards)
        st = rt_fail(err, RT_DATA_LOSS, "the header is missing");
    if (st && !r->shard_failed)
        rt_fail_prefix(err, "%s.index: ", prefix);
    return st;
}

enum rt_status rt_checkpoint_open_index(struct rt_checkpoint **out, const char *prefix,
                                        const struct rt_sstable_source *index, struct rt_error *err)
{
    struct reader r = {0};
    enum rt_status st = read_index(&r, prefix, index, err);
    struct rt_checkpoint *c = r.c;

    if (st)
        goto fail;
    c->n_public = c->n_entries - c->first_public;
    c->shard = calloc((size_t)c->n_shards, sizeof *c->shard);
    if (!c->shard) {
        st = rt_fail_memory(err, "shards", (size_t)c->n_shards * sizeof *c->shard);
        goto fail;
    }
    for (int i = 0; i < c->n_shards; i++)
        c->shard[i].fd = -1;
    release_surplus(c);
    *out = c;
    return RT_OK;

fail:
    rt_checkpoint_unref(c);
    return st;
}

enum rt_status rt_bundle_measure(const char *prefix, const struct rt_sstable_source *index,
                                 int64_t *weight_bytes, struct rt_error *err)
{
    struct reader r = {.weight_bytes = weight_bytes};
    const enum rt_status st = read_index(&r, prefix, index, err);

    free(r.shard_size);
    rt_checkpoint_unref(r.c);
    return st;
}

const struct rt_bundle_entry *rt_bundle_find(const struct rt_checkpoint *c, struct rt_span key)
{
    int low = 0, high = c->n_entries;
    while (low < high) {
        int mid = low + (high - low) / 2;
        struct rt_span k = c->entry[mid].key;
        size_t n = k.n < key.n ? k.n : key.n;
        int order = n ? memcmp(k.p, key.p, n) : 0;
        if (!order)
            order = (k.n > key.n) - (k.n < key.n);
        if (!order)
            return &c->entry[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}
