#include "runtime/select/autotune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/files/file.h"
#include "runtime/core/op.h"

#define FIRST_LINE "slipway autotune 1\n"

/* The program waits for the file's lock for at most 2 s. Another process holds the lock only during
 * one write. */
enum { LOCK_TRIES = 200, LOCK_NS = 10000000 };

struct rt_autotune {
    char *path; /* path of the file, or NULL if the cache has no file */
    struct rt_mutex mu;
    /* maps keys to kernel names, which were allocated with malloc; guarded by mu */
    struct rt_map known;
    bool changed; /* whether entries were added since the last save; guarded by mu */
    int64_t (*clock)(void *arg, const struct rt_kernel *k, int64_t batch);
    void *clock_arg;
};

/* ---- entries ---- */

/* Returns whether the text has 1 to most - 1 characters, all printable and none a blank. Blanks,
 * tabs and newlines separate words and lines. */
static bool is_word(const char *p, size_t n, size_t most)
{
    if (!n || n >= most)
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] <= ' ' || p[i] > '~')
            return false;
    return true;
}

static void clear(struct rt_map *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->entry[i].value);
    rt_map_clear(m);
}

/* Drops all but the newest `most` entries. The map keeps the order of insertion. */
static void forget(struct rt_map *m, size_t most)
{
    struct rt_map left;
    size_t over = m->n_live > most ? m->n_live - most : 0;

    if (!over)
        return;
    rt_map_init(&left);
    for (size_t i = 0; i < m->n; i++) {
        struct rt_map_entry *e = &m->entry[i];
        if (!e->key || (over && over--) || !rt_map_putn(&left, e->key, e->key_len, e->value))
            continue;
        e->value = NULL;
    }
    clear(m);
    *m = left;
}

/* Sets an entry. Returns false if the map already has the same entry, or if memory runs out. */
static bool put(struct rt_map *m, const char *key, size_t n_key, const char *name, size_t n_name)
{
    char *old = rt_map_getn(m, key, n_key);

    if (old && strlen(old) == n_name && memcmp(old, name, n_name) == 0)
        return false;
    if (!old && m->n_live >= RT_AUTOTUNE_MOST)
        forget(m, RT_AUTOTUNE_MOST - RT_AUTOTUNE_MOST / 8);
    char *copy = malloc(n_name + 1); /* `name` need not be NUL-terminated */
    if (copy) {
        memcpy(copy, name, n_name);
        copy[n_name] = '\0';
    }
    if (!copy || !rt_map_putn(m, key, n_key, copy)) {
        free(copy);
        return false;
    }
    free(old);
    return true;
}

void rt_autotune_put(struct rt_autotune *a, const char *key, const char *name)
{
    rt_mutex_lock(&a->mu);
    a->changed |= put(&a->known, key, strlen(key), name, strlen(name));
    rt_mutex_unlock(&a->mu);
}

void rt_autotune_find(struct rt_autotune *a, const char *key, char name[RT_AUTOTUNE_NAME])
{
    rt_mutex_lock(&a->mu);
    const char *known = rt_map_get(&a->known, key);
    snprintf(name, RT_AUTOTUNE_NAME, "%s", known ? known : "");
    rt_mutex_unlock(&a->mu);
}

/* ---- the file ---- */

/* Merges the entries of the cache into those read from a file. The cache's entries count as newer:
 * they follow the file's entries and replace entries with equal keys. */
static void add_known(struct rt_map *file, struct rt_map *known)
{
    for (size_t i = 0; i < known->n; i++) {
        struct rt_map_entry *e = &known->entry[i];
        if (!e->key)
            continue;
        free(rt_map_get(file, e->key));
        rt_map_remove(file, e->key);
        if (rt_map_putn(file, e->key, e->key_len, e->value))
            e->value = NULL;
    }
    clear(known);
    *known = *file;
    forget(known, RT_AUTOTUNE_MOST);
}

/* Implements rt_autotune_read. Does not replace entries of the cache, because they are newer than
 * the entries of the file. */
static int read_locked(struct rt_autotune *a, struct rt_span text, int *bad) RT_REQUIRES(a->mu)
{
    const size_t n_first = sizeof FIRST_LINE - 1;
    const char *p = (const char *)text.p, *end = p + text.n;
    struct rt_map file;
    int taken = 0;

    *bad = 0;
    if (text.n < n_first || memcmp(p, FIRST_LINE, n_first) != 0) {
        *bad = -1;
        return 0;
    }
    rt_map_init(&file);
    for (p += n_first; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        /* A line without a newline is invalid, because a truncated file may end within a name. */
        const size_t n = (size_t)((stop ? stop : end) - p);
        const char *tab = memchr(p, '\t', n);
        const size_t n_key = tab ? (size_t)(tab - p) : 0;
        if (!stop || !tab || !is_word(p, n_key, RT_AUTOTUNE_KEY) ||
            !is_word(tab + 1, n - n_key - 1, RT_AUTOTUNE_NAME)) {
            ++*bad;
        } else {
            if (!rt_map_getn(&file, p, n_key))
                put(&file, p, n_key, tab + 1, n - n_key - 1);
            taken++;
        }
        p += n + (stop != NULL);
    }
    add_known(&file, &a->known);
    return taken;
}

