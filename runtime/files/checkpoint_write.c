/* Writes and merges checkpoints (checkpoint.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/pack.h"
#include "proto/unpack.h"
#include "runtime/base/arena.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/map.h"
#include "runtime/base/sort.h"
#include "runtime/files/checkpoint_internal.h"
#include "runtime/files/file.h"
#include "runtime/files/file_writer.h"
#include "runtime/core/slice.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb-c.h"

/* number of strings, or of items of an index, between two calls of the run's check */
enum { CHECK_EVERY = 1 << 14 };

/* ---- the index while it is made ---- */

struct item {
    struct rt_span key, value;
    int source;
};

struct index {
    struct rt_arena *arena;
    struct item *item;
    size_t n, capacity;
    /* Maps the name of each sliced tensor to its Tensorflow__BundleEntryProto with the slices added
     * so far. */
    struct rt_map sliced;
    int n_shards;
    int source; /* when merging, the number of the checkpoint that is being added */
    const struct rt_checkpoint_run *run; /* the run whose pool counts `held` bytes; may be NULL */
    size_t held;
};

static bool index_init(struct index *x, const struct rt_checkpoint_run *run)
{
    *x = (struct index){.arena = rt_arena_new(SIZE_MAX), .run = run};
    rt_map_init(&x->sliced);
    return x->arena;
}

static void index_clear(struct index *x)
{
    for (size_t i = 0; i < x->sliced.n; i++)
        if (x->sliced.entry[i].key)
            pb_free(x->sliced.entry[i].value);
    rt_map_clear(&x->sliced);
    rt_arena_free(x->arena);
    free(x->item);
    rt_pool_release(rt_checkpoint_run_pool(x->run), x->held);
}

/* Calls the run's check at every CHECK_EVERY-th item. */
static enum rt_status check_item(const struct index *x, size_t i, struct rt_error *err)
{
    return i % CHECK_EVERY ? RT_OK : rt_checkpoint_run_check(x->run, err);
}

/* Makes the run's pool count `bytes` more bytes for the index. */
static enum rt_status hold(struct index *x, size_t bytes, struct rt_error *err)
{
    const enum rt_status st =
        rt_pool_hold(rt_checkpoint_run_pool(x->run), bytes, 0, "the index of a checkpoint", err);

    if (!st)
        x->held += bytes;
    return st;
}

/* Charges the pool for an item whose key and value have `bytes` bytes in total. Adds four times the
 * size of a struct item, an upper bound on the item's share of the array and the arena. */
static enum rt_status hold_item(struct index *x, size_t bytes, struct rt_error *err)
{
    return hold(x, bytes + 4 * sizeof(struct item), err);
}

static enum rt_status index_add(struct index *x, struct rt_span key, const ProtobufCMessage *m,
                                struct rt_error *err)
{
    struct rt_check check;
    char *bytes;
    size_t n;

    if (x->n == x->capacity) {
        size_t capacity = x->capacity ? x->capacity * 2 : 64;
        struct item *more = realloc(x->item, capacity * sizeof *more);
        if (!more)
            return rt_fail_memory(err, "an index", capacity * sizeof *more);
        x->item = more;
        x->capacity = capacity;
    }
    enum rt_status st =
        pb_pack(m, INT32_MAX, rt_checkpoint_run_as_check(x->run, &check), &bytes, &n, err);
    if (st)
        return st;
    char *k = rt_arena_strndup(x->arena, (const char *)key.p, key.n);
    char *v = rt_arena_strndup(x->arena, bytes, n);
    free(bytes);
    if (!k || !v)
        return rt_fail_memory(err, "an index", n);
    x->item[x->n++] = (struct item){rt_span_of(k, key.n), rt_span_of(v, n), x->source};
    return RT_OK;
}

/* Adds the slices in `p` to the slices of tensor `name`. On success the index owns `p`. If the
 * index already has an entry with this name, moves the slices of `p` to that entry and frees
 * `p`. */
