/*
 * The profile of a model's next requests, for the web page: the phases of each request, and the
 * times of the nodes in the runs of these requests. One profile runs at a time. It ends when it has
 * its requests, or after SRV_PROFILE_SECONDS, and stays until the next one begins.
 *
 * Owner: the server. Threads: any thread may call these functions. While no profile runs, a request
 * costs one load of a flag, and a batch costs one more.
 */
#ifndef SRV_PROFILE_H
#define SRV_PROFILE_H

#include "runtime/exec/trace.h"
#include "server/tracing/request_span.h"
#include "server/tracing/trace_record.h"

struct srv_access;
struct srv_job;
struct srv_profile;
struct srv_version;

enum {
    SRV_PROFILE_MOST = 200, /* requests of a profile */
    SRV_PROFILE_SECONDS = 60,
    SRV_PROFILE_SIGNATURES = 8,   /* signatures and versions whose nodes have times */
    SRV_PROFILE_NODES = 20000,    /* nodes of them all */
    SRV_PROFILE_BYTES = 4 << 20,  /* bytes of the names of these nodes and signatures */
    SRV_PROFILE_TRACE = 16 << 20, /* bytes of the trace of one run; longer traces are not kept */
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

/*
 * Called before the jobs of a batch, which `first` begins, run. If one of them may belong to the
 * running profile, and the signature is no dynamic callable, makes a trace, and returns true. Then
 * srv_profile_end_run must be called after the run. It frees the trace. If `keep` is set, and the
 * trace is whole, the times of its nodes are added to those of the signature.
 */
bool srv_profile_begin_run(struct srv_profile *p, const struct srv_job *first,
                           struct rt_trace *trace);
void srv_profile_end_run(struct srv_profile *p, const struct srv_job *first, struct rt_trace *trace,
                         bool keep);
/* Sets ns[i] to the time that the node names[i] took in all runs of the signature that belong to
 * the last profile, without the nodes that it called, and *all_ns to the time of all nodes. Nodes
 * with the same name share one time. Returns the number of runs, or 0 if there is no time. */
int srv_profile_node_times(struct srv_profile *p, const struct srv_version *version,
                           const char *signature, int n, const char *const *names, int64_t *ns,
                           int64_t *all_ns);

#endif
