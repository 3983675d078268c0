/*
 * Load generator: threads take shots from a source, send them to a server, measure the times and
 * compare the responses.
 *
 * Closed loop: each thread sends its next shot after the response to the last one. Open loop: shots
 * are due at a constant rate, whatever the server does, and the latency of a shot counts from the
 * time at which it was due. A server that stalls is therefore not measured too favourably because
 * waiting threads send fewer requests (coordinated omission).
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
     * Gives shot number `i` of the run. False: there are no more. `kept` is memory
     * of the calling thread that the shot may point to. Called by many threads at once.
     */
    bool (*next)(void *arg, int64_t i, struct cl_shot *out, struct rt_bytes *kept);
    void *arg;
};

struct cl_load {
    const struct cl_target *target;
    struct cl_source source;
    double rate; /* shots per second; 0: closed loop */
    int64_t n_threads, n_connections;
    double warmup_s, seconds; /* seconds 0: until the source ends or max_shots is reached */
    int64_t max_shots;        /* 0: no limit */
    /* tolerance for comparing responses; below 0: responses are not compared */
    double tolerance;
    bool progress;
};

enum { CL_MAX_FAULTS = 8, CL_FAULT_TEXT = 300 };
struct cl_fault {
    enum rt_status code;
    int64_t n;
    char text[CL_FAULT_TEXT]; /* text of the first fault with this code */
};

struct cl_result {
    double seconds;                          /* duration of the measurement */
    int64_t n_ok, n_failed, n_wrong, n_late; /* n_late: sent more than 1 ms after they were due */
    /* Latency: since a shot was due; service: since it was sent. */
    struct cl_histogram *latency, *service;
    int n_faults;
    struct cl_fault faults[CL_MAX_FAULTS]; /* failures, counted by code */
    char first_wrong[CL_FAULT_TEXT];
};

/* Blocks until the load has ended. Failures of single shots are part of the result; the call itself
 * fails only if the load could not be generated. cl_result_clear must be called in any case. */
enum rt_status cl_load_run(const struct cl_load *l, struct cl_result *out, struct rt_error *err);
void cl_result_clear(struct cl_result *r);

#endif
