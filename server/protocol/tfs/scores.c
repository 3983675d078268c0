/* Implements Classify, Regress and MultiInference. A MultiInference call runs several
 * classifications and regressions. */
#include "runtime/base/arena.h"
#include "server/protocol/tfs/classify_proto.h"
#include "server/protocol/tfs/json_examples.h"
#include "server/protocol/tfs/json_tensor.h"
#include "server/protocol/tfs/tfs.h"

struct examples {
    struct srv_examples_request request;
    struct rt_tensor tensor; /* examples of a JSON request, before they become a feed */
    /* number of elements of `scorings`: one for Classify and Regress, and one per task for
     * MultiInference */
    int n_scorings;
    struct srv_scoring *scorings;
};

/* ---- Classify and Regress ---- */

static struct examples *new_request(struct srv_inference *inf, struct rt_error *err)
{
    struct examples *e = rt_arena_alloc(inf->arena, sizeof *e);

    if (!e)
        rt_fail_memory(err, "a request", sizeof *e);
    inf->request = e;
    return e;
}

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct examples *e = new_request(inf, err);

    if (!e)
        return RT_RESOURCE_EXHAUSTED;
    struct srv_examples_request *r = &e->request;
    enum rt_status st =
        srv_examples_read(message, inf->steps->api == SRV_MULTI_INFERENCE, r, inf->arena, err);
    inf->has_spec = r->has_spec;
    inf->spec = r->spec;
    return st;
}

static enum rt_status read_json(struct srv_inference *inf, struct srv_cursor message,
                                struct rt_error *err)
{
    struct examples *e = new_request(inf, err);
    struct srv_json_doc doc;
    struct rt_span text;

    if (!e)
        return RT_RESOURCE_EXHAUSTED;
    enum rt_status st = srv_cursor_span(message, &text, inf->arena, err);
    if (!st)
        st = srv_json_check(&doc, text, &inf->cancellation, err);
    if (!st)
        st = srv_json_signature(&doc, inf->arena, &inf->spec.signature, err);
    return st ? st : srv_json_decode_examples(&doc, &inf->allowance, &e->tensor, err);
}

static void clear_json(struct srv_inference *inf)
{
    struct examples *e = inf->request;

    if (e)
        rt_tensor_clear(&e->tensor);
}

static enum rt_status resolve(struct srv_inference *inf, struct rt_error *err)
{
    struct examples *e = inf->request;
    struct srv_scoring *s = rt_arena_alloc(inf->arena, sizeof *s);
    enum rt_status st;

    if (!s)
        return rt_fail_memory(err, "a request", sizeof *s);
    st =
        srv_inference_signature(inf, inf->spec.signature, &inf->job->signature, RT_INVALID_ARGUMENT,
                                "No signature was found with the name: %s", err);
    if (st)
        return st;
    *s = (struct srv_scoring){.api = inf->steps->api, .sig = inf->job->signature->def};
    e->scorings = s;
    e->n_scorings = 1;
    return srv_scoring_check(s, inf->options->enable_signature_method_name_check, err);
}

static enum rt_status bind(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    const struct examples *e = inf->request;
    enum rt_status st = srv_examples_bind(e->request.input, &inf->allowance, &job->feeds[0], err);

    for (int i = 1; i < job->n_feeds && !st; i++)
        rt_tensor_ref(&job->feeds[i], &job->feeds[0]);
    return st;
}

static enum rt_status bind_json(struct srv_inference *inf, struct rt_error *err)
{
    struct examples *e = inf->request;

    (void)err;
    inf->job->feeds[0] = e->tensor;
    e->tensor = (struct rt_tensor){.dtype = 0};
    return RT_OK;
}

static enum rt_status finish(struct srv_inference *inf, struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct examples *e = inf->request;
    enum rt_status st = RT_OK;

    for (int i = 0; i < e->n_scorings && !st; i++)
        st = srv_scoring_check_outputs(&e->scorings[i], job->fetches, job->feeds[0].dim[0], err);
    return st;
}

static struct srv_model_echo echo_of(const struct srv_inference *inf, int i)
{
    const struct srv_version *v = inf->job->version;
    const struct examples *e = inf->request;
    return (struct srv_model_echo){v->model, e->scorings[i].sig->name, v->version};
}

static enum rt_status write(struct srv_inference *inf, struct rt_bytes *out, struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct examples *e = inf->request;
    struct srv_model_echo echo = echo_of(inf, 0);
    unsigned char *p = NULL;
    size_t n = 0;
    enum rt_status st = srv_scoring_write(e->scorings, job->fetches, job->feeds[0].dim[0], &echo,
                                          inf->growth, &p, &n, err);
    if (!st)
        rt_bytes_own(out, p, n);
    return st;
}

static enum rt_status encode_json(struct srv_inference *inf, struct rt_bytes *out,
                                  struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct examples *e = inf->request;
    struct srv_cancellation cancellation = srv_job_cancellation(job);
    return srv_json_encode_scores(out, e->scorings, job->fetches, job->feeds[0].dim[0],
                                  &cancellation, err);
}

static void write_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    struct srv_model_echo echo = echo_of(inf, 0);
    srv_examples_write_request(&echo, &inf->job->feeds[0], out);
}

const struct srv_inference_steps srv_tfs_classify = {
    .api = SRV_CLASSIFY,
    .read = read,
    .check_spec = srv_tfs_check_spec,
    .resolve = resolve,
    .bind = bind,
    .finish = finish,
    .encode = write,
    .log_request = write_request,
    .log_response = write,
};

