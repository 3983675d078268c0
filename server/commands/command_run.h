/* Declares the arguments of `slipway run` and the functions for its modes. */
#ifndef SRV_COMMAND_RUN_H
#define SRV_COMMAND_RUN_H

#include "server/commands/command.h"
#include "server/protocol/tfs/json_tensor.h"

enum { SRV_RUN_SHAPES = 64 };

struct srv_run_shape {
    const char *alias;
    size_t alias_len;
    struct rt_shape shape;
};

struct srv_run {
    const char *command; /* name of the command: "run", or "inspect" if `plan` is set */
    const char *dir, *inputs, *signature, *autotune_cache;
    /* the GPU that runs the model, as a value of --gpus ("0", "GPU-5f2a"), or NULL for the CPU */
    const char *gpu;
    bool gpu_full_precision;   /* rt_accelerator_options.full_precision */
    const char *profile_trace; /* path of the trace file, or NULL if no trace is requested */
    bool bench, profile, compare, plan, json, on_line, cpu_clock;
    struct rt_tuning tuning;
    /* All n_callers callers share n_threads threads. */
    int64_t batch, n_threads, n_callers;
    int64_t seconds_ms, n_runs;
    /* Time limit of the command if `plan` is set, otherwise of each run; 0 means no limit. */
    int64_t timeout_ms;
    int64_t end_ns; /* time on CLOCK_MONOTONIC at which the time limit of the command ends */
    int n_shapes;
    struct srv_run_shape shapes[SRV_RUN_SHAPES];

    struct rt_arena *arena;
    struct rt_model *model;
    const struct rt_model_signature *s;
    int64_t load_ns;
    struct rt_tensor *feeds;
    enum srv_json_form form;
};

/* Runs the signature once. `call` is the signature's callable in r->model or in another model.
 * `trace` may be NULL. Returns RT_DEADLINE_EXCEEDED if the time limit passes. */
enum rt_status srv_run_call(const struct srv_run *r, struct rt_callable *call,
                            struct rt_tensor *fetches, struct rt_trace *trace,
                            struct rt_error *err);

/* Implements --bench: runs the signature repeatedly and prints the durations. */
enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err);

/* Implements --profile: prints the time that each node takes in a run. */
enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err);

/* Implements --compare: prints the differences between the outputs and those computed in float32
 * without fusion or other optimisations. `dir` is the directory of the model version. */
enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err);

/* Implements `slipway inspect --plan`: prints the compiled plan of the signature. Returns
 * RT_DEADLINE_EXCEEDED if the plan was printed although the runs did not end in time. */
enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err);

/* Returns a node's name as printed in tables, without prefixes such as "PartitionedCall/", which
 * name the function calls that contain the node. */
const char *srv_run_short_name(const char *name);

#endif
