/* Implements Classify, Regress and MultiInference. A MultiInference call runs several
 * classifications and regressions. */
#include "runtime/base/arena.h"
#include "server/inference/inference_internal.h"

/* ---- Classify and Regress ---- */

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct srv_examples_request *r = &inf->request.examples;
    enum rt_status st =
        srv_examples_read(message, inf->api == SRV_MULTI_INFERENCE, r, inf->arena, err);

    inf->has_spec = r->has_spec;
    inf->spec = r->spec;
    return st;
}

static enum rt_status resolve(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_scoring *s = rt_arena_alloc(inf->arena, sizeof *s);
    enum rt_status st;

    if (!s)
        return rt_fail_memory(err, "a request", sizeof *s);
    st =
        srv_inference_signature(inf, inf->spec.signature, &inf->job->signature, RT_INVALID_ARGUMENT,
                                "No signature was found with the name: %s", err);
    if (st)
        return st;
    *s = (struct srv_scoring){.api = inf->api, .sig = inf->job->signature->def};
    inf->scorings = s;
    inf->n_scorings = 1;
    return srv_scoring_check(s, inf->options->enable_signature_method_name_check, err);
}

static enum rt_status bind(struct srv_inference *inf, size_t budget, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    enum rt_status st = srv_examples_bind(inf->request.examples.input, budget, &job->feeds[0], err);

    for (int i = 1; i < job->n_feeds && !st; i++)
        rt_tensor_ref(&job->feeds[i], &job->feeds[0]);
    return st;
}

static enum rt_status finish(struct srv_inference *inf, struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    enum rt_status st = RT_OK;

    for (int i = 0; i < inf->n_scorings && !st; i++)
        st = srv_scoring_check_outputs(&inf->scorings[i], job->fetches, job->feeds[0].dim[0], err);
    return st;
}

static struct srv_model_echo echo_of(const struct srv_inference *inf, int i)
{
    const struct srv_version *v = inf->job->version;
    return (struct srv_model_echo){v->model, inf->scorings[i].sig->name, v->version};
}

static enum rt_status write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                            struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    struct srv_model_echo echo = echo_of(inf, 0);
    return srv_scoring_write(inf->scorings, job->fetches, job->feeds[0].dim[0], &echo, inf->growth,
                             out, n, err);
}

static void write_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    struct srv_model_echo echo = echo_of(inf, 0);
    srv_examples_write_request(&echo, &inf->job->feeds[0], out);
}

const struct srv_inference_ops srv_examples_ops = {
    .read = read,
    .resolve = resolve,
    .bind = bind,
    .finish = finish,
    .write = write,
    .write_request = write_request,
};

/* ---- MultiInference ---- */

static struct rt_span name_of(const struct srv_inference_task *t)
{
    return t->spec.signature.n ? t->spec.signature : rt_span_str("serving_default");
}

static enum rt_status check_task(const struct srv_inference *inf, int i, struct srv_scoring *s,
                                 struct rt_error *err)
{
    const struct srv_examples_request *r = &inf->request.examples;
    const struct srv_inference_task *t = &r->tasks[i];
    const struct rt_model_signature *sig;

    if (!t->spec.name.n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Found ModelSpec with an empty model name.");
    if (!rt_span_eq(t->spec.name, r->tasks[0].spec.name))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "All ModelSpecs in a MultiInferenceRequest must access the same model "
                       "name.");
    for (int k = 0; k < i; k++) {
        struct rt_span a = name_of(&r->tasks[k]), b = name_of(t);
        if (rt_span_eq(a, b)) {
            const struct rt_span name = rt_error_name(err, b);
            return rt_fail(err, RT_INVALID_ARGUMENT, "Duplicate evaluation of signature: %.*s",
                           (int)name.n, (const char *)name.p);
        }
    }
    enum rt_status st =
        srv_inference_signature(inf, t->spec.signature, &sig, RT_INVALID_ARGUMENT,
                                "Requested signature not found in model graph: %s", err);
    if (st)
        return st;
    *s = (struct srv_scoring){.api = SRV_CLASSIFY, .sig = sig->def};
    if (!rt_span_is(t->method, srv_scoring_method(SRV_CLASSIFY)))
        s->api = SRV_REGRESS;
    if (s->api == SRV_REGRESS && !rt_span_is(t->method, srv_scoring_method(SRV_REGRESS))) {
        const struct rt_span method = rt_error_name(err, t->method);
        return rt_fail(err, RT_UNIMPLEMENTED, "Unsupported signature method_name: %.*s",
                       (int)method.n, (const char *)method.p);
    }
    return srv_scoring_check(s, inf->options->enable_signature_method_name_check, err);
}

