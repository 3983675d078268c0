#include "runtime/files/checkpoint_v1.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/files/file.h"
#include "runtime/core/pool.h"
#include "runtime/core/slice.h"
#include "runtime/core/tensor_proto.h"
#include "tensorflow/core/util/saved_tensor_slice.pb-c.h"

typedef Tensorflow__SavedTensorSlices saved_slices;
typedef Tensorflow__SavedSliceMeta slice_meta;

enum {
    MAX_FILES = 10000,
    READER = 1, /* the format version that this reader implements */
};

/* A tensor's entry in a file's list of tensors. */
struct place {
    const slice_meta *meta;
    int file;
    /* `next` is the tensor's entry in the next file. `last` is the tensor's last entry, and is
     * valid only in its first entry. */
    struct place *next, *last;
};

/* A file of the checkpoint. It is open only while it is read, because there may be up to MAX_FILES
 * of them. */
struct file {
    /* path of the file, or NULL if the table is not in a file and `source` belongs to the caller */
    char *path;
    struct stat info;
    struct rt_sstable_source source;
    saved_slices *list;
    struct place *place; /* one struct for each tensor in the list */
};

struct rt_checkpoint_v1 {
    atomic_int refs;
    char *pattern;
    int n_files, capacity, n_tensors;
    struct file *file;
    struct rt_map by_name; /* maps each tensor's name to the first struct place of the tensor */
    uint64_t bytes;        /* total size of all files, in bytes */
    struct rt_pool *pool;  /* pool that counts `held` bytes for the lists; may be NULL */
    size_t held;
};

/*
 * The checkpoint that was opened last. Graphs of early TensorFlow versions often have a RestoreV2
 * for each variable. These nodes run one after another, and share the parsed lists because the
 * checkpoint is kept.
 */
static struct rt_mutex recent_mu = RT_MUTEX_INIT;
/* reference to the checkpoint that was opened last; guarded by recent_mu */
static struct rt_checkpoint_v1 *recent;

/* ---- opening ---- */

/* Makes the pool count `bytes` bytes for as long as the checkpoint is open. */
static enum rt_status hold(struct rt_checkpoint_v1 *c, size_t bytes, struct rt_error *err)
{
    const enum rt_status st = rt_pool_hold(c->pool, bytes, 0, "the list of a checkpoint", err);

    if (!st)
        c->held += bytes;
    return st;
}

struct listing {
    struct rt_checkpoint_v1 *c;
    struct file *f;
};

static enum rt_status keep_list(void *arg, struct rt_span value, struct rt_error *err)
{
    const struct listing *l = arg;
    struct file *f = l->f;
    const enum rt_status st =
        hold(l->c, pb_unpacked_bytes(&tensorflow__saved_tensor_slices__descriptor, value), err);

    if (st)
        return st;
    f->list = pb_unpack(&tensorflow__saved_tensor_slices__descriptor, value, "the list", err);
    if (!f->list)
        return pb_unpack_failed(err, RT_DATA_LOSS);
    if (!f->list->meta)
        return rt_fail(err, RT_DATA_LOSS, "it lists no tensors");
    if (f->list->meta->versions && f->list->meta->versions->min_consumer > READER)
        return rt_fail(err, RT_UNIMPLEMENTED, "needs a reader of version %d, this is %d",
                       (int)f->list->meta->versions->min_consumer, READER);
    return RT_OK;
}

/* Opens a file as a source that is read for `run`. Sets *fd to the descriptor, or to -1 if the
 * source is in memory. The caller must close the descriptor. */
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

/* Adds the tensors of a file's list to by_name. If a list names a tensor twice, the first entry is
 * used. */
