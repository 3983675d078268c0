/* Loads a SavedModel directory as a model that is ready to serve: reads the files, imports the
 * graph, checks the ops, restores the variables, runs the init op, makes the plans, warms up the
 * signatures, and seals the session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/api/callable.h"
#include "runtime/api/dynamic_callable.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/map.h"
#include "runtime/files/saved_model.h"
#include "runtime/session/session_internal.h"

enum {
    MAX_LISTED = 20,         /* maximum number of missing ops named in one error message */
    MISSING_BYTES = 1 << 28, /* limit on the memory of a list of missing ops, in bytes */
    /* These limits ensure that loading ends even if a model loops forever. */
    INIT_S = 600, /* time limit of each run of a restore op or an init op, in seconds */
    WARM_UP_S = 30,
    WARM_UP_ALL_S = 120,
    WARM_UP_BYTES = 256 << 20, /* maximum size in bytes of an input of a warm-up */
    WARM_UP_ROUNDS = 8,
};
#define SECOND INT64_C(1000000000)

/* ---- feeds of the loader's own calls ---- */

static enum rt_status string_scalar(struct rt_tensor *t, const char *text, struct rt_error *err)
{
    enum rt_status st = rt_tensor_new(t, NULL, RT_STRING, 0, NULL, err);
    if (!st && !rt_str_set(t->data, NULL, text, strlen(text), err)) {
        rt_tensor_clear(t);
        st = rt_fail_memory(err, "a file name", strlen(text));
    }
    return st;
}

/* Runs `target`. Feeds the file names of the assets, and the checkpoint's prefix unless `prefix` is
 * NULL. */
static enum rt_status run_target(struct rt_model *m, const char *target, const char *prefix,
                                 const struct rt_wait_hook *on_wait, struct rt_error *err)
{
    const struct rt_meta_graph *g = m->meta_graph;
    int n_feeds = g->n_assets + (prefix ? 1 : 0);
    const char **names = calloc((size_t)n_feeds + 1, sizeof *names);
    struct rt_tensor *feeds = calloc((size_t)n_feeds + 1, sizeof *feeds);
    struct rt_callable *call;
    struct rt_tensor none;
    enum rt_status st = RT_OK;
    int n = 0;
    if (!names || !feeds)
        st = rt_fail_memory(err, "loading", 0);
    for (int i = 0; i < g->n_assets && !st; i++) {
        char *path =
            rt_arena_printf(m->arena, "%s/assets/%s", m->saved_model->dir, g->assets[i].file_name);
        if (!path)
            st = rt_fail_memory(err, "a file name", 0);
        else {
            names[n] = g->assets[i].tensor_name;
            st = string_scalar(&feeds[n], path, err);
            n += !st;
        }
    }
    if (prefix && !st) {
        names[n] = g->filename_tensor;
        st = string_scalar(&feeds[n], prefix, err);
        n += !st;
    }
    if (!st) {
        struct rt_call_spec spec = {
            .feeds = names, .n_feeds = n, .targets = &target, .n_targets = 1, .is_load = true};
        st = rt_session_prepare(m->session, &spec, &call, err);
    }
    if (!st)
        st = rt_callable_run(call, feeds, &none,
                             &(struct rt_run_options){.deadline_ns = rt_now_ns() + INIT_S * SECOND,
                                                      .on_wait = on_wait},
                             err);
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&feeds[i]);
    free(names);
    free(feeds);
    return st;
}

/* ---- signatures ---- */

static enum rt_status signature_spec(struct rt_arena *arena, const struct rt_signature *s,
                                     struct rt_call_spec *spec, struct rt_error *err)
{
    const char **feeds = rt_arena_array(arena, (size_t)s->n_inputs + 1, sizeof *feeds);
    const char **fetches = rt_arena_array(arena, (size_t)s->n_outputs + 1, sizeof *fetches);
    if (!feeds || !fetches)
        return rt_fail_memory(err, "a signature", 0);
    for (int i = 0; i < s->n_inputs; i++)
        feeds[i] = s->inputs[i].name;
    for (int i = 0; i < s->n_outputs; i++)
        fetches[i] = s->outputs[i].name;
    *spec = (struct rt_call_spec){
        .feeds = feeds, .n_feeds = s->n_inputs, .fetches = fetches, .n_fetches = s->n_outputs};
    return RT_OK;
}

