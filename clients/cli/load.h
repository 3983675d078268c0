/*
 * Load generator. Threads take requests (shots) from a source, send them to a server, measure
 * latencies and compare the responses.
 *
 * In a closed loop, each thread sends its next shot after the response to the previous one. In an
 * open loop, shots are due at a constant rate, and the latency of a shot is measured from its due
 * time. This avoids coordinated omission: a stalled server would otherwise look faster, because
 * waiting threads send fewer requests.
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
     * Sets *out to request number `i` of the run. Returns false if there are no more requests. The
     * function may store the request in `kept`, a buffer of the calling thread. Several threads may
     * call this function at the same time.
     */
    bool (*next)(void *arg, int64_t i, struct cl_shot *out, struct rt_bytes *kept);
    void *arg;
};

struct cl_load {
    const struct cl_target *target;
    struct cl_source source;
    double rate; /* requests per second; 0 means a closed loop */
    int64_t n_threads, n_connections;
    /* The load ends `seconds` after the warm-up, after max_shots requests, or when `source` has no
     * more requests. In `seconds` and max_shots, 0 means no limit. */
    double warmup_s, seconds;
    int64_t max_shots;
    /* tolerance for comparing responses; a negative value means that they are not compared */
    double tolerance;
    bool progress;
};

enum { CL_MAX_FAULTS = 8, CL_FAULT_TEXT = 300 };
struct cl_fault {
    enum rt_status code;
    int64_t n;
    char text[CL_FAULT_TEXT]; /* message of the first failed call with the status `code` */
};

struct cl_result {
    double seconds;
    /* number of requests that were sent more than 1 ms after their due time */
    int64_t n_ok, n_failed, n_wrong, n_late;
    /* `latency` is measured from the due time of a request, and `service` from its sending. */
    struct cl_histogram *latency, *service;
    int n_faults;
    struct cl_fault faults[CL_MAX_FAULTS]; /* failed calls, grouped by status code */
    char first_wrong[CL_FAULT_TEXT];
};

/* Generates the load `l`, and returns when the load has ended. Counts failed shots in *out. Fails
 * only if the load could not be generated. cl_result_clear must be called in either case. */
enum rt_status cl_load_run(const struct cl_load *l, struct cl_result *out, struct rt_error *err);
void cl_result_clear(struct cl_result *r);

#endif