static bool index_names(struct rt_checkpoint_v1 *c, int file)
{
    struct file *f = &c->file[file];
    const Tensorflow__SavedTensorSliceMeta *meta = f->list->meta;

    f->place = calloc(meta->n_tensor + 1, sizeof *f->place);
    for (size_t i = 0; f->place && i < meta->n_tensor; i++) {
        struct place *p = &f->place[i];
        struct place *first = rt_map_get(&c->by_name, meta->tensor[i]->name);
        *p = (struct place){.meta = meta->tensor[i], .file = file, .last = p};
        if (first && first->last->file != file) {
            first->last->next = p;
            first->last = p;
        } else if (!first && !rt_map_put(&c->by_name, meta->tensor[i]->name, p)) {
            return false;
        }
    }
    return f->place;
}

static enum rt_status read_list(struct rt_checkpoint_v1 *c, int file,
                                const struct rt_checkpoint_run *run, struct rt_error *err)
{
    struct file *f = &c->file[file];
    struct listing listing = {c, f};
    struct rt_sstable_source source;
    int fd;
    enum rt_status st = source_open(f, run, &source, &fd, err);

    if (st)
        return st;
    st = rt_sstable_find(&source, rt_span_of("", 0), keep_list, &listing, err);
    source_close(fd);
    if (st == RT_NOT_FOUND)
        st = rt_fail(err, RT_DATA_LOSS, "it has no list of tensors");
    if (!st && f->list->meta->n_tensor > (size_t)(INT32_MAX - c->n_tensors))
        st = rt_fail(err, RT_DATA_LOSS, "too many tensors");
    if (!st)
        st = hold(c, f->list->meta->n_tensor * (sizeof *f->place + 2 * sizeof(struct rt_map_entry)),
                  err);
    if (!st && !index_names(c, file))
        st = rt_fail_memory(err, "a checkpoint", f->list->meta->n_tensor * sizeof *f->place);
    if (st)
        return st;
    c->n_tensors += (int)f->list->meta->n_tensor;
    c->bytes += source.size;
    return RT_OK;
}

/* Appends a file to the list and returns it. Its address changes when another file is appended. */
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

    if (c && !(c->pattern = strdup(pattern))) {
        free(c);
        return NULL;
    }
    if (c) {
        atomic_init(&c->refs, 1);
        c->pool = rt_pool_ref(rt_checkpoint_run_pool(run));
    }
    return c;
}

