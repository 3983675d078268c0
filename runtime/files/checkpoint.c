#include "runtime/files/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/thread.h"
#include "runtime/files/file.h"
#include "runtime/core/slice.h"
#include "runtime/files/sstable.h"
#include "runtime/core/tensor_proto.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb-c.h"

enum {
    MAX_INDEX = 1 << 28, /* bytes */
    MAX_SHARDS = 100000,
    /*
     * Limit of an index in memory: 256 bytes for each byte of the file, and a megabyte. A name of
     * 150 bytes that shares nearly all with the name before it takes 40 bytes in a table, and about
     * 10 in a compressed one; an entry takes about 200 bytes of memory.
     */
    BYTES_PER_BYTE = 256,
    BYTES_MORE = 1 << 20,
    WINDOW = 1 << 20,      /* bytes read at a time */
    CHECK_EVERY = 1 << 14, /* number of strings or slices between two checks */
};

struct entry {
    struct rt_checkpoint_entry pub;
    struct rt_span key;
    int64_t offset;
    uint32_t crc; /* as stored, which is masked */
    int n_parts;
    const struct rt_slice *parts;
    const char *why_not; /* why the tensor cannot be read; NULL: it can */
};

struct shard {
    int fd; /* -1: not opened yet; until then guarded by the checkpoint's mu */
    struct stat s;
};

struct rt_checkpoint {
    atomic_int refs;
    char *prefix;
    struct rt_arena *arena;
    size_t budget;   /* limit of the index, in bytes of memory */
    bool is_swapped; /* the data has the other byte order */
    int n_shards, n_entries, n_public, capacity;
    struct entry *entry; /* sorted by key: slices first, then named tensors */
    int first_public;
    struct rt_mutex mu;
    struct shard *shard;
    struct rt_checkpoint *next; /* in open_list; guarded by open_mu */
    struct stat index;          /* of the index file; all zero: not in open_list */
};

/*
 * The list of open checkpoints. Some graphs have a RestoreV2 for each variable. All of these, and
 * the tensors that they make, share one checkpoint as long as anything refers to it, so that the
 * index is read once and each shard is opened once.
 */
static struct rt_mutex open_mu = RT_MUTEX_INIT;
static struct rt_checkpoint *open_list; /* guarded by open_mu */

/* ---- the index ---- */

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

