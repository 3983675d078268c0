/* Implements `slipway inspect`: prints the contents of a SavedModel, the ops that Slipway cannot
 * run, and the signatures that may be batched. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/map.h"
#include "runtime/base/print.h"
#include "runtime/files/checkpoint.h"
#include "server/commands/command.h"
#include "server/triton/triton.h"

enum {
    GRAPH_NODE = 1,
    GRAPH_LIBRARY = 2,
    LIBRARY_FUNCTION = 1,
    FUNCTION_NODE = 3,
    NODE_OP = 2,
    FUNCTION_SIGNATURE = 1,
    SIGNATURE_NAME = 1,
    MAX_TAGS = 16,
    TIMEOUT_MS = 120000 /* default of --timeout */
};

static const char usage[] =
    "usage: slipway inspect DIR [--tags TAG,TAG...] [--variables] [--json]\n"
    "       slipway inspect DIR --plan [--batch N] ...\n"
    "       slipway inspect DIR --dump_passes[=NAME]\n"
    "Prints what the SavedModel in DIR (a version's or a model's directory) holds: tag sets,\n"
    "signatures, ops, variables, whether each signature may be batched, and what could not run.\n"
    "Exit status 1 if anything that a signature, restore or init needs could not run, if the\n"
    "model does not load, or if config.pbtxt of a Triton repository would be refused.\n"
    "  --plan            instead what a signature is compiled to: see --plan --help\n"
    "  --dump_passes     instead the compiler's graph after each pass, or after pass NAME: a node "
    "a\n"
    "                    line, with index, name, op, inputs and types\n"
    "  --variables       each tensor of the checkpoint, too; --json always has them\n"
    "  --timeout S       give up loading the model after S seconds, and print the rest (120); 0: "
    "never\n"
    "  --tags, --json, --help, --version\n";

struct op_count {
    const char *op;
    int64_t n;
};

struct inspected {
    struct rt_arena *arena;
    const struct rt_registry *registry;
    const char *dir;
    struct rt_saved_model *saved;
    const struct rt_meta_graph *graph;
    struct rt_map ops;
    struct rt_map functions;
    /* the checkpoint with the variables, or NULL if there is none */
    struct rt_checkpoint *checkpoint;
    struct rt_model *model;    /* NULL if the model was not loaded */
    const char *trouble;       /* why the model was not loaded, or would not be served */
    struct srv_triton *triton; /* the model's config.pbtxt, or NULL */
    /* JSON array of objects with the keys op, node, reason and needed_by */
    json_t *unsupported;
    /* whether the time limit passed before all signatures were searched */
    bool is_search_cut;
    bool has_tags;      /* whether --tags was given; it replaces the tag that config.pbtxt names */
    int64_t timeout_ms; /* time limit of the command, or 0 for no limit */
    const _Atomic bool *cancelled; /* becomes true when the time limit has passed */
    size_t n_fields;               /* number of protobuf fields read while counting ops */
    /* selects the passes whose graphs are printed, or NULL */
    const struct rt_pass_dump *dump;
};

/* Fails if the time limit has passed. `arg` is a struct inspected. */
static enum rt_status check_time(void *arg, struct rt_error *err)
{
    const struct inspected *in = arg;
    if (!atomic_load_explicit(in->cancelled, memory_order_relaxed))
        return RT_OK;
    return rt_fail(err, RT_DEADLINE_EXCEEDED,
                   "reading the graph was given up after %g s (--timeout)",
                   (double)in->timeout_ms / 1000);
}

/* ---- ops ---- */

/* Reads a field as pb_field_next does. Returns -1 if the time limit has passed. */
static int next_field(struct inspected *in, struct rt_span *rest, struct pb_field *f)
{
    const bool is_due = (++in->n_fields & 0x3fff) == 0;
    return is_due && check_time(in, NULL) ? -1 : pb_field_next(rest, f);
}

