/*
 * Makes the tensors of a checkpoint. A plain tensor that is not stored as slices is lazy: its bytes
 * are read when they are first needed. Strings and slices are read immediately.
 */
#include "runtime/files/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/crc32c.h"

/* number of strings or slices between two calls of the run's check */
enum { CHECK_EVERY = 1 << 14 };
enum { MAX_VARINT = 10 };

/* ---- lazy tensors ---- */

struct range {
    struct rt_checkpoint *c;
    const struct rt_bundle_entry *e;
    struct rt_pool *pool; /* pool that counts the loaded bytes; may be NULL */
};

static enum rt_status hold(struct rt_pool *pool, size_t bytes, struct rt_error *err)
{
    return rt_pool_hold(pool, bytes, 0, "a tensor of a checkpoint", err);
}

static void range_release(struct rt_buffer *b)
{
    struct range *r = b->owner;
    void *data = atomic_load(&b->data);
    free(data);
    rt_pool_release(r->pool, data ? b->size : 0);
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
        st = rt_bundle_read_all(r->c, r->e, &run, data, err);
    } else if (!st) {
        st = rt_bundle_read_all(r->c, r->e, NULL, data, err);
    }
    if (st) {
        free(data);
        rt_pool_release(r->pool, b->size);
        return st;
    }
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
    st = rt_bundle_open_shard(r->c, r->e, &fd, err);
    if (st)
        return st;
    if (posix_memalign(&window, 64, RT_BUNDLE_WINDOW)) {
        window = NULL;
        st = rt_fail_memory(err, r->e->pub.name, RT_BUNDLE_WINDOW);
    }
    for (size_t off = 0; off < b->size && !st; off += RT_BUNDLE_WINDOW) {
        size_t k = b->size - off < RT_BUNDLE_WINDOW ? b->size - off : RT_BUNDLE_WINDOW;
        st = rt_bundle_read(r->c, r->e, fd, off, window, k, err);
        if (st)
            break;
        crc = rt_crc32c(crc, window, k);
        rt_bundle_make_native(r->c, r->e->pub.dtype, window, k);
        st = sink(arg, off, window, k, err);
    }
    free(window);
    rt_bundle_close_shard(r->c, r->e, fd);
    return st ? st : rt_bundle_check_sum(r->c, r->e, crc, err);
}

static enum rt_status lazy_tensor(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                  struct rt_pool *pool, struct rt_tensor *out, struct rt_error *err)
{
    struct range *r = NULL;
    struct rt_buffer *b = NULL;
    const enum rt_status st = rt_bundle_check_shard(c, e, err);

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

/* Reads the stored bytes of an entry in order, one window at a time. Calls the check of `run`
 * before each window. */
struct reader {
    struct rt_checkpoint *c;
    const struct rt_bundle_entry *e;
    const struct rt_checkpoint_run *run;
    int fd;
    unsigned char *window;
    size_t capacity;
    size_t off;          /* end of the window, as an offset from the start of the entry */
    struct rt_span rest; /* bytes of the window that have not been taken yet */
};

static size_t n_left(const struct reader *r)
{
    return (size_t)r->e->pub.bytes - r->off + r->rest.n;
}

/* Moves the rest of the window to its start, and fills the window with the next bytes. */
static enum rt_status refill(struct reader *r, struct rt_error *err)
{
    const size_t behind = (size_t)r->e->pub.bytes - r->off, space = r->capacity - r->rest.n;
    const size_t n = behind < space ? behind : space;
    enum rt_status st = rt_checkpoint_run_check(r->run, err);

