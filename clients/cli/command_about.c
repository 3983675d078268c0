/* Implements the commands that query or configure models without running inference: `slipway
 * status`, `slipway metadata` and `slipway reload`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clients/cli/cli.h"
#include "clients/cli/remote.h"
#include "clients/cli/file.h"
#include "proto/text.h"
#include "proto/unpack.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "runtime/base/print.h"

struct about {
    struct cl_target target;
    struct cl_version_flags version;
    bool json;

    struct cl_remote remote;
    struct rt_arena *arena;
};

#define AT(field) offsetof(struct about, field)
static const struct cl_flag flags[] = {
    {"--json", CL_SWITCH, AT(json), NULL, "print JSON", 0},
};
#undef AT

/* Parses the arguments, creates the arena and prepares the connection. Returns -1 on success, and
 * otherwise the exit status. */
static int begin(struct about *a, const struct cl_usage *usage, int argc, const char *const *argv,
                 struct cl_list *words, struct rt_error *err)
{
    int code = cl_flags_parse(usage, argc, argv, words);
    if (code >= 0)
        return code;
    if (!words->n && strcmp(usage->command, "status") == 0 &&
        strcmp(a->target.server, "grpc://127.0.0.1:8500") == 0)
        a->target.server = "http://127.0.0.1:8501"; /* only REST can list all models */
    a->arena = rt_arena_new(SIZE_MAX);
    *err = (struct rt_error){.arena = a->arena};
    struct slipway_model unused;
    enum rt_status st =
        a->arena ? cl_model_of(&unused, "", &a->version, err) : rt_fail_memory(err, "asking", 0);
    if (!st)
        st = cl_remote_open(&a->remote, &a->target, a->arena, err);
    return st ? cl_refused(usage->command, err) : -1;
}

static int end(struct about *a, int code)
{
    cl_remote_close(&a->remote);
    rt_arena_free(a->arena);
    return code;
}

static int print_json(json_t *o)
{
    int failed = o ? json_dumpf(o, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    json_decref(o);
    return failed ? CL_EXIT_FAILED : CL_EXIT_OK;
}

/* ---- status ---- */

static json_t *json_versions(const struct slipway_status *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->n_versions; i++) {
        const struct slipway_version *v = &s->versions[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:s, s:s, s:s}", "version", (json_int_t)v->version,
                                        "state", slipway_state_name(v->state), "error_code",
                                        slipway_code_name(v->why), "error_message", v->text));
    }
    return list;
}

static void print_versions(const char *name, const struct slipway_status *s)
{
    for (int i = 0; i < s->n_versions; i++) {
        const struct slipway_version *v = &s->versions[i];
        rt_print(stdout, "%-24s %8" PRId64 "  %s", name, v->version, slipway_state_name(v->state));
        if (v->why)
            rt_print(stdout, "  %s: %s", slipway_code_name(v->why), v->text);
        else if (*v->text)
            rt_print(stdout, "  %s", v->text);
        putchar('\n');
    }
    if (!s->n_versions)
        rt_print(stdout, "%-24s        -  has no versions\n", name);
}

static bool is_served(const struct slipway_status *s)
{
    for (int i = 0; i < s->n_versions; i++)
        if (s->versions[i].state == SLIPWAY_STATE_AVAILABLE)
            return true;
    return false;
}

/* Resolves a version label by calling GetModelMetadata, because GetModelStatus ignores labels. */
static enum rt_status resolve_label(struct about *a, struct slipway_model *model,
                                    struct rt_error *err)
{
    struct slipway_metadata m;
    enum rt_status st = cl_remote_metadata(&a->remote, model, a->arena, &m, err);
    if (st)
        return st;
    model->label = NULL;
    model->has_version = true;
    model->version = m.version;
    return RT_OK;
}

/* `are_listed` is true if the names come from the server's list, which may contain models without
 * versions. */
static enum rt_status each_status(struct about *a, const char **names, int n, bool are_listed,
                                  bool *all_served, json_t *json, struct rt_error *err)
{
    *all_served = n > 0;
    for (int i = 0; i < n; i++) {
        struct slipway_model model;
        struct slipway_status s;
        enum rt_status st = cl_model_of(&model, names[i], &a->version, err);
        if (!st && model.label)
            st = resolve_label(a, &model, err);
        if (!st)
            st = cl_remote_status(&a->remote, &model, a->arena, &s, err);
        if (st == RT_NOT_FOUND && are_listed)
            s = (struct slipway_status){0};
        else if (st)
            return st;
        *all_served = *all_served && is_served(&s);
        if (a->json)
            json_object_set_new(json, names[i], json_versions(&s));
        else
            print_versions(names[i], &s);
    }
    return RT_OK;
}

