#include "runtime/files/checkpoint_v1.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/files/checkpoint_v1_slice.h"
#include "runtime/files/file.h"
#include "runtime/files/slice_set.h"
#include "runtime/core/pool.h"
#include "runtime/core/slice.h"
#include "runtime/core/tensor_proto.h"
#include "tensorflow/core/util/saved_tensor_slice.pb-c.h"

enum {
    MAX_FILES = 10000,
    READER = 1, /* the format version that this reader implements */
    /* Maximum size in bytes of a tensor's entry in a file's list of tensors. An entry takes about
     * 20 bytes per slice. */
    MAX_ENTRY = 4 << 20,
    CHECK_BYTES = 1 << 17, /* number of bytes of a list that are read between two calls of the run's
                            * check */
};
/* Field numbers in SavedTensorSlices, SavedTensorSliceMeta, SavedSliceMeta and VersionDef. */
enum {
    SLICES_META = 1,
    META_TENSOR = 1,
    META_VERSIONS = 2,
    TENSOR_NAME = 1,
    TENSOR_SLICE = 4,
    VERSIONS_PRODUCER = 1,
    VERSIONS_MIN_CONSUMER = 2,
    VERSIONS_BAD_CONSUMERS = 3,
};

/* A tensor's entry in a file's list of tensors. */
struct place {
    struct rt_span meta; /* the serialized SavedSliceMeta */
    int file;
    /* `next` is the tensor's entry in the next file that lists the tensor. `last` is the tensor's
     * last entry. `last` is valid only in the tensor's first entry. */
    struct place *next, *last;
};

/* A file of the checkpoint. It is open only during a read, because a checkpoint may have up to
 * MAX_FILES files. */
struct file {
    /* path of the file; NULL if the table is in the caller's `source` */
    char *path;
    struct stat info;
    struct rt_sstable_source source;
};

struct rt_checkpoint_v1 {
    atomic_int refs;
    char *pattern;
    int n_files, capacity;
    struct file *file;
    struct rt_arena *arena; /* memory of each struct place, and of the bytes in its `meta` */
    struct rt_map by_name;  /* maps each tensor's name to the first struct place of the tensor */
    uint64_t bytes;
    struct rt_pool *pool; /* pool that counts `held` bytes for the lists; may be NULL */
    size_t held;
};

static struct rt_mutex kept_mu = RT_MUTEX_INIT;
/* reference to the checkpoint that is kept (rt_checkpoint_v1_keep), or NULL; guarded by kept_mu */
static struct rt_checkpoint_v1 *kept;

/* ---- opening ---- */

/* Makes the pool count `bytes` bytes until the checkpoint is closed. */
static enum rt_status hold(struct rt_checkpoint_v1 *c, size_t bytes, struct rt_error *err)
{
    const enum rt_status st = rt_pool_hold(c->pool, bytes, 0, "the list of a checkpoint", err);

    if (!st)
        c->held += bytes;
    return st;
}

struct wanted {
    const char *name;
    /* the tensor, with the slices of all files in the order of the files */
    struct rt_checkpoint_v1_description d;
    enum rt_dtype dtype;
    struct rt_slice part; /* the requested slice, with its lengths resolved (rt_slice_resolve) */
    const struct rt_checkpoint_run *run;
    struct rt_tensor *out;
    int64_t found; /* number of elements of `part` that have been copied to `out` */
    /* for each file, the number of slices in it and in the files before it; NULL if the tensor is
     * not read */
    size_t *ends;
    size_t n_read; /* number of slices that have been read */
};

/* Reads a tensor's type, shape and slices from its entries in the files' lists of tensors. All
 * entries must agree on the type and the shape, and the slices must not overlap. The caller must
 * call free_description. */
static enum rt_status describe(const struct rt_checkpoint_v1 *c, const struct place *first,
                               struct wanted *w, struct rt_error *err)
{
    struct rt_check check;
    enum rt_status st = RT_OK;

