/* Opens the data files of a checkpoint, and reads and verifies the bytes of its entries. */
#include "runtime/files/checkpoint_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/pieces.h"
#include "runtime/files/file.h"

static atomic_int n_kept; /* number of shards that all checkpoints together keep open */

/* Returns whether one more shard may be kept open. If so, counts the shard. */
static bool take_kept(void)
{
    if (atomic_fetch_add(&n_kept, 1) < rt_file_most_kept())
        return true;
    atomic_fetch_sub(&n_kept, 1);
    return false;
}

static void shard_path(const struct rt_checkpoint *c, int shard, char *buffer, size_t n)
{
    snprintf(buffer, n, "%s.data-%05d-of-%05d", c->prefix, shard, c->n_shards);
}

static enum rt_status fail_short(const struct rt_bundle_entry *e, const char *path, int64_t size,
                                 struct rt_error *err)
{
    return rt_fail(err, RT_DATA_LOSS,
                   "%s has %lld bytes, tensor \"%s\" needs %lld at %lld: Read less bytes than "
                   "requested",
                   path, (long long)size, e->pub.name, (long long)e->pub.bytes,
                   (long long)e->offset);
}

enum rt_status rt_bundle_check_file(const struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int64_t *size, struct rt_error *err)
{
    char path[4200];
    struct stat s;
    int64_t *of_shard = &size[e->pub.shard];

    if (e->pub.is_sliced || e->offset + e->pub.bytes <= *of_shard)
        return RT_OK;
    shard_path(c, e->pub.shard, path, sizeof path);
    if (*of_shard < 0) {
        if (stat(path, &s))
            return rt_fail_errno(err, path, errno);
        const enum rt_status st = rt_check_regular(path, &s, err);
        if (st)
            return st;
        *of_shard = s.st_size;
    }
    return e->offset + e->pub.bytes > *of_shard ? fail_short(e, path, *of_shard, err) : RT_OK;
}

/* Unlike rt_same_file, ignores the time of the last status change, which changes when the file is
 * renamed or gets another link. */
static bool is_unchanged(const struct stat *was, const struct stat *now)
{
    return was->st_dev == now->st_dev && was->st_ino == now->st_ino &&
           was->st_size == now->st_size && was->st_mtim.tv_sec == now->st_mtim.tv_sec &&
           was->st_mtim.tv_nsec == now->st_mtim.tv_nsec;
}

static enum rt_status fail_changed(const char *path, struct rt_error *err)
{
    return rt_fail(err, RT_DATA_LOSS, "%s was changed while it was read", path);
}

enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err)
{
    char path[4200];
    struct stat s;

    for (int i = 0; i < c->n_shards; i++) {
        rt_mutex_lock(&c->mu);
        const int fd = c->shard[i].fd;
        const bool was_opened = c->shard[i].was_opened;
        rt_mutex_unlock(&c->mu);
        if (!was_opened)
            continue;
        shard_path(c, i, path, sizeof path);
        if (fd >= 0 ? fstat(fd, &s) : stat(path, &s))
            return rt_fail_errno(err, path, errno);
        if (!is_unchanged(&c->shard[i].s, &s))
            return fail_changed(path, err);
    }
    return RT_OK;
}

/* Opens a shard that is not open. Keeps it open if take_kept() permits that. */
static enum rt_status open_locked(struct rt_bundle_shard *s, const char *path, int *fd,
                                  struct rt_error *err)
{
    struct stat now;
    const enum rt_status st = rt_open_regular(path, fd, &now, err);

    if (st)
        return st;
    if (s->was_opened && !is_unchanged(&s->s, &now)) {
        close(*fd);
        return fail_changed(path, err);
    }
    if (!s->was_opened)
        s->s = now;
    s->was_opened = true;
    if (take_kept())
        s->fd = *fd;
    return RT_OK;
}

enum rt_status rt_bundle_open_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int *fd, struct rt_error *err)
{
    struct rt_bundle_shard *s = &c->shard[e->pub.shard];
    char path[4200];
    enum rt_status st = RT_OK;

    shard_path(c, e->pub.shard, path, sizeof path);
    rt_mutex_lock(&c->mu);
    *fd = s->fd;
    if (*fd < 0)
        st = open_locked(s, path, fd, err);
    rt_mutex_unlock(&c->mu);
    if (st || e->offset + e->pub.bytes <= s->s.st_size)
        return st;
    rt_bundle_close_shard(c, e, *fd);
    return fail_short(e, path, s->s.st_size, err);
}

void rt_bundle_close_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int fd)
{
    rt_mutex_lock(&c->mu);
    const bool is_kept = c->shard[e->pub.shard].fd == fd;
    rt_mutex_unlock(&c->mu);
    if (!is_kept)
        close(fd);
}

enum rt_status rt_bundle_check_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                     struct rt_error *err)
{
    int fd;
    const enum rt_status st = rt_bundle_open_shard(c, e, &fd, err);

    if (!st)
        rt_bundle_close_shard(c, e, fd);
    return st;
}

void rt_bundle_close_kept(struct rt_checkpoint *c)
{
    for (int i = 0; c->shard && i < c->n_shards; i++)
        if (c->shard[i].fd >= 0) {
            close(c->shard[i].fd);
            atomic_fetch_sub(&n_kept, 1);
        }
}

enum rt_status rt_bundle_read(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int fd,
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

enum rt_status rt_bundle_check_sum(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                   uint32_t crc, struct rt_error *err)
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

/* Reads windows of RT_BUNDLE_WINDOW bytes, a multiple of the size of an element. Computes the
 * checksum of each window directly after reading it, while its bytes are in the CPU's cache. */
enum rt_status rt_bundle_read_all(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                  const struct rt_checkpoint_run *run, void *dst,
                                  struct rt_error *err)
{
    size_t n = (size_t)e->pub.bytes;
    uint32_t crc = 0;
    int fd;
    enum rt_status st = rt_bundle_open_shard(c, e, &fd, err);

    if (st)
        return st;
    for (size_t off = 0; off < n && !st; off += RT_BUNDLE_WINDOW) {
        size_t k = n - off < RT_BUNDLE_WINDOW ? n - off : RT_BUNDLE_WINDOW;
        st = rt_checkpoint_run_check(run, err);
        if (!st)
            st = rt_bundle_read(c, e, fd, off, (char *)dst + off, k, err);
        if (st)
            break;
        crc = rt_crc32c(crc, (char *)dst + off, k);
        rt_bundle_make_native(c, e->pub.dtype, (char *)dst + off, k);
    }
    rt_bundle_close_shard(c, e, fd);
    return st ? st : rt_bundle_check_sum(c, e, crc, err);
}

void rt_bundle_make_native(const struct rt_checkpoint *c, enum rt_dtype dtype, void *data,
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
