#include "runtime/files/checkpoint_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/core/pool.h"
#include "runtime/files/file.h"

enum {
    MAX_INDEX = 1 << 28, /* size limit of an index file, in bytes */
    /* Maximum size of a block of an index, in bytes. TensorFlow ends a block at 256 KiB. A block
     * can be larger only if its last entry describes a tensor with many slices. */
    MAX_INDEX_BLOCK = 1 << 22,
};

/* The open checkpoints. Some graphs have a RestoreV2 node for each variable. These nodes, and their
 * tensors, share one open checkpoint, so that the index is read once and no shard is kept open
 * twice. The checkpoints are spread over many lists, because a server with thousands of versions
 * has thousands of checkpoints open. */
enum { LOG_OPEN_LISTS = 12 };
static struct rt_mutex open_mu = RT_MUTEX_INIT;
/* the first checkpoint of each list; guarded by open_mu */
static struct rt_checkpoint *open_lists[1 << LOG_OPEN_LISTS];

/* Returns the list for open checkpoints with this pool and index file. */
static struct rt_checkpoint **list_of(const struct stat *index, const struct rt_pool *pool)
{
    /* Fibonacci hashing: multiplies by the fractional part of the golden ratio times 2^64 */
    const uint64_t key = (uint64_t)index->st_ino ^ (uintptr_t)pool;
    return &open_lists[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LOG_OPEN_LISTS)];
}

/* Returns a reference to the open checkpoint that uses this pool and was read from this index file.
 * Returns NULL if there is none or the file has changed. The pool must be the same, because a
 * checkpoint must not outlive the session that owns its pool. */
static struct rt_checkpoint *already_open(const char *prefix, const struct stat *index,
                                          const struct rt_pool *pool)
{
    struct rt_checkpoint *c;

    rt_mutex_lock(&open_mu);
    for (c = *list_of(index, pool); c; c = c->next) {
        int refs = atomic_load(&c->refs);
        if (c->pool != pool || strcmp(c->prefix, prefix) != 0 || !rt_same_file(&c->index, index))
            continue;
        /* A checkpoint with 0 references is about to be removed and freed. */
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
    struct rt_checkpoint **list = list_of(index, c->pool);
    rt_mutex_lock(&open_mu);
    c->index = *index;
    c->next = *list;
    *list = c;
    rt_mutex_unlock(&open_mu);
}

static void list_remove(struct rt_checkpoint *c)
{
    rt_mutex_lock(&open_mu);
    for (struct rt_checkpoint **at = list_of(&c->index, c->pool); *at; at = &(*at)->next)
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
    rt_bundle_close_kept(c);
    free(c->shard);
    free(c->entry);
    free(c->prefix);
    rt_arena_free(c->arena);
    rt_pool_release(c->pool, c->held);
    rt_pool_unref(c->pool);
    rt_mutex_clear(&c->mu);
    free(c);
}

enum rt_status rt_bundle_open_index(const char *path, const struct rt_checkpoint_run *run, int *fd,
                                    struct stat *info, struct rt_sstable_source *source,
                                    struct rt_error *err)
{
    const enum rt_status st = rt_open_regular(path, fd, info, err);

    if (st)
        return st;
    if (info->st_size > MAX_INDEX) {
        close(*fd);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s has %lld bytes, more than the limit of %d",
                       path, (long long)info->st_size, MAX_INDEX);
    }
    *source = (struct rt_sstable_source){.size = (uint64_t)info->st_size,
                                         .read = rt_file_read_exactly,
                                         .arg = fd,
                                         .max_block = MAX_INDEX_BLOCK,
                                         .run = run};
    return RT_OK;
}

/* Opens the index of a checkpoint. If the checkpoint is missing, fails with TensorFlow's error
 * message. */
static enum rt_status open_index(const char *prefix, const struct rt_checkpoint_run *run, int *fd,
                                 struct stat *info, struct rt_sstable_source *source,
                                 struct rt_error *err)
{
    char path[4200];

    if (strlen(prefix) > 4000)
        return rt_fail_errno(err, prefix, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s.index", prefix);
    const enum rt_status st = rt_bundle_open_index(path, run, fd, info, source, err);
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
    return st;
}

enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct rt_sstable_source source;
    struct stat before, after;
    int fd;
    enum rt_status st = open_index(prefix, run, &fd, &before, &source, err);

    if (st)
        return st;
    *out = already_open(prefix, &before, rt_checkpoint_run_pool(run));
    if (!*out) {
        st = rt_checkpoint_open_index(out, prefix, &source, err);
        if (!st && fstat(fd, &after) == 0 && rt_same_file(&before, &after))
            list_add(*out, &before);
    }
    close(fd);
    return st;
}

enum rt_status rt_checkpoint_measure(const char *prefix, const struct rt_checkpoint_run *run,
                                     int64_t *weight_bytes, struct rt_error *err)
{
    struct rt_sstable_source source;
    struct stat info;
    int fd;
    enum rt_status st = open_index(prefix, run, &fd, &info, &source, err);

    if (st)
        return st;
    st = rt_bundle_measure(prefix, &source, weight_bytes, err);
    close(fd);
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

const struct rt_checkpoint_entry *rt_checkpoint_find(const struct rt_checkpoint *c,
                                                     const char *name)
{
    const struct rt_bundle_entry *e = name[0] ? rt_bundle_find(c, rt_span_str(name)) : NULL;

    return e ? &e->pub : NULL;
}