int rt_autotune_read(struct rt_autotune *a, struct rt_span text, int *bad)
{
    rt_mutex_lock(&a->mu);
    const int taken = read_locked(a, text, bad);
    rt_mutex_unlock(&a->mu);
    return taken;
}

/* Adds the entries of the cache's file to the cache, and logs the file's errors. Sets *n to the
 * number of valid lines. */
static void read_file(struct rt_autotune *a, int *n) RT_REQUIRES(a->mu)
{
    struct rt_error err = {.arena = NULL};
    char *text = NULL;
    size_t size = 0;
    int bad = 0;

    *n = 0;
    const enum rt_status st = rt_file_read(a->path, RT_AUTOTUNE_FILE_BYTES, &text, &size, &err);
    if (st == RT_OK)
        *n = read_locked(a, rt_span_of(text, size), &bad);
    if (st && st != RT_NOT_FOUND)
        RT_LOG(RT_LOG_WARNING, "autotune_cache: %s", rt_error_text(&err));
    else if (bad < 0 && size)
        RT_LOG(RT_LOG_WARNING, "autotune_cache: %s is no file of this version, it is not used",
               a->path);
    else if (bad > 0)
        RT_LOG(RT_LOG_WARNING, "autotune_cache: %s: %d line%s not used", a->path, bad,
               bad == 1 ? " is" : "s are");
    free(text);
}

struct rt_autotune *rt_autotune_new(const char *path)
{
    struct rt_autotune *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    rt_mutex_init(&a->mu);
    rt_map_init(&a->known);
    if (path && *path && !(a->path = strdup(path))) {
        rt_autotune_free(a);
        return NULL;
    }
    if (a->path) {
        int n;
        rt_mutex_lock(&a->mu);
        read_file(a, &n);
        rt_mutex_unlock(&a->mu);
    }
    return a;
}

void rt_autotune_free(struct rt_autotune *a)
{
    if (!a)
        return;
    clear(&a->known);
    rt_mutex_clear(&a->mu);
    free(a->path);
    free(a);
}

/* Locks PATH.lock. The lock is held until *fd is closed. On a file system that does not support
 * locks, succeeds without a lock. */
static enum rt_status lock_file(const char *path, int *fd, struct rt_error *err)
{
    char name[4200];
    const int n = snprintf(name, sizeof name, "%s.lock", path);

    if (n < 0 || (size_t)n >= sizeof name)
        return rt_fail_errno(err, path, ENAMETOOLONG);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0)
        return rt_fail_errno(err, name, errno);
    for (int i = 0; flock(*fd, LOCK_EX | LOCK_NB); i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        if (i == LOCK_TRIES) {
            close(*fd);
            return rt_fail(err, RT_UNAVAILABLE, "%s: another process holds the lock", name);
        }
        nanosleep(&(struct timespec){.tv_nsec = LOCK_NS}, NULL);
    }
    return RT_OK;
}

static enum rt_status save_locked(struct rt_autotune *a, struct rt_error *err) RT_REQUIRES(a->mu)
{
    struct rt_bytes text;
    int in_file = 0, fd = -1;
    enum rt_status st = lock_file(a->path, &fd, err);

    if (st)
        return st;
    rt_bytes_init(&text, RT_AUTOTUNE_FILE_BYTES);
    read_file(a, &in_file); /* Another server may have added entries since the file was read. */
    rt_bytes_adds(&text, FIRST_LINE);
    for (size_t i = 0; i < a->known.n; i++)
        if (a->known.entry[i].key)
            rt_bytes_addf(&text, "%s\t%s\n", a->known.entry[i].key,
                          (const char *)a->known.entry[i].value);
    st = text.failed ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: out of memory", a->path)
                     : rt_file_write(a->path, text.p, text.n, err);
    close(fd);
    rt_bytes_clear(&text);
    return st;
}

enum rt_status rt_autotune_save(struct rt_autotune *a, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    if (!a->path)
        return RT_OK;
    rt_mutex_lock(&a->mu);
    if (a->changed) {
        /* Fails if the file is not an autotune cache or is not writable. */
        st = rt_autotune_check_file(a->path, err);
        if (!st)
            st = save_locked(a, err);
        a->changed = st != RT_OK;
    }
    rt_mutex_unlock(&a->mu);
    return st;
}

