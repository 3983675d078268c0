/*
 * The profile of a model's next requests, for the web page: the phases of each request. One profile
 * runs at a time. It ends when it has its requests, or after SRV_PROFILE_SECONDS, and stays until
 * the next one begins.
 *
 * Owner: the server. Threads: any thread may call these functions. While no profile runs, a request
 * costs one load of a flag.
 */
#ifndef SRV_PROFILE_H
#define SRV_PROFILE_H

#include "server/tracing/request_span.h"
#include "server/tracing/trace_record.h"

struct srv_access;
struct srv_job;
struct srv_profile;

enum {
    SRV_PROFILE_MOST = 200, /* requests of a profile */
    SRV_PROFILE_SECONDS = 60,
};

struct srv_profiled {
    struct srv_trace_times times, phase[SRV_N_PHASES];
    const char *entry, *api; /* texts that are never freed, such as "REST" and "predict" */
    enum rt_status code;
    bool has_version;
    int64_t version, rows;
};

struct srv_profile *srv_profile_new(void); /* NULL: out of memory */
void srv_profile_free(struct srv_profile *p);

/* Begins a profile of the next n requests that name the model, 0 < n <= SRV_PROFILE_MOST. Fails
 * with UNAVAILABLE while another one runs. */
enum rt_status srv_profile_start(struct srv_profile *p, struct rt_span model, int n, int64_t now_ns,
                                 struct rt_error *err);
/* Copies the model's profile into `out`, in the order in which the requests ended. Returns the
 * number of requests, which is 0 if the last profile was of another model. */
int srv_profile_copy(struct srv_profile *p, struct rt_span model, int64_t now_ns,
                     struct srv_profiled out[SRV_PROFILE_MOST], bool *is_running);

/* Called after srv_tracer_begin: decides whether the request may belong to a profile. */
void srv_profile_begin(struct srv_profile *p, struct srv_request_span *s);
/* Adds a request that has ended, if it belongs to a running profile. `job` is NULL if the request
 * did not become a job. */
void srv_profile_request(struct srv_profile *p, const struct srv_access *a,
                         const struct srv_job *job);

#endif