static enum rt_status index_add_sliced(struct index *x, struct rt_span name,
                                       Tensorflow__BundleEntryProto *p, struct rt_error *err)
{
    Tensorflow__BundleEntryProto *had = rt_map_getn(&x->sliced, (const char *)name.p, name.n);

    if (!had)
        return rt_map_putn(&x->sliced, (const char *)name.p, name.n, p)
                   ? RT_OK
                   : rt_fail_memory(err, "an index", name.n);
    bool same =
        had->dtype == p->dtype && had->shape && p->shape && had->shape->n_dim == p->shape->n_dim;
    for (size_t i = 0; same && i < p->shape->n_dim; i++)
        same = had->shape->dim[i]->size == p->shape->dim[i]->size;
    if (!same)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "parts of tensor \"%.*s\" have different types or whole shapes", (int)name.n,
                       (const char *)name.p);
    size_t n = had->n_slices + p->n_slices;
    Tensorflow__TensorSliceProto **more = realloc(had->slices, n * sizeof(void *));
    if (!more)
        return rt_fail_memory(err, "an index", n * sizeof(void *));
    memcpy(more + had->n_slices, p->slices, p->n_slices * sizeof(void *));
    had->slices = more;
    had->n_slices = n;
    p->n_slices = 0;
    pb_free(p);
    return RT_OK;
}

static int compare_keys(struct rt_span x, struct rt_span y)
{
    size_t n = x.n < y.n ? x.n : y.n;
    int c = n ? memcmp(x.p, y.p, n) : 0;
    return c ? c : (x.n > y.n) - (x.n < y.n);
}

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = compare_keys(x->key, y->key);
    return c ? c : (x->source > y->source) - (x->source < y->source);
}

/* Adds the entries of sliced tensors and the header to the index, and sorts the index. Called after
 * all other items have been added and before any file is changed. Sets *twice to the second of two
 * items with equal keys, or to NULL if all keys are different. */
static enum rt_status index_finish(struct index *x, const struct item **twice, struct rt_error *err)
{
    Tensorflow__BundleHeaderProto h = TENSORFLOW__BUNDLE_HEADER_PROTO__INIT;
    Tensorflow__VersionDef version = TENSORFLOW__VERSION_DEF__INIT;
    struct rt_check check;
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < x->sliced.n && !st; i++) {
        const struct rt_map_entry *e = &x->sliced.entry[i];
        st = check_item(x, i, err);
        if (e->key && !st)
            st = index_add(x, rt_span_of(e->key, e->key_len), e->value, err);
    }
    version.producer = 1;
    h.version = &version;
    h.num_shards = x->n_shards;
    if (!st)
        st = index_add(x, rt_span_of("", 0), &h.base, err);
    if (!st)
        st = rt_sort_alloc(x->item, x->n, sizeof *x->item, by_key, "an index",
                           rt_checkpoint_run_as_check(x->run, &check), err);
    *twice = NULL;
    for (size_t i = 1; i < x->n && !*twice && !st; i++) {
        st = check_item(x, i, err);
        if (compare_keys(x->item[i - 1].key, x->item[i].key) == 0)
            *twice = &x->item[i];
    }
    return st;
}

struct index_file {
    char path[4200], temp[4300];
};

/* Writes the index to a temporary file, which the caller renames or unlinks. A failed call leaves
 * no file. */
static enum rt_status index_write(struct index *x, const char *prefix, struct index_file *f,
                                  struct rt_error *err)
{
    struct rt_sstable_writer w;
    struct rt_check check;
    enum rt_status st = RT_OK;

    snprintf(f->path, sizeof f->path, "%s.index", prefix);
    rt_sstable_begin(&w, 0);
    for (size_t i = 0; i < x->n && !st; i++) {
        st = check_item(x, i, err);
        rt_sstable_add(&w, x->item[i].key, x->item[i].value);
    }
    if (!st && !rt_sstable_end(&w))
        st = rt_fail_memory(err, "an index", w.file.n);
    if (!st)
        st = rt_file_check_space(f->path, w.file.n, err);
    if (!st)
        st = rt_file_write_temp(f->path, w.file.p, w.file.n,
                                rt_checkpoint_run_as_check(x->run, &check), f->temp, sizeof f->temp,
                                err);
    rt_sstable_clear(&w);
    return st;
}

/* If `st` is RT_OK, gives the temporary file of index_write its final name. Otherwise removes the
 * temporary file. */
static enum rt_status index_publish(const struct index_file *f, enum rt_status st,
                                    struct rt_error *err)
{
    if (!st)
        st = rt_file_rename(f->temp, f->path, err);
    if (st)
        unlink(f->temp);
    return st;
}

/* ---- data ---- */