/* ---- keys ---- */

static const char *const feature_level[] = {
    [RT_VECTORS_BASE] = "base", [RT_VECTORS_AVX2] = "avx2", [RT_VECTORS_AVX512] = "avx512"};

static char processor_name[128];
static pthread_once_t processor_once = PTHREAD_ONCE_INIT;

static void read_processor(void)
{
    char line[512], *colon;
    FILE *f = fopen("/proc/cpuinfo", "re");

    snprintf(processor_name, sizeof processor_name, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && (colon = strchr(line, ':'))) {
            snprintf(processor_name, sizeof processor_name, "%.*s",
                     (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
                     colon + 1 + strspn(colon + 1, " "));
            break;
        }
    if (f)
        fclose(f);
    for (char *p = processor_name; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == ';')
            *p = '_';
}

struct key {
    char *p;
    size_t n;
    bool failed;
};

static void add(struct key *k, const char *text, size_t n)
{
    if (k->failed || n >= RT_AUTOTUNE_KEY - k->n) {
        k->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        k->p[k->n++] = c <= ' ' || c > '~' ? '?' : c;
    }
    k->p[k->n] = 0;
}

static void add_text(struct key *k, const char *text)
{
    add(k, text, strlen(text));
}

static void add_int(struct key *k, char before, int64_t v)
{
    char text[32];
    const int n = snprintf(text, sizeof text, "%c%lld", before, (long long)v);
    add(k, text, (size_t)n);
}

static void add_attr(struct key *k, const char *name, const struct rt_attr *a)
{
    add_text(k, ";");
    add_text(k, name);
    switch (a->type) {
    case RT_ATTR_STRING:
        add_text(k, "=");
        add(k, a->v.s, a->n);
        break;
    case RT_ATTR_INT:
        add_int(k, '=', a->v.i);
        break;
    case RT_ATTR_BOOL:
        add_int(k, '=', a->v.b);
        break;
    case RT_ATTR_TYPE:
        add_int(k, '=', a->v.t);
        break;
    case RT_ATTR_FLOAT: {
        uint32_t bits;
        memcpy(&bits, &a->v.f, sizeof bits);
        add_int(k, '=', bits);
        break;
    }
    case RT_ATTR_LIST + RT_ATTR_INT:
        for (size_t i = 0; i < a->n; i++)
            add_int(k, i ? ',' : '=', a->v.ints[i]);
        break;
    case RT_ATTR_NONE:
        break;
    default:
        k->failed = true;
    }
}

bool rt_autotune_key(const struct rt_prep *p, const char *const *names, int n_names,
                     char key[RT_AUTOTUNE_KEY])
{
    struct key k = {.p = key};
    const struct rt_node *n = p->node;
    uint64_t hash = 0;

    pthread_once(&processor_once, read_processor);
    add_text(&k, processor_name);
    add_text(&k, ";");
    add_text(&k, feature_level[rt_machine_vectors()]);
    add_text(&k, p->tuning->bf16 ? ";bf16;" : ";");
    add_text(&k, n->op->name);
    for (int i = 0; i < n->schema->n_attr; i++)
        add_attr(&k, n->schema->attr[i].name, &n->attr[i]);
    for (int i = 0; i < n->n_extra; i++)
        add_attr(&k, n->extra[i].name, &n->extra[i].value);
    for (int i = 0; i < p->n_in; i++) {
        add_text(&k, ";");
        add_text(&k, rt_dtype_name(p->in[i].dtype));
        for (int d = 0; d < p->in[i].shape.rank; d++)
            add_int(&k, d ? 'x' : ':', p->in[i].shape.dim[d]);
    }
    /* The kernels' names are part of the key, so that a release with other kernels times the node
     * again. */
    for (int i = 0; i < n_names; i++)
        hash = hash * 31 + rt_hash(names[i], strlen(names[i]));
    add_int(&k, ';', (int64_t)(hash & 0xffffff));
    return !k.failed;
}

/* ---- tests ---- */

void rt_autotune_inject(struct rt_autotune *a,
                        int64_t (*clock)(void *arg, const struct rt_kernel *k, int64_t batch),
                        void *arg)
{
    a->clock = clock;
    a->clock_arg = arg;
}

int64_t rt_autotune_time(struct rt_autotune *a, const struct rt_kernel *k, int64_t batch,
                         int64_t ns)
{
    return a && a->clock ? a->clock(a->clock_arg, k, batch) : ns;
}
