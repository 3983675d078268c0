/* Writes the profile of a model's requests as JSON, for the web page. */
#ifndef SRV_PAGE_PROFILE_H
#define SRV_PAGE_PROFILE_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/tracing/profile.h"

/* Appends the profile of the model's requests. Times are microseconds since the first of them. */
enum rt_status srv_page_profile(struct srv_profile *p, struct rt_span model, struct rt_bytes *out,
                                struct rt_error *err);

#endif
