#include "runtime/files/sstable.h"

#include <snappy-c.h>
#include <stdlib.h>

#include "proto/wire.h"
#include "runtime/base/crc32c.h"

enum {
    FOOTER = 48,
    /* number of bytes after each block, which hold the compression type and the checksum */
    TRAILER = 5,
    RESTART_EVERY = 16,
    MAX_KEY = 1 << 20,
    /* maximum size of an uncompressed block; equal to protobuf's limit for a message */
    MAX_BLOCK = INT32_MAX,
};
enum { NOT_COMPRESSED = 0, SNAPPY = 1, ZSTD = 2 }; /* leveldb's numbers for the compression types */
static const uint64_t MAGIC = UINT64_C(0xdb4775248b80fb57);

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct handle {
    uint64_t offset, size;
};

static bool handle(struct rt_span *s, struct handle *h)
{
    return pb_varint(s, &h->offset) && pb_varint(s, &h->size);
}

/* A block of the table, verified and uncompressed. */
struct block {
    struct rt_span entries; /* entries of the block, without the restart points */
    /* memory of the entries, freed by block_clear, or NULL if the memory belongs to the source */
    unsigned char *owned;
};

static void block_clear(struct block *b)
{
    free(b->owned);
    *b = (struct block){0};
}

/*
 * Uncompresses a block. Before memory is allocated, the length that a compressed block announces is
 * compared with the maximum length to which the block's bytes can expand.
 */
static enum rt_status uncompress(struct block *out, struct rt_span *all, struct rt_error *err)
{
    const struct rt_span from = *all;
    const char *p = (const char *)from.p;
    size_t n;

    if (snappy_uncompressed_length(p, from.n, &n) != SNAPPY_OK)
        return rt_fail(err, RT_DATA_LOSS, "a block of %zu bytes is no snappy data", from.n);
    if (n > MAX_BLOCK || n / RT_SSTABLE_EXPANDS > from.n)
        return rt_fail(err, RT_DATA_LOSS, "a block of %zu bytes of snappy data announces %zu",
                       from.n, n);
    unsigned char *plain = malloc(n + 1);
    if (!plain)
        return rt_fail_memory(err, "a block", n);
    if (snappy_uncompress(p, from.n, (char *)plain, &n) != SNAPPY_OK) {
        free(plain);
        return rt_fail(err, RT_DATA_LOSS,
                       "corrupted compressed block contents: %zu bytes of "
                       "snappy data",
                       from.n);
    }
    free(out->owned);
    out->owned = plain;
    *all = rt_span_of(plain, n);
    return RT_OK;
}

/* Gets n bytes of the source, from the source's memory or by reading them into new memory. In the
 * latter case, sets *owned to the new memory. */
static enum rt_status bytes_at(const struct rt_sstable_source *from, uint64_t offset, size_t n,
                               unsigned char **owned, struct rt_span *out, struct rt_error *err)
{
    if (!from->read) {
        *out = rt_span_of(from->p + offset, n);
        return RT_OK;
    }
    *owned = malloc(n + 1);
    if (!*owned)
        return rt_fail_memory(err, "a block", n);
    *out = rt_span_of(*owned, n);
    return from->read(from->arg, offset, *owned, n, err);
}

/* Verifies and uncompresses a stored block, and removes the restart points. */
static enum rt_status open_block(struct rt_span stored, struct block *out, struct rt_error *err)
{
    const unsigned char *p = stored.p;
    size_t n = stored.n - TRAILER;
    enum rt_status st = RT_OK;

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (get32(p + n + 1) != rt_crc32c_mask(rt_crc32c(0, p, n + 1)))
        return rt_fail(err, RT_DATA_LOSS, "block checksum mismatch");
#endif
    struct rt_span all = rt_span_of(p, n);
    unsigned type = p[n];
    if (type == SNAPPY)
        st = uncompress(out, &all, err);
    else if (type != NOT_COMPRESSED)
        st = rt_fail(err, RT_DATA_LOSS,
                     "bad block type: compression %u%s, where tables have none or snappy", type,
                     type == ZSTD ? " (zstd)" : "");
    if (st)
        return st;
    uint64_t tail = all.n < 4 ? 4 : ((uint64_t)get32(all.p + all.n - 4) + 1) * 4;
    if (tail > all.n)
        return rt_fail(err, RT_DATA_LOSS, "a block of %zu bytes, %llu of them restarts", all.n,
                       (unsigned long long)tail);
    out->entries = rt_span_of(all.p, all.n - (size_t)tail);
    return RT_OK;
}