    if (r->rest.n)
        memmove(r->window, r->rest.p, r->rest.n);
    if (!st)
        st = rt_bundle_read(r->c, r->e, r->fd, r->off, r->window + r->rest.n, n, err);
    if (st)
        return st;
    r->off += n;
    r->rest = rt_span_of(r->window, r->rest.n + n);
    return RT_OK;
}

/* Takes n bytes, where n is at most n_left(), and adds them to the checksum. */
static enum rt_status take(struct reader *r, void *dst, size_t n, uint32_t *crc,
                           struct rt_error *err)
{
    for (size_t done = 0; done < n;) {
        enum rt_status st = r->rest.n ? RT_OK : refill(r, err);
        if (st)
            return st;
        const size_t k = n - done < r->rest.n ? n - done : r->rest.n;
        memcpy((char *)dst + done, r->rest.p, k);
        *crc = rt_crc32c(*crc, r->rest.p, k);
        r->rest.p += k;
        r->rest.n -= k;
        done += k;
    }
    return RT_OK;
}

/* Reads the length of string i of n and makes the string with uninitialised bytes. Adds the length
 * to the checksum of the lengths, as an integer of 4 bytes (8 if needed) in the writer's byte
 * order. Subtracts the length from *unused, the number of bytes that further strings may occupy. */
static enum rt_status take_length(struct reader *r, int64_t i, int64_t n, struct rt_str *dst,
                                  size_t *unused, uint32_t *crc, struct rt_error *err)
{
    uint64_t len;
    enum rt_status st = RT_OK;

    if (r->rest.n < MAX_VARINT && r->rest.n < n_left(r))
        st = refill(r, err);
    if (!st && (!pb_varint(&r->rest, &len) || len > *unused))
        st = rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": length %lld of %lld is bad", r->e->pub.name,
                     (long long)i, (long long)n);
    if (st)
        return st;
    *unused -= len;
    if (!rt_str_resize(dst, rt_checkpoint_run_pool(r->run), (size_t)len, err))
        return err->code;
    uint32_t small = (uint32_t)len;
    const bool is_small = len <= UINT32_MAX;
    if (r->c->is_swapped) {
        small = __builtin_bswap32(small);
        len = __builtin_bswap64(len);
    }
    *crc = is_small ? rt_crc32c(*crc, &small, 4) : rt_crc32c(*crc, &len, 8);
    return RT_OK;
}

/* Reads the checksum of the lengths, compares it with *crc, and adds its bytes to *crc. */
static enum rt_status take_length_checksum(struct reader *r, uint32_t *crc, struct rt_error *err)
{
    const uint32_t expected = rt_crc32c_mask(*crc);
    uint32_t stored;

    if (n_left(r) < sizeof stored)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": its lengths have no checksum",
                       r->e->pub.name);
    const enum rt_status st = take(r, &stored, sizeof stored, crc, err);
    if (st)
        return st;
    if (r->c->is_swapped)
        stored = __builtin_bswap32(stored);
    if (stored != expected)
        return rt_fail(err, RT_DATA_LOSS,
                       "tensor \"%s\": The length checksum does not match: expected %u but actual "
                       "is %u",
                       r->e->pub.name, expected, stored);
    return RT_OK;
}

/*
 * Reads n strings from their stored bytes: the lengths of all strings as varints, the masked
 * checksum of the lengths, and the bytes of all strings. The entry's checksum covers the lengths as
 * integers of 4 or 8 bytes (take_length), the stored checksum of the lengths, and the bytes of all
 * strings.
 */
static enum rt_status take_strings(struct reader *r, struct rt_str *dst, int64_t n,
                                   struct rt_error *err)
{
    size_t unused = (size_t)r->e->pub.bytes;
    uint32_t crc = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(r->run, err) : RT_OK;
        if (!st)
            st = take_length(r, i, n, &dst[i], &unused, &crc, err);
    }
    if (!st)
        st = take_length_checksum(r, &crc, err);
    for (int64_t i = 0; i < n && !st; i++) {
        struct rt_str *s = &dst[i];
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(r->run, err) : RT_OK;
        if (!st && s->n > n_left(r))
            st = rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": string %lld ends behind its bytes",
                         r->e->pub.name, (long long)i);
        if (!st)
            st = take(r, s->n < sizeof s->u.in ? s->u.in : s->u.out->p, s->n, &crc, err);
    }
    if (!st && n_left(r))
        st = rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": %zu bytes behind the last string",
                     r->e->pub.name, n_left(r));
    return st ? st : rt_bundle_check_sum(r->c, r->e, crc, err);
}

static enum rt_status string_tensor(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                    struct rt_error *err)
{
    const size_t n = (size_t)e->pub.bytes;
    const int64_t count = rt_count(e->pub.shape.rank, e->pub.shape.dim);
    struct reader r = {.c = c,
                       .e = e,
                       .run = run,
                       .fd = -1,
                       .capacity = n < RT_BUNDLE_WINDOW ? n : RT_BUNDLE_WINDOW};
    struct rt_tensor t = {0};
    struct rt_check check;
    enum rt_status st = rt_bundle_open_shard(c, e, &r.fd, err);