/* Writes n bytes and adds them to the checksum *crc. */
static enum rt_status put(struct rt_file_writer *f, const void *p, size_t n, uint32_t *crc,
                          struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t done = 0; done < n && !st;) {
        const char *from = (const char *)p + done;
        const size_t left = n - done;
        const size_t piece = left < RT_FILE_WRITER_PIECE ? left : RT_FILE_WRITER_PIECE;
        st = rt_file_writer_put(f, from, piece, err);
        *crc = rt_crc32c(*crc, from, piece);
        done += piece;
    }
    return st;
}

static enum rt_status put_strings(struct rt_file_writer *f, const struct rt_str *s, int64_t n,
                                  uint32_t *crc_out, struct rt_error *err)
{
    struct rt_bytes head;
    uint32_t crc = 0, masked, of_head = 0;
    enum rt_status st = RT_OK;

    rt_bytes_init(&head, SIZE_MAX / 2);
    for (int64_t i = 0; i < n && !st; i++) {
        uint64_t len = s[i].n;
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(f->run, err) : RT_OK;
        uint32_t small = (uint32_t)len;
        crc = len <= UINT32_MAX ? rt_crc32c(crc, &small, 4) : rt_crc32c(crc, &len, 8);
        for (; len > 127; len >>= 7)
            rt_bytes_addc(&head, (char)(len | 128));
        rt_bytes_addc(&head, (char)len);
    }
    masked = rt_crc32c_mask(crc);
    rt_bytes_add(&head, &masked, 4);
    crc = rt_crc32c(crc, &masked, 4);
    if (!st)
        st = head.failed ? rt_fail_memory(err, "string lengths", head.n)
                         : put(f, head.p, head.n, &of_head, err);
    rt_bytes_clear(&head);
    for (int64_t i = 0; i < n && !st; i++) {
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(f->run, err) : RT_OK;
        if (!st)
            st = put(f, rt_str_data(&s[i]), s[i].n, &crc, err);
    }
    *crc_out = crc;
    return st;
}

static enum rt_status put_tensor(struct rt_file_writer *f, const struct rt_tensor *tensor,
                                 uint32_t *masked, struct rt_error *err)
{
    const struct rt_check check = {f->run ? f->run->check : NULL, f->run ? f->run->arg : NULL};
    struct rt_tensor t;
    uint32_t crc = 0;
    enum rt_status st;

    rt_tensor_ref(&t, tensor);
    st = rt_tensor_load_checked(&t, f->run ? &check : NULL, err);
    if (!st && t.dtype == RT_STRING)
        st = put_strings(f, t.data, rt_tensor_count(&t), &crc, err);
    else if (!st)
        st = put(f, t.data, rt_tensor_bytes(&t), &crc, err);
    *masked = rt_crc32c_mask(crc);
    rt_tensor_clear(&t);
    return st;
}

/* ---- entries ---- */

struct shape_proto {
    Tensorflow__TensorShapeProto p;
    Tensorflow__TensorShapeProto__Dim dim[RT_MAX_RANK], *ptr[RT_MAX_RANK];
};

static void shape_proto(struct shape_proto *s, int rank, const int64_t *dim)
{
    tensorflow__tensor_shape_proto__init(&s->p);
    s->p.n_dim = (size_t)rank;
    s->p.dim = s->ptr;
    for (int i = 0; i < rank; i++) {
        tensorflow__tensor_shape_proto__dim__init(&s->dim[i]);
        s->dim[i].size = dim[i];
        s->ptr[i] = &s->dim[i];
    }
}

/* Allocates the entry of a tensor that is stored as slices, with the single slice `part`. `rank`
 * and `dim` are the shape of the full tensor. */
static Tensorflow__BundleEntryProto *sliced_entry(enum rt_dtype dtype, int rank, const int64_t *dim,
                                                  const struct rt_slice *part)
{
    struct shape_proto shape;
    Tensorflow__TensorSliceProto slice = TENSORFLOW__TENSOR_SLICE_PROTO__INIT, *slices = &slice;
    Tensorflow__TensorSliceProto__Extent extent[RT_MAX_RANK], *extents[RT_MAX_RANK];
    Tensorflow__BundleEntryProto e = TENSORFLOW__BUNDLE_ENTRY_PROTO__INIT;
    unsigned char buffer[1024];

    shape_proto(&shape, rank, dim);
    for (int i = 0; i < rank; i++) {
        tensorflow__tensor_slice_proto__extent__init(&extent[i]);
        extents[i] = &extent[i];
        extent[i].start = part->start[i];
        if (part->length[i] >= 0) {
            extent[i].has_length_hack_case =
                TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_HACK_LENGTH;
            extent[i].length = part->length[i];
        }
    }
    slice.n_extent = (size_t)rank;
    slice.extent = extents;
    e.dtype = (Tensorflow__DataType)dtype;
    e.shape = &shape.p;
    e.n_slices = 1;
    e.slices = &slices;
    if (protobuf_c_message_get_packed_size(&e.base) > sizeof buffer)
        return NULL;
    size_t n = protobuf_c_message_pack(&e.base, buffer);
    return pb_unpack(&tensorflow__bundle_entry_proto__descriptor, rt_span_of(buffer, n),
                     "a tensor's entry", NULL);
}