/* Reads the block at `h`. On RT_OK the caller must clear *out. */
static enum rt_status block_at(const struct rt_sstable_source *from, struct handle h,
                               struct block *out, struct rt_error *err)
{
    uint64_t capacity = from->size - FOOTER;
    struct rt_span stored;

    *out = (struct block){0};
    if (h.offset > capacity || h.size > capacity - h.offset ||
        capacity - h.offset - h.size < TRAILER)
        return rt_fail(err, RT_DATA_LOSS, "a block of %llu bytes at %llu: the file has %llu",
                       (unsigned long long)h.size, (unsigned long long)h.offset,
                       (unsigned long long)from->size);
    enum rt_status st =
        bytes_at(from, h.offset, (size_t)h.size + TRAILER, &out->owned, &stored, err);
    if (!st)
        st = open_block(stored, out, err);
    if (st)
        block_clear(out);
    return st;
}

/* Reads the next entry of a block. `key` must be the key of the preceding entry; it becomes the key
 * of this entry. */
static bool next_entry(struct rt_span *block, struct rt_bytes *key, struct rt_span *value)
{
    uint64_t shared, own, size;
    if (!pb_varint(block, &shared) || !pb_varint(block, &own) || !pb_varint(block, &size))
        return false;
    if (shared > key->n || own > block->n || size > block->n - own || shared + own > MAX_KEY)
        return false;
    key->n = (size_t)shared;
    rt_bytes_add(key, block->p, (size_t)own);
    *value = rt_span_of(block->p + own, (size_t)size);
    block->p += own + size;
    block->n -= (size_t)(own + size);
    return true;
}

