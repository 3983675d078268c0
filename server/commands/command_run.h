/* The parts of `slipway run`: what it was asked for, and what it does with a signature. */
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
    int64_t batch, n_threads, n_callers; /* threads: of all callers together */
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

/* --bench: again and again, and prints how long it took. */
enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err);

/* --profile: where the time goes. */
enum rt_status srv_run_profile(const struct srv_run *r, struct rt_error *err);

/* --compare: how far the answers are from those in float32 without fusion and the like. `dir`: of
 * the version. */
enum rt_status srv_run_compare(const struct srv_run *r, const char *dir,
                               const struct rt_registry *registry, struct rt_error *err);

/* `slipway inspect --plan`: what the signature was compiled to. */
enum rt_status srv_run_plan(const struct srv_run *r, struct rt_error *err);

/* For tables: a node's name without the names of the calls before it ("PartitionedCall/"). */
const char *srv_run_short_name(const char *name);

#endif
