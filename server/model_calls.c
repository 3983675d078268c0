/* Implements the functions by which the manager loads, publishes and frees versions. They use the
 * runtime's models, the model queues, the metrics and the request logs. */
#include "runtime/base/machine.h"
#include "server/replay/golden.h"
#include "server/replay/model_warmup.h"
#include "server/versions/loader.h"
#include "server/metrics/metrics.h"
#include "server/request_log/request_log.h"
#include "server/batching/scheduler.h"
#include "server/replay/warmup.h"

static enum rt_status attach(struct srv_server *s, struct srv_version *v, struct rt_error *err)
{
    int n = v->loaded->n_signatures;
    const char **names = rt_arena_array(v->loaded->arena, (size_t)n + 1, sizeof *names);
    if (!names)
        return rt_fail_memory(err, "a version's metrics", 0);
    for (int i = 0; i < n; i++)
        names[i] = v->loaded->signatures[i].def->name;
    v->log = srv_request_log_acquire(s->request_log, v->model);
    if (!v->log)
        return rt_fail_memory(err, "a model's request log", 0);
    v->metrics = srv_metrics_version(s->metrics, v->model, v->version, n, names);
    enum rt_status st = v->metrics ? srv_model_queue_new(s->scheduler, v, &v->model_queue, err)
                                   : rt_fail_memory(err, "a version's metrics", 0);
    if (st) {
        srv_metrics_drop_version(s->metrics, v->metrics);
        srv_request_log_release(v->log);
    }
    return st;
}

static void retire(struct srv_server *s, struct srv_version *v)
{
    (void)s;
    srv_model_queue_flush(v->model_queue);
}

static void detach(struct srv_server *s, struct srv_version *v)
{
    srv_model_queue_free(v->model_queue);
    srv_metrics_drop_version(s->metrics, v->metrics);
    srv_request_log_release(v->log);
}

static void count_load(struct srv_server *s, const char *model, const char *dir, bool ok,
                       int64_t ns)
{
    srv_metrics_load(s->metrics, model, dir, ok, ns);
}

static void count_event(struct srv_server *s, const char *name)
{
    srv_metrics_event(s->metrics, name);
}

static void model_gone(struct srv_server *s, const char *model)
{
    srv_metrics_model_gone(s->metrics, model);
}

static enum rt_status validate(struct srv_server *s, struct srv_version *v, const char *dir,
                               const _Atomic bool *cancelled, struct rt_error *err)
{
    enum rt_status st = srv_scheduler_read_parameters(s->scheduler, v, dir, err);
    if (!st)
        st = srv_scheduler_compile(s->scheduler, v, cancelled, err);
    if (!st)
        st = srv_warmup_run(s, v, dir, cancelled, err);
    if (!st)
        st = srv_model_warmup_run(s, v, dir, cancelled, err);
    return st ? st : srv_golden_run(s, v, dir, cancelled, err);
}

static void end(struct rt_model *model)
{
    rt_session_end(model->session);
}

static void configure(struct srv_server *s, const struct srv_config *config)
{
    srv_request_log_configure(s->request_log, config);
}

const struct srv_model_calls srv_model_calls = {
    .is_complete = rt_saved_model_is_complete,
    .load = rt_model_load,
    .has_warmup = srv_warmup_is_there,
    .validate = validate,
    .free = rt_model_free,
    .end = end,
    .attach = attach,
    .retire = retire,
    .detach = detach,
    .configure = configure,
    .count_load = count_load,
    .count_event = count_event,
    .model_gone = model_gone,
    .free_memory = rt_machine_free_memory,
};