static int compare(struct rt_span a, struct rt_span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

struct reader {
    enum rt_status (*each)(void *arg, struct rt_span key, struct rt_span value,
                           struct rt_error *err);
    void *arg;
    struct rt_bytes key, last;
    bool any;
    uint64_t left; /* number of bytes of the file outside the blocks that have been read so far */
};

static enum rt_status read_entries(struct reader *r, struct rt_span block, struct rt_error *err)
{
    struct rt_span value;
    enum rt_status st;

    r->key.n = 0;
    while (block.n) {
        if (!next_entry(&block, &r->key, &value))
            return rt_fail(err, RT_DATA_LOSS, "an entry with bad lengths");
        if (r->key.failed)
            return rt_fail_memory(err, "a key", r->key.n);
        struct rt_span key = rt_span_of(r->key.p, r->key.n);
        if (r->any && compare(key, rt_span_of(r->last.p, r->last.n)) <= 0)
            return rt_fail(err, RT_DATA_LOSS, "keys out of order");
        r->any = true;
        r->last.n = 0;
        rt_bytes_add(&r->last, key.p, key.n);
        if (r->last.failed)
            return rt_fail_memory(err, "a key", key.n);
        st = r->each(r->arg, key, value, err);
        if (st)
            return st;
    }
    return RT_OK;
}

/*
 * Reads the entries of a block. Refuses overlapping blocks by comparing their total size with the
 * file's. Otherwise an index could name one large block many times, and the reader would verify and
 * uncompress it each time.
 */
static enum rt_status read_block(struct reader *r, const struct rt_sstable_source *from,
                                 struct handle h, struct rt_error *err)
{
    struct block block;
    enum rt_status st = block_at(from, h, &block, err);

    if (st)
        return st;
    if (h.size + TRAILER > r->left)
        st = rt_fail(err, RT_DATA_LOSS, "blocks that overlap");
    else
        st = read_entries(r, block.entries, err);
    r->left -= st ? 0 : h.size + TRAILER;
    block_clear(&block);
    return st;
}

static enum rt_status find_index(const struct rt_sstable_source *from, struct block *index,
                                 struct rt_error *err)
{
    struct handle meta, h;
    unsigned char *owned = NULL;
    struct rt_span footer;

    if (from->size < FOOTER)
        return rt_fail(err, RT_DATA_LOSS, "file is too short to be an sstable");
    enum rt_status st = bytes_at(from, from->size - FOOTER, FOOTER, &owned, &footer, err);
    if (!st) {
        uint64_t magic = get32(footer.p + 40) | (uint64_t)get32(footer.p + 44) << 32;
        footer.n = 40;
        if (magic != MAGIC)
            st = rt_fail(err, RT_DATA_LOSS, "not an sstable (bad magic number)");
        else if (!handle(&footer, &meta) || !handle(&footer, &h))
            st = rt_fail(err, RT_DATA_LOSS, "bad block handle");
    }
    free(owned);
    return st ? st : block_at(from, h, index, err);
}

enum rt_status rt_sstable_read(struct rt_span file,
                               enum rt_status (*each)(void *arg, struct rt_span key,
                                                      struct rt_span value, struct rt_error *err),
                               void *arg, struct rt_error *err)
{
    const struct rt_sstable_source from = {.size = file.n, .p = file.p};
    struct reader r = {.each = each, .arg = arg, .left = file.n};
    struct rt_bytes index_key;
    struct block index;
    struct rt_span value;
    struct handle h;
    enum rt_status st = find_index(&from, &index, err);

    if (st)
        return st;
    rt_bytes_init(&index_key, MAX_KEY + 1);
    rt_bytes_init(&r.key, MAX_KEY + 1);
    rt_bytes_init(&r.last, MAX_KEY + 1);
    for (struct rt_span rest = index.entries; rest.n && st == RT_OK;) {
        if (!next_entry(&rest, &index_key, &value) || !handle(&value, &h))
            st = rt_fail(err, RT_DATA_LOSS, "an index entry with bad lengths");
        else if (index_key.failed)
            st = rt_fail_memory(err, "a key", index_key.n);
        else
            st = read_block(&r, &from, h, err);
    }
    block_clear(&index);
    rt_bytes_clear(&index_key);
    rt_bytes_clear(&r.key);
    rt_bytes_clear(&r.last);
    return st;
}

/* Finds the first entry of the block whose key is not less than `key`. Sets *same if the keys are
 * equal. Returns RT_NOT_FOUND if there is no such entry. */
static enum rt_status seek(struct rt_span entries, struct rt_span key, bool *same,
                           struct rt_span *value, struct rt_error *err)
{
    struct rt_bytes at;
    enum rt_status st = RT_NOT_FOUND;

    rt_bytes_init(&at, MAX_KEY + 1);
    while (entries.n && st == RT_NOT_FOUND) {
        if (!next_entry(&entries, &at, value)) {
            st = rt_fail(err, RT_DATA_LOSS, "an entry with bad lengths");
        } else if (at.failed) {
            st = rt_fail_memory(err, "a key", at.n);
        } else if (compare(rt_span_of(at.p, at.n), key) >= 0) {
            *same = rt_span_eq(rt_span_of(at.p, at.n), key);
            st = RT_OK;
        }
    }
    rt_bytes_clear(&at);
    return st;
}

enum rt_status rt_sstable_find(const struct rt_sstable_source *from, struct rt_span key,
                               enum rt_status (*found)(void *arg, struct rt_span value,
                                                       struct rt_error *err),
                               void *arg, struct rt_error *err)
{
    struct block index, block;
    struct handle h;
    struct rt_span value;
    bool same;
    enum rt_status st = find_index(from, &index, err);

    if (st)
        return st;
    /* The key of an index entry is not less than any key of its block. */
    st = seek(index.entries, key, &same, &value, err);
    if (!st && !handle(&value, &h))
        st = rt_fail(err, RT_DATA_LOSS, "an index entry with bad lengths");
    block_clear(&index);
    if (!st)
        st = block_at(from, h, &block, err);
    if (st)
        return st;
    st = seek(block.entries, key, &same, &value, err);
    if (!st)
        st = same ? found(arg, value, err) : RT_NOT_FOUND;
    block_clear(&block);
    return st;
}

/* ---- writing ---- */

static void put32(struct rt_bytes *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        rt_bytes_addc(b, (char)(v >> (8 * i) & 255));
}

static void put_varint(struct rt_bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v | 128));
    rt_bytes_addc(b, (char)v);
}

/* Appends a finished block with its trailer to the file, and sets *h to its offset and size. */
static void put_block(struct rt_sstable_writer *w, const struct rt_bytes *block, struct handle *h)
{
    h->offset = w->file.n;
    h->size = block->n;
    rt_bytes_add(&w->file, block->p, block->n);
    rt_bytes_addc(&w->file, 0);
    if (!w->file.failed && !block->failed)
        put32(&w->file, rt_crc32c_mask(rt_crc32c(0, w->file.p + h->offset, block->n + 1)));
}

void rt_sstable_begin(struct rt_sstable_writer *w, size_t block_size)
{
    *w = (struct rt_sstable_writer){.block_size = block_size ? block_size : 262144};
    rt_bytes_init(&w->file, SIZE_MAX / 2);
    rt_bytes_init(&w->block, SIZE_MAX / 2);
    rt_bytes_init(&w->index, SIZE_MAX / 2);
    rt_bytes_init(&w->restarts, SIZE_MAX / 2);
    rt_bytes_init(&w->index_restarts, SIZE_MAX / 2);
    rt_bytes_init(&w->last, SIZE_MAX / 2);
}

