#include "server/base/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/thread.h"
#include "runtime/files/file.h"

enum { MAX_NAME = 255 };

struct region {
    /* number of references, including that of the list; guarded by the list's lock */
    int refs;
    int fd;
    uint64_t offset, bytes;
    size_t n_name;
    const char *key; /* follows `name` in memory */
    char name[];
};

struct srv_shared_memory {
    uint64_t limit;
    struct rt_mutex mu;
    uint64_t total;                          /* guarded by mu */
    int n;                                   /* guarded by mu */
    struct region *regions[SRV_MAX_REGIONS]; /* guarded by mu */
};

struct srv_shared_memory *srv_shared_memory_new(uint64_t limit)
{
    struct srv_shared_memory *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->limit = limit;
    rt_mutex_init(&m->mu);
    return m;
}

static void free_region(struct region *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

void srv_shared_memory_free(struct srv_shared_memory *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n; i++)
        free_region(m->regions[i]);
    rt_mutex_clear(&m->mu);
    free(m);
}

static int find_locked(const struct srv_shared_memory *m, struct rt_span name)
{
    for (int i = 0; i < m->n; i++)
        if (rt_span_eq(rt_span_of(m->regions[i]->name, m->regions[i]->n_name), name))
            return i;
    return -1;
}

static void unref(struct srv_shared_memory *m, struct region *r)
{
    rt_mutex_lock(&m->mu);
    const bool is_last = --r->refs == 0;
    rt_mutex_unlock(&m->mu);
    if (is_last)
        free_region(r);
}

/* Returns a reference to the region, or NULL after an error. */
static struct region *ref(struct srv_shared_memory *m, struct rt_span name, struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);

    rt_mutex_lock(&m->mu);
    const int i = find_locked(m, name);
    struct region *r = i < 0 ? NULL : m->regions[i];
    if (r)
        r->refs++;
    rt_mutex_unlock(&m->mu);
    if (!r)
        rt_fail(err, RT_INVALID_ARGUMENT, "no region of shared memory \"%.*s\" is registered",
                (int)shown.n, (const char *)shown.p);
    return r;
}

/* ---- registering ---- */

RT_PRINTF(4, 5)
static enum rt_status fail_region(struct rt_error *err, enum rt_status st, const struct region *r,
                                  const char *fmt, ...)
{
    const struct rt_span shown = rt_error_name(err, rt_span_of(r->name, r->n_name));
    char why[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return rt_fail(err, st, "the region of shared memory \"%.*s\" %s", (int)shown.n,
                   (const char *)shown.p, why);
}

/* Returns whether the object still has all bytes of the region. */
static bool is_whole(const struct region *r)
{
    struct stat s;

    return fstat(r->fd, &s) == 0 && s.st_size >= 0 && r->offset <= (uint64_t)s.st_size &&
           r->bytes <= (uint64_t)s.st_size - r->offset;
}

/* Returns whether `key` is the name of an object in the directory of shared memory. The key may
 * contain a slash only at its beginning. */
static bool is_key(struct rt_span key)
{
    if (key.n && key.p[0] == '/')
        key = rt_span_of(key.p + 1, key.n - 1);
    return key.n && key.n <= MAX_NAME && !memchr(key.p, '/', key.n) &&
           !memchr(key.p, '\0', key.n) && !rt_span_is(key, ".") && !rt_span_is(key, "..");
}

/* Opens the object. Checks that it is shared memory and contains the whole region. Opening never
 * blocks, and does not follow symbolic links. */
static enum rt_status open_region(struct region *r, struct rt_error *err)
{
    struct stat s;

    r->fd = shm_open(r->key, O_RDWR | O_NONBLOCK, 0);
    if (r->fd < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the shared memory object %s cannot be opened: %s",
                       r->key, strerror(errno));
    const enum rt_status st = rt_file_check_unreserved(r->fd, "a region of shared memory", err);
    if (st)
        return st;
    if (fstat(r->fd, &s) != 0 || !S_ISREG(s.st_mode))
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s is no shared memory object", r->key);
    return is_whole(r) ? RT_OK
                       : fail_region(err, RT_INVALID_ARGUMENT, r,
                                     "is larger than its shared memory object");
}

static enum rt_status add(struct srv_shared_memory *m, struct region *r, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    const int most = rt_file_most_kept();

    rt_mutex_lock(&m->mu);
    if (find_locked(m, rt_span_of(r->name, r->n_name)) >= 0)
        st = fail_region(err, RT_ALREADY_EXISTS, r, "is registered already");
    else if (m->n == SRV_MAX_REGIONS)
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "%d regions of shared memory are registered",
                     SRV_MAX_REGIONS);
    else if (m->n >= most)
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED,
                     "%d regions of shared memory are registered, an eighth of the limit of open "
                     "files",
                     m->n);
    else if (r->bytes > m->limit - m->total)
        st = fail_region(err, RT_RESOURCE_EXHAUSTED, r,
                         "is larger than what is left of --system_shared_memory_bytes");
    if (!st) {
        m->regions[m->n++] = r;
        m->total += r->bytes;
    }
    rt_mutex_unlock(&m->mu);
    return st;
}