static enum rt_status add_tensor(struct index *x, struct rt_file_writer *f, const char *name,
                                 const struct rt_tensor *t, struct rt_span slice,
                                 struct rt_error *err)
{
    Tensorflow__BundleEntryProto e = TENSORFLOW__BUNDLE_ENTRY_PROTO__INIT, *whole;
    struct shape_proto shape;
    struct rt_bytes key;
    struct rt_slice part, resolved;
    char buffer[128];
    int rank;
    int64_t dim[RT_MAX_RANK];
    enum rt_status st;

    if (!name[0])
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor without a name");
    if (!t->dtype || t->dtype == RT_RESOURCE || t->dtype == RT_VARIANT)
        return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\": type %s is not saved", name,
                       rt_dtype_name((enum rt_dtype)t->dtype));
    shape_proto(&shape, t->rank, t->dim);
    e.dtype = (Tensorflow__DataType)t->dtype;
    e.shape = &shape.p;
    e.offset = f->n;
    rt_bytes_init(&key, 1 << 21);
    if (slice.n) {
        st = rt_slice_parse(slice, &rank, dim, &part, err);
        if (st)
            return st;
        resolved = part;
        rt_slice_resolve(&resolved, rank, dim);
        if (resolved.rank != t->rank ||
            memcmp(resolved.length, t->dim, (size_t)rank * sizeof *dim) != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Slice in shape_and_slice specification does not match the shape of the "
                           "tensor to  save: %.*s, tensor: %s",
                           (int)slice.n, (const char *)slice.p,
                           rt_shape_text(buffer, sizeof buffer, t->rank, t->dim));
        whole = sliced_entry((enum rt_dtype)t->dtype, rank, dim, &part);
        if (!whole)
            return rt_fail_memory(err, "an index", sizeof *whole);
        st = index_add_sliced(x, rt_span_str(name), whole, err);
        if (st) {
            pb_free(whole);
            return st;
        }
        rt_slice_key(&key, rt_span_str(name), &part);
    } else {
        rt_bytes_adds(&key, name);
    }
    st = key.failed ? rt_bytes_fail(&key, "a name", err, RT_INVALID_ARGUMENT, "a name of %zu bytes",
                                    strlen(name))
                    : put_tensor(f, t, &e.crc32c, err);
    e.size = f->n - e.offset;
    if (!st)
        st = hold_item(x, key.n + protobuf_c_message_get_packed_size(&e.base), err);
    if (!st)
        st = index_add(x, rt_span_of(key.p, key.n), &e.base, err);
    rt_bytes_clear(&key);
    return st;
}

/* Creates the directories of the files. Checks the space first: a prefix may have thousands of
 * directories, and a save that is refused later would leave them behind. */
static enum rt_status make_parent(const char *prefix, struct rt_error *err)
{
    char dir[4096];
    const enum rt_status st = rt_file_check_space(prefix, 0, err);
    if (st)
        return st;
    const char *slash = strrchr(prefix, '/');
    if (!slash || slash == prefix)
        return RT_OK;
    size_t n = (size_t)(slash - prefix);
    if (n >= sizeof dir)
        return rt_fail_errno(err, prefix, ENAMETOOLONG);
    memcpy(dir, prefix, n);
    dir[n] = 0;
    return rt_file_make_dirs(dir, err);
}

