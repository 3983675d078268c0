#include "runtime/files/sstable.h"

#include <snappy-c.h>
#include <stdlib.h>

#include "proto/wire.h"
#include "runtime/base/crc32c.h"
#include "runtime/core/pool.h"
#include "runtime/files/checkpoint.h"

enum {
    FOOTER = 48,
    /* number of bytes after each block, for the compression type and the checksum */
    TRAILER = 5,
    RESTART_EVERY = 16,
    /* number of bytes of a block that are read or checksummed between two calls of the run's
     * check */
    PIECE = 1 << 22,
};
/* Maximum uncompressed size of a compressed block. libsnappy uncompresses this size in about 0.2 s.
 * TensorFlow compresses only the blocks of indexes. These blocks are far smaller. */
#define MAX_SNAPPY ((size_t)128 << 20)
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
    /* memory of the entries, freed by block_clear; NULL if they are in the source's memory */
    unsigned char *owned;
    size_t n_owned; /* number of bytes that `pool` counts for `owned` */
    struct rt_pool *pool;
};

static void block_clear(struct block *b)
{
    rt_pool_release(b->pool, b->n_owned);
    free(b->owned);
    *b = (struct block){.pool = b->pool};
}

/* Gives a block n + 1 uninitialised bytes of new memory. Moves its old memory to *old. */
static enum rt_status block_alloc(struct block *b, size_t n, struct block *old,
                                  struct rt_error *err)
{
    const enum rt_status st = rt_pool_hold(b->pool, n + 1, 0, "a block of a checkpoint", err);

    if (st)
        return st;
    unsigned char *p = malloc(n + 1);
    if (!p) {
        rt_pool_release(b->pool, n + 1);
        return rt_fail_memory(err, "a block", n);
    }
    *old = *b;
    b->owned = p;
    b->n_owned = n + 1;
    return RT_OK;
}

/*
 * Uncompresses a block. Refuses a block before allocating memory if its announced length exceeds
 * max_block or the maximum length to which its bytes can expand. The length has a limit of its own,
 * because libsnappy cannot be stopped.
 */
static enum rt_status uncompress(const struct rt_sstable_source *source, struct block *out,
                                 struct rt_span *all, struct rt_error *err)
{
    const struct rt_span from = *all;
    const size_t max_block =
        source->max_block && source->max_block < MAX_SNAPPY ? source->max_block : MAX_SNAPPY;
    const char *p = (const char *)from.p;
    struct block old;
    size_t n;

    if (snappy_uncompressed_length(p, from.n, &n) != SNAPPY_OK)
        return rt_fail(err, RT_DATA_LOSS, "a block of %zu bytes is no snappy data", from.n);
    if (n > max_block || n / RT_SSTABLE_EXPANDS > from.n)
        return rt_fail(err, RT_DATA_LOSS,
                       "a block of %zu bytes of snappy data announces %zu; the limit is %zu",
                       from.n, n, max_block);
    enum rt_status st = block_alloc(out, n, &old, err);
    if (st)
        return st;
    if (snappy_uncompress(p, from.n, (char *)out->owned, &n) != SNAPPY_OK)
        st = rt_fail(err, RT_DATA_LOSS,
                     "corrupted compressed block contents: %zu bytes of "
                     "snappy data",
                     from.n);
    *all = rt_span_of(out->owned, n);
    block_clear(&old);
    return st;
}

/* Sets *out to n bytes of the source. Reads them into new memory of the block unless the source is
 * in memory. */
static enum rt_status bytes_at(const struct rt_sstable_source *from, uint64_t offset, size_t n,
                               struct block *b, struct rt_span *out, struct rt_error *err)
{
    struct block none;
    enum rt_status st = rt_checkpoint_run_check(from->run, err);

    if (st)
        return st;
    if (!from->read) {
        *out = rt_span_of(from->p + offset, n);
        return RT_OK;
    }
    st = block_alloc(b, n, &none, err);
    for (size_t at = 0; at < n && !st; at += PIECE) {
        const size_t piece = n - at < PIECE ? n - at : PIECE;
        st = from->read(from->arg, offset + at, b->owned + at, piece, err);
        if (!st)
            st = rt_checkpoint_run_check(from->run, err);
    }
    *out = rt_span_of(b->owned, n);
    return st;
}

