/*
 * Runs the version manager on models that are text files: saved_model.pb contains one word, which
 * determines how the version loads. A version is complete as soon as that file exists.
 *
 *   ok     loads
 *   bad    fails with UNIMPLEMENTED, which the manager does not retry
 *   flaky  fails with UNAVAILABLE, which the manager retries
 *   huge   needs more memory than is available
 *   large  loads, and occupies MF_LARGE_BYTES of memory
 *   counted loads, and fixture.n_counted is the number of its loads that have begun
 *   writer loads, and writes one more file into its own directory
 *
 * Two threads stand in for the I/O loops: they only receive the manager's messages, through the
 * fixture's own srv_message_post. Files are in the temporary directory (tests/support/folder.h),
 * and paths are relative to it. Every test runs between mf_set_up and mf_tear_down.
 */
#ifndef TESTS_UNIT_VERSIONS_MANAGER_FIXTURE_H
#define TESTS_UNIT_VERSIONS_MANAGER_FIXTURE_H

#include "tests/support/test.h"

#include <stdatomic.h>

#include "runtime/base/arena.h"
#include "server/versions/manager.h"

extern struct manager_fixture {
    struct srv_server server;
    /* NULL unless mf_tear_down has to stop a manager. */
    struct srv_manager *manager;
    struct rt_error err; /* error of MF_START, and of calls that tests make */

    atomic_int n_loads;   /* number of loads that have begun */
    atomic_int n_counted; /* number of loads of versions of the kind "counted" that have begun */
    atomic_int n_held;    /* number of loads that began while load_held was true */
    /* Number of loads that noticed, while load_held was true, that they were cancelled. */
    atomic_int n_cancelled_loads;
    atomic_int n_loaded, n_freed;
    atomic_int n_freed_by_manager; /* number of versions that the manager's own thread freed */
    atomic_int n_attached, n_retired, n_detached;
    atomic_int n_events;
    char gone[64];     /* model of the last call to model_gone */
    atomic_int n_gone; /* number of calls to model_gone; incremented after `gone` is set */
    /* Number of versions whose requests the manager has ended. The I/O loop then releases its
     * handles to these versions. */
    atomic_int n_ended;
    atomic_bool load_held; /* while true, loads wait until they are cancelled */
    atomic_bool load_deaf; /* while true, loads ignore their cancellation */
} fixture;

/* Time limit for waits. Only a failing test reaches this limit. */
enum { MF_SAFETY_LIMIT_MS = 600000 };
enum { MF_LARGE_BYTES = 30 << 20 };

/* cmocka calls these functions for each test. The tear-down also checks that everything that was
 * loaded has been freed. */
int mf_set_up(void **state);
int mf_tear_down(void **state);

/* Starts the threads of the I/O loops, and the manager with the given command line flags. If the
 * first flag is "--", the other flags are those of tensorflow_model_server, not of slipway. */
enum rt_status mf_start_with(const char *const *flags, int n);
#define MF_START(...)                                                                              \
    mf_start_with((const char *const[]){__VA_ARGS__},                                              \
                  (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))
/* Ends the threads of the I/O loops. Must be called after srv_manager_stop, or after a start that
 * failed. */
void mf_stop_io_loops(void);
/* While `hold` is true, an I/O loop holds a handle to every version and confirms no retirement. */
void mf_hold_handles(bool hold);

/* Writes `word` to the saved_model.pb of a staging directory, and renames the directory to
 * `dir`. */
void mf_add_version(const char *dir, const char *word);
/* Returns "--NAME=PATH" with the absolute path. The text stays valid during the next few calls. */
const char *mf_flag(const char *name, const char *path);
/* Writes models.config with the given models, each of which has its name as base path. */
void mf_write_config(const char *const *names, int n);
#define MF_CONFIG(...)                                                                             \
    mf_write_config((const char *const[]){__VA_ARGS__},                                            \
                    (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* Returns the state of a version. Writes the version's message to `text` unless `text` is NULL. */
enum srv_state mf_state_of(const char *model, int64_t version, char *text, size_t capacity);
/* Waits until the version is in state `want`, or until *n is above 0. Returns false if the safety
 * time limit is reached. */
bool mf_comes_to(const char *model, int64_t version, enum srv_state want);
bool mf_comes_above_0(atomic_int *n);

#endif