enum rt_status srv_region_register(struct srv_shared_memory *m, struct rt_span name,
                                   struct rt_span key, uint64_t offset, uint64_t bytes,
                                   struct rt_error *err)
{
    if (!name.n || name.n > MAX_NAME)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the name of a region of shared memory has 1 to %d bytes", MAX_NAME);
    const struct rt_span shown = rt_error_name(err, name);
    if (memchr(name.p, '\0', name.n))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the name of the region of shared memory \"%.*s\" contains a NUL",
                       (int)shown.n, (const char *)shown.p);
    if (!is_key(key)) {
        const struct rt_span shown_key = rt_error_name(err, key);
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the key \"%.*s\" of the region of shared memory \"%.*s\" is no name of a "
                       "shared memory object, such as /x",
                       (int)(shown_key.n < MAX_NAME ? shown_key.n : MAX_NAME),
                       (const char *)shown_key.p, (int)shown.n, (const char *)shown.p);
    }
    if (!bytes || offset > INT64_MAX || bytes > INT64_MAX - offset)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the region of shared memory \"%.*s\" has the byte_size %llu at the offset "
                       "%llu, but byte_size is at least 1, and the end at most 2^63 - 1",
                       (int)shown.n, (const char *)shown.p, (unsigned long long)bytes,
                       (unsigned long long)offset);
    struct region *r = calloc(1, sizeof *r + name.n + 1 + key.n + 1);
    if (!r)
        return rt_fail_memory(err, "a region", sizeof *r);
    *r = (struct region){.refs = 1, .fd = -1, .offset = offset, .bytes = bytes, .n_name = name.n};
    memcpy(r->name, name.p, name.n);
    memcpy(r->name + name.n + 1, key.p, key.n);
    r->key = r->name + name.n + 1;
    enum rt_status st = open_region(r, err);
    if (!st)
        st = add(m, r, err);
    if (st)
        free_region(r);
    return st;
}

void srv_region_unregister(struct srv_shared_memory *m, struct rt_span name)
{
    struct region *gone[SRV_MAX_REGIONS];
    int n_gone = 0, n_kept = 0;

    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n; i++) {
        struct region *r = m->regions[i];
        if (name.n && !rt_span_eq(rt_span_of(r->name, r->n_name), name)) {
            m->regions[n_kept++] = r;
            continue;
        }
        m->total -= r->bytes;
        if (--r->refs == 0)
            gone[n_gone++] = r;
    }
    m->n = n_kept;
    rt_mutex_unlock(&m->mu);
    for (int i = 0; i < n_gone; i++)
        free_region(gone[i]);
}

enum rt_status srv_region_list(struct srv_shared_memory *m, struct rt_span name,
                               struct rt_arena *arena, struct srv_region_info **out, int *n,
                               struct rt_error *err)
{
    struct srv_region_info *list = rt_arena_array(arena, SRV_MAX_REGIONS, sizeof *list);
    bool is_whole_list = list != NULL;

    *n = 0;
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n && is_whole_list; i++) {
        const struct region *r = m->regions[i];
        if (name.n && !rt_span_eq(rt_span_of(r->name, r->n_name), name))
            continue;
        list[*n] = (struct srv_region_info){rt_arena_strndup(arena, r->name, r->n_name),
                                            rt_arena_strdup(arena, r->key), r->offset, r->bytes};
        is_whole_list = list[*n].name && list[*n].key;
        (*n)++;
    }
    rt_mutex_unlock(&m->mu);
    *out = list;
    return is_whole_list ? RT_OK : rt_fail_memory(err, "the list of regions", 0);
}

/* ---- use ---- */

static enum rt_status check(const struct region *r, uint64_t offset, uint64_t bytes,
                            struct rt_error *err)
{
    if (offset > r->bytes || bytes > r->bytes - offset)
        return fail_region(err, RT_INVALID_ARGUMENT, r,
                           "has %llu bytes, but a tensor names %llu bytes at offset %llu",
                           (unsigned long long)r->bytes, (unsigned long long)bytes,
                           (unsigned long long)offset);
    return is_whole(r) ? RT_OK
                       : fail_region(err, RT_INVALID_ARGUMENT, r,
                                     "has become larger than its shared memory object");
}

enum rt_status srv_region_check(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                                uint64_t bytes, struct rt_error *err)
{
    struct region *r = ref(m, name, err);

    if (!r)
        return err->code;
    const enum rt_status st = check(r, offset, bytes, err);
    unref(m, r);
    return st;
}

enum rt_status srv_region_read(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                               void *dst, size_t n, struct rt_error *err)
{
    struct region *r = ref(m, name, err);

    if (!r)
        return err->code;
    enum rt_status st = check(r, offset, n, err);
    if (!st && rt_file_read_at(r->fd, dst, n, (int64_t)(r->offset + offset)) != (ssize_t)n)
        st = fail_region(err, RT_INVALID_ARGUMENT, r, "could not be read");
    unref(m, r);
    return st;
}

static bool write_all(int fd, const char *src, size_t n, int64_t offset)
{
    while (n) {
        const ssize_t k = pwrite(fd, src, n, offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        src += k;
        offset += k;
        n -= (size_t)k;
    }
    return true;
}

enum rt_status srv_region_write(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                                const void *src, size_t n, struct rt_error *err)
{
    struct region *r = ref(m, name, err);

    if (!r)
        return err->code;
    enum rt_status st = check(r, offset, n, err);
    if (!st && !write_all(r->fd, src, n, (int64_t)(r->offset + offset)))
        st = fail_region(err, RT_INVALID_ARGUMENT, r, "could not be written");
    unref(m, r);
    return st;
}
