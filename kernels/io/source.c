#define ZLIB_CONST /* makes zlib declare next_in as a pointer to const */
#include "kernels/io/source.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "kernels/string/text.h"
#include "runtime/base/checked.h"
#include "runtime/files/file.h"
#include "runtime/files/file_access.h"
#include "runtime/session/state.h"

enum {
    FIRST_CAPACITY = 64 << 10,
    PIECE = 256 << 10, /* number of bytes read or inflated between two checks of the run */
    WHOLE_PIECE = 1 << 20,
    GZIP_BITS = 16 + 15, /* zlib's windowBits for gzip headers */
};

static struct rt_pool *pool_of(struct rt_run *r)
{
    return rt_run_state(r)->pool;
}

/* ---- the file ---- */

static enum rt_status reopen(struct rt_run *r, struct kn_source *s)
{
    struct stat now;

    if (s->fd >= 0)
        return RT_OK;
    enum rt_status st = rt_file_access_open(
        rt_run_file_access(r), rt_span_of(rt_str_data(&s->name), s->name.n), &s->fd, &now, r->err);
    if (st || (now.st_dev == s->info.st_dev && now.st_ino == s->info.st_ino))
        return st;
    kn_source_pause(s);
    return rt_fail(r->err, RT_FAILED_PRECONDITION, "%s was replaced while it was read",
                   rt_str_data(&s->name));
}

/* Makes space for more bytes at the end of a buffer. */
static enum rt_status make_space(struct rt_run *r, struct kn_buffered *b, size_t more)
{
    const size_t n = b->end - b->first;

    if (b->capacity - b->end >= more)
        return RT_OK;
    if (b->capacity - n >= more && b->first >= n) {
        memcpy(b->p, b->p + b->first, n); /* does not overlap */
        b->first = 0;
        b->end = n;
        return RT_OK;
    }
    size_t capacity = b->capacity ? b->capacity : FIRST_CAPACITY;
    while (capacity - n < more || capacity < 2 * n)
        capacity *= 2;
    unsigned char *p = rt_pool_alloc(pool_of(r), capacity, "a reader's buffer", r->err);
    if (!p)
        return r->err->code;
    if (n)
        memcpy(p, b->p + b->first, n);
    rt_pool_free(b->p);
    *b = (struct kn_buffered){.p = p, .end = n, .capacity = capacity};
    return RT_OK;
}

static void drop(struct kn_buffered *b)
{
    rt_pool_free(b->p);
    *b = (struct kn_buffered){0};
}

/* Reads the next piece of the file into a buffer. */
static enum rt_status read_piece(struct rt_run *r, struct kn_source *s, struct kn_buffered *b)
{
    enum rt_status st = rt_run_check(r);

    if (!st)
        st = reopen(r, s);
    if (!st)
        st = make_space(r, b, 1);
    if (st)
        return st;
    const size_t space = b->capacity - b->end, n = space < PIECE ? space : PIECE;
    const ssize_t got =
        s->at < INT64_MAX - PIECE ? rt_file_read_at(s->fd, b->p + b->end, n, s->at) : 0;
    if (got < 0)
        return rt_fail(r->err, RT_DATA_LOSS, "%s: reading failed", rt_str_data(&s->name));
    s->file_ended = (size_t)got < n;
    s->at += got;
    b->end += (size_t)got;
    return RT_OK;
}

/* ---- inflating ---- */

static void *z_alloc(void *pool, unsigned items, unsigned size)
{
    size_t n;

    return rt_mul_size(items, size, &n) ? rt_pool_alloc(pool, n, "a zlib stream", NULL) : NULL;
}

static void z_free(void *pool, void *p)
{
    (void)pool;
    rt_pool_free(p);
}

static enum rt_status begin_inflating(struct rt_run *r, struct kn_source *s)
{
    s->z = rt_pool_alloc(pool_of(r), sizeof *s->z, "a zlib stream", r->err);
    if (!s->z)
        return r->err->code;
    s->z->zalloc = z_alloc;
    s->z->zfree = z_free;
    s->z->opaque = pool_of(r);
    if (inflateInit2(s->z, s->compression == KN_GZIP ? GZIP_BITS : MAX_WBITS) == Z_OK)
        return RT_OK;
    rt_pool_free(s->z);
    s->z = NULL;
    return rt_fail_memory(r->err, "a zlib stream", FIRST_CAPACITY);
}

static enum rt_status fail_inflating(struct rt_run *r, const struct kn_source *s)
{
    const char *why = s->z->msg;

    return rt_fail(r->err, RT_DATA_LOSS, "inflate() failed with error %d%s%s", s->z_error,
                   why ? ": " : "", why ? why : "");
}

/* Inflates a piece of the buffered bytes. */
static enum rt_status inflate_piece(struct rt_run *r, struct kn_source *s)
{
    struct kn_buffered *in = &s->deflated, *out = &s->bytes;
    enum rt_status st = make_space(r, out, 1);

    if (st)
        return st;
    const size_t space = out->capacity - out->end, n = space < PIECE ? space : PIECE;
    s->z->next_in = in->p + in->first;
    s->z->avail_in = (uInt)(in->end - in->first);
    s->z->next_out = out->p + out->end;
    s->z->avail_out = (uInt)n;
    int status = inflate(s->z, Z_NO_FLUSH);
    in->first = in->end - s->z->avail_in;
    out->end += n - s->z->avail_out;
    if (status == Z_STREAM_END) {
        /* As in TensorFlow, gzip members may follow one another, and bytes after the end of a zlib
         * stream are ignored. */
        const bool more = s->compression == KN_GZIP && (in->first < in->end || !s->file_ended);
        s->ended = !more;
        status = more ? inflateReset(s->z) : Z_OK;
    }
    if (status == Z_MEM_ERROR)
        return rt_fail_memory(r->err, "a zlib stream", FIRST_CAPACITY);
    if (status != Z_OK && status != Z_BUF_ERROR)
        s->z_error = status; /* the bytes before the error are read first */
    return RT_OK;
}