    for (const struct place *p = first; p && !st; p = p->next) {
        st = rt_checkpoint_run_check(w->run, err);
        if (!st)
            st = rt_checkpoint_v1_describe(&w->d, p->meta, w->run, err);
        if (w->ends)
            w->ends[p->file] = w->d.n_slices;
    }
    if (!st) {
        st = rt_slice_set_check(w->d.slices, w->d.n_slices, w->d.rank, w->d.dim,
                                rt_checkpoint_run_as_check(w->run, &check), err);
        if (st)
            rt_fail_prefix(err, "tensor \"%s\" in %s: ", w->name, c->pattern);
    }
    return st;
}

/* Checks the shape of an entry without slices. */
static enum rt_status check_shape(struct rt_span meta, const struct rt_checkpoint_run *run,
                                  struct rt_error *err)
{
    struct rt_checkpoint_v1_description d = {0};
    struct rt_error why = {0};
    const enum rt_status st = rt_checkpoint_v1_describe(&d, meta, run, &why);

    rt_checkpoint_v1_free_description(&d, run);
    if (!st || st == RT_UNIMPLEMENTED)
        return RT_OK;
    rt_error_copy(err, &why);
    return st;
}

static void free_description(struct wanted *w)
{
    free(w->ends);
    rt_checkpoint_v1_free_description(&w->d, w->run);
}

/* Fails if the entries of a tensor contradict each other. TensorFlow then reads no tensor of the
 * checkpoint. */
static enum rt_status check_tensors(const struct rt_checkpoint_v1 *c,
                                    const struct rt_checkpoint_run *run, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < c->by_name.n && !st; i++) {
        struct wanted w = {.name = c->by_name.entry[i].key, .run = run};
        struct rt_error why = {0};
        st = describe(c, c->by_name.entry[i].value, &w, &why);
        free_description(&w);
        if (st == RT_UNIMPLEMENTED)
            st = RT_OK;
        else if (st)
            rt_error_copy(err, &why);
    }
    return st;
}

struct listing {
    struct rt_checkpoint_v1 *c;
    int file;
    const struct rt_checkpoint_run *run;
    int producer, min_consumer;
    bool is_bad;        /* whether READER is among the bad consumers */
    size_t n_unchecked; /* number of bytes of the list read since the run's check was last called */
};

static enum rt_status malformed(struct rt_error *err)
{
    return rt_fail(err, RT_DATA_LOSS, "the list: not a tensorflow.SavedTensorSlices");
}

/* Adds an entry of the list to by_name. As in TensorFlow, only the shape of an entry without slices
 * is checked. */
static enum rt_status add_entry(const struct listing *l, struct rt_span meta, struct rt_error *err)
{
    struct rt_checkpoint_v1 *c = l->c;
    struct rt_span name = rt_span_of("", 0), rest = meta;
    struct pb_field f;
    bool has_slices = false;
    int more;

    if (meta.n > MAX_ENTRY)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "the list: a tensor whose entry has %zu bytes, more than %d", meta.n,
                       MAX_ENTRY);
    while ((more = pb_field_next(&rest, &f)) == 1) {
        if (f.number == TENSOR_NAME && f.type == PB_BYTES)
            name = f.bytes;
        has_slices |= f.number == TENSOR_SLICE && f.type == PB_BYTES;
    }
    if (more < 0)
        return malformed(err);
    if (memchr(name.p, '\0', name.n))
        return rt_fail(err, RT_DATA_LOSS, "the list: a tensor's name holds a NUL");
    const char *key = (const char *)name.p;
    struct place *first = rt_map_getn(&c->by_name, key, name.n);
    if (!has_slices)
        return check_shape(meta, l->run, err);
    if (c->by_name.n == INT32_MAX)
        return rt_fail(err, RT_DATA_LOSS, "too many tensors");
    const enum rt_status st =
        hold(c, meta.n + name.n + sizeof(struct place) + 2 * sizeof(struct rt_map_entry), err);
    if (st)
        return st;
    struct place *p = rt_arena_alloc(c->arena, sizeof *p);
    const char *bytes = rt_arena_strndup(c->arena, (const char *)meta.p, meta.n);
    if (!p || !bytes || (!first && !rt_map_putn(&c->by_name, key, name.n, p)))
        return rt_fail_memory(err, "a checkpoint", meta.n);
    *p = (struct place){.meta = rt_span_of(bytes, meta.n), .file = l->file, .last = p};
    if (first) {
        first->last->next = p;
        first->last = p;
    }
    return RT_OK;
}