/* Finds equal signatures, which share one plan. The number of distinct signatures is limited,
 * because each plan can be as large as the model's graph. */
static enum rt_status find_equal(struct rt_model *m, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct rt_bytes key;
    struct rt_map first;
    rt_map_init(&first);
    rt_bytes_init(&key, 1 << 24);
    for (int i = 0; i < m->n_signatures && !st; i++) {
        const struct rt_signature *s = m->signatures[i].def;
        rt_bytes_clear(&key);
        for (int k = 0; k < s->n_inputs; k++) {
            const struct rt_shape *shape = &s->inputs[k].shape;
            rt_bytes_add(&key, s->inputs[k].name, strlen(s->inputs[k].name) + 1);
            rt_bytes_add(&key, &shape->rank, sizeof shape->rank);
            if (shape->rank > 0)
                rt_bytes_add(&key, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
        }
        rt_bytes_addc(&key, '\1');
        for (int k = 0; k < s->n_outputs; k++)
            rt_bytes_add(&key, s->outputs[k].name, strlen(s->outputs[k].name) + 1);
        if (key.failed) {
            st = rt_bytes_fail(&key, "a signature", err, RT_INVALID_ARGUMENT,
                               "a signature has too many inputs and outputs");
            break;
        }
        m->signatures[i].same = rt_map_getn(&first, key.p, key.n);
        if (m->signatures[i].same)
            continue;
        if (first.n == RT_MAX_SIGNATURES)
            st = rt_fail(err, RT_UNIMPLEMENTED,
                         "the model has %d signatures; more than %d of them name different tensors "
                         "or shapes",
                         m->n_signatures, RT_MAX_SIGNATURES);
        else if (!rt_map_putn(&first, key.p, key.n, &m->signatures[i]))
            st = rt_fail_memory(err, "a signature", key.n);
    }
    rt_bytes_clear(&key);
    rt_map_clear(&first);
    return st;
}

static void list_missing(struct rt_bytes *b, const struct rt_missing *missing, int n)
{
    for (int i = 0; i < n && i < MAX_LISTED; i++)
        rt_bytes_addf(b, "%s%.200s (node '%.200s')", i ? "; " : "", missing[i].reason,
                      missing[i].node);
    if (n > MAX_LISTED)
        rt_bytes_addf(b, "; and %d more", n - MAX_LISTED);
}

/* Checks that the model can run all nodes reachable from init and restore. A signature that cannot
 * run is skipped if allow_unsupported is set. If allow_unsupported is not set, the check fails. */
static enum rt_status check_ops(struct rt_model *m, bool allow_unsupported, struct rt_error *err)
{
    const struct rt_meta_graph *g = m->meta_graph;
    struct rt_missing *missing;
    enum rt_status st = RT_OK;
    struct rt_bytes text;
    int n;
    struct rt_arena *lists = rt_arena_new(MISSING_BYTES);
    if (!lists)
        return rt_fail_memory(err, "a model", 0);
    rt_bytes_init(&text, 1 << 20);
    const char *targets[2] = {g->restore_op && m->weight_bytes ? g->restore_op : NULL, g->init_op};
    for (int i = 0; i < 2 && !st; i++) {
        if (!targets[i])
            continue;
        struct rt_call_spec spec = {.targets = &targets[i], .n_targets = 1};
        if (i == 0 && g->filename_tensor) {
            spec.feeds = &g->filename_tensor;
            spec.n_feeds = 1;
        }
        st = rt_session_missing(m->session, &spec, lists, &missing, &n, err);
        if (!st && n) {
            list_missing(&text, missing, n);
            st = rt_fail(err, RT_UNIMPLEMENTED, "the model's %s cannot run: %s",
                         i ? "init op" : "restore op", text.p ? text.p : "");
        }
    }
    int usable = 0;
    for (int i = 0; i < m->n_signatures && !st; i++) {
        struct rt_model_signature *s = &m->signatures[i];
        struct rt_call_spec spec;
        if (s->same) {
            s->unsupported = s->same->unsupported;
            continue;
        }
        rt_arena_reset(lists);
        st = signature_spec(lists, s->def, &spec, err);
        if (!st)
            st = rt_session_missing(m->session, &spec, lists, &missing, &n, err);
        if (st) {
            rt_fail_prefix(err, "signature \"%s\": ", s->def->name);
            if (!allow_unsupported)
                break;
            s->unsupported = rt_arena_strdup(m->arena, rt_error_text(err));
            st = s->unsupported ? RT_OK : rt_fail_memory(err, "a signature", 0);
            continue;
        }
        usable += !n;
        if (!n)
            continue;
        rt_bytes_clear(&text);
        list_missing(&text, missing, n);
        s->unsupported = rt_arena_strdup(m->arena, text.p ? text.p : "");
        if (!s->unsupported)
            st = rt_fail_memory(err, "a signature", 0);
        else if (!allow_unsupported)
            st = rt_fail(err, RT_UNIMPLEMENTED, "signature \"%s\" cannot run: %s", s->def->name,
                         s->unsupported);
    }
    if (!st && m->n_signatures && !usable)
        st = rt_fail(err, RT_UNIMPLEMENTED, "no signature can run; \"%s\": %s",
                     m->signatures[0].def->name, m->signatures[0].unsupported);
    rt_bytes_clear(&text);
    rt_arena_free(lists);
    return st;
}

static enum rt_status prepare_signatures(struct rt_model *m, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < m->n_signatures && !st; i++) {
        struct rt_model_signature *s = &m->signatures[i];
        struct rt_call_spec spec;
        if (s->same)
            s->call = s->same->call;
        if (s->same || s->unsupported)
            continue;
        st = signature_spec(m->arena, s->def, &spec, err);
        if (!st)
            st = rt_session_prepare(m->session, &spec, &s->call, err);
        if (st)
            rt_fail_prefix(err, "signature \"%s\": ", s->def->name);
    }
    return st;
}

