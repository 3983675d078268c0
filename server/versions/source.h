/*
 * Reads a model's base path: which versions the version policy wants, and whether the files of a
 * version have come to rest. The caller polls these functions; file system events only make it poll
 * earlier.
 *
 * Threads: no state; any thread.
 */
#ifndef SRV_SOURCE_H
#define SRV_SOURCE_H

#include "server/config/config.h"

struct srv_found {
    int64_t version;
    const char *name; /* name of its directory, as "00000123" */
};

struct srv_scan {
    int n; /* the wanted versions, highest first */
    struct srv_found *found;
    int n_there; /* number of versions in the base path, wanted or not */
    /* a sentence, or NULL: a requested version is missing, or one exists twice */
    const char *warning;
};

/*
 * Finds the versions: children of the base path whose names are decimal numbers. Of several names
 * for one number the alphabetically first one counts. Fails (the text names path and model) when
 * the base path cannot be read, which is not the same as an empty one.
 */
enum rt_status srv_source_scan(const struct srv_model_config *m, struct rt_arena *arena,
                               struct srv_scan *out, struct rt_error *err);

/*
 * Hash of the sorted list of (path, device, inode, size, modification and change time) of
 * everything below a version's directory. The directory itself may be a link. Links below it are
 * resolved, but links to directories are not followed.
 */
struct srv_fingerprint {
    uint64_t a, b;
    int64_t newest_ns; /* wall clock time of the latest modification or change */
    int64_t bytes, n_files;
};
/*
 * NOT_FOUND: there is no such directory. UNAVAILABLE: it cannot be read. INVALID_ARGUMENT: more
 * than 50,000 files, deeper than 16 directories, or listing it takes more than 5 seconds.
 */
enum rt_status srv_source_fingerprint(const char *dir, struct srv_fingerprint *out,
                                      struct rt_error *err);
static inline bool srv_fingerprint_eq(const struct srv_fingerprint *x,
                                      const struct srv_fingerprint *y)
{
    return x->a == y->a && x->b == y->b;
}

enum {
    /* A version is stable when the same fingerprint was taken twice at this distance in time. */
    SRV_STABLE_AFTER_MS = 1000,
    /* It is also stable when none of its files is newer than this. */
    SRV_STABLE_AGE_MS = 3000,
};
/* first_seen_ns: when this fingerprint was first taken; now_ns: the present (both monotonic);
 * wall_ns: the present by the wall clock. */
bool srv_source_is_stable(const struct srv_fingerprint *f, int64_t first_seen_ns, int64_t now_ns,
                          int64_t wall_ns);

#endif