static enum rt_status read_parts(struct rt_checkpoint *c, struct entry *e,
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

static enum rt_status fill_entry(struct rt_checkpoint *c, struct entry *e,
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
        /* A newer TensorFlow may have written it: opening succeeds, and only reading this tensor
         * fails. */
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
        struct entry *more = realloc(c->entry, (size_t)capacity * sizeof *more);
        if (!more)
            return rt_fail_memory(err, "the index", (size_t)capacity * sizeof *more);
        c->entry = more;
        c->capacity = capacity;
    }
    struct entry *e = &c->entry[c->n_entries];
    *e = (struct entry){0};
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
    /* Keys are sorted; those of slices begin with 0, so they come first. */
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

/* A reference to the open checkpoint that was read from this file, unchanged; NULL: none. */
static struct rt_checkpoint *already_open(const char *prefix, const struct stat *index)
{
    struct rt_checkpoint *c;

    rt_mutex_lock(&open_mu);
    for (c = open_list; c; c = c->next) {
        int refs = atomic_load(&c->refs);
        if (strcmp(c->prefix, prefix) != 0 || !rt_same_file(&c->index, index))
            continue;
        /* A checkpoint with 0 references is about to be taken off the list and freed. */
        while (refs && !atomic_compare_exchange_weak(&c->refs, &refs, refs + 1))
            ;
        if (refs)
            break;
    }
    rt_mutex_unlock(&open_mu);
    return c;
}

static void list_add(struct rt_checkpoint *c, const struct stat *index)
{
    rt_mutex_lock(&open_mu);
    c->index = *index;
    c->next = open_list;
    open_list = c;
    rt_mutex_unlock(&open_mu);
}

static void list_remove(struct rt_checkpoint *c)
{
    rt_mutex_lock(&open_mu);
    for (struct rt_checkpoint **at = &open_list; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    rt_mutex_unlock(&open_mu);
}

struct rt_checkpoint *rt_checkpoint_ref(struct rt_checkpoint *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void rt_checkpoint_unref(struct rt_checkpoint *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    list_remove(c);
    for (int i = 0; c->shard && i < c->n_shards; i++)
        if (c->shard[i].fd >= 0)
            close(c->shard[i].fd);
    free(c->shard);
    free(c->entry);
    free(c->prefix);
    rt_arena_free(c->arena);
    rt_mutex_clear(&c->mu);
    free(c);
}

enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  struct rt_error *err)
{
    char path[4200], *bytes = NULL;
    size_t n;
    struct stat before = {0}, after;
    enum rt_status st;

    if (strlen(prefix) > 4000)
        return rt_fail_errno(err, prefix, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s.index", prefix);
    const bool is_there = stat(path, &before) == 0;
    if (is_there && (*out = already_open(prefix, &before)))
        return RT_OK;
    st = rt_file_read(path, MAX_INDEX, &bytes, &n, err);
    if (st == RT_NOT_FOUND && access(prefix, F_OK) == 0)
        return rt_fail(
            err, RT_UNIMPLEMENTED,
            "%s: a checkpoint of the first format: RestoreV2 reads it, but the variables of "
            "a SavedModel have an index file",
            prefix);
    if (st == RT_NOT_FOUND)
        return rt_fail(err, st,
                       "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                       "files for %s",
                       prefix);
    if (st)
        return st;
    st = rt_checkpoint_open_index(out, prefix, rt_span_of(bytes, n), err);
    free(bytes);
    if (!st && is_there && stat(path, &after) == 0 && rt_same_file(&before, &after))
        list_add(*out, &before);
    return st;
}

int rt_checkpoint_count(const struct rt_checkpoint *c)
{
    return c->n_public;
}

const struct rt_checkpoint_entry *rt_checkpoint_at(const struct rt_checkpoint *c, int i)
{
    return &c->entry[c->first_public + i].pub;
}

static const struct entry *find(const struct rt_checkpoint *c, struct rt_span key)
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

/* ---- the data ---- */

static void shard_path(const struct rt_checkpoint *c, int shard, char *buffer, size_t n)
{
    snprintf(buffer, n, "%s.data-%05d-of-%05d", c->prefix, shard, c->n_shards);
}

static enum rt_status fail_short(const struct entry *e, const char *path, int64_t size,
                                 struct rt_error *err)
{
    return rt_fail(err, RT_DATA_LOSS,
                   "%s has %lld bytes, tensor \"%s\" needs %lld at %lld: Read less bytes than "
                   "requested",
                   path, (long long)size, e->pub.name, (long long)e->pub.bytes,
                   (long long)e->offset);
}

enum rt_status rt_checkpoint_check_files(const struct rt_checkpoint *c, struct rt_error *err)
{
    char path[4200];
    enum rt_status st = RT_OK;
    int64_t *size = malloc((size_t)c->n_shards * sizeof *size);

    if (!size)
        return rt_fail_memory(err, "shards", (size_t)c->n_shards * sizeof *size);
    for (int i = 0; i < c->n_shards; i++)
        size[i] = -1;
    for (int i = 0; i < c->n_entries && !st; i++) {
        const struct entry *e = &c->entry[i];
        struct stat s;
        if (e->pub.is_sliced)
            continue;
        shard_path(c, e->pub.shard, path, sizeof path);
        if (size[e->pub.shard] < 0) {
            if (stat(path, &s))
                st = rt_fail_errno(err, path, errno);
            else
                st = rt_check_regular(path, &s, err);
            if (st)
                break;
            size[e->pub.shard] = s.st_size;
        }
        if (e->offset + e->pub.bytes > size[e->pub.shard])
            st = fail_short(e, path, size[e->pub.shard], err);
    }
    free(size);
    return st;
}

enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err)
{
    char path[4200];
    struct stat s;

    for (int i = 0; i < c->n_shards; i++) {
        rt_mutex_lock(&c->mu);
        int fd = c->shard[i].fd;
        rt_mutex_unlock(&c->mu);
        if (fd < 0)
            continue;
        const struct stat *was = &c->shard[i].s;
        shard_path(c, i, path, sizeof path);
        if (fstat(fd, &s))
            return rt_fail_errno(err, path, errno);
        if (s.st_size != was->st_size || s.st_mtim.tv_sec != was->st_mtim.tv_sec ||
            s.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
            return rt_fail(err, RT_DATA_LOSS, "%s was changed while it was read", path);
    }
    return RT_OK;
}

/* Opens the entry's shard once, and checks that the entry lies inside it. */
static enum rt_status open_shard(struct rt_checkpoint *c, const struct entry *e, int *fd,
                                 struct rt_error *err)
{
    struct shard *s = &c->shard[e->pub.shard];
    char path[4200];
    enum rt_status st = RT_OK;

    shard_path(c, e->pub.shard, path, sizeof path);
    rt_mutex_lock(&c->mu);
    if (s->fd < 0)
        st = rt_open_regular(path, &s->fd, &s->s, err);
    rt_mutex_unlock(&c->mu);
    if (st)
        return st;
    if (e->offset + e->pub.bytes > s->s.st_size)
        return fail_short(e, path, s->s.st_size, err);
    *fd = s->fd;
    return RT_OK;
}

static enum rt_status read_window(struct rt_checkpoint *c, const struct entry *e, int fd,
                                  size_t off, void *dst, size_t n, struct rt_error *err)
{
    char path[4200];
    const int64_t from = e->offset + (int64_t)off;
    const ssize_t got = rt_file_read_at(fd, dst, n, from);
    const int number = errno;

    if (got == (ssize_t)n)
        return RT_OK;
    shard_path(c, e->pub.shard, path, sizeof path);
    if (got >= 0)
        return fail_short(e, path, from + got, err);
    rt_fail_errno(err, path, number);
    return rt_fail_prefix(err, "tensor \"%s\": ", e->pub.name);
}

static enum rt_status check_sum(struct rt_checkpoint *c, const struct entry *e, uint32_t crc,
                                struct rt_error *err)
{
    char path[4200];

    if (rt_crc32c_mask(crc) == e->crc)
        return RT_OK;
    uint32_t rotated = e->crc - 0xa282ead8u;
    shard_path(c, e->pub.shard, path, sizeof path);
    return rt_fail(err, RT_DATA_LOSS,
                   "%s: tensor \"%s\" (%lld bytes): Checksum does not match: stored %u vs. "
                   "calculated on the restored bytes %u",
                   path, e->pub.name, (long long)e->pub.bytes, rotated >> 17 | rotated << 15, crc);
}

/* Reads and verifies all bytes of a plain entry, in windows: the checksum is computed while a
 * window is in the cache. */
static enum rt_status read_all(struct rt_checkpoint *c, const struct entry *e,
                               const struct rt_checkpoint_run *run, void *dst, struct rt_error *err)
{
    size_t n = (size_t)e->pub.bytes;
    uint32_t crc = 0;
    int fd;
    enum rt_status st = open_shard(c, e, &fd, err);

    for (size_t off = 0; off < n && !st; off += WINDOW) {
        size_t k = n - off < WINDOW ? n - off : WINDOW;
        st = rt_checkpoint_run_check(run, err);
        if (!st)
            st = read_window(c, e, fd, off, (char *)dst + off, k, err);
        if (!st)
            crc = rt_crc32c(crc, (char *)dst + off, k);
    }
    return st ? st : check_sum(c, e, crc, err);
}

/*
 * Converts verified bytes to what kernels rely on: bools become 0 or 1, and numbers get this
 * machine's byte order. `bytes`: a multiple of the element's size.
 */
static void make_native(const struct rt_checkpoint *c, enum rt_dtype dtype, void *data,
                        size_t bytes)
{
    unsigned char *p = data;
    size_t size = rt_dtype_size(dtype);

    for (size_t i = 0; dtype == RT_BOOL && i < bytes; i++)
        p[i] = p[i] != 0;
    if (dtype == RT_C64 || dtype == RT_C128)
        size /= 2;
    for (size_t i = 0; c->is_swapped && size > 1 && i < bytes; i += size)
        for (size_t k = 0; k < size / 2; k++) {
            unsigned char low = p[i + k];
            p[i + k] = p[i + size - 1 - k];
            p[i + size - 1 - k] = low;
        }
}

/* ---- lazy tensors ---- */

struct range {
    struct rt_checkpoint *c;
    const struct entry *e;
    struct rt_pool *pool; /* where loaded bytes count; may be NULL */
};

/* Counts bytes that are not blocks of the pool in `pool` (NULL: nowhere). */
static enum rt_status hold(struct rt_pool *pool, size_t bytes, struct rt_error *err)
{
    return pool ? rt_pool_hold(pool, bytes, 0, "a tensor of a checkpoint", err) : RT_OK;
}

static void release(struct rt_pool *pool, size_t bytes)
{
    if (pool)
        rt_pool_release(pool, bytes);
}

static void range_release(struct rt_buffer *b)
{
    struct range *r = b->owner;
    void *data = atomic_load(&b->data);
    free(data);
    release(r->pool, data ? b->size : 0);
    rt_pool_unref(r->pool);
    rt_checkpoint_unref(r->c);
    free(r);
}

static enum rt_status range_load(struct rt_buffer *b, const struct rt_check *check,
                                 struct rt_error *err)
{
    struct range *r = b->owner;
    void *data = NULL;
    enum rt_status st = hold(r->pool, b->size, err);

    if (st)
        return st;
    if (posix_memalign(&data, 64, b->size)) {
        data = NULL;
        st = rt_fail_memory(err, r->e->pub.name, b->size);
    }
    if (!st && check) {
        const struct rt_checkpoint_run run = {.check = check->check, .arg = check->arg};
        st = read_all(r->c, r->e, &run, data, err);
    } else if (!st) {
        st = read_all(r->c, r->e, NULL, data, err);
    }
    if (st) {
        free(data);
        release(r->pool, b->size);
        return st;
    }
    make_native(r->c, r->e->pub.dtype, data, b->size);
    atomic_store_explicit(&b->data, data, memory_order_release);
    return RT_OK;
}

static enum rt_status range_stream(struct rt_buffer *b,
                                   enum rt_status (*sink)(void *arg, size_t off, const void *p,
                                                          size_t n, struct rt_error *err),
                                   void *arg, struct rt_error *err)
{
    struct range *r = b->owner;
    void *data = atomic_load_explicit(&b->data, memory_order_acquire), *window = NULL;
    uint32_t crc = 0;
    int fd;
    enum rt_status st;

    if (data)
        return sink(arg, 0, data, b->size, err);
    st = open_shard(r->c, r->e, &fd, err);
    if (st)
        return st;
    if (posix_memalign(&window, 64, WINDOW))
        return rt_fail_memory(err, r->e->pub.name, WINDOW);
    for (size_t off = 0; off < b->size && !st; off += WINDOW) {
        size_t k = b->size - off < WINDOW ? b->size - off : WINDOW;
        st = read_window(r->c, r->e, fd, off, window, k, err);
        if (st)
            break;
        crc = rt_crc32c(crc, window, k);
        make_native(r->c, r->e->pub.dtype, window, k);
        st = sink(arg, off, window, k, err);
    }
    free(window);
    return st ? st : check_sum(r->c, r->e, crc, err);
}

static enum rt_status lazy_tensor(struct rt_checkpoint *c, const struct entry *e,
                                  struct rt_pool *pool, struct rt_tensor *out, struct rt_error *err)
{
    struct range *r = NULL;
    struct rt_buffer *b = NULL;
    int fd;
    enum rt_status st = open_shard(c, e, &fd, err);

    if (st)
        return st;
    r = malloc(sizeof *r);
    b = rt_buffer_foreign(NULL, (size_t)e->pub.bytes, r, range_release);
    if (!r || !b) {
        free(r);
        free(b);
        return rt_fail_memory(err, e->pub.name, sizeof *r + sizeof *b);
    }
    *r = (struct range){rt_checkpoint_ref(c), e, rt_pool_ref(pool)};
    b->kind = RT_BUF_LAZY;
    b->load = range_load;
    b->stream = range_stream;
    *out = (struct rt_tensor){
        .dtype = (uint8_t)e->pub.dtype, .rank = (int8_t)e->pub.shape.rank, .buf = b};
    memcpy(out->dim, e->pub.shape.dim, sizeof out->dim);
    return RT_OK;
}

/* ---- strings ---- */

/*
 * Reads a tensor of strings from its bytes on disk: all lengths as varints, the masked checksum of
 * the lengths, then the bytes of all strings. The checksum of the lengths covers each length as 4
 * bytes (8 if it needs them) in the writer's byte order. The entry's checksum covers the lengths in
 * this form, the first checksum as stored, and the bytes.
 */
static enum rt_status split_strings(struct rt_checkpoint *c, const struct entry *e,
                                    const struct rt_checkpoint_run *run, struct rt_span all,
                                    struct rt_str *dst, int64_t n, struct rt_error *err)
{
    struct rt_span rest = all, lengths = all;
    uint64_t len, left;
    uint32_t crc = 0, stored;

    for (int64_t i = 0; i < n; i++) {
        if (i % CHECK_EVERY == 0 && rt_checkpoint_run_check(run, err))
            return err->code;
        if (!pb_varint(&rest, &len) || len > all.n)
            return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": length %lld of %lld is bad",
                           e->pub.name, (long long)i, (long long)n);
        uint32_t small = (uint32_t)len;
        bool is_small = len <= UINT32_MAX;
        if (c->is_swapped) {
            small = __builtin_bswap32(small);
            len = __builtin_bswap64(len);
        }
        crc = is_small ? rt_crc32c(crc, &small, 4) : rt_crc32c(crc, &len, 8);
    }
    if (rest.n < 4)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": its lengths have no checksum",
                       e->pub.name);
    memcpy(&stored, rest.p, 4);
    if (c->is_swapped)
        stored = __builtin_bswap32(stored);
    if (stored != rt_crc32c_mask(crc))
        return rt_fail(err, RT_DATA_LOSS,
                       "tensor \"%s\": The length checksum does not match: expected %u but actual "
                       "is %u",
                       e->pub.name, rt_crc32c_mask(crc), stored);
    crc = rt_crc32c(crc, rest.p, rest.n);
    rest.p += 4;
    left = rest.n - 4;
    for (int64_t i = 0; i < n; i++) {
        if (i % CHECK_EVERY == 0 && rt_checkpoint_run_check(run, err))
            return err->code;
        pb_varint(&lengths, &len);
        if (len > left)
            return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": string %lld ends behind its bytes",
                           e->pub.name, (long long)i);
        if (!rt_str_set(&dst[i], rt_checkpoint_run_pool(run), rest.p, (size_t)len, err))
            return err->code;
        rest.p += len;
        left -= len;
    }
    if (left)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": %llu bytes behind the last string",
                       e->pub.name, (unsigned long long)left);
    return check_sum(c, e, crc, err);
}