/* Reads a VersionDef. Several occurrences are read as one message, as in protobuf. */
static enum rt_status read_versions(struct listing *l, struct rt_span versions,
                                    struct rt_error *err)
{
    struct pb_field f;
    uint64_t bad;
    int more;

    while ((more = pb_field_next(&versions, &f)) == 1) {
        if (f.number == VERSIONS_PRODUCER && f.type == PB_VARINT)
            l->producer = (int)(int32_t)f.value;
        if (f.number == VERSIONS_MIN_CONSUMER && f.type == PB_VARINT)
            l->min_consumer = (int)(int32_t)f.value;
        if (f.number == VERSIONS_BAD_CONSUMERS && f.type == PB_VARINT)
            l->is_bad |= (int32_t)f.value == READER;
        while (f.number == VERSIONS_BAD_CONSUMERS && pb_varint(&f.bytes, &bad))
            l->is_bad |= (int32_t)bad == READER;
    }
    return more < 0 ? malformed(err) : RT_OK;
}

static enum rt_status check_versions(const struct listing *l, struct rt_error *err)
{
    if (l->producer < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "its writer has the version %d, which is below 0",
                       l->producer);
    if (l->min_consumer > READER)
        return rt_fail(err, RT_UNIMPLEMENTED, "needs a reader of version %d, this is %d",
                       l->min_consumer, READER);
    if (l->is_bad)
        return rt_fail(err, RT_INVALID_ARGUMENT, "disallows readers of version %d, which this is",
                       READER);
    return RT_OK;
}

/* Reads a list's SavedTensorSlices if `level` is 0, and its SavedTensorSliceMeta if `level` is 1.
 * Several occurrences of the nested message are read as one message, as in protobuf. */
static enum rt_status read_entries(struct listing *l, struct rt_span rest, int level,
                                   struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct pb_field f;
    int more = 0;

    while (!st && (more = pb_field_next(&rest, &f)) == 1) {
        if (f.type == PB_BYTES && f.number == (level ? META_TENSOR : SLICES_META))
            st = level ? add_entry(l, f.bytes, err) : read_entries(l, f.bytes, 1, err);
        else if (f.type == PB_BYTES && level && f.number == META_VERSIONS)
            st = read_versions(l, f.bytes, err);
        l->n_unchecked += f.whole.n;
        if (!st && l->n_unchecked >= CHECK_BYTES) {
            l->n_unchecked = 0;
            st = rt_checkpoint_run_check(l->run, err);
        }
    }
    return st ? st : more < 0 ? malformed(err) : RT_OK;
}

static enum rt_status keep_list(void *arg, struct rt_span value, struct rt_error *err)
{
    struct listing *l = arg;
    enum rt_status st = rt_checkpoint_v1_validate(value, "the list", l->run, err);

    if (!st)
        st = read_entries(l, value, 0, err);
    return st ? st : check_versions(l, err);
}

/* Opens a file of the checkpoint. Sets *source to a source that reads the file for `run`. Sets *fd
 * to the descriptor, which the caller must close, or to -1 if the source is in memory. */
static enum rt_status source_open(const struct file *f, const struct rt_checkpoint_run *run,
                                  struct rt_sstable_source *source, int *fd, struct rt_error *err)
{
    struct stat now;

    *fd = -1;
    *source = f->source;
    source->run = run;
    if (!f->path)
        return RT_OK;
    const enum rt_status st = rt_open_regular(f->path, fd, &now, err);
    if (st)
        return st;
    if (!rt_same_file(&f->info, &now)) {
        close(*fd);
        *fd = -1;
        return rt_fail(err, RT_DATA_LOSS, "%s was changed while it was read", f->path);
    }
    *source = (struct rt_sstable_source){
        .size = (uint64_t)now.st_size, .read = rt_file_read_exactly, .arg = fd, .run = run};
    return RT_OK;
}

