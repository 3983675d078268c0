/* Sums the counters of a version, for the statistics of the Open Inference Protocol and for the web
 * page. */
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"

static void add_times(struct srv_duration *to, const struct srv_times *from)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        to->count += srv_count_of(&from->n[i]);
    to->ns += srv_count_of(&from->sum_ns);
}

static void add_requests(struct srv_version_statistics *out, const struct srv_request_cells *cells)
{
    const int64_t last_ns = atomic_load_explicit(&cells->last_ns, memory_order_relaxed);

    out->fail.ns += srv_count_of(&cells->failed_ns);
    if (last_ns > out->last_ns)
        out->last_ns = last_ns;
    for (int api = 0; api < SRV_N_JOB_APIS; api++) {
        add_times(&out->success, &cells->latency[api]);
        for (int i = 0; i < SRV_N_TIMES; i++)
            out->latency[i] += srv_count_of(&cells->latency[api].n[i]);
        for (int code = 0; code < SRV_N_CODES; code++)
            out->fail.count += code == RT_OK ? 0 : srv_count_of(&cells->codes[api][code]);
    }
}

void srv_metrics_statistics(const struct srv_metrics *m, const struct srv_version_metrics *v,
                            struct srv_version_statistics *out)
{
    *out = (struct srv_version_statistics){.rows = 0};
    for (int s = 0; s <= v->n_signatures; s++) {
        const struct srv_request_cells *cells = srv_metrics_cells(v, s);
        for (int i = 0; cells && i < m->n_io_loops; i++)
            add_requests(out, &cells[i]);
    }
    for (int i = 0; i < m->n_workers + m->n_io_loops; i++) {
        add_times(&out->queue, &v->runs[i].queue);
        add_times(&out->run, &v->runs[i].run);
        out->rows += srv_count_of(&v->runs[i].rows);
        for (int k = 0; k < SRV_N_SIZES; k++)
            out->batches[k] += srv_count_of(&v->runs[i].sizes[k]);
    }
}

static uint64_t refused_of(const struct srv_metrics *m, const struct srv_model_metrics *model)
{
    uint64_t n = 0;

    for (int i = 0; i < m->n_io_loops; i++)
        for (int api = 0; api < SRV_N_JOB_APIS; api++)
            for (int code = 0; code < SRV_N_CODES; code++)
                n += code == RT_OK ? 0 : srv_count_of(&model->io_loops[i].unversioned[api][code]);
    return n;
}

uint64_t srv_metrics_refused(struct srv_metrics *m)
{
    uint64_t n = refused_of(m, m->unknown);

    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models; i++)
        n += refused_of(m, m->models[i]);
    rt_mutex_unlock(&m->mu);
    return n;
}
