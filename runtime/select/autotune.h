/*
 * The autotune cache stores the fastest kernel of a node, as found by timing. An entry's key is
 * made from the processor and from the op, attributes, types and shapes of the node. The cache is
 * lost when the process ends, unless it has a file. Several servers may share the file.
 *
 * The file is text. Its first line contains the version of the format. Each further line contains a
 * key, a tab and the name of a kernel. The file is untrusted: invalid lines are skipped, unknown
 * names of kernels are ignored, and sizes are bounded.
 *
 * Owner: the caller of rt_autotune_new or rt_autotune_open; the cache outlives the sessions that
 * use it. Threads: any.
 */
#ifndef RT_AUTOTUNE_H
#define RT_AUTOTUNE_H

#include "runtime/base/span.h"
#include "runtime/core/kernel.h"

enum {
    RT_AUTOTUNE_KEY = 480, /* maximum size of a key in bytes, including its NUL */
    RT_AUTOTUNE_NAME = 64, /* maximum size of a kernel's name in bytes, including its NUL */
    RT_AUTOTUNE_MOST = 16384,
    /* The size of a file with RT_AUTOTUNE_MOST lines of the maximum length. */
    RT_AUTOTUNE_FILE_BYTES = RT_AUTOTUNE_MOST * (RT_AUTOTUNE_KEY + RT_AUTOTUNE_NAME) + 64,
};

struct rt_autotune;
/* Makes a cache and reads the file at `path`, unless `path` is NULL. A missing file is treated as
 * empty. A file that is not an autotune cache is treated as empty too, after a warning in the log.
 * Returns NULL if memory runs out. */
struct rt_autotune *rt_autotune_new(const char *path);
void rt_autotune_free(struct rt_autotune *a); /* does nothing if `a` is NULL */
/* Like rt_autotune_new, but for a path that a user has chosen. Checks the file first
 * (rt_autotune_check_file). Returns RT_INVALID_ARGUMENT or RT_FAILED_PRECONDITION if the file is
 * not an autotune cache. Logs a warning if the file cannot be written. */
enum rt_status rt_autotune_open(struct rt_autotune **out, const char *path, struct rt_error *err);
/*
 * Checks that the file `path` can be written. Returns RT_OK if `path` is NULL or empty. Returns
 * RT_INVALID_ARGUMENT if the file exists and is neither empty nor an autotune cache of any version,
 * RT_FAILED_PRECONDITION if `path` is not a regular file, and other errors if the file cannot be
 * written or read. rt_autotune_save does not write a file that fails this check.
 */
enum rt_status rt_autotune_check_file(const char *path, struct rt_error *err);

/*
 * Makes the key of a node. The key is printable and has no blanks. `names` are the names of the
 * candidate kernels. Returns false if the node has attributes of types that keys cannot represent,
 * or if the key would be too long.
 */
bool rt_autotune_key(const struct rt_prep *p, const char *const *names, int n_names,
                     char key[RT_AUTOTUNE_KEY]);
/* Sets `name` to the name of the kernel that is cached for the key, or to an empty string if there
 * is none. */
void rt_autotune_find(struct rt_autotune *a, const char *key, char name[RT_AUTOTUNE_NAME]);
/* Adds or replaces an entry. If the cache is full, the oldest eighth of its entries is dropped
 * before a new entry is added. */
void rt_autotune_put(struct rt_autotune *a, const char *key, const char *name);
/* Merges the cache's entries with those now in the file PATH, and writes the file. Does nothing if
 * the cache has no new entries since the last save. The file PATH.lock is locked during the call,
 * so that no entries are lost if several servers share the file. */
enum rt_status rt_autotune_save(struct rt_autotune *a, struct rt_error *err);

/* Adds the entries of a file that has been read into `text`, and returns the number of valid lines.
 * Sets *bad to the number of invalid lines, or to -1 if the text is not an autotune file of this
 * version. */
int rt_autotune_read(struct rt_autotune *a, struct rt_span text, int *bad);

/* Statistics of a session: how many nodes were timed, were found in the cache, or were not timed
 * because no time was left, and how long timing took, in ns. */
struct rt_session;
struct rt_autotune_stats {
    int timed, remembered, untimed;
    int64_t ns;
};
struct rt_autotune_stats rt_autotune_stats(struct rt_session *s);

/* rt_autotune_inject sets a clock for tests. rt_autotune_time then returns this clock's time
 * instead of the measured `ns`. */

void rt_autotune_inject(struct rt_autotune *a,
                        int64_t (*clock)(void *arg, const struct rt_kernel *k, int64_t batch),
                        void *arg);
int64_t rt_autotune_time(struct rt_autotune *a, const struct rt_kernel *k, int64_t batch,
                         int64_t ns);

#endif
