/* Shared by the files of `slipway run`: the arguments, and the functions for each mode. */
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
    const char *command; /* "run", or "inspect" with `plan` */
    const char *dir, *inputs, *signature, *autotune_cache;
    const char *profile_trace; /* NULL: none */
    bool bench, profile, compare, plan, json, on_line, cpu_clock;
    struct rt_tuning tuning;
    int64_t batch, n_threads, n_callers; /* n_threads: threads of all callers together */
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

/* --bench: runs the signature repeatedly and prints how long it took. */
enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err);

/* --profile: prints where the time of a run goes. */
enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err);

/* --compare: prints how far the outputs differ from those in float32 without fusion and other
 * tuning. `dir` is the version's directory. */
enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err);

/* `slipway inspect --plan`: prints the compiled plan of the signature. */
enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err);

/* For tables: returns a node's name without the names of the calls around it
 * ("PartitionedCall/"). */
const char *srv_run_short_name(const char *name);

#endif