int cl_command_status(int argc, const char *const *argv)
{
    struct about a = {.target = CL_TARGET_DEFAULTS};
    const struct cl_flag_set sets[] = {
        {flags, sizeof flags / sizeof *flags, &a},
        {cl_version_flags, CL_N_VERSION_FLAGS - 1, &a.version}, /* without --signature */
        {cl_target_flags, CL_N_TARGET_FLAGS, &a.target},
    };
    const struct cl_usage usage = {
        .command = "status",
        .synopsis = "[MODEL...] [flags]",
        .about =
            "The versions of the models, their states and why one is not served. Without a\n"
            "name all that the server has (by REST: http://127.0.0.1:8501 if no server is\n"
            "given). The exit status is 0 when each of them has a version that is AVAILABLE.\n",
        .max_words = CL_MAX_LIST,
        .sets = sets,
        .n_sets = 3};
    struct rt_error err;
    struct cl_list words;
    int code = begin(&a, &usage, argc, argv, &words, &err), n = words.n;
    if (code >= 0)
        return end(&a, code);
    const char **names = words.at;
    bool all_served = false;
    json_t *json = a.json ? json_object() : NULL;
    enum rt_status st = n ? RT_OK : cl_remote_models(&a.remote, a.arena, &names, &n, &err);
    const bool is_refused = st != RT_OK;
    if (!st)
        st = each_status(&a, names, n, words.n == 0, &all_served, json, &err);
    if (st) {
        json_decref(json);
        return end(&a, is_refused ? cl_refused("status", &err) : cl_failed("status", &err));
    }
    if (a.json)
        print_json(json);
    else if (!n)
        rt_print(stdout, "the server has no models\n");
    return end(&a, all_served ? CL_EXIT_OK : CL_EXIT_FAILED);
}

/* ---- metadata ---- */

static void shape_text(const struct slipway_input *t, char *buffer, size_t size)
{
    size_t n = 0;
    if (t->rank < 0) {
        snprintf(buffer, size, "of any rank");
        return;
    }
    n += (size_t)snprintf(buffer, size, "[");
    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)(t->dim[i] < 0
                          ? snprintf(buffer + n, size - n, "%s?", i ? ", " : "")
                          : snprintf(buffer + n, size - n, "%s%" PRId64, i ? ", " : "", t->dim[i]));
    if (n < size)
        snprintf(buffer + n, size - n, "]");
}

static void print_inputs(const char *what, const struct slipway_input *t, int n)
{
    char shape[512];
    for (int i = 0; i < n; i++) {
        shape_text(&t[i], shape, sizeof shape);
        rt_print(stdout, "  %-6s %-24s %-12s %-16s %s\n", what, t[i].name,
                 slipway_dtype_name(t[i].dtype), shape, t[i].tensor_name);
    }
}

static json_t *json_inputs(const struct slipway_input *t, int n)
{
    json_t *o = json_object();
    for (int i = 0; i < n; i++) {
        json_t *shape = t[i].rank < 0 ? json_null() : json_array();
        for (int d = 0; d < t[i].rank; d++)
            json_array_append_new(shape, json_integer(t[i].dim[d]));
        json_object_set_new(o, t[i].name,
                            json_pack("{s:s, s:o, s:s}", "dtype", slipway_dtype_name(t[i].dtype),
                                      "shape", shape, "name", t[i].tensor_name));
    }
    return o;
}

static json_t *json_metadata(const struct slipway_metadata *m)
{
    json_t *all = json_object();
    for (int i = 0; i < m->n_signatures; i++) {
        const struct slipway_signature *s = &m->signatures[i];
        json_object_set_new(all, s->name,
                            json_pack("{s:s, s:o, s:o}", "method_name", s->method, "inputs",
                                      json_inputs(s->inputs, s->n_inputs), "outputs",
                                      json_inputs(s->outputs, s->n_outputs)));
    }
    return json_pack("{s:s, s:I, s:o}", "model", m->model, "version", (json_int_t)m->version,
                     "signatures", all);
}