static enum rt_status string_tensor(struct rt_checkpoint *c, const struct entry *e,
                                    const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                    struct rt_error *err)
{
    size_t n = (size_t)e->pub.bytes;
    int64_t count = rt_count(e->pub.shape.rank, e->pub.shape.dim);
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    struct rt_tensor t = {0};
    char *bytes;
    int fd;
    enum rt_status st = open_shard(c, e, &fd, err);

    if (st)
        return st;
    if (count > e->pub.bytes)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": %lld strings in %zu bytes", e->pub.name,
                       (long long)count, n);
    st = hold(pool, n, err);
    if (st)
        return st;
    bytes = malloc(n + 1);
    if (!bytes) {
        st = rt_fail_memory(err, e->pub.name, n);
        goto out;
    }
    st = read_window(c, e, fd, 0, bytes, n, err);
    if (st)
        goto out;
    st = rt_tensor_new(&t, pool, RT_STRING, e->pub.shape.rank, e->pub.shape.dim, err);
    if (st)
        goto out;
    st = split_strings(c, e, run, rt_span_of(bytes, n), t.data, count, err);
    if (st)
        rt_tensor_clear(&t);
    else
        *out = t;
out:
    free(bytes);
    release(pool, n);
    return st;
}

/* ---- slices ---- */

