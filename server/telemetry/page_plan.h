/* Writes the plan of a signature as JSON, for the web page. */
#ifndef SRV_PAGE_PLAN_H
#define SRV_PAGE_PLAN_H

#include "runtime/base/bytes.h"
#include "server/base/serving_map.h"

struct srv_profile;

enum { SRV_PAGE_MAX_NODES = 2000 }; /* further nodes of a plan are only counted */

/*
 * Appends the plan of a signature, which is "serving_default" if the name is empty. Constants are
 * left out, except as the types of inputs. If the last profile, of which `profile` may be NULL, has
 * runs of the signature, appends the times of the nodes, means over these runs. Builds the plan if
 * the signature was never run. The caller has a handle to the version. May be called on any thread.
 */
enum rt_status srv_page_plan(const struct srv_version *version, struct rt_span signature,
                             struct srv_profile *profile, struct rt_bytes *out,
                             struct rt_error *err);

#endif