int cl_command_metadata(int argc, const char *const *argv)
{
    struct about a = {.target = CL_TARGET_DEFAULTS};
    const struct cl_flag_set sets[] = {
        {flags, sizeof flags / sizeof *flags, &a},
        {cl_version_flags, CL_N_VERSION_FLAGS - 1, &a.version},
        {cl_target_flags, CL_N_TARGET_FLAGS, &a.target},
    };
    const struct cl_usage usage = {.command = "metadata",
                                   .synopsis = "MODEL [flags]",
                                   .about = "The model's signatures: what it takes and gives.\n",
                                   .min_words = 1,
                                   .max_words = 1,
                                   .sets = sets,
                                   .n_sets = 3};
    struct rt_error err;
    struct cl_list words;
    struct slipway_model model;
    struct slipway_metadata m;
    int code = begin(&a, &usage, argc, argv, &words, &err);
    if (code >= 0)
        return end(&a, code);
    enum rt_status st = cl_model_of(&model, words.at[0], &a.version, &err);
    if (!st)
        st = cl_remote_metadata(&a.remote, &model, a.arena, &m, &err);
    if (st)
        return end(&a, cl_failed("metadata", &err));
    if (a.json)
        return end(&a, print_json(json_metadata(&m)));
    rt_print(stdout, "%s version %" PRId64 "\n", m.model, m.version);
    for (int i = 0; i < m.n_signatures; i++) {
        const struct slipway_signature *s = &m.signatures[i];
        rt_print(stdout, "signature %s (%s)\n", s->name, s->method);
        print_inputs("input", s->inputs, s->n_inputs);
        print_inputs("output", s->outputs, s->n_outputs);
    }
    return end(&a, CL_EXIT_OK);
}

/* ---- reload ---- */

/* Returns the number of models in the text of a model config. */
static int64_t models_in(const char *text)
{
    struct rt_error ignored = {0};
    ProtobufCMessage *m = NULL;
    if (pb_text_parse(&m, &tensorflow__serving__model_server_config__descriptor, rt_span_str(text),
                      &ignored))
        return 0;
    const Tensorflow__Serving__ModelServerConfig *c =
        (const Tensorflow__Serving__ModelServerConfig *)m;
    bool is_list =
        c->config_case == TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    int64_t n = is_list && c->model_config_list ? (int64_t)c->model_config_list->n_config : 0;
    pb_free(m);
    return n;
}

int cl_command_reload(int argc, const char *const *argv)
{
    struct about a = {.target = CL_TARGET_DEFAULTS};
    /* The timeout is long, because the server loads models during the call. */
    a.target.timeout_s = 600;
    const struct cl_flag_set sets[] = {{cl_target_flags, CL_N_TARGET_FLAGS, &a.target}};
    const struct cl_usage usage = {
        .command = "reload",
        .synopsis = "FILE [flags]",
        .about = "Gives the server a new model config (the text of a --model_config_file; \"-\":\n"
                 "standard input) in place of the one it has, by gRPC, and waits until its models\n"
                 "are served. The server's own file stays as it is.\n",
        .min_words = 1,
        .max_words = 1,
        .sets = sets,
        .n_sets = 1};
    struct rt_error err;
    struct cl_list words;
    struct slipway_error why;
    const char *text;
    int code = begin(&a, &usage, argc, argv, &words, &err);
    if (code >= 0)
        return end(&a, code);
    if (!a.remote.grpc) {
        rt_fail(&err, RT_INVALID_ARGUMENT, "reloading is done by gRPC, not REST");
        return end(&a, cl_refused("reload", &err));
    }
    enum rt_status st = cl_read_text(words.at[0], a.arena, &text, &err);
    const struct slipway_call call = {.timeout_ms = a.remote.timeout_ms};
    if (!st && slipway_reload(a.remote.grpc, text, &call, &why)) {
        st = cl_of_slipway(&why, &err);
        if (st == RT_DEADLINE_EXCEEDED)
            st = rt_fail(&err, st, "%s (the server's log says what the models wait for)", why.text);
    }
    if (st)
        return end(&a, cl_failed("reload", &err));
    int64_t n = models_in(text);
    rt_print(stdout, "reloaded: %" PRId64 " model%s\n", n, n == 1 ? "" : "s");
    if (*why.text)
        cl_print_line(stdout, why.text);
    return end(&a, CL_EXIT_OK);
}
