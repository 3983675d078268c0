/* Implements Triton's statistics: the number and the duration of each model's inferences. */
#include "server/protocol/oip/oip_describe.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "server/metrics/metrics.h"

struct row {
    const char *model;
    int64_t version;
    struct srv_version_statistics sums;
};

/* Returns the time of the last response in milliseconds since the epoch, or 0. */
static uint64_t last_inference_ms(const struct row *row)
{
    const int64_t last_ns = row->sums.last_ns;

    return last_ns ? (uint64_t)((rt_wall_ns() - (rt_now_ns() - last_ns)) / 1000000) : 0;
}

struct rows {
    int n;
    struct row *row;
};

static void add(struct srv_description *d, struct rows *rows, const struct srv_version *v)
{
    struct row *row = &rows->row[rows->n++];

    row->model = rt_arena_strdup(d->arena, v->model);
    row->version = v->version;
    if (v->metrics && d->server->metrics)
        srv_metrics_statistics(d->server->metrics, v->metrics, &row->sums);
}

/* Sums the counters of one version, or of all versions of all models if d->spec names no model.
 * Copies the sums because the serving map is valid only in this turn of the I/O loop. */
static enum rt_status find_stats(struct srv_description *d)
{
    enum { ROW_BYTES = 512 };
    struct rows *rows = rt_arena_alloc(d->arena, sizeof *rows);
    int n = 1;

    if (d->spec.name.n) {
        enum rt_status st = srv_oip_find_version(d);
        if (!st)
            st = srv_oip_check_signature(d);
        if (st)
            return st;
    }
    for (int i = 0; !d->version && i < d->map->n_models; i++)
        n += d->map->models[i].n_versions;
    if (rows)
        rows->row = rt_arena_array(d->arena, (size_t)n, sizeof *rows->row);
    if (!rows || !rows->row)
        return rt_fail_memory(d->err, "statistics", sizeof *rows);
    if (d->version)
        add(d, rows, d->version);
    for (int i = 0; !d->version && i < d->map->n_models; i++)
        for (int k = 0; k < d->map->models[i].n_versions; k++)
            add(d, rows, d->map->models[i].versions[k]);
    for (int i = 0; i < rows->n; i++)
        if (!rows->row[i].model)
            return rt_fail_memory(d->err, "statistics", 0);
    d->state = rows;
    d->bytes = (size_t)rows->n * ROW_BYTES;
    return RT_OK;
}

static enum rt_status find_stats_message(struct srv_description *d)
{
    struct srv_cursor at = d->message;
    struct srv_field f;
    bool is_named = false;
    int got;

    while ((got = srv_field_next(&at, &f)) > 0)
        is_named |= f.number == 1 && f.type == SRV_BYTES && f.body.left;
    const enum rt_status st = is_named ? srv_oip_read_model(d) : RT_OK;
    if (!st && got < 0)
        return srv_wire_malformed(d->err, "ModelStatisticsRequest");
    return st ? st : find_stats(d);
}

/* ---- writing ---- */

/* The members of InferStatistics in the order of their field numbers. */
static const struct {
    const char *name;
    /* Offset in srv_version_statistics of the srv_duration that this member reports. NOTHING if
     * Slipway does not measure the duration. */
    size_t offset;
} members[] = {
#define NOTHING SIZE_MAX
    {"success", offsetof(struct srv_version_statistics, success)},
    {"fail", offsetof(struct srv_version_statistics, fail)},
    {"queue", offsetof(struct srv_version_statistics, queue)},
    {"compute_input", NOTHING},
    {"compute_infer", offsetof(struct srv_version_statistics, run)},
    {"compute_output", NOTHING},
    {"cache_hit", NOTHING},
    {"cache_miss", NOTHING},
};

enum { N_MEMBERS = sizeof members / sizeof *members };

static struct srv_duration duration_of(const struct row *row, int i)
{
    struct srv_duration d = {0};

    if (members[i].offset != NOTHING)
        memcpy(&d, (const char *)&row->sums + members[i].offset, sizeof d);
    return d;
}

static void write_stats_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct rows *rows = d->state;

    rt_bytes_adds(out, "{\"model_stats\":[");
    for (int i = 0; i < rows->n; i++) {
        const struct row *row = &rows->row[i];
        srv_oip_json_begin(out, i, row->model, strlen(row->model));
        rt_bytes_addf(out,
                      ",\"version\":\"%lld\",\"last_inference\":%llu,"
                      "\"inference_count\":%llu,\"execution_count\":%llu,\"inference_stats\":{",
                      (long long)row->version, (unsigned long long)last_inference_ms(row),
                      (unsigned long long)row->sums.rows, (unsigned long long)row->sums.run.count);
        for (int k = 0; k < N_MEMBERS; k++) {
            const struct srv_duration x = duration_of(row, k);
            rt_bytes_addf(out, "%s\"%s\":{\"count\":%llu,\"ns\":%llu}", k ? "," : "",
                          members[k].name, (unsigned long long)x.count, (unsigned long long)x.ns);
        }
        rt_bytes_adds(out, "},\"response_stats\":{},\"batch_stats\":[],\"memory_usage\":[]}");
    }
    rt_bytes_adds(out, "]}");
}

static void write_stats(const struct srv_description *d, struct rt_bytes *out)
{
    const struct rows *rows = d->state;
    struct rt_bytes item, stats, duration;
    char version[24];

    rt_bytes_init(&item, out->limit);
    rt_bytes_init(&stats, out->limit);
    rt_bytes_init(&duration, out->limit);
    for (int i = 0; i < rows->n; i++) {
        const struct row *row = &rows->row[i];
        snprintf(version, sizeof version, "%lld", (long long)row->version);
        srv_put_text(&item, 1, row->model);
        srv_put_text(&item, 2, version);
        srv_put_int(&item, 3, last_inference_ms(row));
        srv_put_int(&item, 4, row->sums.rows);
        srv_put_int(&item, 5, row->sums.run.count);
        for (int k = 0; k < N_MEMBERS; k++) {
            const struct srv_duration x = duration_of(row, k);
            srv_put_int(&duration, 1, x.count);
            srv_put_int(&duration, 2, x.ns);
            srv_put_message(&stats, (uint32_t)k + 1, &duration);
        }
        srv_put_message(&item, 6, &stats);
        srv_put_message(out, 1, &item);
    }
    rt_bytes_clear(&item);
    rt_bytes_clear(&stats);
    rt_bytes_clear(&duration);
}

const struct srv_description_steps srv_oip_stats_json = {find_stats, write_stats_json, NULL};
const struct srv_description_steps srv_oip_stats = {find_stats_message, write_stats, NULL};