enum rt_status rt_checkpoint_write(const char *prefix, int n, const char *const *names,
                                   const struct rt_tensor *tensors, const struct rt_span *slices,
                                   const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct index x;
    struct rt_file_writer f;
    struct index_file index;
    const struct item *twice;
    char path[4200];
    enum rt_status st;

    if (strlen(prefix) > 4000)
        return rt_fail_errno(err, prefix, ENAMETOOLONG);
    if (!index_init(&x, run))
        return rt_fail_memory(err, "an index", sizeof x);
    x.n_shards = 1;
    st = make_parent(prefix, err);
    snprintf(path, sizeof path, "%s.data-00000-of-00001", prefix);
    if (!st)
        st = rt_file_writer_open(&f, path, run, err);
    if (st)
        goto out;
    for (int i = 0; i < n && !st; i++) {
        st = rt_checkpoint_run_check(run, err);
        if (!st)
            st = add_tensor(&x, &f, names[i], &tensors[i], slices ? slices[i] : rt_span_of(NULL, 0),
                            err);
    }
    st = rt_file_writer_close(&f, st, err);
    if (!st)
        st = index_finish(&x, &twice, err);
    if (!st && twice)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "Adding duplicate key: %s",
                     (const char *)twice->key.p);
    if (!st)
        st = index_write(&x, prefix, &index, err);
    const bool has_index = !st;
    st = rt_file_writer_publish(&f, st, err);
    if (has_index)
        st = index_publish(&index, st, err);
out:
    index_clear(&x);
    return st;
}

/* ---- merging ---- */

struct merge {
    struct index x;
    /* index, in the merged checkpoint, of the first shard of the checkpoint being read */
    int first_shard;
    int n_shards;
};

static enum rt_status merge_entry(void *arg, struct rt_span key, struct rt_span value,
                                  struct rt_error *err)
{
    struct merge *m = arg;
    /* Counts the memory of the unpacked message, because the message stays in memory if the tensor
     * is stored as slices. */
    struct rt_check run;
    const struct rt_check *check = rt_checkpoint_run_as_check(m->x.run, &run);
    size_t unpacked;
    enum rt_status st = pb_unpacked_bytes_checked(&tensorflow__bundle_entry_proto__descriptor,
                                                  value, check, &unpacked, err);

    if (!st)
        st = hold_item(&m->x, key.n + value.n + unpacked, err);
    if (st)
        return st;
    if (!key.n) {
        Tensorflow__BundleHeaderProto *h = pb_unpack_checked(
            &tensorflow__bundle_header_proto__descriptor, value, "header", check, err);
        if (!h)
            return pb_unpack_failed(err, RT_DATA_LOSS);
        if (h->num_shards < 1 || h->num_shards > RT_BUNDLE_MAX_SHARDS || h->endianness)
            st = rt_fail(err, RT_DATA_LOSS, "%d shards, byte order %d", (int)h->num_shards,
                         (int)h->endianness);
        else if (h->num_shards > RT_BUNDLE_MAX_SHARDS - m->first_shard)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "more than %d shards in all",
                         RT_BUNDLE_MAX_SHARDS);
        m->n_shards = st ? 0 : h->num_shards;
        pb_free(h);
        return st;
    }
    if (!m->n_shards)
        return rt_fail(err, RT_DATA_LOSS, "the header is missing");
    Tensorflow__BundleEntryProto *e =
        pb_unpack_checked(&tensorflow__bundle_entry_proto__descriptor, value, "entry", check, err);
    if (!e)
        return pb_unpack_failed(err, RT_DATA_LOSS);
    if (e->n_slices) {
        e->shard_id = 0;
        st = index_add_sliced(&m->x, key, e, err);
        if (st)
            pb_free(e);
        return st;
    }
    if (e->shard_id < 0 || e->shard_id >= m->n_shards) {
        st = rt_fail(err, RT_DATA_LOSS, "shard %d of %d", (int)e->shard_id, m->n_shards);
    } else {
        e->shard_id += m->first_shard; /* The sum cannot overflow, because the number of shards was
                                        * checked when the header was read. */
        st = index_add(&m->x, key, &e->base, err);
    }
    pb_free(e);
    rt_pool_release(rt_checkpoint_run_pool(m->x.run), unpacked);
    m->x.held -= unpacked;
    return st;
}

static enum rt_status merge_read(struct merge *m, const char *prefix,
                                 const struct rt_checkpoint_run *run, int *n_shards,
                                 struct rt_error *err)
{
    char path[4200];
    struct rt_sstable_source source;
    struct stat info;
    int fd;
    enum rt_status st;

