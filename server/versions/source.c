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
#include "server/triton/triton.h"

enum {
    /* Limits of a version's directory. A directory that exceeds them is refused. */
    MAX_DEPTH = 16,
    MAX_FILES = 50000,
};

/* ---- versions ---- */

char *srv_source_model_dir(const char *version_dir)
{
    static const char nested[] = "/model.savedmodel", plain[] = "/saved_model.pb";
    const size_t n = strlen(version_dir);
    char *dir = malloc(n + sizeof nested);
    struct stat s;

    if (!dir)
        return NULL;
    snprintf(dir, n + sizeof nested, "%s%s", version_dir, nested);
    if (stat(dir, &s) == 0 && S_ISDIR(s.st_mode)) {
        memcpy(dir + n, plain, sizeof plain);
        if (stat(dir, &s) != 0) {
            memcpy(dir + n, nested, sizeof nested);
            return dir;
        }
    }
    dir[n] = '\0';
    return dir;
}

char *srv_source_version_dir(const char *base_path, const char *name)
{
    const size_t n = strlen(base_path) + 1 + strlen(name) + 1;
    char *path = malloc(n);

    if (!path)
        return NULL;
    snprintf(path, n, "%s/%s", base_path, name);
    char *dir = srv_source_model_dir(path);
    free(path);
    return dir;
}

bool srv_source_is_version(const char *name, int64_t *out)
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

static bool contains(const int64_t *sorted, int n, int64_t version)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (sorted[mid] > version)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && sorted[low] == version;
}

static int descending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* `specific` contains the versions that the policy names, in descending order. */
static bool is_wanted(const struct srv_model_config *m, const int64_t *specific, int64_t version,
                      int rank)
{
    if (m->policy == SRV_POLICY_LATEST)
        return rank < m->n_latest;
    return m->policy == SRV_POLICY_ALL || contains(specific, m->n_specific, version);
}

static bool is_found(const struct srv_scan *s, int64_t version)
{
    int low = 0, high = s->n;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (s->found[mid].version > version)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->n && s->found[low].version == version;
}

static const char *missing_warning(const struct srv_model_config *m, const struct srv_scan *s,
                                   struct rt_arena *arena)
{
    if (m->policy != SRV_POLICY_SPECIFIC)
        return NULL;
    if (!m->n_specific)
        return rt_arena_printf(arena, "model %s: the version policy asks for no version at all",
                               m->name);
    for (int i = 0; i < m->n_specific; i++)
        if (!is_found(s, m->specific[i]))
            return rt_arena_printf(arena,
                                   "Version %lld of servable %s, which was requested to be served "
                                   "as a 'specific' version in the servable's version policy, was "
                                   "not found under base path %s",
                                   (long long)m->specific[i], m->name, m->base_path);
    return NULL;
}

static enum rt_status cannot_scan(const struct srv_model_config *m, struct rt_error *err)
{
    return rt_fail(err, RT_UNAVAILABLE, "Could not read base path %s for servable %s: %s",
                   m->base_path, m->name, strerror(errno));
}

/* Sets *all to the versions in a base path, in any order. The caller must free() *all. */
static enum rt_status read_versions(const struct srv_model_config *m, DIR *dir, int max_names,
                                    struct rt_arena *arena, struct srv_found **all, int *n,
                                    int *n_names, struct rt_error *err)
{
    int capacity = 0;
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)); errno = 0) {
        int64_t version;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if ((*n_names)++ == max_names)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "base path %s of servable %s: more than %d files and directories",
                           m->base_path, m->name, max_names);
        if (!srv_source_is_version(e->d_name, &version))
            continue;
        if (*n == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            void *grown = realloc(*all, (size_t)capacity * sizeof(**all));
            if (!grown)
                return rt_fail_memory(err, "a list of versions", 0);
            *all = grown;
        }
        (*all)[*n] = (struct srv_found){version, rt_arena_strdup(arena, e->d_name), NULL};
        if (!(*all)[(*n)++].name)
            return rt_fail_memory(err, "a list of versions", 0);
    }
    return errno ? cannot_scan(m, err) : RT_OK;
}

/* Selects the wanted versions from all n versions, which are sorted. */
static enum rt_status choose(const struct srv_model_config *m, struct srv_found *all, int n,
                             struct rt_arena *arena, struct srv_scan *out, struct rt_error *err)
{
    const size_t n_specific = m->policy == SRV_POLICY_SPECIFIC ? (size_t)m->n_specific : 0;
    int64_t *specific = rt_arena_array(arena, n_specific + 1, sizeof *specific);
    out->found = rt_arena_array(arena, (size_t)n + 1, sizeof *all);
    if (!out->found || !specific)
        return rt_fail_memory(err, "a list of versions", 0);
    if (n_specific) {
        memcpy(specific, m->specific, n_specific * sizeof *specific);
        qsort(specific, n_specific, sizeof *specific, descending);
    }
    for (int i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && all[i + same].version == all[i].version; same++)
            ;
        if (!is_wanted(m, specific, all[i].version, out->n_there++))
            continue;
        if (same > 1)
            all[i].warning = rt_arena_printf(
                arena, "model %s: %d directories are one version, %lld; %s/%s is used, not %s",
                m->name, same, (long long)all[i].version, m->base_path, all[i].name,
                all[i + 1].name);
        out->found[out->n++] = all[i];
    }
    out->warning = missing_warning(m, out, arena);
    return RT_OK;
}