/* Verifies the checksum that follows a stored block. The checksum covers the block's n bytes and
 * its type. */
static enum rt_status check_sum(const struct rt_sstable_source *from, const unsigned char *p,
                                size_t n, struct rt_error *err)
{
    enum rt_status st = RT_OK;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    uint32_t crc = 0;

    for (size_t at = 0; at < n + 1 && !st; at += PIECE) {
        crc = rt_crc32c(crc, p + at, n + 1 - at < PIECE ? n + 1 - at : PIECE);
        st = rt_checkpoint_run_check(from->run, err);
    }
    if (!st && get32(p + n + 1) != rt_crc32c_mask(crc))
        st = rt_fail(err, RT_DATA_LOSS, "block checksum mismatch");
#else
    (void)from, (void)p, (void)n, (void)err;
#endif
    return st;
}

/* Verifies and uncompresses a stored block. Removes the restart points. */
static enum rt_status open_block(const struct rt_sstable_source *from, struct rt_span stored,
                                 struct block *out, struct rt_error *err)
{
    const unsigned char *p = stored.p;
    size_t n = stored.n - TRAILER;
    struct rt_span all = rt_span_of(p, n);
    const unsigned type = p[n];
    enum rt_status st = check_sum(from, p, n, err);

    if (st)
        return st;
    if (type == SNAPPY)
        st = uncompress(from, out, &all, err);
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

    *out = (struct block){.pool = rt_checkpoint_run_pool(from->run)};
    if (h.offset > capacity || h.size > capacity - h.offset ||
        capacity - h.offset - h.size < TRAILER)
        return rt_fail(err, RT_DATA_LOSS, "a block of %llu bytes at %llu: the file has %llu",
                       (unsigned long long)h.size, (unsigned long long)h.offset,
                       (unsigned long long)from->size);
    if (from->max_block && h.size > from->max_block)
        return rt_fail(err, RT_DATA_LOSS, "a block of %llu bytes, more than the limit of %zu",
                       (unsigned long long)h.size, from->max_block);
    enum rt_status st = bytes_at(from, h.offset, (size_t)h.size + TRAILER, out, &stored, err);
    if (!st)
        st = open_block(from, stored, out, err);
    if (st)
        block_clear(out);
    return st;
}