/* Buffers at least one more byte, unless none is left. */
static enum rt_status fill(struct rt_run *r, struct kn_source *s)
{
    enum rt_status st = RT_OK;

    if (s->compression == KN_PLAIN) {
        st = read_piece(r, s, &s->bytes);
        s->ended = s->file_ended;
        return st;
    }
    for (const size_t before = s->bytes.end - s->bytes.first;
         !st && !s->ended && s->bytes.end - s->bytes.first == before;) {
        const bool is_empty = s->deflated.first == s->deflated.end;
        if (s->z_error)
            return fail_inflating(r, s);
        if (is_empty && s->file_ended) {
            s->ended = true; /* A stream that ends early yields the bytes before its end. */
            break;
        }
        if (is_empty)
            s->deflated.first = s->deflated.end = 0;
        st = is_empty ? read_piece(r, s, &s->deflated) : rt_run_check(r);
        if (!st)
            st = inflate_piece(r, s);
    }
    return st;
}

/* ---- the interface ---- */

enum rt_status kn_source_open(struct rt_run *r, struct kn_source *s, struct rt_span name,
                              enum kn_compression compression)
{
    enum rt_status st;

    *s = (struct kn_source){.is_open = true, .fd = -1, .compression = compression};
    st = rt_file_access_open(rt_run_file_access(r), name, &s->fd, &s->info, r->err);
    if (!st && !rt_str_set(&s->name, pool_of(r), name.p, name.n, r->err))
        st = r->err->code;
    if (!st && compression != KN_PLAIN)
        st = begin_inflating(r, s);
    if (st)
        kn_source_close(s);
    return st;
}

void kn_source_pause(struct kn_source *s)
{
    if (s->is_open && s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void kn_source_close(struct kn_source *s)
{
    if (!s->is_open)
        return;
    kn_source_pause(s);
    if (s->z)
        inflateEnd(s->z);
    rt_pool_free(s->z);
    drop(&s->bytes);
    drop(&s->deflated);
    rt_str_clear(&s->name);
    *s = (struct kn_source){0};
}

enum rt_status kn_source_peek(struct rt_run *r, struct kn_source *s, size_t n, struct rt_span *out)
{
    enum rt_status st = RT_OK;

    while (!st && !s->ended && s->bytes.end - s->bytes.first < n)
        st = fill(r, s);
    const size_t have = s->bytes.end - s->bytes.first;
    *out = rt_span_of(have ? s->bytes.p + s->bytes.first : NULL, have < n ? have : n);
    return st;
}

void kn_source_consume(struct kn_source *s, size_t n)
{
    s->bytes.first += n;
    if (s->bytes.first == s->bytes.end)
        s->bytes.first = s->bytes.end = 0;
}

enum rt_status kn_source_skip(struct rt_run *r, struct kn_source *s, int64_t n, int64_t *skipped)
{
    const int64_t most = kn_source_most_left(s);
    struct rt_span have;

    for (*skipped = 0; *skipped < n;) {
        const enum rt_status st = kn_source_peek(r, s, 1, &have);
        if (st || !have.n)
            return st;
        const size_t buffered = s->bytes.end - s->bytes.first;
        const int64_t left = n - *skipped;
        const size_t now = (uint64_t)left < buffered ? (size_t)left : buffered;
        kn_source_consume(s, now);
        *skipped += (int64_t)now;
        if (s->compression == KN_PLAIN && *skipped < n && !s->ended) {
            /* Bytes that are not buffered need not be read. */
            const int64_t more = (n < most ? n : most) - *skipped;
            s->at += more > 0 ? more : 0;
            *skipped += more > 0 ? more : 0;
        }
    }
    return RT_OK;
}

int64_t kn_source_most_left(const struct kn_source *s)
{
    const int64_t buffered = (int64_t)(s->bytes.end - s->bytes.first);

    if (s->ended)
        return buffered;
    if (s->compression != KN_PLAIN)
        return INT64_MAX;
    return buffered + (s->info.st_size > s->at ? s->info.st_size - s->at : 0);
}

enum rt_status kn_read_bytes(struct rt_run *r, int fd, struct rt_span name, void *dst, size_t n)
{
    enum rt_status st = RT_OK;

    for (size_t done = 0, now; done < n && !st; done += now) {
        now = n - done < WHOLE_PIECE ? n - done : WHOLE_PIECE;
        st = rt_run_check(r);
        if (!st && rt_file_read_exactly(&fd, done, (char *)dst + done, now, r->err))
            st = rt_fail_prefix(r->err, "%.*s: ", (int)name.n, (const char *)name.p);
    }
    return st;
}

enum rt_status kn_read_whole(struct rt_run *r, struct rt_span name, struct rt_str *out)
{
    struct stat info;
    int fd;
    enum rt_status st = rt_file_access_open(rt_run_file_access(r), name, &fd, &info, r->err);

    if (st)
        return st;
    const size_t n = (size_t)info.st_size;
    char *p = rt_str_resize(out, rt_run_pool(r), n, r->err);
    st = p ? kn_read_bytes(r, fd, name, p, n) : r->err->code;
    close(fd);
    return st;
}