void rt_checkpoint_v1_close(struct rt_checkpoint_v1 *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (int i = 0; i < c->n_files; i++) {
        pb_free(c->file[i].list);
        free(c->file[i].place);
        free(c->file[i].path);
    }
    rt_map_clear(&c->by_name);
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

/* Adds the files of a directory that match the pattern, sorted. Patterns in directory names are not
 * expanded, because a model could use them to make the server search whole file systems. */
static enum rt_status list_matching(struct rt_checkpoint_v1 *c, struct rt_error *err)
{
    char path[4600], folder[4200] = ".";
    const char *slash = strrchr(c->pattern, '/'), *last = slash ? slash + 1 : c->pattern;
    const struct dirent *e;
    enum rt_status st = RT_OK;

    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - c->pattern) + 1, c->pattern);
    DIR *dir = opendir(folder);
    if (!dir)
        return rt_errno_is_absence(errno) ? RT_OK : rt_fail_errno(err, folder, errno);
    while (!st && (errno = 0, e = readdir(dir))) {
        if (fnmatch(last, e->d_name, FNM_PERIOD) != 0)
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

/* Lists the files that match the pattern, with the result of stat on each file. */
static enum rt_status list_files(struct rt_checkpoint_v1 *c, struct rt_error *err)
{
    const bool is_pattern = strpbrk(c->pattern, "?*[") != NULL;
    enum rt_status st = is_pattern ? list_matching(c, err) : add_path(c, c->pattern, err);
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

/* Returns a reference to `recent` if `recent` was read from the same files into the same pool and
 * the files are unchanged; otherwise NULL. */
static struct rt_checkpoint_v1 *already_open(const struct rt_checkpoint_v1 *c)
{
    struct rt_checkpoint_v1 *found;

    rt_mutex_lock(&recent_mu);
    found = recent && recent->pool == c->pool && recent->n_files == c->n_files &&
                    strcmp(recent->pattern, c->pattern) == 0
                ? recent
                : NULL;
    for (int i = 0; found && i < c->n_files; i++)
        if (strcmp(found->file[i].path, c->file[i].path) != 0 ||
            !rt_same_file(&found->file[i].info, &c->file[i].info))
            found = NULL;
    if (found)
        atomic_fetch_add(&found->refs, 1);
    rt_mutex_unlock(&recent_mu);
    return found;
}

/* Sets `recent` to `c`. Takes over the caller's reference. */
static void keep_recent(struct rt_checkpoint_v1 *c)
{
    struct rt_checkpoint_v1 *old;

    rt_mutex_lock(&recent_mu);
    old = recent;
    recent = c;
    rt_mutex_unlock(&recent_mu);
    rt_checkpoint_v1_close(old);
}

void rt_checkpoint_v1_forget(void)
{
    keep_recent(NULL);
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
    enum rt_status st = list_files(c, err);
    if (!st && (*out = already_open(c))) {
        rt_checkpoint_v1_close(c);
        return RT_OK;
    }
    for (int i = 0; i < c->n_files && !st; i++)
        if ((st = read_list(c, i, run, err)) != RT_OK)
            rt_fail_prefix(err, "Unable to open table file %s: ", c->file[i].path);
    if (st) {
        rt_checkpoint_v1_close(c);
        return st;
    }
    atomic_fetch_add(&c->refs, 1);
    keep_recent(c);
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
    return c->n_tensors;
}

const char *rt_checkpoint_v1_name(const struct rt_checkpoint_v1 *c, int i)
{
    const struct file *f = c->file;

    for (; (size_t)i >= f->list->meta->n_tensor; f++)
        i -= (int)f->list->meta->n_tensor;
    return f->list->meta->tensor[i]->name;
}

/* ---- a tensor ---- */

struct wanted {
    const char *name;
    enum rt_dtype dtype;
    int rank; /* rank and dimensions of the full tensor */
    int64_t dim[RT_MAX_RANK];
    struct rt_slice part; /* the requested slice, with its lengths resolved (rt_slice_resolve) */
    const struct rt_checkpoint_run *run;
    struct rt_tensor *out;
    int64_t found; /* number of elements of `part` that have been copied to `out` */
};

/* Reads a tensor's dtype and shape from the files' lists of tensors. All files that list the tensor
 * must agree. */
static enum rt_status describe(const struct rt_checkpoint_v1 *c, struct wanted *w,
                               struct rt_error *err)
{
    const struct place *first = rt_map_get(&c->by_name, w->name);
    bool is_ref;

    for (const struct place *p = first; p; p = p->next) {
        const slice_meta *m = p->meta;
        int rank;
        int64_t dim[RT_MAX_RANK], n;
        enum rt_dtype dtype = rt_dtype_from_wire((int)m->type, &is_ref);
        enum rt_status st = rt_shape_from_proto(m->shape, &rank, dim, err);
        if (st)
            return rt_fail_prefix(err, "tensor \"%s\": ", w->name);
        n = rank < 0 ? -1 : rt_count(rank, dim);
        /* Every element occupies at least one byte of an uncompressed block. */
        if (n < 0 || (uint64_t)n / RT_SSTABLE_EXPANDS > c->bytes)
            return rt_fail(err, RT_DATA_LOSS, "tensor \"%s\" has more elements than its files",
                           w->name);
        if (is_ref || !(rt_dtype_is_plain(dtype) || dtype == RT_STRING))
            return rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\" has type %d", w->name,
                           (int)m->type);
        if (p != first && (dtype != w->dtype || rank != w->rank ||
                           (rank && memcmp(dim, w->dim, (size_t)rank * sizeof *dim) != 0)))
            return rt_fail(err, RT_DATA_LOSS,
                           "tensor \"%s\" has different types or shapes in the files of %s",
                           w->name, c->pattern);
        w->dtype = dtype;
        w->rank = rank;
        memcpy(w->dim, dim, sizeof dim);
    }
    return first ? RT_OK
                 : rt_fail(err, RT_NOT_FOUND, "Tensor name \"%s\" not found in checkpoint files %s",
                           w->name, c->pattern);
}

static enum rt_status choose_part(struct wanted *w, struct rt_span text, struct rt_error *err)
{
    char given[128], stored[128];
    int rank = w->rank;
    int64_t dim[RT_MAX_RANK];

    w->part = (struct rt_slice){.rank = rank};
    for (int i = 0; i < rank; i++)
        w->part.length[i] = -1;
    if (text.n) {
        enum rt_status st = rt_slice_parse(text, &rank, dim, &w->part, err);
        if (st)
            return st;
        if (rank != w->rank || (rank && memcmp(dim, w->dim, (size_t)rank * sizeof *dim) != 0))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Shape in shape_and_slice spec does not match the shape in the save "
                           "file: %s, save file shape: %s",
                           rt_shape_text(given, sizeof given, rank, dim),
                           rt_shape_text(stored, sizeof stored, w->rank, w->dim));
    }
    rt_slice_resolve(&w->part, w->rank, w->dim);
    return RT_OK;
}