static enum rt_status part_entry(const struct rt_checkpoint *c, const struct entry *whole,
                                 const struct rt_slice *part, const struct entry **out,
                                 struct rt_error *err)
{
    struct rt_bytes key;
    struct rt_slice full = *part;

    rt_bytes_init(&key, 1 << 21);
    rt_slice_key(&key, whole->key, part);
    const bool no_memory = key.no_memory;
    *out = key.failed ? NULL : find(c, rt_span_of(key.p, key.n));
    rt_bytes_clear(&key);
    if (no_memory)
        return rt_fail_memory(err, "a part's name", 0);
    rt_slice_resolve(&full, whole->pub.shape.rank, whole->pub.shape.dim);
    int64_t n = rt_count(full.rank, full.length);
    if (!*out)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": a part of it is missing",
                       whole->pub.name);
    if ((*out)->pub.is_sliced || (*out)->why_not || (*out)->pub.dtype != whole->pub.dtype ||
        (*out)->pub.bytes != n * (int64_t)rt_dtype_size(whole->pub.dtype))
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": a part of it has another size or type",
                       whole->pub.name);
    return RT_OK;
}

/* A stored slice, and its entry. */
struct stored {
    struct rt_slice part; /* resolved */
    const struct entry *e;
};

/*
 * Looks up stored slice i of e. *n: the number of elements that it has in common with `want`; if 0,
 * nothing is looked up. All slices are looked up before memory is allocated, so that an index
 * cannot make the reader allocate more than the files hold.
 */
