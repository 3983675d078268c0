/* Reads the index of a checkpoint. The index is a table of messages sorted by key (sstable.h). */
#include "runtime/files/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "runtime/core/tensor_proto.h"
#include "runtime/files/sstable.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb-c.h"

enum {
    MAX_SHARDS = 100000,
    /*
     * The memory of an index is limited to 256 bytes for each byte of the file plus a megabyte. A
     * name of 150 bytes that differs from the preceding name only in its last bytes takes 40 bytes
     * in a table, or about 10 bytes in a compressed table. The entry of this name takes about 200
     * bytes of memory.
     */
    BYTES_PER_BYTE = 256,
    BYTES_MORE = 1 << 20,
};

static enum rt_status read_header(struct rt_checkpoint *c, struct rt_span value,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;
    Tensorflow__BundleHeaderProto *h =
        pb_unpack(&tensorflow__bundle_header_proto__descriptor, value, "header", err);
    if (!h)
        return pb_unpack_failed(err, RT_DATA_LOSS);
    c->is_swapped = h->endianness != TENSORFLOW__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE;
    if (h->version && h->version->min_consumer > 1)
        st = rt_fail(err, RT_UNIMPLEMENTED, "needs a reader of version %d, this is 1",
                     (int)h->version->min_consumer);
    else if (h->num_shards < 1 || h->num_shards > MAX_SHARDS)
        st = rt_fail(err, RT_DATA_LOSS, "%d shards", (int)h->num_shards);
    c->n_shards = st ? 0 : h->num_shards;
    pb_free(h);
    return st;
}

static enum rt_status read_parts(struct rt_checkpoint *c, struct rt_bundle_entry *e,
                                 const Tensorflow__BundleEntryProto *p, struct rt_error *err)
{
    if (p->n_slices > INT32_MAX)
        return rt_fail(err, RT_DATA_LOSS, "%zu slices", p->n_slices);
    struct rt_slice *part = rt_arena_array(c->arena, p->n_slices, sizeof *part);
    if (!part)
        return rt_fail_memory(err, "slices", p->n_slices * sizeof *part);
    for (size_t i = 0; i < p->n_slices; i++) {
        const Tensorflow__TensorSliceProto *s = p->slices[i];
        if (!rt_slice_from_proto(&part[i], e->pub.shape.rank, s))
            return rt_fail(err, RT_DATA_LOSS, "slice %zu of %zu dimensions, the tensor has %d", i,
                           s->n_extent, e->pub.shape.rank);
        struct rt_slice fits = part[i];
        if (!rt_slice_resolve(&fits, e->pub.shape.rank, e->pub.shape.dim))
            return rt_fail(err, RT_DATA_LOSS, "slice %zu lies outside of the tensor", i);
    }
    e->n_parts = (int)p->n_slices;
    e->parts = part;
    e->pub.is_sliced = true;
    return RT_OK;
}

static enum rt_status fill_entry(struct rt_checkpoint *c, struct rt_bundle_entry *e,
                                 const Tensorflow__BundleEntryProto *p, struct rt_error *err)
{
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
        /* A newer TensorFlow may have written the entry. Therefore opening the checkpoint succeeds,
         * and only reading this tensor fails. */
        e->pub.shape.rank = -1;
        e->why_not = why.code ? rt_arena_strdup(c->arena, why.msg) : "a type that is not known";
        return e->why_not ? RT_OK : rt_fail_memory(err, "an entry", sizeof why.msg);
    }
    size_t capacity;
    if (e->pub.shape.rank < 0 ||
        rt_shape_check(e->pub.dtype, e->pub.shape.rank, e->pub.shape.dim, &capacity, NULL))
        return rt_fail(err, RT_DATA_LOSS, "a shape with unknown or too many elements");
    const int64_t bytes = (int64_t)capacity;
    if (p->n_slices) {
        e->pub.bytes = bytes;
        return read_parts(c, e, p, err);
    }
    if (rt_dtype_is_plain(e->pub.dtype) && bytes != p->size)
        return rt_fail(err, RT_DATA_LOSS, "%lld bytes where shape and type make %lld",
                       (long long)p->size, (long long)bytes);
    return RT_OK;
}

static enum rt_status on_entry(void *arg, struct rt_span key, struct rt_span value,
                               struct rt_error *err)
{
    struct rt_checkpoint *c = arg;
    enum rt_status st;

    if (!c->n_shards) {
        if (key.n)
            return rt_fail(err, RT_DATA_LOSS, "the header is missing");
        return read_header(c, value, err);
    }
    if (c->n_entries == c->capacity) {
        if (c->capacity && (size_t)c->capacity > c->budget / sizeof *c->entry / 2)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "too many entries: more than %d",
                           c->capacity);
        int capacity = c->capacity ? c->capacity * 2 : 64;
        struct rt_bundle_entry *more = realloc(c->entry, (size_t)capacity * sizeof *more);
        if (!more)
            return rt_fail_memory(err, "the index", (size_t)capacity * sizeof *more);
        c->entry = more;
        c->capacity = capacity;
    }
    struct rt_bundle_entry *e = &c->entry[c->n_entries];
    *e = (struct rt_bundle_entry){0};
    char *name = rt_arena_strndup(c->arena, (const char *)key.p, key.n);
    if (!name)
        return rt_fail_memory(err, "a name", key.n);
    e->key = rt_span_of(name, key.n);
    e->pub.name = name;
    Tensorflow__BundleEntryProto *p =
        pb_unpack(&tensorflow__bundle_entry_proto__descriptor, value, "entry", err);
    st = p ? fill_entry(c, e, p, err) : pb_unpack_failed(err, RT_DATA_LOSS);
    pb_free(p);
    if (st) {
        rt_fail_prefix(err, "entry \"%s\": ", name);
        return st;
    }
    /* Keys are sorted. Keys of slices begin with 0, so they precede all names. */
    if (!name[0])
        c->first_public = c->n_entries + 1;
    c->n_entries++;
    return RT_OK;
}

enum rt_status rt_checkpoint_open_index(struct rt_checkpoint **out, const char *prefix,
                                        struct rt_span index, struct rt_error *err)
{
    enum rt_status st;
    struct rt_checkpoint *c = calloc(1, sizeof *c);

    if (!c)
        return rt_fail_memory(err, "a checkpoint", sizeof *c);
    atomic_init(&c->refs, 1);
    rt_mutex_init(&c->mu);
    c->prefix = strdup(prefix);
    c->budget = BYTES_MORE + BYTES_PER_BYTE * index.n;
    c->arena = rt_arena_new(c->budget);
    if (!c->prefix || !c->arena) {
        st = rt_fail_memory(err, "a checkpoint", sizeof *c);
        goto fail;
    }
    st = rt_sstable_read(index, on_entry, c, err);
    if (st == RT_OK && !c->n_shards)
        st = rt_fail(err, RT_DATA_LOSS, "the header is missing");
    if (st) {
        rt_fail_prefix(err, "%s.index: ", prefix);
        goto fail;
    }
    c->n_public = c->n_entries - c->first_public;
    c->shard = calloc((size_t)c->n_shards, sizeof *c->shard);
    if (!c->shard) {
        st = rt_fail_memory(err, "shards", (size_t)c->n_shards * sizeof *c->shard);
        goto fail;
    }
    for (int i = 0; i < c->n_shards; i++)
        c->shard[i].fd = -1;
    *out = c;
    return RT_OK;

fail:
    rt_checkpoint_unref(c);
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
