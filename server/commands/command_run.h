/* Declares the arguments of `slipway run` and the functions for its modes. The source files of this
 * command share both. */
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
    const char *profile_trace; /* path of the trace file, or NULL if no trace is requested */
    bool bench, profile, compare, plan, json, on_line, cpu_clock;
    struct rt_tuning tuning;
    /* n_threads is the total number of threads of all callers. */
    int64_t batch, n_threads, n_callers;
    int64_t seconds_ms, n_runs;
    int n_shapes;
    struct srv_run_shape shapes[SRV_RUN_SHAPES];

    struct rt_arena *arena;
    struct rt_model *model;
    const struct rt_model_signature *s;
    int64_t load_ns;
    struct rt_tensor *feeds;
    enum srv_json_form form;
};

/* Implements --bench: runs the signature repeatedly and prints the durations. */
enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err);

/* Implements --profile: prints how much time of a run each node takes. */
enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err);

/* Implements --compare: prints how far the outputs differ from those computed in float32 without
 * fusion or other optimisations. `dir` is the directory of the model version. */
enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err);

/* Implements `slipway inspect --plan`: prints the compiled plan of the signature. */
enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err);

/* Returns a node's name as printed in tables, without the prefixes ("PartitionedCall/") that
 * name the functions containing the node. */
const char *srv_run_short_name(const char *name);

#endif
