#include "server/versions/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/bytes.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/map.h"
#include "runtime/base/regular_file.h"
#include "server/base/number.h"

enum {
    MAX_VERSIONS = 100000,
    /* Limits of a version's directory; a directory that exceeds them is refused. */
    MAX_DEPTH = 16,
    MAX_FILES = 50000,
    MAX_SECONDS = 5,
};

/* ---- versions ---- */

static bool is_version(const char *name, int64_t *out)
{
    return name[0] >= '0' && name[0] <= '9' && srv_parse_int64(name, strlen(name), out);
}

static int highest_first(const void *a, const void *b)
{
    const struct srv_found *x = a, *y = b;
    if (x->version != y->version)
        return x->version < y->version ? 1 : -1;
    return strcmp(x->name, y->name);
}

static bool is_wanted(const struct srv_model_config *m, int64_t version, int rank)
{
    if (m->policy == SRV_POLICY_LATEST)
        return rank < m->n_latest;
    if (m->policy == SRV_POLICY_ALL)
        return true;
    for (int i = 0; i < m->n_specific; i++)
        if (m->specific[i] == version)
            return true;
    return false;
}

static const char *missing_warning(const struct srv_model_config *m, const struct srv_scan *s,
                                   struct rt_arena *arena)
{
    if (m->policy != SRV_POLICY_SPECIFIC)
        return NULL;
    if (!m->n_specific)
        return rt_arena_printf(arena, "model %s: the version policy asks for no version at all",
                               m->name);
    for (int i = 0; i < m->n_specific; i++) {
        bool there = false;
        for (int k = 0; k < s->n; k++)
            there = there || s->found[k].version == m->specific[i];
        if (!there)
            return rt_arena_printf(arena,
                                   "Version %lld of servable %s, which was requested to be served "
                                   "as a 'specific' version in the servable's version policy, was "
                                   "not found under base path %s",
                                   (long long)m->specific[i], m->name, m->base_path);
    }
    return NULL;
}

enum rt_status srv_source_scan(const struct srv_model_config *m, struct rt_arena *arena,
                               struct srv_scan *out, struct rt_error *err)
{
    memset(out, 0, sizeof *out);
    DIR *dir = opendir(m->base_path);
    if (!dir && rt_errno_is_absence(errno))
        return rt_fail(err, RT_NOT_FOUND, "Could not find base path %s for servable %s",
                       m->base_path, m->name);
    if (!dir)
        return rt_fail(err, RT_UNAVAILABLE, "Could not read base path %s for servable %s: %s",
                       m->base_path, m->name, strerror(errno));
    struct srv_found *all = NULL;
    int n = 0, capacity = 0;
    enum rt_status st = RT_OK;
    errno = 0;
    for (struct dirent *e; !st && (e = readdir(dir)); errno = 0) {
        int64_t version;
        if (!is_version(e->d_name, &version))
            continue;
        if (n == capacity) {
            int more = capacity ? capacity * 2 : 16;
            void *grown = more <= MAX_VERSIONS ? realloc(all, (size_t)more * sizeof *all) : NULL;
            if (!grown) {
                st = rt_fail(err, RT_RESOURCE_EXHAUSTED,
                             "base path %s of servable %s: more than %d versions", m->base_path,
                             m->name, n);
                break;
            }
            all = grown;
            capacity = more;
        }
        all[n].version = version;
        all[n].name = rt_arena_strdup(arena, e->d_name);
        if (!all[n++].name)
            st = rt_fail_memory(err, "a list of versions", 0);
    }
    if (!st && errno)
        st = rt_fail(err, RT_UNAVAILABLE, "Could not read base path %s for servable %s: %s",
                     m->base_path, m->name, strerror(errno));
    closedir(dir);
    out->found = st ? NULL : rt_arena_array(arena, (size_t)n + 1, sizeof *all);
    if (st || !out->found) {
        free(all);
        return st ? st : rt_fail_memory(err, "a list of versions", 0);
    }
    if (n)
        qsort(all, (size_t)n, sizeof *all, highest_first);
    for (int i = 0; i < n; i++) {
        if (i && all[i].version == all[i - 1].version) {
            out->warning = rt_arena_printf(arena, "model %s: %s/%s and %s are one version", m->name,
                                           m->base_path, all[i].name, all[i - 1].name);
            continue;
        }
        if (is_wanted(m, all[i].version, out->n_there++))
            out->found[out->n++] = all[i];
    }
    free(all);
    if (!out->warning)
        out->warning = missing_warning(m, out, arena);
    return RT_OK;
}

/* ---- fingerprints ---- */

struct walk {
    struct rt_bytes lines; /* the text to hash, with one line per entry, in sorted order */
    struct srv_fingerprint *out;
    /* length of the path of the version's directory; the path of every entry begins with this path
     */
    size_t root;
    int64_t end_ns; /* time on the monotonic clock after which the walk of the directory fails */
    struct rt_error *err;
};

/* Returns a file's timestamp in nanoseconds. The value is saturated, because a timestamp may exceed
 * the range of int64_t. */
static int64_t time_ns(struct timespec t)
{
    return rt_add_saturated(rt_mul_saturated(t.tv_sec, 1000000000), t.tv_nsec);
}

static enum rt_status cannot_read(const struct walk *w, const char *path)
{
    return rt_fail(w->err, errno == ENOENT ? RT_NOT_FOUND : RT_UNAVAILABLE, "%s: %s", path,
                   strerror(errno));
}

static enum rt_status too_many(const struct walk *w, const char *path)
{
    return rt_fail(w->err, RT_INVALID_ARGUMENT, "%.*s: more than %d files and directories",
                   (int)w->root, path, MAX_FILES);
}

