/*
 * What lies in a model's base path: which versions its policy wants, and whether a version's files
 * have come to rest. Polling is the truth here; whoever calls decides when.
 *
 * Threads: no state; call from anywhere.
 */
#ifndef SRV_SOURCE_H
#define SRV_SOURCE_H

#include "server/config/config.h"

struct srv_found {
    int64_t version;
    const char *name; /* of its directory: "00000123" */
};

struct srv_scan {
    int n; /* the wanted versions, highest first */
    struct srv_found *found;
    int n_there;         /* versions there, wanted or not */
    const char *warning; /* a sentence, or NULL: an asked-for version is missing, one is twice */
};

/*
 * Children of the base path whose names are decimal numbers are versions; of several names of one
 * number the first in the alphabet counts. Fails (the text names path and model) when the base
 * path cannot be read: that is not the same as being empty.
 */
enum rt_status srv_source_scan(const struct srv_model_config *m, struct rt_arena *arena,
                               struct srv_scan *out, struct rt_error *err);

/*
 * Stands for the sorted list of (path, device, inode, size, modification and change time) of
 * everything below a version's directory. The directory itself may be a link; below it links are
 * resolved, but those to directories are not walked into.
 */
struct srv_fingerprint {
    uint64_t a, b;
    int64_t newest_ns; /* wall clock: the latest modification or change */
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
    SRV_STABLE_AFTER_MS = 1000, /* the same fingerprint twice so far apart, */
    SRV_STABLE_AGE_MS = 3000,   /* or nothing newer than this */
};
/* first_seen_ns: when this fingerprint was first taken, now_ns: now (both monotonic); wall_ns: the
 * wall clock now. */
bool srv_source_is_stable(const struct srv_fingerprint *f, int64_t first_seen_ns, int64_t now_ns,
                          int64_t wall_ns);

#endif
