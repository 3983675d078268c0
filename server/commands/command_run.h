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
    const char *command; /* the command's name: "run", or "inspect" if `plan` is set */
    const char *dir, *inputs, *signature, *autotune_cache;
    /* the GPU in the form of --gpus ("0", "GPU-5f2a"), or NULL for the CPU */
    const char *gpu;
    const char *profile_trace; /* path of the trace file, or NULL */
    bool bench, profile, compare, plan, json, on_line, cpu_clock;
    struct rt_tuning tuning;
    /* All n_callers callers share n_threads threads. */
    int64_t batch, n_threads, n_callers;
    int64_t seconds_ms, n_runs;
    /* Time limit of the command if `plan` is set, and otherwise of each run. 0 means no limit. */
    int64_t timeout_ms;
    int64_t end_ns; /* time on CLOCK_MONOTONIC at which the command's time limit ends */
    int n_shapes;
    struct srv_run_shape shapes[SRV_RUN_SHAPES];

    struct rt_arena *arena;
    struct rt_model *model;
    const struct rt_model_signature *s;
    int64_t load_ns;
    struct rt_tensor *feeds;
    enum srv_json_form form;
};

/* Runs the signature once. `call` is its callable in r->model or in another model. `trace` may be
 * NULL. The time limit counts from now_ns, the current time by rt_now_ns. Returns
 * RT_DEADLINE_EXCEEDED if the time limit passes. */
enum rt_status srv_run_call(const struct srv_run *r, struct rt_callable *call,
                            struct rt_tensor *fetches, struct rt_trace *trace, int64_t now_ns,
                            struct rt_error *err);

/* Implements --bench: runs the signature repeatedly and prints the durations. */
enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err);

/* Implements --profile: prints how long each node takes in a run. */
enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err);

/* Implements --compare: prints how much the outputs differ from those of a run in float32 without
 * fusion and other optimisations. `dir` is the directory of the version. */
enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err);

/* Implements `slipway inspect --plan`: prints the compiled plan of the signature. Returns
 * RT_DEADLINE_EXCEEDED if the runs did not end in time. The plan is printed in either case. */
enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err);

/* Returns a node's name for tables. It lacks prefixes such as "PartitionedCall/", which name the
 * function calls around the node. */
const char *srv_run_short_name(const char *name);

#endif