static void source_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

static enum rt_status read_list(struct rt_checkpoint_v1 *c, int file,
                                const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct listing listing = {.c = c, .file = file, .run = run};
    struct rt_sstable_source source;
    int fd;
    enum rt_status st = source_open(&c->file[file], run, &source, &fd, err);

    if (st)
        return st;
    st = rt_sstable_find(&source, rt_span_of("", 0), keep_list, &listing, err);
    source_close(fd);
    if (st == RT_NOT_FOUND)
        st = rt_fail(err, RT_DATA_LOSS, "it has no list of tensors");
    c->bytes += st ? 0 : source.size;
    return st;
}

/* Adds a file to the checkpoint and returns it. The pointer is valid until the next call. */
static struct file *add_file(struct rt_checkpoint_v1 *c)
{
    if (c->n_files == c->capacity) {
        int capacity = c->capacity ? c->capacity * 2 : 4;
        struct file *more = realloc(c->file, (size_t)capacity * sizeof *more);
        if (!more)
            return NULL;
        c->file = more;
        c->capacity = capacity;
    }
    c->file[c->n_files] = (struct file){0};
    return &c->file[c->n_files++];
}

static struct rt_checkpoint_v1 *checkpoint_new(const char *pattern,
                                               const struct rt_checkpoint_run *run)
{
    struct rt_checkpoint_v1 *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    c->pool = rt_pool_ref(rt_checkpoint_run_pool(run));
    c->pattern = strdup(pattern);
    c->arena = rt_arena_new(SIZE_MAX);
    if (c->pattern && c->arena)
        return c;
    rt_checkpoint_v1_close(c);
    return NULL;
}

void rt_checkpoint_v1_close(struct rt_checkpoint_v1 *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (int i = 0; i < c->n_files; i++)
        free(c->file[i].path);
    rt_map_clear(&c->by_name);
    rt_arena_free(c->arena);
    rt_pool_release(c->pool, c->held);
    rt_pool_unref(c->pool);
    free(c->file);
    free(c->pattern);
    free(c);
}

/* ---- finding the files ---- */

static enum rt_status add_path(struct rt_checkpoint_v1 *c, const char *path, struct rt_error *err)
{
    if (c->n_files == MAX_FILES)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: more than %d files", c->pattern, MAX_FILES);
    struct file *f = add_file(c);
    if (!f || !(f->path = strdup(path)))
        return rt_fail_memory(err, "a checkpoint", sizeof *f);
    return RT_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

/*
 * Adds the files of a directory that match the pattern, sorted. Patterns in directory names are not
 * expanded, because a model could use them to make the server search whole file systems. The run's
 * check is called for each entry of the directory, because one call of fnmatch may be slow: with a
 * pattern of 125 bracket expressions in 3,900 bytes, it took up to 6 ms. For the same reason, a
 * pattern may be at most as long as the longest file name.
 */
static enum rt_status list_matching(struct rt_checkpoint_v1 *c, const struct rt_checkpoint_run *run,
                                    struct rt_error *err)
{
    char path[4600], folder[4200] = ".";
    const char *slash = strrchr(c->pattern, '/'), *last = slash ? slash + 1 : c->pattern;
    const struct dirent *e;
    enum rt_status st = RT_OK;

    if (strlen(last) > NAME_MAX)
        return rt_fail_errno(err, c->pattern, ENAMETOOLONG);
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - c->pattern) + 1, c->pattern);
    DIR *dir = opendir(folder);
    if (!dir)
        return rt_errno_is_absence(errno) ? RT_OK : rt_fail_errno(err, folder, errno);
    while (!st && (errno = 0, e = readdir(dir))) {
        st = rt_checkpoint_run_check(run, err);
        if (st || fnmatch(last, e->d_name, FNM_PERIOD) != 0)
            continue;
        snprintf(path, sizeof path, "%s%s", slash ? folder : "", e->d_name);
        st = add_path(c, path, err);
    }
    if (!st && errno)
        st = rt_fail_errno(err, folder, errno);
    closedir(dir);
    if (!st && c->n_files)
        qsort(c->file, (size_t)c->n_files, sizeof *c->file, by_path);
    return st;
}

