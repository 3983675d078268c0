/*
 * The serving map: which versions answer requests now. Immutable; the manager publishes a new one
 * behind one atomic pointer, each network thread reads it once per turn.
 *
 * A version is retired in this order: a map without it is published; each network thread is asked
 * by mail, and answers once it uses the new map and holds no handle of it; then the manager frees.
 */
#ifndef SRV_MAP_H
#define SRV_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/files/saved_model.h"

struct srv_model_queue; /* the scheduler's per-version state */
struct srv_version_metrics;
struct srv_model_log;
struct srv_model_spec; /* model_spec.h */

struct srv_version {
    const char *model;
    int64_t version;
    struct rt_model *loaded;
    uint32_t slot; /* unique among those not freed; index into srv_io_loop.held and counters */
    struct srv_model_queue *model_queue;
    struct srv_version_metrics *metrics;
    struct srv_model_log *log; /* of its model's requests; NULL: none */
    int64_t held;              /* srv_load.held */
};

struct srv_label {
    const char *label;
    int64_t version;
};

struct srv_map_model {
    const char *name;
    int n_versions;
    struct srv_version *const *versions; /* AVAILABLE ones, highest version first */
    int n_labels;
    const struct srv_label *labels;
};

struct srv_map {
    int n_models;
    const struct srv_map_model *models; /* sorted by name */
};

/* The model of that name. NULL: none, or none of its versions serves. */
const struct srv_map_model *srv_map_model(const struct srv_map *map, struct rt_span name);
/*
 * TensorFlow Serving's texts: "Servable not found for request: Latest(m)" / "Specific(m, 5)"
 * (NOT_FOUND), "Unrecognized servable version label: L" (INVALID_ARGUMENT). The version is not
 * held: srv_hold it in the same turn.
 */
enum rt_status srv_map_find(const struct srv_map *map, const struct srv_model_spec *spec,
                            struct srv_version **out, struct rt_error *err);

#endif
