/* Implements ModelService.HandleReloadConfigRequest. The response is sent once every new model is
 * available or has failed. Only the calling client waits. */
#include "server/protocol/tfs/tfs.h"

#include <string.h>

#include "runtime/base/log.h"
#include "server/base/log_limit.h"
#include "server/base/wire.h"
#include "server/telemetry/metrics_page.h"
#include "server/telemetry/metrics_total.h"
#include "server/versions/manager.h"

enum {
    MAX_METRICS = 1000, /* maximum number of names in a request, including repeated ones */
    MAX_NAME = 1024,    /* in bytes */
    /* Maximum size of all config fields in bytes. They and the names are copied to the arena of
     * the request, which has 16 MiB. */
    MAX_CONFIG = 15 << 20,
};

/* Limits the log messages about reloads, because a client can request reloads at any rate. */
static struct srv_log_limit log_limit;
#define SUBJECT "reload of the model configuration"

struct metric {
    struct rt_span name;
    double before;
};

struct reload {
    struct srv_action *action;
    struct rt_span config; /* the contents of all config fields, one after the other */
    size_t config_bytes;   /* the sum of their sizes */
    /* number of names in the request, and number of distinct names */
    int n_names, n_metrics;
    struct metric *metrics;
};

static bool has_metric(const struct reload *r, struct rt_span name)
{
    for (int i = 0; i < r->n_metrics; i++)
        if (rt_span_eq(r->metrics[i].name, name))
            return true;
    return false;
}

static enum rt_status add_metric(struct srv_action *a, struct reload *r, const struct srv_field *f)
{
    struct rt_span name;

    if (r->n_names++ == MAX_METRICS)
        return rt_fail(a->err, RT_INVALID_ARGUMENT,
                       "ReloadConfigRequest.metric_names has more than %d names", MAX_METRICS);
    enum rt_status st = srv_field_span(f, &name, a->arena, a->err);
    if (st)
        return st;
    if (name.n > MAX_NAME)
        return rt_fail(a->err, RT_INVALID_ARGUMENT,
                       "ReloadConfigRequest.metric_names has a name of %zu bytes, %d are the most",
                       name.n, MAX_NAME);
    if (has_metric(r, name))
        return RT_OK;
    r->metrics[r->n_metrics++].name = name;
    return RT_OK;
}

/* Adds the size of a config field to the sum. */
static enum rt_status count_config(struct srv_action *a, struct reload *r,
                                   const struct srv_field *f)
{
    r->config_bytes += f->body.left;
    if (r->config_bytes > MAX_CONFIG)
        return rt_fail(a->err, RT_RESOURCE_EXHAUSTED,
                       "ReloadConfigRequest.config has %zu bytes, %d are the most", r->config_bytes,
                       MAX_CONFIG);
    return RT_OK;
}

/* Sets r->config. Protobuf merges the occurrences of a message field, and the result is the message
 * whose encoding is the concatenation of the occurrences. */
static enum rt_status join_configs(struct srv_action *a, struct srv_cursor at, struct reload *r)
{
    struct srv_field f;
    size_t n = 0;
    unsigned char *all = NULL;

    while (srv_field_next(&at, &f) > 0) {
        const size_t more = f.body.left;
        if (!srv_field_is(&f, 1, SRV_BYTES))
            continue;
        if (more == r->config_bytes) /* all other occurrences are empty */
            return srv_field_span(&f, &r->config, a->arena, a->err);
        if (!all && !(all = rt_arena_alloc(a->arena, r->config_bytes)))
            return rt_fail_memory(a->err, "a reload", r->config_bytes);
        srv_cursor_copy(&f.body, all + n, more);
        n += more;
    }
    r->config = rt_span_of(all, n);
    return RT_OK;
}

/* Reads a ReloadConfigRequest. The spans in *r are valid until the message is freed. */
static enum rt_status read_reload(struct srv_action *a, struct reload *r)
{
    struct srv_cursor at = a->message;
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    r->metrics = rt_arena_array(a->arena, MAX_METRICS, sizeof *r->metrics);
    if (!r->metrics)
        st = rt_fail_memory(a->err, "a reload", 0);
    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = count_config(a, r, &f);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = add_metric(a, r, &f);
    }
    if (!st && got < 0)
        st = srv_wire_malformed(a->err, "ReloadConfigRequest");
    return st ? st : join_configs(a, a->message, r);
}

/* Writes to `out` the current values of the counters that the request names. The values come from
 * the metrics page. Fails with RESOURCE_EXHAUSTED if this page is too large. */
