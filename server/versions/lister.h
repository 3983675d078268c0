/*
 * Lists directories with many files, or on slow file systems, on a separate thread, so that the
 * manager's thread does not wait for them. The thread lists one directory at a time. A listing has
 * a limit on the number of files (source.h), but no time limit, because the duration depends more
 * on the machine than on the directory.
 *
 * Threads: all functions must be called on the manager's thread. `done` is called on the lister's
 * thread.
 */
#ifndef SRV_LISTER_H
#define SRV_LISTER_H

#include "server/versions/source.h"

struct srv_listing {
    char *model, *dir; /* copies that srv_listing_clear frees */
    int64_t version;
    int64_t begun_ns; /* monotonic time */
    enum rt_status status;
    struct rt_error err;
    struct srv_fingerprint seen;
    int64_t ns, cpu_ns; /* elapsed time and processor time of the listing */
};
void srv_listing_clear(struct srv_listing *listing);

struct srv_lister;
/* `done` is called after each listing. Returns NULL if memory runs out or no thread can be
 * started. */
struct srv_lister *srv_lister_new(void (*done)(void *arg), void *arg);
/* Begins to list the directory `dir` of a version. Returns false if memory runs out. The lister
 * must be idle. */
bool srv_lister_begin(struct srv_lister *l, const char *model, int64_t version, const char *dir);
/* Returns whether a listing has ended, and moves it to *out. Then the lister is idle. */
bool srv_lister_take(struct srv_lister *l, struct srv_listing *out);
/* Returns the current listing, or NULL if the lister is idle. A listing is current until
 * srv_lister_take returns it. The caller may read only the members up to begun_ns. */
const struct srv_listing *srv_lister_current(const struct srv_lister *l);
/* Ends a running listing early, waits for it, and frees the lister, which may be NULL. */
void srv_lister_free(struct srv_lister *l);

#endif
