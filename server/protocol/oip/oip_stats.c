/* Implements Triton's statistics: the number and the duration of each model's inferences. */
#include "server/protocol/oip/oip_describe.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/versions/manager.h"

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

/* A list of rows that grows. */
struct rows {
    int n, capacity;
    struct row *row;
};

static enum rt_status grow(struct srv_description *d, struct rows *rows)
{
    const int capacity = rows->capacity ? 2 * rows->capacity : 1;
    struct row *grown = rt_arena_array(d->arena, (size_t)capacity, sizeof *grown);

    if (!grown)
        return rt_fail_memory(d->err, "statistics", (size_t)capacity * sizeof *grown);
    if (rows->n)
        memcpy(grown, rows->row, (size_t)rows->n * sizeof *grown);
    rows->row = grown;
    rows->capacity = capacity;
    return RT_OK;
}

static enum rt_status add(struct srv_description *d, struct rows *rows, const struct srv_version *v)
{
    const char *model = rt_arena_strdup(d->arena, v->model);

    if (!model)
        return rt_fail_memory(d->err, "statistics", 0);
    if (rows->n == rows->capacity && grow(d, rows))
        return d->err->code;
    struct row *row = &rows->row[rows->n++];
    *row = (struct row){.model = model, .version = v->version};
    if (v->metrics && d->server->metrics)
        srv_metrics_statistics(d->server->metrics, v->metrics, &row->sums);
    return RT_OK;
}

struct reading {
    struct srv_description *d;
    struct rows *rows;
    enum rt_status status;
};

static bool add_available(void *arg, const struct srv_version *v)
{
    struct reading *reading = arg;

    reading->status = add(reading->d, reading->rows, v);
    return reading->status != RT_OK;
}

/* Finds the version whose statistics are asked for. If d->spec names no model, they are those of
 * all versions that serve. */
static enum rt_status find_stats(struct srv_description *d)
{
    if (!d->spec.name.n) {
        d->n_items = srv_status_size_of_all(d->server->manager);
        d->n_listed = srv_status_size_of_available(d->server->manager);
        return RT_OK;
    }
    const enum rt_status st = srv_oip_find_version(d);
    return st ? st : srv_oip_check_signature(d);
}

/* Sums the counters of d->version, or of all versions that serve. */
static enum rt_status gather_stats(struct srv_description *d)
{
    enum { ROW_BYTES = 512 };
    struct rows *rows = rt_arena_alloc(d->arena, sizeof *rows);
    struct reading reading = {d, rows, RT_OK};

    if (!rows)
        return rt_fail_memory(d->err, "statistics", sizeof *rows);
    if (d->version)
        reading.status = add(d, rows, d->version);
    else
        srv_manager_look(d->server->manager, add_available, &reading);
    d->state = rows;
    d->bytes = (size_t)rows->n * ROW_BYTES;
    return reading.status;
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

const struct srv_description_steps srv_oip_stats_json = {find_stats, write_stats_json,
                                                         gather_stats};
const struct srv_description_steps srv_oip_stats = {find_stats_message, write_stats, gather_stats};
