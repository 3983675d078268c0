/* Reads .npz files, which are zip archives of .npy files. The central directory at the end of the
 * archive contains the sizes. */
#include <string.h>
#include <zlib.h>

#include "clients/cli/npy.h"

enum { END_SIZE = 22, ENTRY_SIZE = 46, LOCAL_SIZE = 30, MAX_COMMENT = 65535 };

bool cl_is_npz(struct rt_span file)
{
    return file.n >= 4 && (memcmp(file.p, "PK\3\4", 4) == 0 || memcmp(file.p, "PK\5\6", 4) == 0);
}

static size_t get(const unsigned char *p, int n)
{
    size_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (size_t)p[i] << (8 * i);
    return v;
}

/* Finds the end-of-central-directory record of an archive. Returns NULL if the file has none. */
static const unsigned char *find_end(struct rt_span file)
{
    for (size_t back = END_SIZE; back <= file.n && back <= END_SIZE + MAX_COMMENT; back++) {
        const unsigned char *p = file.p + file.n - back;
        if (memcmp(p, "PK\5\6", 4) == 0)
            return p;
    }
    return NULL;
}

static bool inflate_all(struct rt_span in, unsigned char *out, size_t n)
{
    z_stream z = {0};
    if (in.n > UINT32_MAX || n > UINT32_MAX || inflateInit2(&z, -15) != Z_OK)
        return false;
    /* zlib's struct lacks const, although zlib only reads the input. */
    memcpy(&z.next_in, &in.p, sizeof z.next_in);
    z.avail_in = (uInt)in.n;
    z.next_out = out;
    z.avail_out = (uInt)n;
    int result = inflate(&z, Z_FINISH);
    bool ok = result == Z_STREAM_END && z.total_out == n;
    inflateEnd(&z);
    return ok;
}

struct entry {
    struct rt_span name, packed;
    int method;
    size_t size;
    uint32_t crc;
};

static enum rt_status read_entry(struct rt_span file, struct rt_span *directory, struct entry *e,
                                 struct rt_error *err)
{
    const unsigned char *p = directory->p;
    if (directory->n < ENTRY_SIZE || memcmp(p, "PK\1\2", 4) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file's directory cannot be read");
    size_t name = get(p + 28, 2), whole = ENTRY_SIZE + name + get(p + 30, 2) + get(p + 32, 2);
    size_t packed = get(p + 20, 4), at = get(p + 42, 4);
    if (whole > directory->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file's directory cannot be read");
    *e = (struct entry){.name = rt_span_of(p + ENTRY_SIZE, name),
                        .method = (int)get(p + 10, 2),
                        .size = get(p + 24, 4),
                        .crc = (uint32_t)get(p + 16, 4)};
    directory->p += whole;
    directory->n -= whole;
    if (packed == UINT32_MAX || e->size == UINT32_MAX || at == UINT32_MAX)
        return rt_fail(err, RT_UNIMPLEMENTED, "an array of 4 GiB or more in a .npz file");
    if (get(p + 8, 2) & 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file is encrypted");
    if (at > file.n || file.n - at < LOCAL_SIZE || memcmp(file.p + at, "PK\3\4", 4) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file is cut off");
    size_t skip = LOCAL_SIZE + get(file.p + at + 26, 2) + get(file.p + at + 28, 2);
    if (skip > file.n - at || packed > file.n - at - skip)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file is cut off");
    e->packed = rt_span_of(file.p + at + skip, packed);
    return RT_OK;
}

static enum rt_status unpack(const struct entry *e, size_t max_bytes, struct rt_arena *arena,
                             struct rt_span *out, struct rt_error *err)
{
    *out = e->packed;
    /* `max_bytes` applies to uncompressed entries too, because many entries may refer to the same
     * bytes. */
    if (e->size > max_bytes)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "\"%.*s\" takes %zu bytes, more than %zu",
                       (int)e->name.n, (const char *)e->name.p, e->size, max_bytes);
    if (e->method == 8) {
        /* one byte of deflate data expands to at most 1032 bytes */
        unsigned char *p =
            e->size / 1040 <= e->packed.n ? rt_arena_alloc(arena, e->size + 1) : NULL;
        if (!p)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "\"%.*s\" takes %zu bytes", (int)e->name.n,
                           (const char *)e->name.p, e->size);
        if (!inflate_all(e->packed, p, e->size))
            return rt_fail(err, RT_INVALID_ARGUMENT, "\"%.*s\" cannot be inflated", (int)e->name.n,
                           (const char *)e->name.p);
        *out = rt_span_of(p, e->size);
    } else if (e->method != 0 || e->packed.n != e->size)
        return rt_fail(err, RT_UNIMPLEMENTED, "\"%.*s\" is compressed by method %d", (int)e->name.n,
                       (const char *)e->name.p, e->method);
    if ((uint32_t)crc32_z(crc32_z(0, NULL, 0), out->p, out->n) != e->crc)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the checksum of \"%.*s\" is wrong",
                       (int)e->name.n, (const char *)e->name.p);
    return RT_OK;
}

enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err)
{
    const unsigned char *end = find_end(file);
    *n = 0;
    if (!end)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file is cut off");
    size_t count = get(end + 10, 2), size = get(end + 12, 4), at = get(end + 16, 4);
    size_t before = (size_t)(end - file.p);
    if (at > before || size > before - at || count > size / ENTRY_SIZE)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npz file's directory cannot be read");
    struct rt_span directory = rt_span_of(file.p + at, size), bytes;
    if (!(*out = rt_arena_array(arena, count + 1, sizeof **out)))
        return rt_fail_memory(err, "arrays", count * sizeof **out);
    for (size_t i = 0; i < count; i++) {
        struct entry e = {0};
        enum rt_status st = read_entry(file, &directory, &e, err);
        if (!st)
            st = unpack(&e, max_bytes, arena, &bytes, err);
        if (st)
            return st;
        max_bytes -= bytes.n < max_bytes ? bytes.n : max_bytes;
        size_t len = e.name.n;
        if (len > 4 && memcmp(e.name.p + len - 4, ".npy", 4) == 0)
            len -= 4;
        struct slipway_tensor *t = *out + *n;
        t->name = rt_arena_strndup(arena, (const char *)e.name.p, len);
        if (!t->name)
            return rt_fail_memory(err, "a name", len);
        st = cl_npy_read(bytes, arena, t, err);
        if (st) {
            rt_fail_prefix(err, "\"%s\": ", t->name);
            return st;
        }
        ++*n;
    }
    return RT_OK;
}