const struct srv_inference_steps srv_tfs_classify_json = {
    .api = SRV_CLASSIFY,
    .read = read_json,
    .resolve = resolve,
    .bind = bind_json,
    .finish = finish,
    .encode = encode_json,
    .log_request = write_request,
    .log_response = write,
    .clear = clear_json,
};

const struct srv_inference_steps srv_tfs_regress = {
    .api = SRV_REGRESS,
    .read = read,
    .check_spec = srv_tfs_check_spec,
    .resolve = resolve,
    .bind = bind,
    .finish = finish,
    .encode = write,
    .log_request = write_request,
    .log_response = write,
};

const struct srv_inference_steps srv_tfs_regress_json = {
    .api = SRV_REGRESS,
    .read = read_json,
    .resolve = resolve,
    .bind = bind_json,
    .finish = finish,
    .encode = encode_json,
    .log_request = write_request,
    .log_response = write,
    .clear = clear_json,
};

/* ---- MultiInference ---- */

/* Checks task i and fills all[i]. all[0] to all[i - 1] are already filled. */
static enum rt_status check_task(const struct srv_inference *inf, int i, struct srv_scoring *all,
                                 struct rt_error *err)
{
    const struct srv_examples_request *r = &((const struct examples *)inf->request)->request;
    const struct srv_inference_task *t = &r->tasks[i];
    const struct rt_model_signature *sig;
    struct srv_scoring *s = &all[i];

    if (!t->spec.name.n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Found ModelSpec with an empty model name.");
    if (!rt_span_eq(t->spec.name, r->tasks[0].spec.name))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "All ModelSpecs in a MultiInferenceRequest must access the same model "
                       "name.");
    enum rt_status st =
        srv_inference_signature(inf, t->spec.signature, &sig, RT_INVALID_ARGUMENT,
                                "Requested signature not found in model graph: %s", err);
    if (st)
        return st;
    /* A request may have 1000 tasks with long names, so signatures are compared by address. */
    for (int k = 0; k < i; k++)
        if (all[k].sig == sig->def) {
            const struct rt_span name = rt_error_name(err, rt_span_str(sig->def->name));
            return rt_fail(err, RT_INVALID_ARGUMENT, "Duplicate evaluation of signature: %.*s",
                           (int)name.n, (const char *)name.p);
        }
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

/* Resolves one dynamic callable for all tasks. The feeds are the inputs of all tasks, and each
 * receives the same examples. The fetches are all outputs that the tasks use. */
static enum rt_status resolve_multi(struct srv_inference *inf, struct rt_error *err)
{
    struct examples *e = inf->request;
    int n = e->request.n_tasks, n_feeds = 0, n_fetches = 0;
    struct srv_scoring *s = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *s);
    struct rt_call_spec *spec = rt_arena_alloc(inf->arena, sizeof *spec);
    struct rt_shape *shapes = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *shapes);
    const char **feeds = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *feeds);
    const char **fetches = rt_arena_array(inf->arena, (size_t)n + 1, 2 * sizeof *fetches);
    enum rt_status st = RT_OK;

    if (!s || !spec || !shapes || !feeds || !fetches)
        return rt_fail_memory(err, "a request", 0);
    for (int i = 0; i < n && !st; i++) {
        st = check_task(inf, i, s, err);
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
    e->scorings = s;
    e->n_scorings = n;
    *spec = (struct rt_call_spec){
        .feeds = feeds, .n_feeds = n_feeds, .fetches = fetches, .n_fetches = n_fetches};
    return srv_inference_dynamic(inf, spec, shapes, err);
}

static struct srv_model_echo *echoes_of(const struct srv_inference *inf)
{
    const int n = ((const struct examples *)inf->request)->n_scorings;
    struct srv_model_echo *echoes = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *echoes);

    for (int i = 0; echoes && i < n; i++)
        echoes[i] = echo_of(inf, i);
    return echoes;
}

static enum rt_status write_multi(struct srv_inference *inf, struct rt_bytes *out,
                                  struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct examples *e = inf->request;
    const struct srv_model_echo *echoes = echoes_of(inf);
    unsigned char *p = NULL;
    size_t n = 0;

    if (!echoes)
        return rt_fail_memory(err, "a response", 0);
    enum rt_status st = srv_multi_write(e->scorings, e->n_scorings, job->fetches,
                                        job->feeds[0].dim[0], echoes, inf->growth, &p, &n, err);
    if (!st)
        rt_bytes_own(out, p, n);
    return st;
}

static void write_multi_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_model_echo *echoes = echoes_of(inf);
    const struct examples *e = inf->request;

    if (echoes)
        srv_multi_write_request(e->scorings, e->n_scorings, echoes, &inf->job->feeds[0], out);
    else
        out->failed = true;
}

/* Unlike other calls, a MultiInference call has no ModelSpec of its own. Each task has one. */
static enum rt_status check_multi_spec(const struct srv_inference *inf, struct rt_error *err)
{
    return inf->spec.name.n ? RT_OK
                            : rt_fail(err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
}

const struct srv_inference_steps srv_tfs_multi_inference = {
    .api = SRV_MULTI_INFERENCE,
    .read = read,
    .check_spec = check_multi_spec,
    .resolve = resolve_multi,
    .bind = bind,
    .finish = finish,
    .encode = write_multi,
    .log_request = write_multi_request,
    .log_response = write_multi,
};