static enum rt_status stored_part(struct rt_checkpoint *c, const struct entry *e, int i,
                                  const struct rt_slice *want, struct stored *out, int64_t *n,
                                  struct rt_error *err)
{
    int fd;
    enum rt_status st;

    out->e = e;
    out->part =
        (struct rt_slice){.rank = e->pub.shape.rank, .length = {-1, -1, -1, -1, -1, -1, -1, -1}};
    if (e->pub.is_sliced)
        out->part = e->parts[i];
    rt_slice_resolve(&out->part, e->pub.shape.rank, e->pub.shape.dim);
    *n = rt_slice_overlap(&out->part, want);
    if (!*n)
        return RT_OK;
    if (e->pub.is_sliced) {
        st = part_entry(c, e, &e->parts[i], &out->e, err);
        if (st)
            return st;
    }
    return open_shard(c, out->e, &fd, err);
}

/* Copies the elements of `want` that the stored slice has into the tensor t, which holds `want`. */
static enum rt_status copy_part(struct rt_checkpoint *c, const struct stored *s,
                                const struct rt_checkpoint_run *run, const struct rt_slice *want,
                                const struct rt_tensor *t, struct rt_error *err)
{
    const size_t n = (size_t)s->e->pub.bytes;
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    enum rt_status st = hold(pool, n, err);

    if (st)
        return st;
    void *bytes = malloc(n + 1);
    st = bytes ? read_all(c, s->e, run, bytes, err) : rt_fail_memory(err, s->e->pub.name, n);
    if (!st)
        rt_slice_copy(t->data, want, bytes, &s->part, rt_dtype_size((enum rt_dtype)t->dtype));
    free(bytes);
    release(pool, n);
    return st;
}