static bool count_node(struct inspected *in, struct rt_span node)
{
    struct pb_field f;
    int r;
    while ((r = next_field(in, &node, &f)) == 1) {
        if (f.number != NODE_OP || f.type != PB_BYTES)
            continue;
        const char *name = (const char *)f.bytes.p;
        struct op_count *c = rt_map_getn(&in->ops, name, f.bytes.n);
        if (!c) {
            c = rt_arena_alloc(in->arena, sizeof *c);
            if (!c || !(c->op = rt_arena_strndup(in->arena, name, f.bytes.n)) ||
                !rt_map_putn(&in->ops, name, f.bytes.n, c))
                return false;
        }
        c->n++;
    }
    return r == 0;
}

static bool count_function(struct inspected *in, struct rt_span function)
{
    struct pb_field f, g;
    bool ok = true;
    while (ok && next_field(in, &function, &f) == 1) {
        if (f.type != PB_BYTES)
            continue;
        if (f.number == FUNCTION_NODE)
            ok = count_node(in, f.bytes);
        struct rt_span signature = f.bytes;
        while (f.number == FUNCTION_SIGNATURE && next_field(in, &signature, &g) == 1)
            if (g.number == SIGNATURE_NAME && g.type == PB_BYTES)
                ok = rt_map_putn(&in->functions, (const char *)g.bytes.p, g.bytes.n, in);
    }
    return ok;
}

static bool count_ops(struct inspected *in)
{
    struct rt_span rest = in->graph->graph_def;
    struct pb_field f, g;
    bool ok = true;
    while (ok && next_field(in, &rest, &f) == 1) {
        if (f.type != PB_BYTES)
            continue;
        if (f.number == GRAPH_NODE)
            ok = count_node(in, f.bytes);
        struct rt_span library = f.bytes;
        while (ok && f.number == GRAPH_LIBRARY && next_field(in, &library, &g) == 1)
            if (g.number == LIBRARY_FUNCTION && g.type == PB_BYTES)
                ok = count_function(in, g.bytes);
    }
    return ok;
}

static int by_op(const void *a, const void *b)
{
    return strcmp((*(const struct op_count *const *)a)->op,
                  (*(const struct op_count *const *)b)->op);
}

/* Returns all ops in the model, sorted by name. */
static const struct op_count **sorted_ops(const struct inspected *in, size_t *n)
{
    const struct op_count **all = rt_arena_array(in->arena, in->ops.n + 1, sizeof(*all));
    *n = 0;
    for (size_t i = 0; all && i < in->ops.n; i++)
        if (in->ops.entry[i].key)
            all[(*n)++] = in->ops.entry[i].value;
    if (all && *n)
        qsort(all, *n, sizeof(*all), by_op);
    return all;
}

/* ---- ops that could not run ---- */

static void add_unsupported(struct inspected *in, const char *op, const char *node,
                            const char *reason, const char *needed_by)
{
    for (size_t i = 0; i < json_array_size(in->unsupported); i++) {
        json_t *o = json_array_get(in->unsupported, i);
        if (strcmp(json_string_value(json_object_get(o, "op")), op) == 0 &&
            strcmp(json_string_value(json_object_get(o, "reason")), reason) == 0)
            return;
    }
    json_array_append_new(in->unsupported, json_pack("{s:s, s:s, s:s, s:s}", "op", op, "node", node,
                                                     "reason", reason, "needed_by", needed_by));
}

static void find_missing(struct inspected *in, struct rt_session *s,
                         const struct rt_call_spec *spec, const char *needed_by)
{
    struct rt_error err = {.arena = in->arena};
    struct rt_missing *missing;
    int n;
    enum rt_status st = RT_CANCELLED;
    if (!atomic_load_explicit(in->cancelled, memory_order_relaxed))
        st = rt_session_missing(s, spec, in->arena, &missing, &n, &err);
    if (st == RT_CANCELLED) {
        in->is_search_cut = true;
        return;
    }
    if (st) {
        add_unsupported(in, "", "", rt_error_text(&err), needed_by);
        return;
    }
    for (int i = 0; i < n; i++)
        add_unsupported(in, missing[i].op, missing[i].node, missing[i].reason, needed_by);
}