    if (strlen(prefix) > 4000)
        return rt_fail_errno(err, prefix, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s.index", prefix);
    st = rt_bundle_open_index(path, run, &fd, &info, &source, err);
    if (st)
        return st;
    m->n_shards = 0;
    st = rt_sstable_read(&source, merge_entry, m, err);
    if (st)
        rt_fail_prefix(err, "%s: ", path);
    close(fd);
    *n_shards = m->n_shards;
    return st;
}

/* The shards that a merge moves. */
struct shards {
    const char *const *prefixes;
    int *n; /* number of shards of each prefix */
    int n_prefixes, n_all;
    const char *destination;
};

/* Calls `visit` for the first `most` shards, with the old and the new path of each, until a call
 * fails. Calls the run's check before each. Sets *n_visited to the number of calls that did not
 * fail. */
static enum rt_status
visit_shards(const struct shards *s, int most,
             enum rt_status (*visit)(const char *from, const char *to, struct rt_error *err),
             const struct rt_checkpoint_run *run, int *n_visited, struct rt_error *err)
{
    char from[4200], to[4200];
    enum rt_status st = RT_OK;
    int at = 0;

    for (int i = 0; i < s->n_prefixes && !st; i++)
        for (int k = 0; k < s->n[i] && at < most && !st; k++) {
            snprintf(from, sizeof from, "%s.data-%05d-of-%05d", s->prefixes[i], k, s->n[i]);
            snprintf(to, sizeof to, "%s.data-%05d-of-%05d", s->destination, at, s->n_all);
            st = rt_checkpoint_run_check(run, err);
            if (!st)
                st = visit(from, to, err);
            at += !st;
        }
    *n_visited = at;
    return st;
}

/* A file that the shard replaced is not restored. */
static enum rt_status move_back(const char *from, const char *to, struct rt_error *err)
{
    (void)err; /* holds the error of the merge */
    (void)rename(to, from);
    return RT_OK;
}

/* Moves the shards and publishes the index, or leaves all shards where they were. */
static enum rt_status move_shards(const struct shards *s, const struct index_file *index,
                                  const struct rt_checkpoint_run *run, struct rt_error *err)
{
    int n_moved = 0, n;
    enum rt_status st = visit_shards(s, s->n_all, rt_file_check_rename, run, &n, err);

    if (!st)
        st = rt_file_check_rename(index->temp, index->path, err);
    /* The run's check is not called from here on, so that a merge is never left half done. At most
     * RT_BUNDLE_MAX_SHARDS files are moved. */
    if (!st)
        st = visit_shards(s, s->n_all, rt_file_rename, NULL, &n_moved, err);
    st = index_publish(index, st, err);
    if (st)
        visit_shards(s, n_moved, move_back, NULL, &n, err);
    return st;
}

enum rt_status rt_checkpoint_merge(const char *const *prefixes, int n, const char *destination,
                                   bool delete_dirs, const struct rt_checkpoint_run *run,
                                   struct rt_error *err)
{
    struct merge m = {0};
    char from[4200], to[4200];
    struct shards s = {.prefixes = prefixes,
                       .n = calloc((size_t)n + 1, sizeof *s.n),
                       .n_prefixes = n,
                       .destination = destination};
    struct index_file index;
    const struct item *twice;
    enum rt_status st;

    if (!s.n || !index_init(&m.x, run)) {
        free(s.n);
        return rt_fail_memory(err, "an index", (size_t)n * sizeof *s.n);
    }
    st = strlen(destination) > 4000 ? rt_fail_errno(err, destination, ENAMETOOLONG)
                                    : make_parent(destination, err);
    for (int i = 0; i < n && !st; i++) {
        m.x.source = i;
        st = merge_read(&m, prefixes[i], run, &s.n[i], err);
        m.first_shard += s.n[i];
    }
    m.x.n_shards = s.n_all = m.first_shard;
    if (!st)
        st = index_finish(&m.x, &twice, err);
    if (!st && twice)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "Duplicate tensor keyed by %s encountered, when merging prefix: %s",
                     (const char *)twice->key.p, prefixes[twice->source]);
    if (!st)
        st = index_write(&m.x, destination, &index, err);
    if (!st)
        st = move_shards(&s, &index, run, err);
    for (int i = 0; i < n && !st; i++) {
        snprintf(from, sizeof from, "%s.index", prefixes[i]);
        snprintf(to, sizeof to, "%s.index", destination);
        if (strcmp(from, to) != 0)
            unlink(from);
        char *slash = strrchr(from, '/');
        if (delete_dirs && slash && slash != from) {
            *slash = 0;
            rmdir(from); /* rmdir fails, as intended, if the directory is not empty. */
        }
    }
    index_clear(&m.x);
    free(s.n);
    return st;
}