/* Reads slice `want` (resolved) of a tensor that is stored whole or in slices. */
static enum rt_status assemble(struct rt_checkpoint *c, const struct entry *e,
                               const struct rt_checkpoint_run *run, const struct rt_slice *want,
                               struct rt_tensor *out, struct rt_error *err)
{
    size_t size = rt_dtype_size(e->pub.dtype);
    int n_parts = e->pub.is_sliced ? e->n_parts : 1;
    int64_t found = 0, n = rt_count(want->rank, want->length), k;
    struct stored s;
    struct rt_tensor t;
    enum rt_status st;

    for (int i = 0; i < n_parts && n; i++) {
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(run, err) : RT_OK;
        if (!st)
            st = stored_part(c, e, i, want, &s, &k, err);
        if (st)
            return st;
        if (__builtin_add_overflow(found, k, &found))
            break;
    }
    if (found != n) {
        char buffer[128];
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Does not have sufficient slices for partitioned tensor %s to restore in "
                       "slice_spec: %s",
                       e->pub.name, rt_slice_text(buffer, sizeof buffer, want));
    }
    st =
        rt_tensor_new(&t, rt_checkpoint_run_pool(run), e->pub.dtype, want->rank, want->length, err);
    if (st)
        return st;
    if (n)
        memset(t.data, 0, (size_t)n * size); /* a corrupt index may leave gaps */
    for (int i = 0; i < n_parts && n && !st; i++) {
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(run, err) : RT_OK;
        if (!st)
            st = stored_part(c, e, i, want, &s, &k, err);
        if (!st && k)
            st = copy_part(c, &s, run, want, &t, err);
    }
    if (st) {
        rt_tensor_clear(&t);
        return st;
    }
    make_native(c, e->pub.dtype, t.data, (size_t)n * size);
    *out = t;
    return RT_OK;
}