static enum rt_status judge_signatures(struct rt_model *m, struct rt_error *err)
{
    for (int i = 0; i < m->n_signatures; i++) {
        struct rt_model_signature *s = &m->signatures[i];
        if (!s->call)
            continue;
        if (s->same) {
            s->writes = s->same->writes;
            s->draws = s->same->draws;
            s->rowwise = s->same->rowwise;
            s->why_not = s->same->why_not;
            continue;
        }
        const enum rt_status st = rt_session_check(m->session, err);
        if (st)
            return st;
        s->writes = rt_callable_writes(s->call);
        s->draws = rt_callable_draws(s->call);
        struct rt_error why = {.arena = m->arena};
        struct rt_shape *shapes =
            rt_arena_array(m->arena, (size_t)s->def->n_inputs + 1, sizeof *shapes);
        if (!shapes)
            return rt_fail_memory(err, "a signature", 0);
        for (int k = 0; k < s->def->n_inputs; k++)
            shapes[k] = s->def->inputs[k].shape;
        s->rowwise = s->def->n_inputs > 0 && rt_callable_is_rowwise(s->call, shapes, &why);
        if (!s->rowwise) {
            s->why_not = rt_arena_strdup(m->arena, s->def->n_inputs ? rt_error_text(&why)
                                                                    : "it has no inputs");
            if (!s->why_not)
                return rt_fail_memory(err, "a signature", 0);
        }
    }
    return RT_OK;
}

/* Runs the call until no compilation is pending. One run may not suffice, because some shapes, such
 * as those in a loop's body, are known only after a run. */
static enum rt_status warm_run(struct rt_session *session, struct rt_callable *call,
                               const struct rt_tensor *in, struct rt_tensor *out, int n_out,
                               const struct rt_run_options *options, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int round = 0; round < WARM_UP_ROUNDS && !st; round++) {
        for (int k = 0; k < n_out; k++)
            rt_tensor_clear(&out[k]);
        st = rt_callable_run(call, in, out, options, err);
        if (rt_session_compile(session) == 0 || rt_now_ns() > options->deadline_ns)
            break;
    }
    return st;
}