static void find_all_missing(struct inspected *in, struct rt_session *s)
{
    const struct rt_meta_graph *g = in->graph;
    if (g->restore_op && in->checkpoint) {
        struct rt_call_spec spec = {.targets = &g->restore_op, .n_targets = 1};
        spec.feeds = &g->filename_tensor;
        spec.n_feeds = g->filename_tensor != NULL;
        find_missing(in, s, &spec, "restore");
    }
    if (g->init_op) {
        struct rt_call_spec spec = {.targets = &g->init_op, .n_targets = 1};
        find_missing(in, s, &spec, "init");
    }
    for (int i = 0; i < g->n_signatures && !in->is_search_cut; i++) {
        const struct rt_signature *sig = &g->signatures[i];
        const char **names =
            rt_arena_array(in->arena, (size_t)(sig->n_inputs + sig->n_outputs) + 1, sizeof *names);
        char *who = rt_arena_printf(in->arena, "signature %s", sig->name);
        if (!names || !who)
            return;
        for (int k = 0; k < sig->n_inputs; k++)
            names[k] = sig->inputs[k].name;
        for (int k = 0; k < sig->n_outputs; k++)
            names[sig->n_inputs + k] = sig->outputs[k].name;
        struct rt_call_spec spec = {.feeds = names,
                                    .n_feeds = sig->n_inputs,
                                    .fetches = names + sig->n_inputs,
                                    .n_fetches = sig->n_outputs};
        find_missing(in, s, &spec, who);
    }
}

static void check_ops(struct inspected *in)
{
    struct rt_error err = {.arena = in->arena};
    struct rt_session_options options = {.registry = in->registry, .cancelled = in->cancelled};
    struct rt_library *library = NULL;
    struct rt_session *session = NULL;
    const struct rt_check check = {check_time, in};
    enum rt_status st =
        rt_library_import_checked(&library, in->graph->graph_def, in->registry, &check, &err);
    if (!st) {
        st = rt_session_new(&session, library, &options, &err);
        if (st)
            rt_library_free(library);
    }
    if (check_time(in, NULL)) {
        in->is_search_cut = true;
        rt_session_free(session);
        return;
    }
    if (st) {
        /* the import may have failed because TensorFlow does not have an op that the model uses */
        size_t n;
        const struct op_count **ops = sorted_ops(in, &n);
        for (size_t i = 0; ops && i < n; i++)
            if (!rt_schema_find(ops[i]->op) && !rt_map_get(&in->functions, ops[i]->op))
                add_unsupported(in, ops[i]->op, "", "not an op of TensorFlow", "the graph");
        if (!json_array_size(in->unsupported))
            add_unsupported(in, "", "", rt_error_text(&err), "the graph");
        return;
    }
    find_all_missing(in, session);
    rt_session_free(session);
}

/* ---- reading ---- */

/* Reports that no graph has the requested tags. The error lists the tag sets of all graphs. */
static enum rt_status no_such_tags(const struct inspected *in, const char *const *tags, int n_tags,
                                   struct rt_error *err)
{
    char requested[256] = "", there[1024] = "";
    size_t n = 0;
    for (int k = 0; k < n_tags && n < sizeof requested; k++)
        n += (size_t)snprintf(requested + n, sizeof requested - n, "%s%s", k ? "," : "", tags[k]);
    n = 0;
    for (int i = 0; i < in->saved->n_meta_graphs; i++) {
        const struct rt_meta_graph *g = &in->saved->meta_graphs[i];
        if (i && n < sizeof there)
            n += (size_t)snprintf(there + n, sizeof there - n, "; ");
        for (int k = 0; k < g->n_tags && n < sizeof there; k++)
            n += (size_t)snprintf(there + n, sizeof there - n, "%s%s", k ? "," : "", g->tags[k]);
        if (!g->n_tags && n < sizeof there)
            n += (size_t)snprintf(there + n, sizeof there - n, "(no tags)");
    }
    return rt_fail(err, RT_NOT_FOUND, "%s has no graph with the tag set %s; there is: %s", in->dir,
                   requested, there);
}