struct piece {
    struct wanted *w;
    struct rt_slice part; /* the stored slice, with its lengths resolved (rt_slice_resolve) */
};

/* Decodes a stored slice into a one-dimensional tensor, because the message has no shape. */
static enum rt_status decode(const struct piece *p, Tensorflow__TensorProto *data,
                             struct rt_tensor *out, struct rt_error *err)
{
    Tensorflow__TensorShapeProto__Dim dim;
    Tensorflow__TensorShapeProto__Dim *dims[] = {&dim};
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT, *was;
    enum rt_status st;

    tensorflow__tensor_shape_proto__dim__init(&dim);
    dim.size = rt_count(p->part.rank, p->part.length);
    shape.n_dim = 1;
    shape.dim = dims;
    was = data->tensor_shape;
    data->tensor_shape = &shape;
    data->dtype = (Tensorflow__DataType)p->w->dtype;
    /* A limit of 0 means that the message must hold all values. */
    st = rt_tensor_from_proto(data, 0, out, rt_checkpoint_run_pool(p->w->run), err);
    data->tensor_shape = was;
    return st;
}

/* Unpacks the message of a stored slice, and decodes the tensor that the message holds. */
static enum rt_status unpack_piece(const struct piece *p, struct rt_span value,
                                   struct rt_tensor *out, struct rt_error *err)
{
    struct rt_pool *pool = rt_checkpoint_run_pool(p->w->run);
    const size_t bytes =
        pool ? pb_unpacked_bytes(&tensorflow__saved_tensor_slices__descriptor, value) : 0;
    enum rt_status st = rt_pool_hold(pool, bytes, 0, "a slice", err);

    if (st)
        return st;
    saved_slices *s =
        pb_unpack(&tensorflow__saved_tensor_slices__descriptor, value, "a slice", err);
    if (!s)
        st = pb_unpack_failed(err, RT_DATA_LOSS);
    else if (!s->data || !s->data->data)
        st = rt_fail(err, RT_DATA_LOSS, "a slice without data");
    else
        st = decode(p, s->data->data, out, err);
    pb_free(s);
    rt_pool_release(pool, bytes);
    return st;
}

static enum rt_status take_piece(void *arg, struct rt_span value, struct rt_error *err)
{
    struct piece *p = arg;
    struct wanted *w = p->w;
    struct rt_tensor t = {0};
    const enum rt_status st = unpack_piece(p, value, &t, err);