static enum rt_status read_metrics(struct srv_server *server, const struct reload *r, double *out,
                                   struct rt_error *err)
{
    struct srv_total totals[MAX_METRICS];
    struct rt_bytes page;
    enum rt_status st = RT_OK;

    if (!r->n_metrics)
        return RT_OK;
    for (int i = 0; i < r->n_metrics; i++)
        totals[i] = (struct srv_total){.name = r->metrics[i].name, .index = i};
    srv_metrics_page(server, SRV_TEXT_PROMETHEUS, &page);
    if (page.failed) {
        srv_metrics_page_fail(&page, err);
        st = rt_fail_prefix(err, "ReloadConfigRequest.metric_names cannot be read: ");
    } else {
        srv_metrics_totals(rt_span_of(page.p, page.n), totals, r->n_metrics);
    }
    for (int i = 0; !st && i < r->n_metrics; i++)
        out[totals[i].index] = totals[i].value;
    rt_bytes_clear(&page);
    return st;
}

/* Writes a field that is a member of a oneof. The field is written even if its value is 0. */
static void put_increase(struct rt_bytes *out, uint64_t v)
{
    unsigned char buffer[16];
    unsigned char *end = srv_write_varint(srv_write_tag(buffer, 2, SRV_VARINT), v);

    rt_bytes_add(out, buffer, (size_t)(end - buffer));
}

/* Writes the response to a successful reload: the code OK, and `remark` as the error message. If
 * the counters can no longer be read, the response contains no counters. */
static void write_response(struct srv_server *server, const struct reload *r, const char *remark,
                           struct rt_bytes *out)
{
    double now[MAX_METRICS];
    struct rt_error err = {0};
    struct rt_bytes one;
    const enum rt_status st = read_metrics(server, r, now, &err);

    if (st)
        RT_LOG(RT_LOG_WARNING, "the counters of a reload are not reported: %s",
               rt_error_text(&err));
    rt_bytes_init(&one, 1 << 20);
    if (*remark)
        srv_put_bytes(&one, 2, remark, strlen(remark));
    srv_put_message(out, 1, &one);
    for (int i = 0; !st && i < r->n_metrics; i++) {
        /* A counter is a sum over models, so it decreases when a model is removed from the
         * configuration. The reported increase is then 0. */
        const double increase = now[i] - r->metrics[i].before;
        srv_put_bytes(&one, 1, r->metrics[i].name.p, r->metrics[i].name.n);
        put_increase(&one, increase > 0 && increase < 9e18 ? (uint64_t)increase : 0);
        srv_put_message(out, 2, &one);
    }
    rt_bytes_clear(&one);
}

/* Ends the action with the response to the reload. */
static void finish(struct reload *r, enum rt_status st, const char *remark)
{
    struct srv_action *a = r->action;

    if (!st) {
        write_response(a->server, r, remark, a->out);
        if (a->out->failed)
            st = rt_fail_memory(a->err, "the response", a->out->limit);
    }
    if (st && srv_log_admits(&log_limit, SUBJECT))
        RT_LOG(RT_LOG_ERROR, "ReloadConfig failed: %s", rt_error_text(a->err));
    a->done(a, st);
}

/* Runs on the manager's thread after the reload. */
static void reloaded(void *arg, enum rt_status st, const struct rt_error *err)
{
    struct reload *r = arg;

    if (st)
        rt_error_copy(r->action->err, err);
    finish(r, st, st ? "" : rt_error_text(err));
}

/* Reads the request, and the values of its counters before the reload. */
static enum rt_status prepare(struct srv_action *a, struct reload *r)
{
    double before[MAX_METRICS];
    enum rt_status st = read_reload(a, r);

    if (st)
        return st;
    if (srv_log_admits(&log_limit, SUBJECT))
        RT_LOG(RT_LOG_INFO, "a reload of the model configuration was asked for");
    st = read_metrics(a->server, r, before, a->err);
    for (int i = 0; !st && i < r->n_metrics; i++)
        r->metrics[i].before = before[i];
    return st;
}

static void reload(struct srv_action *a)
{
    struct reload *r = rt_arena_alloc(a->arena, sizeof *r);
    enum rt_status st;

    if (!r) {
        a->done(a, rt_fail_memory(a->err, "a reload", sizeof *r));
        return;
    }
    r->action = a;
    st = prepare(a, r);
    if (!st)
        st = srv_manager_reload(a->server->manager, r->config, a->cancelled, reloaded, r, a->err);
    if (st)
        finish(r, st, "");
}

const struct srv_action_steps srv_tfs_reload = {.perform = reload, .is_admin = true};