/* Lists the files that match the pattern, and calls stat for each file. */
static enum rt_status list_files(struct rt_checkpoint_v1 *c, const struct rt_checkpoint_run *run,
                                 struct rt_error *err)
{
    const bool is_pattern = strpbrk(c->pattern, "?*[") != NULL;
    enum rt_status st = is_pattern ? list_matching(c, run, err) : add_path(c, c->pattern, err);
    bool is_there = c->n_files > 0;

    for (int i = 0; i < c->n_files && !st && is_there; i++)
        if (stat(c->file[i].path, &c->file[i].info)) {
            is_there = is_pattern || !rt_errno_is_absence(errno);
            if (is_there)
                st = rt_fail_errno(err, c->file[i].path, errno);
        }
    if (st || is_there)
        return st;
    return rt_fail(err, RT_NOT_FOUND,
                   "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                   "for %s",
                   c->pattern);
}

/* ---- opening ---- */

/* Returns a reference to `kept` if it has the same pool, pattern and files as `c`, and the files
 * are unchanged. Otherwise returns NULL. */
static struct rt_checkpoint_v1 *already_open(const struct rt_checkpoint_v1 *c)
{
    struct rt_checkpoint_v1 *found;

    rt_mutex_lock(&kept_mu);
    found = kept && kept->pool == c->pool && kept->n_files == c->n_files &&
                    strcmp(kept->pattern, c->pattern) == 0
                ? kept
                : NULL;
    for (int i = 0; found && i < c->n_files; i++)
        if (strcmp(found->file[i].path, c->file[i].path) != 0 ||
            !rt_same_file(&found->file[i].info, &c->file[i].info))
            found = NULL;
    if (found)
        atomic_fetch_add(&found->refs, 1);
    rt_mutex_unlock(&kept_mu);
    return found;
}

/* Sets `kept` to `c` and takes over the caller's reference. */
static void set_kept(struct rt_checkpoint_v1 *c)
{
    struct rt_checkpoint_v1 *old;

    rt_mutex_lock(&kept_mu);
    old = kept;
    kept = c;
    rt_mutex_unlock(&kept_mu);
    rt_checkpoint_v1_close(old);
}

void rt_checkpoint_v1_keep(struct rt_checkpoint_v1 *c)
{
    atomic_fetch_add(&c->refs, 1);
    set_kept(c);
}

void rt_checkpoint_v1_forget(void)
{
    set_kept(NULL);
}

enum rt_status rt_checkpoint_v1_open(struct rt_checkpoint_v1 **out, const char *pattern,
                                     const struct rt_checkpoint_run *run, struct rt_error *err)
{
    *out = NULL;
    if (strlen(pattern) > 4000)
        return rt_fail_errno(err, pattern, ENAMETOOLONG);
    struct rt_checkpoint_v1 *c = checkpoint_new(pattern, run);
    if (!c)
        return rt_fail_memory(err, "a checkpoint", sizeof *c);
    enum rt_status st = list_files(c, run, err);
    if (!st && (*out = already_open(c))) {
        rt_checkpoint_v1_close(c);
        return RT_OK;
    }
    for (int i = 0; i < c->n_files && !st; i++)
        if ((st = read_list(c, i, run, err)) != RT_OK)
            rt_fail_prefix(err, "Unable to open table file %s: ", c->file[i].path);
    if (!st)
        st = check_tensors(c, run, err);
    if (st) {
        rt_checkpoint_v1_close(c);
        return st;
    }
    *out = c;
    return RT_OK;
}