/* Runs a signature once on zeros and empty strings. The batch size and all unknown dimensions are
 * 1. */
static enum rt_status warm_up(struct rt_model *m, struct rt_model_signature *s, int64_t end_of_all,
                              const struct rt_wait_hook *on_wait, struct rt_error *err)
{
    const int64_t now = rt_now_ns(), end = now + WARM_UP_S * SECOND;
    if (now >= end_of_all)
        return rt_fail(err, RT_DEADLINE_EXCEEDED, "the warm-up of all signatures took %d s",
                       WARM_UP_ALL_S);
    int n_in = s->def->n_inputs, n_out = s->def->n_outputs;
    struct rt_tensor *t = calloc((size_t)(n_in + n_out) + 1, sizeof *t);
    enum rt_status st = RT_OK;
    if (!t)
        return rt_fail_memory(err, "warming up", 0);
    for (int k = 0; k < n_in && !st; k++) {
        const struct rt_shape *shape = &s->def->inputs[k].shape;
        int64_t dim[RT_MAX_RANK] = {1};
        int rank = shape->rank < 0 ? 1 : shape->rank;
        for (int d = 0; d < shape->rank; d++)
            dim[d] = shape->dim[d] < 0 ? 1 : shape->dim[d];
        enum rt_dtype want = rt_callable_feed_dtype(s->call, k);
        size_t bytes;
        if (!rt_dtype_is_plain(want) && want != RT_STRING)
            st = rt_fail(err, RT_UNIMPLEMENTED, "input \"%s\" is a %s", s->def->inputs[k].alias,
                         rt_dtype_name(want));
        else if (rt_shape_check(want, rank, dim, &bytes, NULL) || bytes > WARM_UP_BYTES)
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "input \"%s\" alone takes more than %d bytes",
                         s->def->inputs[k].alias, WARM_UP_BYTES);
        else
            st = rt_tensor_new(&t[k], NULL, want, rank, dim, err);
        if (!st && t[k].data && want != RT_STRING)
            memset(t[k].data, 0, rt_tensor_bytes(&t[k]));
    }
    if (!st) {
        struct rt_shape *shapes = calloc((size_t)n_in + 1, sizeof *shapes);
        for (int k = 0; shapes && k < n_in; k++) {
            shapes[k].rank = t[k].rank;
            memcpy(shapes[k].dim, t[k].dim, sizeof t[k].dim);
        }
        if (shapes)
            rt_callable_request_compilation(s->call, shapes);
        free(shapes);
        /* Compilation errors are ignored, because the warm-up run encounters the same errors and
         * reports them. */
        rt_session_compile(m->session);
        st = warm_run(m->session, s->call, t, t + n_in, n_out,
                      &(struct rt_run_options){.deadline_ns = end < end_of_all ? end : end_of_all,
                                               .on_wait = on_wait},
                      err);
    }
    for (int k = 0; k < n_in + n_out; k++)
        rt_tensor_clear(&t[k]);
    free(t);
    return st;
}

static enum rt_status seal(struct rt_model *m, bool load_all, struct rt_error *err)
{
    struct rt_callable **calls = calloc((size_t)m->n_signatures + 1, sizeof *calls);
    int n = 0;
    if (!calls)
        return rt_fail_memory(err, "loading", 0);
    for (int i = 0; i < m->n_signatures; i++)
        if (m->signatures[i].call && !m->signatures[i].same)
            calls[n++] = m->signatures[i].call;
    enum rt_status st = rt_session_seal(m->session, calls, n, load_all, err);
    free(calls);
    return st;
}

static enum rt_status restore(struct rt_model *m, const char *prefix,
                              const struct rt_wait_hook *on_wait, struct rt_error *err)
{
    const struct rt_meta_graph *g = m->meta_graph;
    if (!g->restore_op || !g->filename_tensor || !m->weight_bytes)
        return RT_OK;
    enum rt_status st = run_target(m, g->restore_op, prefix, on_wait, err);
    if (st)
        rt_fail_prefix(err, "restoring variables: ");
    return st;
}

static const char *const default_tags[] = {"serve"};