/* Resolves one dynamic callable for all tasks. Its feeds are the inputs of all tasks, which receive
 * the same examples. Its fetches are all outputs that the tasks read. */
static enum rt_status resolve_multi(struct srv_inference *inf, struct rt_error *err)
{
    int n = inf->request.examples.n_tasks, n_feeds = 0, n_fetches = 0;
    struct srv_scoring *s = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *s);
    struct rt_call_spec *spec = rt_arena_alloc(inf->arena, sizeof *spec);
    struct rt_shape *shapes = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *shapes);
    const char **feeds = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *feeds);
    const char **fetches = rt_arena_array(inf->arena, (size_t)n + 1, 2 * sizeof *fetches);
    enum rt_status st = RT_OK;

    if (!s || !spec || !shapes || !feeds || !fetches)
        return rt_fail_memory(err, "a request", 0);
    for (int i = 0; i < n && !st; i++) {
        st = check_task(inf, i, &s[i], err);
        if (st)
            break;
        shapes[i] = (struct rt_shape){.rank = 1, .dim = {-1}};
        feeds[n_feeds++] = s[i].sig->inputs[0].name;
        if (s[i].classes >= 0)
            fetches[n_fetches++] = s[i].sig->outputs[s[i].classes].name;
        if (s[i].scores >= 0)
            fetches[n_fetches++] = s[i].sig->outputs[s[i].scores].name;
    }
    if (st)
        return st;
    n_feeds = srv_sort_names(feeds, n_feeds);
    n_fetches = srv_sort_names(fetches, n_fetches);
    for (int i = 0; i < n; i++) {
        const struct rt_tensor_spec *out = s[i].sig->outputs;
        if (s[i].classes >= 0)
            s[i].classes = srv_place_of(fetches, n_fetches, out[s[i].classes].name);
        if (s[i].scores >= 0)
            s[i].scores = srv_place_of(fetches, n_fetches, out[s[i].scores].name);
    }
    inf->scorings = s;
    inf->n_scorings = n;
    *spec = (struct rt_call_spec){
        .feeds = feeds, .n_feeds = n_feeds, .fetches = fetches, .n_fetches = n_fetches};
    return srv_inference_dynamic(inf, spec, shapes, err);
}

static struct srv_model_echo *echoes_of(const struct srv_inference *inf)
{
    struct srv_model_echo *e = rt_arena_array(inf->arena, (size_t)inf->n_scorings + 1, sizeof *e);
    for (int i = 0; e && i < inf->n_scorings; i++)
        e[i] = echo_of(inf, i);
    return e;
}

static enum rt_status write_multi(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                  struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct srv_model_echo *echoes = echoes_of(inf);

    if (!echoes)
        return rt_fail_memory(err, "a response", 0);
    return srv_multi_write(inf->scorings, inf->n_scorings, job->fetches, job->feeds[0].dim[0],
                           echoes, inf->growth, out, n, err);
}

static void write_multi_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_model_echo *echoes = echoes_of(inf);

    if (echoes)
        srv_multi_write_request(inf->scorings, inf->n_scorings, echoes, &inf->job->feeds[0], out);
    else
        out->failed = true;
}

const struct srv_inference_ops srv_multi_ops = {
    .read = read,
    .resolve = resolve_multi,
    .bind = bind,
    .finish = finish,
    .write = write_multi,
    .write_request = write_multi_request,
};