    if (st)
        return st;
    if (count > e->pub.bytes)
        st = rt_fail(err, RT_DATA_LOSS, "tensor \"%s\": %lld strings in %zu bytes", e->pub.name,
                     (long long)count, n);
    if (!st && !(r.window = malloc(r.capacity + 1)))
        st = rt_fail_memory(err, e->pub.name, r.capacity);
    if (!st)
        st = rt_tensor_new_checked(&t, rt_checkpoint_run_pool(run), RT_STRING, e->pub.shape.rank,
                                   e->pub.shape.dim, rt_checkpoint_run_as_check(run, &check), err);
    if (!st)
        st = take_strings(&r, t.data, count, err);
    if (st)
        rt_tensor_clear(&t);
    else
        *out = t;
    free(r.window);
    rt_bundle_close_shard(c, e, r.fd);
    return st;
}

/* ---- slices ---- */

static enum rt_status part_entry(const struct rt_checkpoint *c, const struct rt_bundle_entry *whole,
                                 const struct rt_slice *part, const struct rt_bundle_entry **out,
                                 struct rt_error *err)
{
    struct rt_bytes key;
    struct rt_slice full = *part;

    rt_bytes_init(&key, 1 << 21);
    rt_slice_key(&key, whole->key, part);
    const bool no_memory = key.no_memory;
    *out = key.failed ? NULL : rt_bundle_find(c, rt_span_of(key.p, key.n));
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

/* A stored slice of a tensor, with the entry that describes its bytes. */
struct stored {
    struct rt_slice part; /* the stored slice, with its lengths resolved (rt_slice_resolve) */
    const struct rt_bundle_entry *e;
};

/*
 * Sets *n to the number of elements in which stored slice i of entry e overlaps `want`. If *n is
 * not 0, finds the slice's entry and checks its shard. `assemble` calls this function for all
 * slices before it allocates memory, so that an index cannot make it allocate more bytes than the
 * files contain.
 */
static enum rt_status stored_part(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int i,
                                  const struct rt_slice *want, struct stored *out, int64_t *n,
                                  struct rt_error *err)
{
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
    return rt_bundle_check_shard(c, out->e, err);
}

/* Copies the overlap of stored slice s and slice `want` into tensor t, whose elements are those of
 * `want`. */
static enum rt_status copy_part(struct rt_checkpoint *c, const struct stored *s,
                                const struct rt_checkpoint_run *run, const struct rt_slice *want,
                                const struct rt_tensor *t, struct rt_error *err)
{
    const size_t n = (size_t)s->e->pub.bytes;
    struct rt_pool *pool = rt_checkpoint_run_pool(run);
    enum rt_status st = hold(pool, n, err);

    if (st)
        return st;
    struct rt_check check;
    int64_t n_copied;
    void *bytes = malloc(n + 1);
    st = bytes ? rt_bundle_read_all(c, s->e, run, bytes, err)
               : rt_fail_memory(err, s->e->pub.name, n);
    if (!st)
        st = rt_slice_copy(t->data, want, bytes, &s->part, rt_dtype_size((enum rt_dtype)t->dtype),
                           rt_checkpoint_run_as_check(run, &check), &n_copied, err);
    free(bytes);
    rt_pool_release(pool, n);
    return st;
}

/* Reads the resolved slice `want` of a tensor. The tensor is stored in one entry or as slices that
 * do not overlap (rt_slice_set_check). */
static enum rt_status assemble(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                               const struct rt_checkpoint_run *run, const struct rt_slice *want,
                               struct rt_tensor *out, struct rt_error *err)
{
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
    for (int i = 0; i < n_parts && n && !st; i++) {
        st = i % CHECK_EVERY == 0 ? rt_checkpoint_run_check(run, err) : RT_OK;
        if (!st)
            st = stored_part(c, e, i, want, &s, &k, err);
        if (!st && k)
            st = copy_part(c, &s, run, want, &t, err);
    }
    if (st)
        rt_tensor_clear(&t);
    else
        *out = t;
    return st;
}

/* Parses the slice `text` and checks its shape against the entry's shape. An empty `text` selects
 * the full tensor. */
static enum rt_status wanted_part(const struct rt_bundle_entry *e, struct rt_span text,
                                  struct rt_slice *want, struct rt_error *err)
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
    const struct rt_bundle_entry *e = name[0] ? rt_bundle_find(c, rt_span_str(name)) : NULL;
    struct rt_slice part;
    enum rt_status st;

    *out = (struct rt_tensor){0};
    if (!e)
        return rt_fail(err, RT_NOT_FOUND, "Key %s not found in checkpoint", name);
    if (e->why_not)
        return rt_fail(err, e->refusal, "tensor \"%s\" in %s: %s", name, c->prefix, e->why_not);
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