enum rt_status rt_checkpoint_v1_over(struct rt_checkpoint_v1 **out, const char *name,
                                     const struct rt_sstable_source *source, struct rt_error *err)
{
    struct rt_checkpoint_v1 *c = checkpoint_new(name, source->run);
    struct file *f = c ? add_file(c) : NULL;
    enum rt_status st = RT_OK;

    *out = NULL;
    if (f) {
        f->source = *source;
        st = read_list(c, 0, source->run, err);
        if (!st)
            st = check_tensors(c, source->run, err);
    } else {
        st = rt_fail_memory(err, "a checkpoint", sizeof *c);
    }
    if (st)
        rt_checkpoint_v1_close(c);
    else
        *out = c;
    return st;
}

int rt_checkpoint_v1_count(const struct rt_checkpoint_v1 *c)
{
    return (int)c->by_name.n;
}

const char *rt_checkpoint_v1_name(const struct rt_checkpoint_v1 *c, int i)
{
    return c->by_name.entry[i].key; /* Entries are in insertion order. */
}

/* ---- a tensor ---- */

static enum rt_status choose_part(struct wanted *w, struct rt_span text, struct rt_error *err)
{
    char given[128], stored[128];
    int rank = w->d.rank;
    int64_t dim[RT_MAX_RANK];

    w->part = (struct rt_slice){.rank = rank};
    for (int i = 0; i < rank; i++)
        w->part.length[i] = -1;
    if (text.n) {
        enum rt_status st = rt_slice_parse(text, &rank, dim, &w->part, err);
        if (st)
            return st;
        if (rank != w->d.rank || (rank && memcmp(dim, w->d.dim, (size_t)rank * sizeof *dim) != 0))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Shape in shape_and_slice spec does not match the shape in the save "
                           "file: %s, save file shape: %s",
                           rt_shape_text(given, sizeof given, rank, dim),
                           rt_shape_text(stored, sizeof stored, w->d.rank, w->d.dim));
    }
    rt_slice_resolve(&w->part, w->d.rank, w->d.dim);
    return RT_OK;
}

struct piece {
    struct wanted *w;
    struct rt_slice part; /* the stored slice, with its lengths resolved (rt_slice_resolve) */
};

static bool same_part(const struct rt_slice *a, const struct rt_slice *b)
{
    const size_t n = (size_t)a->rank;

    return memcmp(a->start, b->start, n * sizeof *a->start) == 0 &&
           memcmp(a->length, b->length, n * sizeof *a->length) == 0;
}

static enum rt_status take_piece(void *arg, struct rt_span value, struct rt_error *err)
{
    const struct piece *p = arg;
    struct wanted *w = p->w;
    struct rt_check check;
    const int64_t n = rt_count(p->part.rank, p->part.length);
    int64_t n_copied = 0;
    struct rt_tensor t;
    enum rt_status st;

    if (same_part(&p->part, &w->part)) {
        w->found += n;
        return rt_checkpoint_v1_decode(value, w->dtype, n, w->out->data, w->run, err);
    }
    st = rt_tensor_new(&t, rt_checkpoint_run_pool(w->run), w->dtype, 1, &n, err);
    if (st)
        return st;
    st = rt_checkpoint_v1_decode(value, w->dtype, n, t.data, w->run, err);
    const struct rt_check *asked = rt_checkpoint_run_as_check(w->run, &check);
    if (!st && w->dtype == RT_STRING)
        st = rt_slice_swap(w->out->data, &w->part, t.data, &p->part, sizeof(struct rt_str), asked,
                           &n_copied, err);
    else if (!st)
        st = rt_slice_copy(w->out->data, &w->part, t.data, &p->part, rt_dtype_size(w->dtype), asked,
                           &n_copied, err);
    w->found += n_copied;
    rt_tensor_clear(&t);
    return st;
}

/* Copies the requested elements from the slices of one file. */
static enum rt_status gather(struct rt_sstable_finder *table, int file, struct wanted *w,
                             struct rt_error *err)
{
    enum rt_status st = RT_OK;

