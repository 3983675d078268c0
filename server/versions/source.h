/*
 * Reads a model's base path. Determines which versions the version policy selects, and whether the
 * files of a version have stopped changing. The caller polls these functions. File system events
 * only make the caller poll earlier.
 *
 * Threads: the functions have no state, so any thread may call them.
 */
#ifndef SRV_SOURCE_H
#define SRV_SOURCE_H

#include "runtime/core/buffer.h"
#include "server/config/config.h"

struct srv_found {
    int64_t version;
    const char *name; /* name of the version's directory, for example "00000123" */
    /* warning that other directories have the same version number, or NULL */
    const char *warning;
};

struct srv_scan {
    int n;                   /* number of elements of `found` */
    struct srv_found *found; /* the wanted versions, highest first */
    int n_there;             /* number of versions in the base path, including unwanted ones */
    int n_names;             /* number of files and directories in the base path */
    const char *warning;     /* warning that a requested version is missing, or NULL */
};

/*
 * Finds the versions of a model. Each child of the base path whose name is a decimal number is a
 * version. If several names have the same number, the alphabetically first name is used. Fails if
 * the base path cannot be read, but not if it is empty. Fails with RESOURCE_EXHAUSTED if the base
 * path contains more than `max_names` files and directories, because the time of a scan is
 * proportional to their number. The error message names the path and the model.
 */
enum { SRV_SCAN_MAX_NAMES = 65536 };
enum rt_status srv_source_scan(const struct srv_model_config *m, int max_names,
                               struct rt_arena *arena, struct srv_scan *out, struct rt_error *err);

/* Returns whether a directory of this name is a version, and sets *out to its number. */
bool srv_source_is_version(const char *name, int64_t *out);

/*
 * Returns the path of the directory that contains the SavedModel of a version, allocated by malloc.
 * Returns NULL if memory runs out. Usually, the path is that of the version's directory. If the
 * version's directory contains a directory model.savedmodel, as in Triton's repositories, but no
 * saved_model.pb, the path is that of model.savedmodel.
 */
char *srv_source_model_dir(const char *version_dir);
/* Calls srv_source_model_dir for the version's directory BASE_PATH/NAME. */
char *srv_source_version_dir(const char *base_path, const char *name);

/*
 * A hash of everything below a version's directory. It is computed from the sorted list of (path,
 * device, inode, size, modification time, change time). The version's directory itself may be a
 * symlink. Symlinks below it are resolved, but the entries of linked directories are not read.
 */
struct srv_fingerprint {
    uint64_t a, b;
    int64_t newest_ns; /* latest modification or status change of a file (wall clock) */
    int64_t bytes, n_files;
    /* hashes of the listing of the directory itself, and of the status of the config.pbtxt that
     * applies to it, which tell what has changed */
    uint64_t directory, triton;
};
/*
 * Computes the fingerprint of a version's directory. Fails with NOT_FOUND if the directory does not
 * exist, and with UNAVAILABLE if it cannot be read. Fails with INVALID_ARGUMENT if it contains more
 * than 50,000 files or is deeper than 16 directories. `check`, which may be NULL, is called at
 * every SRV_CHECK_FILES-th file. If `check` fails, its status is returned.
 */
enum { SRV_CHECK_FILES = 256 };
enum rt_status srv_source_fingerprint(const char *dir, const struct rt_check *check,
                                      struct srv_fingerprint *out, struct rt_error *err);
static inline bool srv_fingerprint_eq(const struct srv_fingerprint *x,
                                      const struct srv_fingerprint *y)
{
    return x->a == y->a && x->b == y->b;
}

/* Returns a hash of the status of the file config.pbtxt in a model's base path, or 0 if there is no
 * such file. Sets *bytes to the size of the file. */
uint64_t srv_source_triton_hash(const char *base_path, int64_t *bytes);

enum {
    /* A version is stable if two fingerprints taken SRV_STABLE_AFTER_MS apart are equal. */
    SRV_STABLE_AFTER_MS = 1000,
    /* A version is also stable if its newest file is older than SRV_STABLE_AGE_MS. */
    SRV_STABLE_AGE_MS = 3000,
};
/* Returns whether a version's files are stable. first_seen_ns is the monotonic time when
 * fingerprint `f` was first taken. now_ns is the current monotonic time, and wall_ns is the current
 * wall-clock time. */
bool srv_source_is_stable(const struct srv_fingerprint *f, int64_t first_seen_ns, int64_t now_ns,
                          int64_t wall_ns);

#endif
