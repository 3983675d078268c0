/*
 * Load on a server, measured: threads that take shots from a source, send them, time them and judge
 * the answers.
 *
 * Closed loop: each thread sends its next shot when the last was answered. Open loop: shots are due
 * at a constant rate, whatever the server does, and a shot's time is counted from when it was due,
 * so that a server that stalls is not asked less by those who wait (coordinated omission).
 */
#ifndef CL_LOAD_H
#define CL_LOAD_H

#include "clients/cli/compare.h"
#include "clients/cli/histogram.h"
#include "clients/cli/remote.h"
#include "runtime/base/thread.h"

enum { CL_MAX_THREADS = 1024 };

struct cl_source {
    /*
     * The next shot, for shot number `i` of the run. False: there is none any more. `kept` is the
     * calling thread's own memory, for a shot that does not live longer. Called by many threads.
     */
    bool (*next)(void *arg, int64_t i, struct cl_shot *out, struct rt_bytes *kept);
    void *arg;
};

struct cl_load {
    const struct cl_target *target;
    struct cl_source source;
    double rate; /* shots in a second; 0: closed loop */
    int64_t n_threads, n_connections;
    double warmup_s, seconds; /* seconds 0: until the source or `max_shots` ends */
    int64_t max_shots;        /* 0: no limit */
    double tolerance;         /* of answers; below 0: not looked at */
    bool progress;
};

enum { CL_MAX_FAULTS = 8, CL_FAULT_TEXT = 300 };
struct cl_fault {
    enum rt_status code;
    int64_t n;
    char text[CL_FAULT_TEXT]; /* the first one's */
};

struct cl_result {
    double seconds;                          /* measured */
    int64_t n_ok, n_failed, n_wrong, n_late; /* late: sent more than 1 ms after it was due */
    struct cl_histogram *latency, *service;  /* from when it was due, from when it was sent */
    int n_faults;
    struct cl_fault faults[CL_MAX_FAULTS]; /* of failures, by code */
    char first_wrong[CL_FAULT_TEXT];
};

/* Blocks until the load is over. Faults of single shots are in the result; an error is what kept
 * the load from being made. Cleared by cl_result_clear in any case. */
enum rt_status cl_load_run(const struct cl_load *l, struct cl_result *out, struct rt_error *err);
void cl_result_clear(struct cl_result *r);

#endif
