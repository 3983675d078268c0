/* Writes the last errors of a model, or those of no model, as JSON, for the web page. */
#ifndef SRV_PAGE_ERRORS_H
#define SRV_PAGE_ERRORS_H

#include "runtime/base/bytes.h"
#include "server/base/serving_map.h"

struct srv_metrics;

/* Appends the errors of a model that serves, the last one first. If `model` is empty, appends the
 * errors that belong to no model. Fails with NOT_FOUND if the model is not in the map. Called on
 * the thread that uses the map. `m` may be NULL. */
enum rt_status srv_page_errors(const struct srv_metrics *m, const struct srv_map *map,
                               struct rt_span model, struct rt_bytes *out, struct rt_error *err);

#endif
