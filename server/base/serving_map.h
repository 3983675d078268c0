/*
 * The serving map contains the model versions that currently serve requests. A map is immutable.
 * The manager publishes a new map through an atomic pointer, and each I/O loop (io_loop.h) reads
 * this pointer at the start of each turn.
 *
 * To retire a version, the manager publishes a map without the version and posts a message to each
 * I/O loop. An I/O loop confirms the retirement as soon as it uses the new map and holds no handle
 * to the version. When all I/O loops have confirmed the retirement, the manager frees the version.
 */
#ifndef SRV_SERVING_MAP_H
#define SRV_SERVING_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/files/saved_model.h"

struct rt_account;
struct srv_triton;
struct srv_model_queue; /* the queued jobs of a version */
struct srv_version_metrics;
struct srv_model_log;

/* The model, version and signature that a request names. Spans point into the request. */
struct srv_model_spec {
    /* The pointer of a span is NULL if the request does not contain this name. */
    struct rt_span name, label, signature;
    bool has_version;
    int64_t version;
};

/* What a version may use of the server's GPUs. */
struct srv_gpu_use {
    uint32_t allowed;     /* bit k is set if the version may use srv_server.gpus.device[k] */
    bool full_precision;  /* rt_tuning.full_precision */
    int64_t memory_bytes; /* maximum number of bytes on each GPU, or 0 */
    int instances;        /* maximum number of batches that run on each GPU at a time, or 0 */
    bool is_named;        /* whether the model's configuration names the GPUs */
};

/* Number of handles to a version that one I/O loop holds. Only the I/O loop's thread accesses it.
 * Each number has its own cache line, to avoid false sharing. */
struct srv_handles {
    _Alignas(64) uint32_t n;
};

struct srv_version {
    const char *model;
    int64_t version;
    struct rt_model *loaded;
    struct srv_handles *handles; /* indexed by srv_io_loop.index */
    struct srv_model_queue *model_queue;
    struct srv_version_metrics *metrics;
    struct srv_model_log *log;
    /* account in the memory budget of all models, equal to srv_load.account */
    struct rt_account *account;
    /* the configuration of a model of a Triton repository, or NULL; owned by the version */
    struct srv_triton *triton;
    /* The parameters of the version's batches, allocated in the arena of `loaded`. */
    const struct srv_batching *batching;
    struct srv_gpu_use gpu;
};

/* Returns a zeroed array of handle counts, one per I/O loop, or NULL if memory runs out. The caller
 * must free() the array. */
struct srv_handles *srv_handles_new(int n_io_loops);

struct srv_label {
    const char *label;
    int64_t version;
};

/* A configured model with its available versions and its labels. A change of the configuration
 * publishes a new serving map. */
struct srv_map_model {
    const char *name;
    int n_versions;
    struct srv_version *const *versions; /* the AVAILABLE versions, highest version number first */
    int n_labels;
    const struct srv_label *labels;
};

struct srv_map {
    int n_models;
    const struct srv_map_model *models; /* the models, sorted by name */
};

/* Returns the model called `name`, or NULL if the map has none. A model is in the map only if it
 * has an available version or a label. */
const struct srv_map_model *srv_map_model(const struct srv_map *map, struct rt_span name);
/*
 * Finds the version that `spec` names. The error messages are TensorFlow Serving's: "Servable not
 * found for request: Latest(m)" or "Servable not found for request: Specific(m, 5)" with NOT_FOUND,
 * and "Unrecognized servable version label: L" with INVALID_ARGUMENT.
 *
 * Descriptions of models use this function too. srv_inference_find chooses the version of an
 * inference.
 *
 * Does not acquire a handle to the version. The caller must call srv_hold before the current turn
 * of the I/O loop ends.
 */
enum rt_status srv_map_find(const struct srv_map *map, const struct srv_model_spec *spec,
                            struct srv_version **out, struct rt_error *err);

#endif