struct names {
    char **name;
    int n, capacity;
};

static void names_clear(struct names *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->name[i]);
    free(list->name);
}

static bool names_add(struct names *list, const char *name)
{
    if (list->n == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 16;
        char **more = realloc(list->name, (size_t)capacity * sizeof *more);
        if (!more)
            return false;
        list->name = more;
        list->capacity = capacity;
    }
    list->name[list->n] = strdup(name);
    return list->name[list->n] && ++list->n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the entries of a directory in sorted order. Fails if there are more entries than MAX_FILES
 * permits. A directory that has disappeared in the meantime has no entries. */
static enum rt_status list(struct walk *w, const char *path, int depth, struct names *out)
{
    DIR *dir = opendir(path);
    enum rt_status st = RT_OK;

    if (!dir)
        return depth && errno == ENOENT ? RT_OK : cannot_read(w, path);
    errno = 0;
    for (struct dirent *e; !st && (e = readdir(dir)); errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (w->out->n_files + out->n >= MAX_FILES)
            st = too_many(w, path);
        else if (!names_add(out, e->d_name))
            st = rt_fail_memory(w->err, "a list of files", 0);
    }
    if (!st && errno)
        st = cannot_read(w, path);
    closedir(dir);
    if (!st && out->n)
        qsort(out->name, (size_t)out->n, sizeof *out->name, by_name);
    return st;
}

/*
 * Reads the status of `path`, following symlinks. Returns false and sets errno on failure; ENOENT
 * means that the path has disappeared. *descends is set if `path` is a directory whose entries must
 * be read. The entries of a linked directory are not read. If its target is inside the version, the
 * entries are found by the target's own path (Kubernetes' ..data symlink points to a directory
 * beside the symlink, and a new target has another inode). A target outside or above the version
 * does not belong to the version.
 */
static bool look(const char *path, int depth, struct stat *s, bool *descends)
{
    struct stat target;

    if (depth ? lstat(path, s) : stat(path, s))
        return false;
    bool is_link = S_ISLNK(s->st_mode);
    /* A dangling symlink has the status of the symlink itself. Most dangling symlinks do not affect
     * the model. */
    if (is_link && stat(path, &target) == 0)
        *s = target;
    *descends = !is_link && S_ISDIR(s->st_mode);
    return true;
}

static enum rt_status walk(struct walk *w, const char *path, int depth);

static enum rt_status walk_into(struct walk *w, const char *path, int depth)
{
    struct names names = {0};
    enum rt_status st;

    if (depth == MAX_DEPTH)
        return rt_fail(w->err, RT_INVALID_ARGUMENT, "%s: deeper than %d directories", path,
                       MAX_DEPTH);
    st = list(w, path, depth, &names);
    for (int i = 0; i < names.n && !st; i++) {
        size_t capacity = strlen(path) + strlen(names.name[i]) + 2;
        char *child = malloc(capacity);
        if (!child) {
            st = rt_fail_memory(w->err, "a path", capacity);
            break;
        }
        snprintf(child, capacity, "%s/%s", path, names.name[i]);
        st = walk(w, child, depth + 1);
        free(child);
    }
    names_clear(&names);
    return st;
}

static enum rt_status walk(struct walk *w, const char *path, int depth)
{
    struct stat s;
    bool descends;

    if (!look(path, depth, &s, &descends))
        return depth && errno == ENOENT ? RT_OK : cannot_read(w, path);
    int64_t modified = time_ns(s.st_mtim), changed = time_ns(s.st_ctim);
    int64_t newest = modified > changed ? modified : changed;
    if (newest > w->out->newest_ns)
        w->out->newest_ns = newest;
    if (++w->out->n_files > MAX_FILES)
        return too_many(w, path);
    if (w->out->n_files % 256 == 0 && rt_now_ns() > w->end_ns)
        return rt_fail(w->err, RT_INVALID_ARGUMENT,
                       "%.*s: its files could not be listed within %d seconds", (int)w->root, path,
                       MAX_SECONDS);
    rt_bytes_addf(&w->lines, "%s %llx %llx %lld %lld %lld\n", path + w->root,
                  (unsigned long long)s.st_dev, (unsigned long long)s.st_ino, (long long)s.st_size,
                  (long long)modified, (long long)changed);
    w->out->bytes += S_ISREG(s.st_mode) ? s.st_size : 0;
    return descends ? walk_into(w, path, depth) : RT_OK;
}

enum rt_status srv_source_fingerprint(const char *dir, struct srv_fingerprint *out,
                                      struct rt_error *err)
{
    struct walk w = {.out = out,
                     .root = strlen(dir),
                     .end_ns = rt_now_ns() + (int64_t)MAX_SECONDS * 1000000000,
                     .err = err};
    memset(out, 0, sizeof *out);
    rt_bytes_init(&w.lines, (size_t)256 << 20);
    enum rt_status st = walk(&w, dir, 0);
    if (!st && w.lines.failed)
        st = rt_fail_memory(err, "a fingerprint", w.lines.n);
    if (!st) {
        out->a = rt_hash(w.lines.p, w.lines.n);
        out->b = ((uint64_t)w.lines.n << 32) | rt_crc32c(0, w.lines.p, w.lines.n);
    }
    rt_bytes_clear(&w.lines);
    return st;
}

bool srv_source_is_stable(const struct srv_fingerprint *f, int64_t first_seen_ns, int64_t now_ns,
                          int64_t wall_ns)
{
    return now_ns - first_seen_ns >= (int64_t)SRV_STABLE_AFTER_MS * 1000000 ||
           wall_ns - f->newest_ns > (int64_t)SRV_STABLE_AGE_MS * 1000000;
}
