/* Creates, finds and drops the metrics of models and versions. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"

/* ---- versions ---- */

void srv_request_cells_add(struct srv_request_cells *to, const struct srv_request_cells *from)
{
    for (int api = 0; api < SRV_N_JOB_APIS; api++) {
        for (int c = 0; c < SRV_N_CODES; c++)
            srv_count_add(&to->codes[api][c], srv_count_of(&from->codes[api][c]));
        srv_times_add(&to->latency[api], &from->latency[api]);
    }
}

bool srv_metrics_add_requests(const struct srv_metrics *m, const int *first,
                              const struct srv_version_metrics *v, int s, int io_loop,
                              struct srv_request_cells *sum)
{
    const struct srv_request_cells *cells = srv_metrics_cells(v, s);

    for (int k = io_loop; cells && k < m->n_io_loops; k++)
        if (first[k] == io_loop)
            srv_request_cells_add(sum, &cells[k]);
    return cells;
}

static void free_version(struct srv_version_metrics *v)
{
    const struct srv_metrics *m = v->metrics;

    for (int s = 0; s <= v->n_signatures; s++) {
        struct srv_request_cells *cells = atomic_load(&v->requests[s]);
        for (int i = 0; cells && i < m->n_io_loops; i++)
            for (int api = 0; api < SRV_N_JOB_APIS; api++)
                srv_exemplars_free(&cells[i].exemplars[api]);
        if (s < v->n_signatures)
            free(cells);
    }
    for (int w = 0; w < m->n_workers + m->n_io_loops; w++) {
        srv_exemplars_free(&v->runs[w].queue_exemplars);
        srv_exemplars_free(&v->runs[w].run_exemplars);
    }
    rt_arena_free(v->arena);
}

struct srv_version_metrics *srv_metrics_version(struct srv_metrics *m, const char *model,
                                                int64_t version, int n_signatures,
                                                const char *const *signatures)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_metrics *v = arena ? rt_arena_alloc(arena, sizeof *v) : NULL;
    struct srv_request_cells *others = NULL;

    if (!v)
        goto no_memory;
    *v = (struct srv_version_metrics){.metrics = m,
                                      .version = version,
                                      .n_signatures = n_signatures,
                                      .signatures = signatures,
                                      .arena = arena};
    v->requests = rt_arena_array(arena, (size_t)n_signatures + 1, sizeof *v->requests);
    v->runs = rt_arena_array(arena, (size_t)(m->n_workers + m->n_io_loops) + 1, sizeof *v->runs);
    others = rt_arena_array(arena, (size_t)m->n_io_loops + 1, sizeof *others);
    if (!v->requests || !v->runs || !others)
        goto no_memory;
    atomic_init(&v->requests[n_signatures], others);
    rt_mutex_lock(&m->mu);
    v->model = srv_metrics_model(m, model);
    if (v->model)
        srv_list_append(&v->model->versions, &v->link);
    rt_mutex_unlock(&m->mu);
    if (v->model)
        return v;

no_memory:
    rt_arena_free(arena);
    return NULL;
}

void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v)
{
    if (!v)
        return;
    rt_mutex_lock(&m->mu);
    srv_list_remove(&v->link);
    /* Adds the version's counts to those of its model, so that the model's totals do not
     * decrease. */
    for (int s = 0; s <= v->n_signatures; s++) {
        const struct srv_request_cells *cells = srv_metrics_cells(v, s);
        for (int i = 0; cells && i < m->n_io_loops; i++)
            srv_request_cells_add(&v->model->io_loops[i].gone, &cells[i]);
    }
    rt_mutex_unlock(&m->mu);
    free_version(v);
}

/* ---- models ---- */

struct srv_model_metrics *srv_metrics_model_new(struct srv_metrics *m, const char *name)
{
    struct srv_model_metrics *model = calloc(1, sizeof *model);

    if (!model)
        return NULL;
    srv_list_init(&model->versions);
    model->name = strdup(name);
    model->io_loops = calloc((size_t)m->n_io_loops + 1, sizeof *model->io_loops);
    if (model->name && model->io_loops)
        return model;
    srv_metrics_model_free(m, model);
    return NULL;
}

void srv_metrics_model_free(struct srv_metrics *m, struct srv_model_metrics *model)
{
    if (!model)
        return;
    while (model->versions.next != &model->versions) {
        struct srv_link *first = model->versions.next;
        srv_list_remove(first);
        free_version((struct srv_version_metrics *)(void *)first);
    }
    srv_last_errors_free(&model->errors, &m->error_bytes);
    free(model->name);
    free(model->io_loops);
    free(model);
}

/* Returns the index of the first model whose name is not less than `name`. */
static int index_of(const struct srv_metrics *m, const char *name)
{
    int low = 0, high = m->n_models;

    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (strcmp(m->models[mid]->name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct srv_model_metrics *srv_metrics_find(const struct srv_metrics *m, const char *name)
{
    const int i = index_of(m, name);

    return i < m->n_models && strcmp(m->models[i]->name, name) == 0 ? m->models[i] : NULL;
}

static bool is_gone(const struct srv_model_metrics *model)
{
    return model->gone.next != NULL;
}

static void return_model(struct srv_metrics *m, struct srv_model_metrics *model)
{
    m->n_gone -= is_gone(model);
    srv_list_remove(&model->gone);
}

struct srv_model_metrics *srv_metrics_model(struct srv_metrics *m, const char *name)
{
    struct srv_model_metrics *model = srv_metrics_find(m, name);

    if (model) {
        return_model(m, model);
        return model;
    }
    if (m->n_models == m->models_capacity) {
        const int capacity = m->models_capacity ? m->models_capacity * 2 : 16;
        struct srv_model_metrics **grown = realloc(m->models, (size_t)capacity * sizeof(*grown));
        if (!grown)
            return NULL;
        m->models = grown;
        m->models_capacity = capacity;
    }
    model = srv_metrics_model_new(m, name);
    if (!model)
        return NULL;
    const int i = index_of(m, name);
    memmove(&m->models[i + 1], &m->models[i], (size_t)(m->n_models++ - i) * sizeof(*m->models));
    return m->models[i] = model;
}

/* Drops the counters of the model that has been gone longest. */
static void forget_oldest(struct srv_metrics *m)
{
    struct srv_model_metrics *model = (struct srv_model_metrics *)(void *)m->gone.next;
    const int i = index_of(m, model->name);

    return_model(m, model);
    memmove(&m->models[i], &m->models[i + 1], (size_t)(--m->n_models - i) * sizeof(*m->models));
    srv_metrics_model_free(m, model);
}

void srv_metrics_model_gone(struct srv_metrics *m, const char *name)
{
    rt_mutex_lock(&m->mu);
    struct srv_model_metrics *model = srv_metrics_find(m, name);
    if (model && !is_gone(model)) {
        assert(model->versions.next == &model->versions);
        srv_list_append(&m->gone, &model->gone);
        m->n_gone++;
        model->gone_ns = rt_now_ns();
    }
    while (m->n_gone > SRV_MAX_GONE)
        forget_oldest(m);
    rt_mutex_unlock(&m->mu);
}

void srv_metrics_forget_gone(struct srv_metrics *m, int64_t now_ns)
{
    const int64_t before = now_ns - SRV_GONE_SECONDS * INT64_C(1000000000);

    rt_mutex_lock(&m->mu);
    while (m->n_gone && ((struct srv_model_metrics *)(void *)m->gone.next)->gone_ns <= before)
        forget_oldest(m);
    rt_mutex_unlock(&m->mu);
}