    if (st)
        return st;
    /* A string tensor has a single slice, and all of its elements are requested. */
    if (w->dtype == RT_STRING) {
        memcpy(t.dim, w->dim, sizeof t.dim);
        t.rank = (int8_t)w->rank;
        rt_tensor_clear(w->out);
        *w->out = t;
        w->found = rt_count(w->rank, w->dim);
        return RT_OK;
    }
    w->found += rt_slice_copy(w->out->data, &w->part, t.data, &p->part, rt_dtype_size(w->dtype));
    rt_tensor_clear(&t);
    return RT_OK;
}

/* Copies the requested elements from the slices of one file. */
static enum rt_status gather(const struct rt_sstable_source *source, const slice_meta *m,
                             struct wanted *w, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < m->n_slice && !st; i++) {
        struct piece p = {.w = w};
        struct rt_slice stored;
        struct rt_bytes key;
        st = rt_checkpoint_run_check(w->run, err);
        if (st)
            return st;
        bool fits = rt_slice_from_proto(&stored, w->rank, m->slice[i]);
        p.part = stored;
        if (!fits || !rt_slice_resolve(&p.part, w->rank, w->dim))
            return rt_fail(err, RT_DATA_LOSS, "slice %zu lies outside of the tensor", i);
        if (!rt_slice_overlap(&p.part, &w->part))
            continue;
        if (w->dtype == RT_STRING &&
            rt_count(p.part.rank, p.part.length) != rt_count(w->rank, w->dim))
            return rt_fail(err, RT_UNIMPLEMENTED, "a tensor of strings in slices");
        rt_bytes_init(&key, 1 << 21);
        rt_slice_key(&key, rt_span_str(w->name), &stored);
        st = key.failed ? rt_fail_memory(err, "a key", key.n)
                        : rt_sstable_find(source, rt_span_of(key.p, key.n), take_piece, &p, err);
        rt_bytes_clear(&key);
        if (st == RT_NOT_FOUND)
            st = rt_fail(err, RT_DATA_LOSS, "slice %zu is listed, but not stored", i);
    }
    return st;
}

enum rt_status rt_checkpoint_v1_tensor(const struct rt_checkpoint_v1 *c, const char *name,
                                       struct rt_span slice, enum rt_dtype want,
                                       const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                       struct rt_error *err)
{
    struct rt_tensor t = {0};
    struct wanted w = {.name = name, .run = run, .out = &t};
    enum rt_status st;

    *out = (struct rt_tensor){0};
    st = describe(c, &w, err);
    if (st)
        return st;
    if (want != RT_NO_DTYPE && want != w.dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected to restore a tensor of type %s, got a tensor of type %s instead: "
                       "tensor_name = %s",
                       rt_dtype_name(want), rt_dtype_name(w.dtype), name);
    st = choose_part(&w, slice, err);
    if (!st && w.dtype == RT_STRING && rt_count(w.rank, w.part.length) != rt_count(w.rank, w.dim))
        st = rt_fail(err, RT_UNIMPLEMENTED, "tensor \"%s\": a part of strings", name);
    if (!st)
        st = rt_tensor_new(&t, rt_checkpoint_run_pool(run), w.dtype, w.rank, w.part.length, err);
    if (st)
        return st;
    int64_t n = rt_tensor_count(&t);
    if (n && w.dtype != RT_STRING)
        /* The slices of a corrupt list may leave gaps, so the tensor is zeroed first. */
        memset(t.data, 0, rt_tensor_bytes(&t));
    for (const struct place *p = rt_map_get(&c->by_name, name); p && n && !st; p = p->next) {
        struct rt_sstable_source source;
        int fd;
        st = source_open(&c->file[p->file], run, &source, &fd, err);
        if (!st)
            st = gather(&source, p->meta, &w, err);
        source_close(fd);
    }
    if (st)
        rt_fail_prefix(err, "tensor \"%s\" in %s: ", name, c->pattern);
    else if (w.found != n)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "Does not have sufficient slices for partitioned tensor %s to restore", name);
    if (st)
        rt_tensor_clear(&t);
    else
        *out = t;
    return st;
}