enum rt_status srv_source_scan(const struct srv_model_config *m, int max_names,
                               struct rt_arena *arena, struct srv_scan *out, struct rt_error *err)
{
    memset(out, 0, sizeof *out);
    DIR *dir = opendir(m->base_path);
    if (!dir && rt_errno_is_absence(errno))
        return rt_fail(err, RT_NOT_FOUND, "Could not find base path %s for servable %s",
                       m->base_path, m->name);
    if (!dir)
        return cannot_scan(m, err);
    struct srv_found *all = NULL;
    int n = 0;
    enum rt_status st = read_versions(m, dir, max_names, arena, &all, &n, &out->n_names, err);
    closedir(dir);
    if (!st && n)
        qsort(all, (size_t)n, sizeof *all, highest_first);
    if (!st)
        st = choose(m, all, n, arena, out, err);
    free(all);
    return st;
}

/* ---- fingerprints ---- */

struct walk {
    struct rt_bytes lines; /* the text to hash: one line per entry, in sorted order */
    struct srv_fingerprint *out;
    /* length of the path of the version's directory, a prefix of every entry's path */
    size_t root;
    const struct rt_check *check; /* a failed check ends the listing early; may be NULL */
    struct rt_error *err;
};

/* Returns a file's timestamp in nanoseconds, limited to the range of int64_t. */
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
 * permits. A directory that no longer exists has no entries. */
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
 * Reads the status of `path`, following symlinks. On failure, returns false and sets errno; ENOENT
 * means that the path no longer exists. *descends is set if `path` is a directory whose entries
 * must be read. The entries of a linked directory are not read. If the target of the link is inside
 * the version, the entries are read under the target's own path. Otherwise the entries do not
 * belong to the version.
 */
static bool look(const char *path, int depth, struct stat *s, bool *descends)
{
    struct stat target;

    if (depth ? lstat(path, s) : stat(path, s))
        return false;
    bool is_link = S_ISLNK(s->st_mode);
    /* For a dangling symlink, *s is the status of the symlink itself. Most dangling symlinks do not
     * affect the model. */
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
    if (w->out->n_files % SRV_CHECK_FILES == 0 && w->check &&
        w->check->check(w->check->arg, w->err))
        return w->err->code;
    rt_bytes_addf(&w->lines, "%s %llx %llx %lld %lld %lld\n", path + w->root,
                  (unsigned long long)s.st_dev, (unsigned long long)s.st_ino, (long long)s.st_size,
                  (long long)modified, (long long)changed);
    w->out->bytes += S_ISREG(s.st_mode) ? s.st_size : 0;
    return descends ? walk_into(w, path, depth) : RT_OK;
}

/* Appends a line about the file config.pbtxt in the base path that is the first n bytes of
 * `base_path`. Returns whether there is such a file. */
static bool add_triton(struct walk *w, const char *base_path, size_t n, int64_t *bytes)
{
    char path[4096];
    struct stat s;

    if ((size_t)snprintf(path, sizeof path, "%.*s/" SRV_TRITON_FILE, (int)n, base_path) >=
            sizeof path ||
        stat(path, &s))
        return false;
    const int64_t modified = time_ns(s.st_mtim), changed = time_ns(s.st_ctim);
    const int64_t newest = modified > changed ? modified : changed;
    if (newest > w->out->newest_ns)
        w->out->newest_ns = newest;
    *bytes = s.st_size;
    rt_bytes_addf(&w->lines, SRV_TRITON_FILE " %llx %llx %lld %lld %lld\n",
                  (unsigned long long)s.st_dev, (unsigned long long)s.st_ino, (long long)s.st_size,
                  (long long)modified, (long long)changed);
    return true;
}

uint64_t srv_source_triton_hash(const char *base_path, int64_t *bytes)
{
    struct srv_fingerprint f = {0};
    struct walk w = {.out = &f};
    uint64_t hash = 0;

    *bytes = 0;
    rt_bytes_init(&w.lines, 4096);
    if (add_triton(&w, base_path, strlen(base_path), bytes) && !w.lines.failed)
        hash = rt_hash(w.lines.p, w.lines.n) | 1;
    rt_bytes_clear(&w.lines);
    return hash;
}

enum rt_status srv_source_fingerprint(const char *dir, const struct rt_check *check,
                                      struct srv_fingerprint *out, struct rt_error *err)
{
    struct walk w = {.out = out, .root = strlen(dir), .check = check, .err = err};
    memset(out, 0, sizeof *out);
    rt_bytes_init(&w.lines, (size_t)256 << 20);
    enum rt_status st = walk(&w, dir, 0);
    const size_t n_base = srv_triton_base_length(dir);
    const size_t n_listing = w.lines.n;
    int64_t bytes;
    if (n_base) /* config.pbtxt applies to the version (server/triton) */
        add_triton(&w, dir, n_base, &bytes);
    if (!st && w.lines.failed)
        st = rt_fail_memory(err, "a fingerprint", w.lines.n);
    if (!st) {
        out->a = rt_hash(w.lines.p, w.lines.n);
        out->directory = rt_hash(w.lines.p, n_listing);
        out->triton = rt_hash(w.lines.p + n_listing, w.lines.n - n_listing);
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
