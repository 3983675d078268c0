#include "server/telemetry/figures.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/batching/scheduler.h"
#include "server/metrics/metrics_cells.h"
#include "server/versions/manager.h"

struct reading {
    struct srv_server *server;
    struct srv_all_figures *all;
};

static bool grow(struct srv_all_figures *all)
{
    const int capacity = all->capacity ? all->capacity * 2 : 64;
    struct srv_figures *grown = realloc(all->of, (size_t)capacity * sizeof *grown);

    if (!grown)
        return false;
    all->of = grown;
    all->capacity = capacity;
    return true;
}

/* Appends the figures of a version. Returns true, which ends the iteration, if these are all that
 * are wanted, or if memory runs out. */
static bool add_version(void *arg, const struct srv_version *v)
{
    const struct reading *reading = arg;
    struct srv_all_figures *all = reading->all;

    if (all->n == all->capacity && !grow(all))
        return all->no_memory = true;
    const char *model = all->n ? all->of[all->n - 1].model : NULL;
    if (!model || strcmp(model, v->model) != 0) {
        model = rt_arena_strdup(all->arena, v->model);
        all->n_models++;
    }
    if (!model)
        return all->no_memory = true;
    struct srv_figures *f = &all->of[all->n++];
    *f = (struct srv_figures){.model = model,
                              .version = v->version,
                              .n_queued = v->model_queue ? srv_model_queue_jobs(v->model_queue) : 0,
                              .weight_bytes = v->loaded->weight_bytes,
                              .gpus = *rt_model_accelerators(v->loaded),
                              .gpu_full_precision = v->gpu.full_precision};
    rt_session_stats(v->loaded->session, &f->stats);
    if (all->has_statistics && v->metrics && reading->server->metrics) {
        srv_metrics_statistics(reading->server->metrics, v->metrics, &f->statistics);
        f->n_errors = srv_last_errors_count(&v->metrics->model->errors);
    }
    return all->n == all->most;
}

void srv_figures_read(struct srv_server *server, bool has_statistics, int most,
                      struct srv_all_figures *out)
{
    struct reading reading = {server, out};

    *out = (struct srv_all_figures){
        .arena = rt_arena_new(SIZE_MAX), .most = most, .has_statistics = has_statistics};
    out->no_memory = !out->arena;
    if (out->arena && server->manager)
        srv_manager_look(server->manager, add_version, &reading);
}

void srv_figures_clear(struct srv_all_figures *all)
{
    free(all->of);
    rt_arena_free(all->arena);
}