/* Sets in->trouble if config.pbtxt of a Triton repository contradicts the model, as the load of a
 * version does. */
static void check_triton(struct inspected *in)
{
    struct rt_error why = {.arena = in->arena};

    if (in->model && in->triton && srv_triton_check_model(in->triton, in->model, &why))
        in->trouble = rt_arena_strdup(in->arena, rt_error_text(&why));
}

static enum rt_status inspect(struct inspected *in, const char *dir, const char *const *tags,
                              int n_tags, struct rt_error *err)
{
    const struct rt_check check = {check_time, in};
    const struct rt_checkpoint_run run = {.check = check_time, .arg = in};
    struct rt_error refused = {.arena = in->arena};
    enum rt_status st = srv_find_version(dir, in->arena, &in->dir, err);
    if (!st && srv_triton_read_for(in->dir, &in->triton, &refused))
        in->trouble = rt_arena_strdup(in->arena, rt_error_text(&refused));
    if (in->triton && in->triton->graph_tag && !in->has_tags) {
        tags = &in->triton->graph_tag;
        n_tags = 1;
    }
    if (!st)
        st = rt_saved_model_read(&in->saved, in->dir, &check, err);
    if (st)
        return st;
    if (rt_saved_model_choose(in->saved, tags, n_tags, &in->graph, err))
        return no_such_tags(in, tags, n_tags, err);
    const bool is_whole = count_ops(in);
    st = check_time(in, err);
    if (st)
        return st;
    if (!is_whole)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: the graph is not a whole GraphDef", in->dir);
    char *prefix = rt_arena_printf(in->arena, "%s/variables/variables", in->dir);
    struct rt_error no_checkpoint = {.arena = in->arena};
    if (prefix && rt_checkpoint_open(&in->checkpoint, prefix, &run, &no_checkpoint))
        in->checkpoint = NULL;
    check_ops(in);
    /* Row-wise analysis requires plans, and plans require a loaded model. */
    struct rt_model_options options = {
        .session = {.registry = in->registry, .pass_dump = in->dump, .cancelled = in->cancelled},
        .tags = tags,
        .n_tags = n_tags,
        .allow_unsupported_signatures = true};
    struct rt_error trouble = {.arena = in->arena};
    if (rt_model_load(&in->model, in->dir, &options, &trouble))
        in->trouble =
            trouble.code == RT_CANCELLED
                ? rt_arena_printf(in->arena, "loading was given up after %g s (--timeout)",
                                  (double)in->timeout_ms / 1000)
                : rt_arena_strdup(in->arena, rt_error_text(&trouble));
    check_triton(in);
    return RT_OK;
}

static const char *shape_text(char *buffer, size_t n, const struct rt_tensor_spec *t)
{
    if (t->shape.rank < 0)
        return "unknown rank";
    return rt_shape_text(buffer, n, t->shape.rank, t->shape.dim);
}

/* Returns whether a signature may be batched: "yes", "no" or "unknown". Sets *why to the reason for
 * "no" or "unknown". */
static const char *verdict(const struct inspected *in, const char *signature, const char **why)
{
    const struct rt_model_signature *s =
        in->model ? rt_model_signature(in->model, signature) : NULL;
    *why = NULL;
    if (!s || !s->call) {
        *why = s ? s->unsupported : in->trouble;
        return "unknown";
    }
    if (!s->rowwise)
        *why = s->why_not;
    return s->rowwise ? "yes" : "no";
}

/* ---- as text ---- */

static void print_tensor(const char *what, const struct rt_tensor_spec *t)
{
    char buffer[256];
    rt_print(stdout, "    %s %s: %s %s (%s)\n", what, t->alias, rt_dtype_proto_name(t->dtype),
             shape_text(buffer, sizeof buffer, t), t->name);
}

