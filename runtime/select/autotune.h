/*
 * The autotune cache: the fastest kernel of a node, found by timing, for each key of processor, op,
 * attributes, types and shapes. It lives as long as the process and, with a file, longer; several
 * servers may share the file.
 *
 * The file is text: a first line with its version, then lines of a key, a tab and a kernel's name.
 * It is untrusted input: other lines are skipped, a name that no kernel of the node has is ignored,
 * and sizes are bounded.
 *
 * Owner: the caller of rt_autotune_new or rt_autotune_open; the cache outlives the sessions that
 * use it. Threads: any.
 */
#ifndef RT_AUTOTUNE_H
#define RT_AUTOTUNE_H

#include "runtime/base/span.h"
#include "runtime/core/kernel.h"

enum {
    RT_AUTOTUNE_KEY = 480, /* bytes of a key, with its NUL */
    RT_AUTOTUNE_NAME = 64, /* bytes of a kernel's name, with its NUL */
    RT_AUTOTUNE_MOST = 16384,
    /* entries */ /* entries */
    /* The size of a file with RT_AUTOTUNE_MOST lines of the greatest length. */
    RT_AUTOTUNE_FILE_BYTES = RT_AUTOTUNE_MOST * (RT_AUTOTUNE_KEY + RT_AUTOTUNE_NAME) + 64,
};

struct rt_autotune;
/* Makes a cache and reads the file at `path` (NULL: no file). A missing file counts as an empty
 * one, and so does a file that is not an autotune cache, of which the log warns. NULL: out of
 * memory. */
struct rt_autotune *rt_autotune_new(const char *path);
void rt_autotune_free(struct rt_autotune *a); /* NULL is fine */
/* As rt_autotune_new, for a file that a user names, which is checked first
 * (rt_autotune_check_file). RT_INVALID_ARGUMENT, RT_FAILED_PRECONDITION: it is another kind of
 * file. If the file cannot be written, the log warns. */
enum rt_status rt_autotune_open(struct rt_autotune **out, const char *path, struct rt_error *err);
/*
 * Checks that PATH (NULL or empty: RT_OK) can be written now. RT_INVALID_ARGUMENT: a file exists
 * that is neither empty nor an autotune cache of any version. RT_FAILED_PRECONDITION: it is not a
 * regular file. Other errors: it cannot be written or read. After any error rt_autotune_save does
 * not write.
 */
enum rt_status rt_autotune_check_file(const char *path, struct rt_error *err);

/*
 * The key of a node: printable, without blanks. `names`: the kernels to choose from. False: the
 * node has attributes of types that keys do not hold, or the key would be too long.
 */
bool rt_autotune_key(const struct rt_prep *p, const char *const *names, int n_names,
                     char key[RT_AUTOTUNE_KEY]);
/* The kernel's name for a key; empty: the cache has no entry. */
void rt_autotune_find(struct rt_autotune *a, const char *key, char name[RT_AUTOTUNE_NAME]);
/* Adds or replaces an entry. A full cache first drops an eighth of its entries, the oldest. */
void rt_autotune_put(struct rt_autotune *a, const char *key, const char *name);
/* Merges the file's present entries with those of the cache and writes the file, if the cache has
 * entries since the last save. The file PATH.lock is locked meanwhile, so that servers which share
 * the file lose nothing. */
enum rt_status rt_autotune_save(struct rt_autotune *a, struct rt_error *err);

/* Adds the entries in the text of a file, and returns the number of valid lines. *bad: the number
 * of invalid lines; -1: it is not an autotune file of this version. */
int rt_autotune_read(struct rt_autotune *a, struct rt_span text, int *bad);

/* Statistics of a session: nodes whose kernels were timed, and the time that took; nodes whose
 * kernel was in the cache; and nodes for which no time was left. */
struct rt_session;
struct rt_autotune_stats {
    int timed, remembered, untimed;
    int64_t ns;
};
struct rt_autotune_stats rt_autotune_stats(struct rt_session *s);

/* For tests: `clock` replaces the measured times. rt_autotune_time returns its time, or `ns`. */

void rt_autotune_inject(struct rt_autotune *a,
                        int64_t (*clock)(void *arg, const struct rt_kernel *k, int64_t batch),
                        void *arg);
int64_t rt_autotune_time(struct rt_autotune *a, const struct rt_kernel *k, int64_t batch,
                         int64_t ns);

#endif