/* Fails if the load has been cancelled. Used until the session exists. */
static enum rt_status check_flag(void *arg, struct rt_error *err)
{
    const struct rt_session_options *options = arg;

    if (options->cancelled && atomic_load_explicit(options->cancelled, memory_order_relaxed))
        return rt_fail(err, RT_CANCELLED, "the model is not wanted any more");
    return RT_OK;
}

static enum rt_status read_graph(struct rt_model *m, const char *dir,
                                 const struct rt_model_options *options, struct rt_error *err)
{
    struct rt_session_options session = options->session;
    const struct rt_check check = {check_flag, &session};
    struct rt_library *library = NULL;
    enum rt_status st = rt_saved_model_read(&m->saved_model, dir, &check, err);

    if (!st)
        st = rt_saved_model_choose(m->saved_model, options->n_tags ? options->tags : default_tags,
                                   options->n_tags ? options->n_tags : 1, &m->meta_graph, err);
    if (!st)
        st = rt_library_import_checked(&library, m->meta_graph->graph_def, session.registry, &check,
                                       err);
    if (!st) {
        session.files.own_dir = m->saved_model->dir; /* freed after the session */
        st = rt_session_new(&m->session, library, &session, err);
    }
    if (st)
        rt_library_free(library);
    else
        rt_session_count_as_load(m->session, true);
    return st;
}

/* Lists the model's signatures. Raises the session's limit on weights by the size of the
 * checkpoint. */
static enum rt_status list_signatures(struct rt_model *m, const char *dir,
                                      const struct rt_model_options *options, struct rt_error *err)
{
    m->n_signatures = m->meta_graph->n_signatures;
    m->signatures = rt_arena_array(m->arena, (size_t)m->n_signatures + 1, sizeof *m->signatures);
    if (!m->signatures)
        return rt_fail_memory(err, "a model", 0);
    rt_session_add_model_bytes(m->session, m->saved_model->n_bytes +
                                               rt_arena_used(m->saved_model->arena) +
                                               rt_arena_used(m->arena));
    for (int i = 0; i < m->n_signatures; i++)
        m->signatures[i].def = &m->meta_graph->signatures[i];
    if (!m->meta_graph->restore_op)
        return RT_OK;
    /* A model without variables has a restore op but no checkpoint. The same is true of an
     * incomplete copy of a model with variables. rt_saved_model_is_complete distinguishes the two
     * cases. */
    int64_t weights = 0;
    const struct rt_check check = rt_session_as_check(m->session);
    const enum rt_status st =
        rt_saved_model_is_complete(dir, options->n_tags ? options->tags : default_tags,
                                   options->n_tags ? options->n_tags : 1, &check, &weights, err);
    if (st)
        return st;
    m->weight_bytes = weights;
    rt_session_admit_weights(m->session, weights);
    return RT_OK;
}

static enum rt_status initialise(struct rt_model *m, const char *dir,
                                 const struct rt_wait_hook *on_wait, struct rt_error *err)
{
    const char *prefix = rt_arena_printf(m->arena, "%s/variables/variables", dir);
    if (!prefix)
        return rt_fail_memory(err, "a model", 0);
    enum rt_status st = restore(m, prefix, on_wait, err);
    if (!st && m->meta_graph->init_op) {
        st = run_target(m, m->meta_graph->init_op, NULL, on_wait, err);
        if (st)
            rt_fail_prefix(err, "running the init op: ");
    }
    return st;
}

/* Warms up the signatures that write no state, if the options request it. Reports a signature's
 * failure to on_warm_up_failure. Fails only if rt_session_check fails. */
static enum rt_status warm_up_all(struct rt_model *m, const struct rt_model_options *options,
                                  struct rt_error *err)
{
    int64_t most = WARM_UP_ALL_S * SECOND;
    if (options->warm_up_ns && options->warm_up_ns < most)
        most = options->warm_up_ns;
    const int64_t end = rt_now_ns() + most;
    enum rt_status st = RT_OK;