/* Parses a slice's text and checks it against the entry's shape; empty: the whole tensor. */
static enum rt_status wanted_part(const struct entry *e, struct rt_span text, struct rt_slice *want,
                                  struct rt_error *err)
{
    char given[128], stored[128];
    int rank;
    int64_t dim[RT_MAX_RANK];
    enum rt_status st;

    if (!text.n) {
        *want = (struct rt_slice){.rank = e->pub.shape.rank};
        for (int i = 0; i < want->rank; i++)
            want->length[i] = -1;
        rt_slice_resolve(want, e->pub.shape.rank, e->pub.shape.dim);
        return RT_OK;
    }
    st = rt_slice_parse(text, &rank, dim, want, err);
    if (st)
        return st;
    bool same = rank == e->pub.shape.rank;
    for (int i = 0; i < rank && same; i++)
        same = dim[i] == e->pub.shape.dim[i];
    if (!same)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "tensor_name = %s; shape in shape_and_slice spec %s does not match the "
                       "shape stored in checkpoint: %s",
                       e->pub.name, rt_shape_text(given, sizeof given, rank, dim),
                       rt_shape_text(stored, sizeof stored, e->pub.shape.rank, e->pub.shape.dim));
    rt_slice_resolve(want, rank, dim);
    return RT_OK;
}

enum rt_status rt_checkpoint_tensor(struct rt_checkpoint *c, const char *name, struct rt_span slice,
                                    enum rt_dtype want, const struct rt_checkpoint_run *run,
                                    struct rt_tensor *out, struct rt_error *err)
{
    const struct entry *e = name[0] ? find(c, rt_span_str(name)) : NULL;
    struct rt_slice part;
    enum rt_status st;

    *out = (struct rt_tensor){0};
    if (!e)
        return rt_fail(err, RT_NOT_FOUND, "Key %s not found in checkpoint", name);
    if (e->why_not)
        return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\" in %s: %s", name, c->prefix,
                       e->why_not);
    if (want != RT_NO_DTYPE && want != e->pub.dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "tensor_name = %s; expected dtype %s does not equal original dtype %s", name,
                       rt_dtype_name(want), rt_dtype_name(e->pub.dtype));
    if (e->pub.dtype == RT_RESOURCE || e->pub.dtype == RT_VARIANT)
        return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\" in %s: Dtype %s not supported.", name,
                       c->prefix, rt_dtype_name(e->pub.dtype));
    st = wanted_part(e, slice, &part, err);
    if (st)
        return st;
    if (e->pub.dtype == RT_STRING) {
        if (slice.n || e->pub.is_sliced)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dtype string not supported.");
        return string_tensor(c, e, run, out, err);
    }
    if (e->pub.is_sliced || slice.n)
        return assemble(c, e, run, &part, out, err);
    if (!e->pub.bytes)
        return rt_tensor_new(out, NULL, e->pub.dtype, e->pub.shape.rank, e->pub.shape.dim, err);
    return lazy_tensor(c, e, rt_checkpoint_run_pool(run), out, err);
}