    while (w->n_read < w->ends[file] && !st) {
        const struct rt_slice stored = w->d.slices[w->n_read++];
        struct piece p = {.w = w, .part = stored};
        struct rt_bytes key;
        char text[128];
        st = rt_checkpoint_run_check(w->run, err);
        if (st)
            return st;
        rt_slice_resolve(&p.part, w->d.rank, w->d.dim);
        if (!rt_slice_overlap(&p.part, &w->part))
            continue;
        rt_bytes_init(&key, 1 << 21);
        rt_slice_key(&key, rt_span_str(w->name), &stored);
        st = key.failed
                 ? rt_fail_memory(err, "a key", key.n)
                 : rt_sstable_finder_find(table, rt_span_of(key.p, key.n), take_piece, &p, err);
        rt_bytes_clear(&key);
        if (st == RT_NOT_FOUND)
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "Error copying slice data: slice %s is listed, but not stored",
                         rt_slice_text(text, sizeof text, &stored));
    }
    return st;
}

/* Copies the requested elements from the files that list the tensor. */
static enum rt_status gather_all(const struct rt_checkpoint_v1 *c, struct wanted *w,
                                 struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (const struct place *p = rt_map_get(&c->by_name, w->name); p && !st; p = p->next) {
        struct rt_sstable_source source;
        struct rt_sstable_finder *table = NULL;
        int fd;
        st = source_open(&c->file[p->file], w->run, &source, &fd, err);
        if (!st)
            st = rt_sstable_finder_new(&table, &source, err);
        if (!st)
            st = gather(table, p->file, w, err);
        rt_sstable_finder_free(table);
        source_close(fd);
    }
    return st;
}

static enum rt_status read_tensor(const struct rt_checkpoint_v1 *c, struct wanted *w,
                                  struct rt_span slice, enum rt_dtype want, struct rt_error *err)
{
    const struct place *first = rt_map_get(&c->by_name, w->name);
    struct rt_check check;
    struct rt_tensor *t = w->out;
    bool is_ref;

    if (!first)
        return rt_fail(err, RT_NOT_FOUND, "Tensor name \"%s\" not found in checkpoint files %s",
                       w->name, c->pattern);
    w->ends = calloc((size_t)c->n_files, sizeof *w->ends);
    if (!w->ends)
        return rt_fail_memory(err, "slices", (size_t)c->n_files * sizeof *w->ends);
    enum rt_status st = describe(c, first, w, err);
    if (st)
        return st;
    /* Every element occupies at least one byte of an uncompressed block, so the size of the block
     * bounds the number of elements. */
    if ((uint64_t)rt_count(w->d.rank, w->d.dim) / RT_SSTABLE_EXPANDS > c->bytes)
        return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\" has more elements than its files",
                       w->name);
    w->dtype = rt_dtype_from_wire(w->d.wire_type, &is_ref);
    if (is_ref || !(rt_dtype_is_plain(w->dtype) || w->dtype == RT_STRING))
        return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\" has type %d", w->name, w->d.wire_type);
    if (want != RT_NO_DTYPE && want != w->dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected to restore a tensor of type %s, got a tensor of type %s instead: "
                       "tensor_name = %s",
                       rt_dtype_name(want), rt_dtype_name(w->dtype), w->name);
    st = choose_part(w, slice, err);
    if (!st)
        st = rt_tensor_new_checked(t, rt_checkpoint_run_pool(w->run), w->dtype, w->d.rank,
                                   w->part.length, rt_checkpoint_run_as_check(w->run, &check), err);
    if (st)
        return st;
    const int64_t n = rt_tensor_count(t);
    if (n)
        st = gather_all(c, w, err);
    if (st)
        return rt_fail_prefix(err, "tensor \"%s\" in %s: ", w->name, c->pattern);
    /* The slices do not overlap, so they hold each element if the number of elements is right. */
    if (w->found != n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Error copying slice data");
    return RT_OK;
}

enum rt_status rt_checkpoint_v1_tensor(const struct rt_checkpoint_v1 *c, const char *name,
                                       struct rt_span slice, enum rt_dtype want,
                                       const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                       struct rt_error *err)
{
    struct rt_tensor t = {0};
    struct wanted w = {.name = name, .run = run, .out = &t};
    const enum rt_status st = read_tensor(c, &w, slice, want, err);

    free_description(&w);
    if (st)
        rt_tensor_clear(&t);
    *out = t;
    return st;
}