static int compare(struct rt_span a, struct rt_span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* A cursor over the entries of a table, which may be in several blocks. */
struct cursor {
    const struct rt_checkpoint_run *run;
    struct rt_span rest; /* entries of the block that have not been read yet */
    struct rt_bytes key; /* key of the last entry read; empty before the first read */
    size_t n_shared;     /* number of bytes that `key` shares with the preceding key */
    struct rt_span value;
    /* whether the next entry is the first of the table, and whether it is the first of its block */
    bool is_first, begins_block;
    /* total size in bytes of the entries read since the run's check was last called */
    size_t n_unchecked;
};

static void cursor_init(struct cursor *c, const struct rt_checkpoint_run *run)
{
    *c = (struct cursor){.run = run, .is_first = true};
    rt_bytes_init(&c->key, RT_SSTABLE_MAX_KEY + 1);
}

static void cursor_enter(struct cursor *c, const struct block *b)
{
    c->rest = b->entries;
    c->begins_block = true;
}

/* Reads the next entry of the block. Its key must be greater than the preceding key. Only the bytes
 * after the keys' shared prefix are compared, so the time is proportional to the size of the entry
 * in the block, even if the complete key is much longer. */
static enum rt_status cursor_next(struct cursor *c, struct rt_error *err)
{
    struct rt_span *rest = &c->rest;
    const size_t before = rest->n;
    uint64_t shared, own, size;

    if (!pb_varint(rest, &shared) || !pb_varint(rest, &own) || !pb_varint(rest, &size) ||
        shared > c->key.n || (c->begins_block && shared) || own > rest->n || size > rest->n - own)
        return rt_fail(err, RT_DATA_LOSS, "an entry with bad lengths");
    if (shared + own > RT_SSTABLE_MAX_KEY)
        return rt_fail(err, RT_DATA_LOSS, "a key of %llu bytes, more than the limit of %d",
                       (unsigned long long)(shared + own), RT_SSTABLE_MAX_KEY);
    const struct rt_span mine = rt_span_of(rest->p, (size_t)own);
    if (!c->is_first && compare(mine, rt_span_of(c->key.p + shared, c->key.n - shared)) <= 0)
        return rt_fail(err, RT_DATA_LOSS, "keys out of order");
    c->is_first = c->begins_block = false;
    c->n_shared = c->key.n = (size_t)shared;
    rt_bytes_add(&c->key, mine.p, mine.n);
    if (c->key.failed)
        return rt_fail_memory(err, "a key", mine.n);
    c->value = rt_span_of(rest->p + own, (size_t)size);
    rest->p += own + size;
    rest->n -= (size_t)(own + size);
    c->n_unchecked += before - rest->n;
    if (c->n_unchecked < RT_SSTABLE_CHECK_BYTES)
        return RT_OK;
    c->n_unchecked = 0;
    return rt_checkpoint_run_check(c->run, err);
}

static enum rt_status find_index(const struct rt_sstable_source *from, struct block *index,
                                 struct rt_error *err)
{
    struct handle meta, h;
    struct block end = {.pool = rt_checkpoint_run_pool(from->run)};
    struct rt_span footer;

    if (from->size < FOOTER)
        return rt_fail(err, RT_DATA_LOSS, "file is too short to be an sstable");
    enum rt_status st = bytes_at(from, from->size - FOOTER, FOOTER, &end, &footer, err);
    if (!st) {
        uint64_t magic = get32(footer.p + 40) | (uint64_t)get32(footer.p + 44) << 32;
        footer.n = 40;
        if (magic != MAGIC)
            st = rt_fail(err, RT_DATA_LOSS, "not an sstable (bad magic number)");
        else if (!handle(&footer, &meta) || !handle(&footer, &h))
            st = rt_fail(err, RT_DATA_LOSS, "bad block handle");
    }
    block_clear(&end);
    return st ? st : block_at(from, h, index, err);
}

/* Moves to the next entry of an index, and sets *h to the handle in the entry's value. */
static enum rt_status next_handle(struct cursor *index, struct handle *h, struct rt_error *err)
{
    enum rt_status st = cursor_next(index, err);

    if (!st && !handle(&index->value, h))
        st = rt_fail(err, RT_DATA_LOSS, "an index entry with bad lengths");
    return st;
}

/*
 * Compares the total size of the blocks with the size of the file, to refuse overlapping blocks.
 * Otherwise, an index could name one large block many times, and each time the reader would verify
 * and uncompress it.
 */
enum rt_status rt_sstable_read(const struct rt_sstable_source *from,
                               enum rt_status (*each)(void *arg, struct rt_span key,
                                                      struct rt_span value, struct rt_error *err),
                               void *arg, struct rt_error *err)
{
    uint64_t left = from->size; /* size of the file minus the size of the blocks read so far */
    struct cursor in_index, at;
    struct block index, block;
    struct handle h;
    enum rt_status st = find_index(from, &index, err);

    if (st)
        return st;
    cursor_init(&in_index, from->run);
    cursor_init(&at, from->run);
    cursor_enter(&in_index, &index);
    while (in_index.rest.n && !st) {
        st = next_handle(&in_index, &h, err);
        if (!st)
            st = block_at(from, h, &block, err);
        if (st)
            break;
        if (h.size + TRAILER > left)
            st = rt_fail(err, RT_DATA_LOSS, "blocks that overlap");
        left -= st ? 0 : h.size + TRAILER;
        for (cursor_enter(&at, &block); at.rest.n && !st;) {
            st = cursor_next(&at, err);
            if (!st)
                st = each(arg, rt_span_of(at.key.p, at.key.n), at.value, err);
        }
        block_clear(&block);
    }
    block_clear(&index);
    rt_bytes_clear(&in_index.key);
    rt_bytes_clear(&at.key);
    return st;
}

/* ---- finding ---- */

struct seeker {
    struct block block;
    struct cursor at; /* The cursor is at the first entry whose key is not less than `sought`. */
    struct rt_bytes sought;
    bool is_placed; /* whether `at` and `sought` are valid */
};

static void seeker_rewind(struct seeker *s, const struct rt_checkpoint_run *run)
{
    rt_bytes_clear(&s->at.key);
    cursor_init(&s->at, run);
    cursor_enter(&s->at, &s->block);
    s->is_placed = false;
}

static void seeker_clear(struct seeker *s)
{
    block_clear(&s->block);
    rt_bytes_clear(&s->at.key);
    rt_bytes_clear(&s->sought);
}

/* Returns the number of leading bytes that two keys have in common, given that they share at least
 * `from` bytes. */
static size_t common_bytes(const struct rt_bytes *a, struct rt_span b, size_t from)
{
    while (from < a->n && from < b.n && (unsigned char)a->p[from] == b.p[from])
        from++;
    return from;
}

/* Returns whether `key` is not greater than `entry`, with which it shares `common` bytes. */
static bool is_reached(const struct rt_bytes *entry, struct rt_span key, size_t common)
{
    return common == key.n ||
           (common < entry->n && (unsigned char)entry->p[common] > key.p[common]);
}

/*
 * Finds the first entry of the block whose key is not less than `key`. Sets *same if the keys are
 * equal. Returns RT_NOT_FOUND if there is no such entry. If `key` is not less than the last key
 * sought, the search begins at the last position. Keys in increasing order are thus found in one
 * pass.
 *
 * `common` is the number of leading bytes that `key` shares with the preceding entry's key. An
 * entry is skipped if its key shares more than `common` bytes with the preceding key. Both keys
 * then differ from `key` at the same byte, so both are less than `key`.
 */
static enum rt_status seek(struct seeker *s, const struct rt_sstable_source *from,
                           struct rt_span key, bool *same, struct rt_error *err)
{
    size_t common = 0;
    bool found = false;
    enum rt_status st = RT_OK;

    if (s->is_placed && compare(key, rt_span_of(s->sought.p, s->sought.n)) >= 0) {
        common = common_bytes(&s->at.key, key, 0);
        found = is_reached(&s->at.key, key, common);
    } else {
        seeker_rewind(s, from->run);
    }
    s->is_placed = false;
    while (!found && s->at.rest.n) {
        st = cursor_next(&s->at, err);
        if (st)
            return st;
        if (s->at.n_shared > common)
            continue;
        common = common_bytes(&s->at.key, key, s->at.n_shared);
        found = is_reached(&s->at.key, key, common);
    }
    if (!found)
        return RT_NOT_FOUND;
    *same = common == key.n && s->at.key.n == key.n;
    s->sought.n = 0;
    rt_bytes_add(&s->sought, key.p, key.n);
    s->is_placed = !s->sought.failed;
    return RT_OK;
}

struct rt_sstable_finder {
    struct rt_sstable_source source;
    struct seeker index, block;
    bool has_index, has_block;
    struct handle at; /* handle of `block`; valid if has_block is set */
};

enum rt_status rt_sstable_finder_new(struct rt_sstable_finder **out,
                                     const struct rt_sstable_source *from, struct rt_error *err)
{
    struct rt_sstable_finder *f = calloc(1, sizeof *f);

    if (!f)
        return rt_fail_memory(err, "a table", sizeof *f);
    f->source = *from;
    rt_bytes_init(&f->index.sought, SIZE_MAX / 2);
    rt_bytes_init(&f->block.sought, SIZE_MAX / 2);
    *out = f;
    return RT_OK;
}

void rt_sstable_finder_free(struct rt_sstable_finder *f)
{
    if (!f)
        return;
    seeker_clear(&f->index);
    seeker_clear(&f->block);
    free(f);
}

static enum rt_status enter_block(struct rt_sstable_finder *f, struct handle h,
                                  struct rt_error *err)
{
    enum rt_status st;

    if (f->has_block && f->at.offset == h.offset && f->at.size == h.size)
        return RT_OK;
    f->has_block = false;
    block_clear(&f->block.block);
    st = block_at(&f->source, h, &f->block.block, err);
    if (st)
        return st;
    f->has_block = true;
    f->at = h;
    seeker_rewind(&f->block, f->source.run);
    return RT_OK;
}

enum rt_status rt_sstable_finder_find(struct rt_sstable_finder *f, struct rt_span key,
                                      enum rt_status (*found)(void *arg, struct rt_span value,
                                                              struct rt_error *err),
                                      void *arg, struct rt_error *err)
{
    struct handle h;
    bool same;
    enum rt_status st = f->has_index ? RT_OK : find_index(&f->source, &f->index.block, err);

    if (st)
        return st;
    f->has_index = true;
    /* The key of an index entry is not less than any key in the entry's block. */
    st = seek(&f->index, &f->source, key, &same, err);
    struct rt_span value = f->index.at.value;
    if (!st && !handle(&value, &h))
        st = rt_fail(err, RT_DATA_LOSS, "an index entry with bad lengths");
    if (!st)
        st = enter_block(f, h, err);
    if (!st)
        st = seek(&f->block, &f->source, key, &same, err);
    if (!st)
        st = same ? found(arg, f->block.at.value, err) : RT_NOT_FOUND;
    return st;
}

enum rt_status rt_sstable_find(const struct rt_sstable_source *from, struct rt_span key,
                               enum rt_status (*found)(void *arg, struct rt_span value,
                                                       struct rt_error *err),
                               void *arg, struct rt_error *err)
{
    struct rt_sstable_finder *f;
    enum rt_status st = rt_sstable_finder_new(&f, from, err);

    if (st)
        return st;
    st = rt_sstable_finder_find(f, key, found, arg, err);
    rt_sstable_finder_free(f);
    return st;
}

/* ---- writing ---- */

/* number of bytes that are collected for the sink */
enum { SINK_BYTES = 1 << 20 };

static void put32(struct rt_bytes *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        rt_bytes_addc(b, (char)(v >> (8 * i) & 255));
}

static void flush(struct rt_sstable_writer *w)
{
    if (!w->status && !w->file.failed && w->file.n)
        w->status = w->sink(w->sink_arg, w->file.p, w->file.n, w->err);
    w->file.n = 0;
}

void rt_sstable_put(struct rt_sstable_writer *w, const void *p, size_t n)
{
    while (n) {
        const size_t space = w->sink ? SINK_BYTES - w->file.n : n, piece = n < space ? n : space;
        rt_bytes_add(&w->file, p, piece);
        w->crc = rt_crc32c(w->crc, p, piece);
        w->size += piece;
        p = (const char *)p + piece;
        n -= piece;
        if (w->sink && w->file.n >= SINK_BYTES)
            flush(w);
        if (w->file.failed)
            return;
    }
}

static void put_varint(struct rt_sstable_writer *w, uint64_t v)
{
    unsigned char code[10];
    size_t n = 0;

    for (; v > 127; v >>= 7)
        code[n++] = (unsigned char)(v | 128);
    code[n++] = (unsigned char)v;
    rt_sstable_put(w, code, n);
}

static void put_number(struct rt_sstable_writer *w, uint32_t v)
{
    unsigned char code[4];

    for (int i = 0; i < 4; i++)
        code[i] = (unsigned char)(v >> (8 * i) & 255);
    rt_sstable_put(w, code, sizeof code);
}

static void begin_block(struct rt_sstable_writer *w)
{
    w->block_at = w->size;
    w->crc = 0;
}

/* Appends the restart points and the trailer of the current block. Sets *h to the block's offset
 * and size, and begins the next block. */
static void put_block_end(struct rt_sstable_writer *w, const struct rt_bytes *restarts,
                          struct handle *h)
{
    rt_sstable_put(w, restarts->p, restarts->n);
    put_number(w, (uint32_t)(restarts->n / 4));
    *h = (struct handle){w->block_at, w->size - w->block_at};
    rt_sstable_put(w, "\0", 1); /* NOT_COMPRESSED */
    put_number(w, rt_crc32c_mask(w->crc));
    begin_block(w);
}

void rt_sstable_begin(struct rt_sstable_writer *w, size_t block_size)
{
    *w = (struct rt_sstable_writer){.block_size = block_size ? block_size : 262144};
    rt_bytes_init(&w->file, SIZE_MAX / 2);
    rt_bytes_init(&w->index, SIZE_MAX / 2);
    rt_bytes_init(&w->restarts, SIZE_MAX / 2);
    rt_bytes_init(&w->index_restarts, SIZE_MAX / 2);
    rt_bytes_init(&w->last, SIZE_MAX / 2);
}

void rt_sstable_begin_sink(struct rt_sstable_writer *w,
                           enum rt_status (*sink)(void *arg, const void *p, size_t n,
                                                  struct rt_error *err),
                           void *arg, struct rt_error *err)
{
    rt_sstable_begin(w, 0);
    w->sink = sink;
    w->sink_arg = arg;
    w->err = err;
}

/* Shortens `last` to a key that is not less than the old `last`. If `next` is not empty, the new
 * key is less than `next`. */
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

/* Ends the data block and adds it to the index. `next` is the next key, or empty at the end of the
 * table. */
static void end_block(struct rt_sstable_writer *w, struct rt_span next)
{
    struct rt_bytes value;
    struct handle h;

    put_block_end(w, &w->restarts, &h);
    shorten(&w->last, next);
    rt_bytes_init(&value, 32);
    rt_bytes_add_varint(&value, h.offset);
    rt_bytes_add_varint(&value, h.size);
    put32(&w->index_restarts, (uint32_t)w->index.n);
    rt_bytes_add_varint(&w->index, 0);
    rt_bytes_add_varint(&w->index, w->last.n);
    rt_bytes_add_varint(&w->index, value.n);
    rt_bytes_add(&w->index, w->last.p, w->last.n);
    rt_bytes_add(&w->index, value.p, value.n);
    w->file.failed |= value.failed;
    rt_bytes_clear(&value);
    w->restarts.n = 0;
    w->n_entries = 0;
}

void rt_sstable_add_key(struct rt_sstable_writer *w, struct rt_span key, uint64_t n)
{
    size_t shared = 0;

    if (w->n_entries && w->size - w->block_at + w->restarts.n + 4 >= w->block_size)
        end_block(w, key);
    if (w->n_entries % RESTART_EVERY == 0) {
        put32(&w->restarts, (uint32_t)(w->size - w->block_at));
    } else {
        while (shared < w->last.n && shared < key.n &&
               (unsigned char)w->last.p[shared] == key.p[shared])
            shared++;
    }
    put_varint(w, shared);
    put_varint(w, key.n - shared);
    put_varint(w, n);
    rt_sstable_put(w, key.p + shared, key.n - shared);
    w->last.n = 0;
    rt_bytes_add(&w->last, key.p, key.n);
    w->n_entries++;
}

void rt_sstable_add(struct rt_sstable_writer *w, struct rt_span key, struct rt_span value)
{
    rt_sstable_add_key(w, key, value.n);
    rt_sstable_put(w, value.p, value.n);
}

static void put_footer(struct rt_sstable_writer *w, struct handle meta, struct handle index)
{
    static const unsigned char zeros[FOOTER];
    const uint64_t end = w->size + FOOTER - sizeof MAGIC;

    put_varint(w, meta.offset);
    put_varint(w, meta.size);
    put_varint(w, index.offset);
    put_varint(w, index.size);
    rt_sstable_put(w, zeros, (size_t)(end - w->size));
    put_number(w, (uint32_t)(MAGIC & UINT32_MAX));
    put_number(w, (uint32_t)(MAGIC >> 32));
}

bool rt_sstable_end(struct rt_sstable_writer *w)
{
    static char zero[4];
    const struct rt_bytes first = {.p = zero, .n = sizeof zero}; /* the restart points {0} */
    struct handle meta, index;

    if (w->n_entries)
        end_block(w, rt_span_of(NULL, 0));
    put_block_end(w, &first, &meta);
    rt_sstable_put(w, w->index.p, w->index.n);
    put_block_end(w, w->index_restarts.n ? &w->index_restarts : &first, &index);
    if (!w->file.failed)
        put_footer(w, meta, index);
    if (w->sink)
        flush(w);
    return !(w->status || w->file.failed || w->index.failed || w->restarts.failed ||
             w->index_restarts.failed || w->last.failed);
}

void rt_sstable_clear(struct rt_sstable_writer *w)
{
    rt_bytes_clear(&w->file);
    rt_bytes_clear(&w->index);
    rt_bytes_clear(&w->restarts);
    rt_bytes_clear(&w->index_restarts);
    rt_bytes_clear(&w->last);
}