static void print_text(const struct inspected *in, bool variables)
{
    rt_print(stdout, "SavedModel %s\n", in->dir);
    for (int i = 0; i < in->saved->n_meta_graphs; i++) {
        const struct rt_meta_graph *g = &in->saved->meta_graphs[i];
        rt_print(stdout, "  tag set {");
        for (int k = 0; k < g->n_tags; k++)
            rt_print(stdout, " %s", g->tags[k]);
        rt_print(stdout, " }, written by TensorFlow %s\n",
                 g->tensorflow_version && *g->tensorflow_version ? g->tensorflow_version : "?");
    }
    for (int i = 0; i < in->graph->n_signatures; i++) {
        const struct rt_signature *s = &in->graph->signatures[i];
        const char *why, *batched = verdict(in, s->name, &why);
        rt_print(stdout, "  signature %s (%s)\n", s->name, s->method_name);
        for (int k = 0; k < s->n_inputs; k++)
            print_tensor("input", &s->inputs[k]);
        for (int k = 0; k < s->n_outputs; k++)
            print_tensor("output", &s->outputs[k]);
        rt_print(stdout, "    batching: %s%s%s\n", batched, why ? ", " : "", why ? why : "");
    }
    size_t n;
    const struct op_count **ops = sorted_ops(in, &n);
    rt_print(stdout, "  %zu ops:", n);
    for (size_t i = 0; ops && i < n; i++)
        rt_print(stdout, " %s x%lld%s", ops[i]->op, (long long)ops[i]->n, i + 1 < n ? "," : "");
    rt_print(stdout, "\n");
    int n_variables = in->checkpoint ? rt_checkpoint_count(in->checkpoint) : 0;
    int64_t total = 0;
    for (int i = 0; i < n_variables; i++)
        total += rt_checkpoint_at(in->checkpoint, i)->bytes;
    rt_print(stdout, "  %d tensor%s in the checkpoint, %lld bytes%s\n", n_variables,
             n_variables == 1 ? "" : "s", (long long)total,
             n_variables && !variables ? " (--variables lists them)" : "");
    for (int i = 0; i < n_variables && variables; i++) {
        const struct rt_checkpoint_entry *e = rt_checkpoint_at(in->checkpoint, i);
        char buffer[256];
        rt_print(stdout, "    %s: %s %s, %lld bytes\n", e->name, rt_dtype_proto_name(e->dtype),
                 rt_shape_text(buffer, sizeof buffer, e->shape.rank, e->shape.dim),
                 (long long)e->bytes);
    }
    size_t n_unsupported = json_array_size(in->unsupported);
    if (in->is_search_cut)
        rt_print(stdout,
                 "  not all signatures were searched for ops that cannot run (--timeout)\n");
    else if (!n_unsupported && !in->trouble)
        rt_print(stdout, "  everything that is needed can run\n");
    for (size_t i = 0; i < n_unsupported; i++) {
        json_t *o = json_array_get(in->unsupported, i);
        rt_print(stdout, "  cannot run: %s (node '%s', needed by %s)\n",
                 json_string_value(json_object_get(o, "reason")),
                 json_string_value(json_object_get(o, "node")),
                 json_string_value(json_object_get(o, "needed_by")));
    }
    if (in->triton && in->triton->ignored)
        rt_print(stdout, "  without effect in %s: %s\n", in->triton->path, in->triton->ignored);
    if (in->trouble && !n_unsupported)
        rt_print(stdout, "  does not load: %s\n", in->trouble);
}

/* ---- as JSON ---- */

static json_t *json_shape(const struct rt_shape *shape)
{
    if (shape->rank < 0)
        return json_null();
    json_t *a = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(a, json_integer(shape->dim[i]));
    return a;
}

static json_t *json_tensors(const struct rt_tensor_spec *t, int n)
{
    json_t *o = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(o, t[i].alias,
                            json_pack("{s:s, s:o, s:s}", "dtype", rt_dtype_proto_name(t[i].dtype),
                                      "shape", json_shape(&t[i].shape), "name", t[i].name));
    return o;
}

