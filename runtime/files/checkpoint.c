#include "runtime/files/checkpoint_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/file.h"

enum { MAX_INDEX = 1 << 28 }; /* size limit of an index file, in bytes */

/*
 * The list of open checkpoints. Some graphs have a RestoreV2 for each variable. All of these nodes,
 * and the tensors that they make, share one checkpoint as long as anything refers to it, so that
 * the index is read once and each shard is opened once.
 */
static struct rt_mutex open_mu = RT_MUTEX_INIT;
static struct rt_checkpoint *open_list; /* first open checkpoint; guarded by open_mu */

/* Returns a reference to the open checkpoint that was read from this index file, if the file is
 * unchanged; otherwise NULL. */
static struct rt_checkpoint *already_open(const char *prefix, const struct stat *index)
{
    struct rt_checkpoint *c;

    rt_mutex_lock(&open_mu);
    for (c = open_list; c; c = c->next) {
        int refs = atomic_load(&c->refs);
        if (strcmp(c->prefix, prefix) != 0 || !rt_same_file(&c->index, index))
            continue;
        /* A checkpoint with 0 references is about to be removed from the list and freed. */
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
