/*
 * What timing found out: which kernel of a node is the fastest, by processor, op, attributes,
 * types and shapes. Remembered as long as the process lives and, with a file, beyond; several
 * servers may share the file.
 *
 * The file is text: a first line with its version, then lines of a key, a tab and a kernel's name.
 * It is input like any other: what is no such line is left out, a name that is none of a node's
 * kernels is not heeded, and sizes are bounded.
 *
 * Threads: any.
 */
#ifndef RT_AUTOTUNE_H
#define RT_AUTOTUNE_H

#include "runtime/base/span.h"
#include "runtime/core/op.h"

enum {
    RT_AUTOTUNE_KEY = 480, /* bytes of a key, its NUL among them */
    RT_AUTOTUNE_NAME = 64, /* of a kernel's name */
    RT_AUTOTUNE_MOST = 16384,
    /* A file of as many of the longest lines, a tab and a newline in each, behind the first. */
    RT_AUTOTUNE_FILE_BYTES = RT_AUTOTUNE_MOST * (RT_AUTOTUNE_KEY + RT_AUTOTUNE_NAME) + 64,
};

struct rt_autotune;
/* `path` NULL: no file. It is read now; one that is not there, or is no such file, is as an empty
 * one (which the log says of the latter). NULL: out of memory. */
struct rt_autotune *rt_autotune_new(const char *path);
void rt_autotune_free(struct rt_autotune *a); /* NULL is fine */
/* The same for a file that a user names: it is checked first. INVALID_ARGUMENT: it is no file for
 * this; one that cannot be written is warned of. */
enum rt_status rt_autotune_open(struct rt_autotune **out, const char *path, struct rt_error *err);
/*
 * Whether PATH (NULL or empty: fine) can be written now. INVALID_ARGUMENT: it is there and is
 * something else than an empty file or one of ours, of whatever version. Other errors: it cannot be
 * written, or not be read. In neither case does rt_autotune_save write it.
 */
enum rt_status rt_autotune_check_file(const char *path, struct rt_error *err);

/*
 * A node's key: printable, without blanks. `names` are those of the kernels to choose from. False:
 * attributes or a length that no key is made of.
 */
bool rt_autotune_key(const struct rt_prep *p, const char *const *names, int n_names,
                     char key[RT_AUTOTUNE_KEY]);
/* The kernel's name; empty: not known. */
void rt_autotune_find(struct rt_autotune *a, const char *key, char name[RT_AUTOTUNE_NAME]);
/* The oldest make room where too much is known. */
void rt_autotune_put(struct rt_autotune *a, const char *key, const char *name);
/* The file as it is now and what is known here, written if that is more than is in the file. One
 * server at a time does so, by a lock on the file PATH.lock, so that nothing is lost. */
enum rt_status rt_autotune_save(struct rt_autotune *a, struct rt_error *err);

/* Lines of a file into `a`: how many were taken. *bad: how many were left out; -1: it is no such
 * file. */
int rt_autotune_read(struct rt_autotune *a, struct rt_span text, int *bad);

/* A session's nodes whose kernels were timed, and the time it took; those that were known, and
 * those for which no time was left. */
struct rt_session;
struct rt_autotune_stats {
    int timed, remembered, untimed;
    int64_t ns;
};
struct rt_autotune_stats rt_autotune_stats(struct rt_session *s);

/* For tests: what a run is said to have taken instead of what the clock says. */

void rt_autotune_inject(struct rt_autotune *a,
                        int64_t (*clock)(void *arg, const struct rt_kernel *k, int64_t batch),
                        void *arg);
int64_t rt_autotune_time(struct rt_autotune *a, const struct rt_kernel *k, int64_t batch,
                         int64_t ns);

#endif