static json_t *json_signatures(const struct inspected *in)
{
    json_t *o = json_object();
    for (int i = 0; i < in->graph->n_signatures; i++) {
        const struct rt_signature *s = &in->graph->signatures[i];
        const char *why, *batched = verdict(in, s->name, &why);
        json_object_set_new(o, s->name,
                            json_pack("{s:s, s:o, s:o, s:{s:s, s:s?}}", "method_name",
                                      s->method_name, "inputs",
                                      json_tensors(s->inputs, s->n_inputs), "outputs",
                                      json_tensors(s->outputs, s->n_outputs), "batching", "verdict",
                                      batched, "why", why));
    }
    return o;
}

static void print_json(const struct inspected *in)
{
    json_t *tag_sets = json_array(), *ops = json_object(), *variables = json_array();
    for (int i = 0; i < in->saved->n_meta_graphs; i++) {
        json_t *tags = json_array();
        for (int k = 0; k < in->saved->meta_graphs[i].n_tags; k++)
            json_array_append_new(tags, json_string(in->saved->meta_graphs[i].tags[k]));
        json_array_append_new(tag_sets, tags);
    }
    size_t n;
    const struct op_count **all = sorted_ops(in, &n);
    for (size_t i = 0; all && i < n; i++)
        json_object_set_new(ops, all[i]->op, json_integer(all[i]->n));
    for (int i = 0; in->checkpoint && i < rt_checkpoint_count(in->checkpoint); i++) {
        const struct rt_checkpoint_entry *e = rt_checkpoint_at(in->checkpoint, i);
        json_array_append_new(variables,
                              json_pack("{s:s, s:s, s:o, s:I}", "name", e->name, "dtype",
                                        rt_dtype_proto_name(e->dtype), "shape",
                                        json_shape(&e->shape), "bytes", (json_int_t)e->bytes));
    }
    json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:o, s:O, s:s?}", "dir", in->dir, "tag_sets",
                          tag_sets, "signatures", json_signatures(in), "ops", ops, "variables",
                          variables, "unsupported", in->unsupported, "load_error", in->trouble);
    if (o)
        json_dumpf(o, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(o);
}

/* ---- passes ---- */

static void put_dump(void *arg, const char *text, size_t n)
{
    (void)arg;
    fwrite(text, 1, n, stdout);
}

static bool is_pass(const char *name)
{
    for (int i = 0; rt_pass_name(i); i++)
        if (strcmp(rt_pass_name(i), name) == 0)
            return true;
    return false;
}

static int no_such_pass(const char *name)
{
    rt_print(stderr, "slipway inspect: there is no pass '%s'; there are:", name);
    for (int i = 0; rt_pass_name(i); i++)
        rt_print(stderr, " %s", rt_pass_name(i));
    fputc('\n', stderr);
    return SRV_EXIT_USAGE;
}

/* ---- arguments ---- */

static int split_tags(char *text, const char **tags)
{
    int n = 0;
    for (char *p = text, *comma; p && n < MAX_TAGS; p = comma) {
        comma = strchr(p, ',');
        if (comma)
            *comma++ = '\0';
        if (*p)
            tags[n++] = p;
    }
    return n;
}

struct options {
    const char *dir;
    const char *tags; /* requested tags, separated by commas, or NULL */
    /* the pass whose graph is printed, or NULL for all passes */
    const char *pass;
    bool json, variables, dumps;
    int64_t timeout_ms;
};

/* Parses the command line. Returns the exit status of the process. If --help or --version was
 * printed, sets *done. */
