/*
 * The manager of versions with models that are text files: saved_model.pb holds one word, which
 * says how the version loads. A version is complete as soon as that file is there.
 *
 *   ok     loads
 *   bad    fails with UNIMPLEMENTED, which the manager does not retry
 *   flaky  fails with UNAVAILABLE, which the manager retries
 *   huge   needs more memory than there is
 *
 * Two threads stand for the I/O loops: they do nothing but receive the manager's messages, by an
 * srv_message_post of the fixture's. Files lie in the folder of tests/support/folder.h, and paths
 * are relative to it. Every test runs between mf_set_up and mf_tear_down.
 */
#ifndef TESTS_UNIT_VERSIONS_MANAGER_FIXTURE_H
#define TESTS_UNIT_VERSIONS_MANAGER_FIXTURE_H

#include "tests/support/test.h"

#include <stdatomic.h>

#include "runtime/base/arena.h"
#include "server/versions/manager.h"

extern struct manager_fixture {
    struct srv_server server;
    struct srv_manager *manager; /* NULL: mf_tear_down has none to stop and free */
    struct rt_error err;         /* the error of MF_START; tests may use it for their own calls */

    atomic_int n_loads;           /* loads that were begun */
    atomic_int n_held;            /* loads that found load_held set */
    atomic_int n_cancelled_loads; /* loads under load_held that saw that they are cancelled */
    atomic_int n_loaded, n_freed; /* models */
    atomic_int n_attached, n_detached;
    atomic_int n_events;   /* of count_event */
    atomic_bool load_held; /* loads wait until it is false or they are cancelled */
    atomic_bool load_deaf; /* loads take no notice of being cancelled */
} fixture;

enum { MF_SAFETY_LIMIT_MS = 60000 }; /* for waits that end well before it unless the test fails */

/* cmocka's, for each test. The tear-down also checks that all that was loaded was freed. */
int mf_set_up(void **state);
int mf_tear_down(void **state);

/* Starts the I/O loops' threads and the manager with these flags of the command line. A first flag
 * "--" makes them flags of tensorflow_model_server instead of slipway. */
enum rt_status mf_start_with(const char *const *flags, int n);
#define MF_START(...)                                                                              \
    mf_start_with((const char *const[]){__VA_ARGS__},                                              \
                  (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))
/* Ends the threads of the I/O loops: after srv_manager_stop, or a start that failed. */
void mf_stop_io_loops(void);
/* While `hold` is true, an I/O loop holds a handle of every version: it confirms no retirement. */
void mf_hold_handles(bool hold);

/* Puts a version whose saved_model.pb holds `word` at `dir` by one rename. */
void mf_add_version(const char *dir, const char *word);
/* "--NAME=PATH", with the absolute path; valid until the next few calls. */
const char *mf_flag(const char *name, const char *path);
/* Writes models.config with these models, the name of each being its base path. */
void mf_write_config(const char *const *names, int n);
#define MF_CONFIG(...)                                                                             \
    mf_write_config((const char *const[]){__VA_ARGS__},                                            \
                    (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* The state of a version, and its message if `text` is not NULL. */
enum srv_state mf_state_of(const char *model, int64_t version, char *text, size_t capacity);
/* Wait until the version is in that state, or the count is above 0; false at the safety limit. */
bool mf_comes_to(const char *model, int64_t version, enum srv_state want);
bool mf_comes_above_0(atomic_int *n);

#endif
