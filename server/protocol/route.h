/*
 * Parses a method and a raw URI (not yet percent-decoded) into a route. A route is one of the
 * server's own pages or a call of a protocol. All functions are pure.
 */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "server/protocol/protocol.h"

enum srv_method { /* HTTP methods */
                  SRV_GET,
                  SRV_POST,
                  SRV_OPTIONS,
                  SRV_HEAD,
                  SRV_OTHER_METHOD,
};
enum srv_method srv_method_of(const char *name);

enum srv_target {
    /* no protocol and no page of the server has this path; the HTTP status is 404 */
    SRV_TO_NOWHERE,
    SRV_TO_CALL,
    SRV_TO_OPTIONS, /* a browser's preflight request (CORS) */
    SRV_TO_HEALTH,
    /* A request that asks whether the model spec.name is ready. If spec.name is empty, it asks
     * whether the server is ready. */
    SRV_TO_READY,
    SRV_TO_METRICS,
    SRV_TO_PAGE_FILE,   /* a file of the web page: srv_route.page_file */
    SRV_TO_PAGE_EVENTS, /* the events of the web page */
    /* the last errors of the model in `spec`, or, if the name is empty, of requests that belong to
     * no model, for the web page */
    SRV_TO_PAGE_ERRORS,
    /* the profile of requests for the model in `spec`, for the web page; or, if n_requests is not
     * 0, its beginning */
    SRV_TO_PAGE_PROFILE,
    SRV_TO_PAGE_PLAN, /* the plan of the model and the signature in `spec`, for the web page */
};

struct srv_route {
    enum srv_target target;
    const struct srv_protocol *protocol; /* the protocol to which the path belongs, or NULL */
    const struct srv_endpoint *endpoint; /* the call, or NULL if the request names none */
    struct srv_model_spec spec;          /* the spans in `spec` point into the arena or the URI */
    int page_file;                       /* index for srv_page_file */
    int64_t n_requests;                  /* number of requests of a profile that is to begin */
};

/* Returns whether the request is for the web page. */
static inline bool srv_route_is_page(const struct srv_route *route)
{
    return route->target == SRV_TO_PAGE_PROFILE || route->target == SRV_TO_PAGE_FILE ||
           route->target == SRV_TO_PAGE_EVENTS || route->target == SRV_TO_PAGE_ERRORS ||
           route->target == SRV_TO_PAGE_PLAN;
}

/* What is served where a request arrived. */
enum srv_route_set {
    SRV_ROUTES_WITHOUT_PAGE,
    SRV_ROUTES_WITH_PAGE,
    SRV_ROUTES_OF_PAGE, /* the web page, and the calls that its form makes */
};

/*
 * Parses the method and the URI of a request. Fails with the error of the protocol to which the
 * path belongs, or with NOT_FOUND. out->protocol is set even if the function fails. `uri` includes
 * the query. `metrics_path` is the path of the metrics page, or "" if there is no such page.
 * Only what is in `set` is found.
 */
enum rt_status srv_route(struct srv_route *out, const struct srv_protocols *protocols,
                         const char *method, struct rt_span uri, const char *metrics_path,
                         enum srv_route_set set, struct rt_arena *arena, struct rt_error *err);

/* Returns the value of enum srv_api under which a request is counted, or SRV_NOT_COUNTED. */
int srv_route_api(const struct srv_route *route);

/* ---- for the protocols' own routes ---- */

/* Removes `word` from the front of *s, regardless of case. Returns false if *s does not begin with
 * `word`. */
bool srv_route_take(struct rt_span *s, const char *word);
/* Removes bytes from the front of *s, up to the first byte that occurs in `ends`. This byte stays
 * in *s. Returns false if there are no bytes to remove. */
bool srv_route_take_name(struct rt_span *s, const char *ends, struct rt_span *out);
bool srv_route_take_digits(struct rt_span *s, struct rt_span *out);
/* Percent-decodes *s into the arena. If *s contains no '%', it is not copied. */
enum rt_status srv_route_decode(struct rt_span *s, struct rt_arena *arena, struct rt_error *err);
/* Parses a version number. Returns false if the number exceeds the range of int64_t. */
bool srv_route_version(struct rt_span digits, int64_t *out);

#endif
