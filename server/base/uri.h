/* URIs of requests. */
#ifndef SRV_URI_H
#define SRV_URI_H

#include "runtime/base/span.h"

/* Returns the path of a URI: its bytes before the query. */
static inline struct rt_span srv_uri_path(struct rt_span uri)
{
    const unsigned char *query = uri.n ? memchr(uri.p, '?', uri.n) : NULL;

    return query ? rt_span_of(uri.p, (size_t)(query - uri.p)) : uri;
}

#endif