static int read_options(int argc, const char *const *argv, struct options *o, bool *done)
{
    static const char one_pass[] = "--dump_passes=";
    struct srv_args a = {.argc = argc, .argv = argv};
    const char *wrong = NULL, *v;

    for (a.i = 1; a.i < argc && !wrong && !a.missing; a.i++) {
        if (srv_args_is(&a, "--help") || srv_args_is(&a, "-h")) {
            fputs(usage, stdout);
            *done = true;
            return SRV_EXIT_OK;
        }
        if (srv_args_is(&a, "--version")) {
            rt_print(stdout, "slipway %s\n", SLIPWAY_VERSION);
            *done = true;
            return SRV_EXIT_OK;
        }
        if (srv_args_is(&a, "--json"))
            o->json = true;
        else if (srv_args_is(&a, "--variables"))
            o->variables = true;
        else if (srv_args_is(&a, "--dump_passes"))
            o->dumps = true;
        else if (strncmp(argv[a.i], one_pass, sizeof one_pass - 1) == 0) {
            o->dumps = true;
            o->pass = argv[a.i] + sizeof one_pass - 1;
        } else if ((v = srv_args_value(&a, "--tags")))
            o->tags = v;
        else if ((v = srv_args_value(&a, "--timeout")))
            wrong = srv_parse_timeout(v, &o->timeout_ms) ? NULL : argv[a.i];
        else if (!a.missing && argv[a.i][0] != '-' && !o->dir)
            o->dir = argv[a.i];
        else
            wrong = argv[a.i];
    }
    if (!wrong && !a.missing && o->dir)
        return o->pass && !is_pass(o->pass) ? no_such_pass(o->pass) : SRV_EXIT_OK;
    if (a.missing)
        rt_print(stderr, "slipway inspect: %s wants a value\n", a.missing);
    else if (wrong)
        rt_print(stderr,
                 "slipway inspect: cannot use argument %s: it takes one DIR, --json, "
                 "--variables, --tags, --timeout, --plan or --dump_passes\n",
                 wrong);
    else
        fputs("slipway inspect: no directory given\n", stderr);
    fputs("slipway inspect --help says more\n", stderr);
    return SRV_EXIT_USAGE;
}

static int print_inspected(const struct inspected *in, const struct options *o)
{
    if (o->dumps && in->trouble)
        rt_print(stderr, "slipway inspect: does not load: %s\n", in->trouble);
    else if (o->json)
        print_json(in);
    else if (!o->dumps)
        print_text(in, o->variables);
    return json_array_size(in->unsupported) || in->trouble ? SRV_EXIT_FAILED : SRV_EXIT_OK;
}

int srv_command_inspect(int argc, const char *const *argv, const struct rt_registry *registry)
{
    struct options o = {.timeout_ms = TIMEOUT_MS};
    bool done = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--plan") == 0)
            return srv_command_run(argc, argv, registry);
    int code = read_options(argc, argv, &o, &done);
    if (code != SRV_EXIT_OK || done)
        return code;
    struct rt_pass_dump dump = {.put = put_dump, .pass = o.pass};
    struct inspected in = {.arena = rt_arena_new(SIZE_MAX),
                           .registry = registry,
                           .has_tags = o.tags != NULL,
                           .timeout_ms = o.timeout_ms,
                           .cancelled = srv_limit_time(o.timeout_ms),
                           .dump = o.dumps ? &dump : NULL};
    struct rt_error err = {.arena = in.arena};
    const char *tags[MAX_TAGS];
    char *copy = in.arena ? rt_arena_strdup(in.arena, o.tags ? o.tags : "serve") : NULL;
    rt_map_init(&in.ops);
    rt_map_init(&in.functions);
    in.unsupported = json_array();
    enum rt_status st = copy && in.unsupported
                            ? inspect(&in, o.dir, tags, split_tags(copy, tags), &err)
                            : rt_fail_memory(&err, "inspecting", 0);
    code = SRV_EXIT_FAILED;
    if (st)
        srv_command_failed("inspect", &err);
    else
        code = print_inspected(&in, &o);
    json_decref(in.unsupported);
    rt_model_free(in.model);
    srv_triton_free(in.triton);
    rt_checkpoint_unref(in.checkpoint);
    rt_saved_model_free(in.saved);
    rt_map_clear(&in.ops);
    rt_map_clear(&in.functions);
    rt_arena_free(in.arena);
    return code;
}