    /* The states of random generators are restored after warm-up. Signatures that write other state
     * are not warmed up. */
    rt_session_set_aside(m->session, true);
    for (int i = 0; i < m->n_signatures && !st && options->warm_up; i++) {
        struct rt_error why = {.arena = m->arena};
        struct rt_model_signature *s = &m->signatures[i];
        if (!s->call || s->same || s->writes || warm_up(m, s, end, options->on_wait, &why) == RT_OK)
            continue;
        st = rt_session_check(m->session, err);
        if (!st && options->on_warm_up_failure)
            options->on_warm_up_failure(options->arg, s->def->name, &why);
    }
    rt_session_set_aside(m->session, false);
    return st;
}

enum rt_status rt_model_load(struct rt_model **out, const char *dir,
                             const struct rt_model_options *options, struct rt_error *err)
{
    struct rt_model *m = calloc(1, sizeof *m);
    enum rt_status st;
    if (!m || !(m->arena = rt_arena_new(SIZE_MAX)) ||
        !(m->dynamic_callables = rt_dynamic_callables_new())) {
        rt_model_free(m);
        return rt_fail_memory(err, "a model", sizeof *m);
    }
    st = read_graph(m, dir, options, err);
    if (!st)
        st = list_signatures(m, dir, options, err);
    if (!st)
        st = rt_session_check(m->session, err);
    if (!st)
        st = find_equal(m, err);
    if (!st)
        st = check_ops(m, options->allow_unsupported_signatures, err);
    if (!st)
        st = initialise(m, dir, options->on_wait, err);
    if (!st)
        /* Preparing the signatures marks the variables that they write. */
        st = prepare_signatures(m, err);
    if (st)
        goto fail;
    rt_session_serve(m->session);
    /* Preparing the signatures a second time freezes the variables that no signature writes. */
    st = prepare_signatures(m, err);
    if (!st && rt_session_reserve(m->session, options->on_no_room, options->arg))
        st = prepare_signatures(m, err);
    if (!st)
        st = judge_signatures(m, err);
    rt_session_loading(m->session, true, options->session.cancelled);
    if (!st)
        st = warm_up_all(m, options, err);
    if (!st)
        st = seal(m, options->load_all_variables, err);
    /* The session has been sealed, so pending compilations may begin. */
    rt_session_loading(m->session, false, NULL);
    if (st)
        goto fail;
    *out = m;
    return RT_OK;
fail:
    rt_model_free(m);
    return st;
}

enum rt_status rt_model_save(struct rt_model *m, const char *dir,
                             const struct rt_run_options *options, struct rt_error *err)
{
    const struct rt_meta_graph *g = m->meta_graph;
    const struct rt_call_spec spec = {.feeds = &g->filename_tensor,
                                      .n_feeds = 1,
                                      .targets = &g->save_op,
                                      .n_targets = 1,
                                      .is_load = true};
    struct rt_callable *call;
    struct rt_tensor feed, none;
    char prefix[4200];

    if (!g->save_op || !g->filename_tensor)
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "the SavedModel has no op that saves its variables");
    snprintf(prefix, sizeof prefix, "%s/variables/variables", dir);
    enum rt_status st = string_scalar(&feed, prefix, err);
    if (st)
        return st;
    st = rt_session_prepare(m->session, &spec, &call, err);
    if (!st)
        st = rt_callable_run(call, &feed, &none, options, err);
    rt_tensor_clear(&feed);
    return st ? rt_fail_prefix(err, "saving variables: ") : RT_OK;
}

void rt_model_free(struct rt_model *m)
{
    if (!m)
        return;
    rt_session_free(m->session);
    rt_saved_model_free(m->saved_model);
    rt_dynamic_callables_free(m->dynamic_callables);
    rt_arena_free(m->arena);
    free(m);
}

const struct rt_session_accelerators *rt_model_accelerators(const struct rt_model *m)
{
    static const struct rt_session_accelerators none;
    for (int i = 0; i < m->n_signatures; i++)
        if (m->signatures[i].call && rt_callable_is_accelerated(m->signatures[i].call))
            return &m->session->options.accelerators;
    return &none;
}

const struct rt_model_signature *rt_model_signature(const struct rt_model *m, const char *name)
{
    int lo = 0, hi = m->n_signatures - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, c = strcmp(name, m->signatures[mid].def->name);
        if (c == 0)
            return &m->signatures[mid];
        if (c < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}