/* Shortens `last` to a key that is not less than the old `last` and, unless `next` is empty, is
 * less than `next`. */
static void shorten(struct rt_bytes *last, struct rt_span next)
{
    unsigned char *p = (unsigned char *)last->p;
    size_t i = 0;
    if (next.n) {
        while (i < last->n && i < next.n && p[i] == next.p[i])
            i++;
        if (i < last->n && i < next.n && p[i] < 255 && p[i] + 1 < next.p[i]) {
            p[i]++;
            last->n = i + 1;
        }
        return;
    }
    while (i < last->n && p[i] == 255)
        i++;
    if (i < last->n) {
        p[i]++;
        last->n = i + 1;
    }
}

/* Ends the data block and adds it to the index. `next` is the next key; it is empty at the end of
 * the table. */
static void end_block(struct rt_sstable_writer *w, struct rt_span next)
{
    struct rt_bytes value;
    struct handle h;

    rt_bytes_add(&w->block, w->restarts.p, w->restarts.n);
    put32(&w->block, (uint32_t)(w->restarts.n / 4));
    put_block(w, &w->block, &h);
    shorten(&w->last, next);
    rt_bytes_init(&value, 32);
    put_varint(&value, h.offset);
    put_varint(&value, h.size);
    put32(&w->index_restarts, (uint32_t)w->index.n);
    put_varint(&w->index, 0);
    put_varint(&w->index, w->last.n);
    put_varint(&w->index, value.n);
    rt_bytes_add(&w->index, w->last.p, w->last.n);
    rt_bytes_add(&w->index, value.p, value.n);
    w->file.failed |= value.failed;
    rt_bytes_clear(&value);
    w->block.n = w->restarts.n = 0;
    w->n_entries = 0;
}

void rt_sstable_add(struct rt_sstable_writer *w, struct rt_span key, struct rt_span value)
{
    size_t shared = 0;

    if (w->n_entries && w->block.n + w->restarts.n + 4 >= w->block_size)
        end_block(w, key);
    if (w->n_entries % RESTART_EVERY == 0) {
        put32(&w->restarts, (uint32_t)w->block.n);
    } else {
        while (shared < w->last.n && shared < key.n &&
               (unsigned char)w->last.p[shared] == key.p[shared])
            shared++;
    }
    put_varint(&w->block, shared);
    put_varint(&w->block, key.n - shared);
    put_varint(&w->block, value.n);
    rt_bytes_add(&w->block, key.p + shared, key.n - shared);
    rt_bytes_add(&w->block, value.p, value.n);
    w->last.n = 0;
    rt_bytes_add(&w->last, key.p, key.n);
    w->n_entries++;
}

bool rt_sstable_end(struct rt_sstable_writer *w)
{
    struct handle meta, index;
    size_t at;

    if (w->n_entries)
        end_block(w, rt_span_of(NULL, 0));
    w->block.n = 0;
    put32(&w->block, 0);
    put32(&w->block, 1);
    put_block(w, &w->block, &meta);
    if (!w->index_restarts.n)
        put32(&w->index_restarts, 0);
    rt_bytes_add(&w->index, w->index_restarts.p, w->index_restarts.n);
    put32(&w->index, (uint32_t)(w->index_restarts.n / 4));
    put_block(w, &w->index, &index);
    at = w->file.n;
    put_varint(&w->file, meta.offset);
    put_varint(&w->file, meta.size);
    put_varint(&w->file, index.offset);
    put_varint(&w->file, index.size);
    while (!w->file.failed && w->file.n < at + 40)
        rt_bytes_addc(&w->file, 0);
    put32(&w->file, (uint32_t)(MAGIC & UINT32_MAX));
    put32(&w->file, (uint32_t)(MAGIC >> 32));
    return !(w->file.failed || w->block.failed || w->index.failed || w->restarts.failed ||
             w->index_restarts.failed || w->last.failed);
}

void rt_sstable_clear(struct rt_sstable_writer *w)
{
    rt_bytes_clear(&w->file);
    rt_bytes_clear(&w->block);
    rt_bytes_clear(&w->index);
    rt_bytes_clear(&w->restarts);
    rt_bytes_clear(&w->index_restarts);
    rt_bytes_clear(&w->last);
}
