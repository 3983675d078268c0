/* Implements `slipway predict`, which sends one request to a model and prints the response. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/message.h"
#include "clients/cli/cli.h"
#include "clients/cli/classify.h"
#include "clients/cli/input.h"
#include "clients/cli/npy.h"
#include "clients/cli/rest.h"
#include "runtime/base/tfrecord.h"

struct predict {
    struct cl_target target;
    struct cl_version_flags version;
    struct cl_list inputs, outputs;
    const char *out, *record;
    bool raw;

    struct cl_remote remote;
    struct slipway_model model;
    /* NULL until the server has returned the metadata */
    const struct slipway_signature *signature;
    struct cl_input input;
    struct rt_arena *arena;
};

#define AT(field) offsetof(struct predict, field)
static const struct cl_flag flags[] = {
    {"--input", CL_TEXTS, AT(inputs), "ALIAS=FILE", "a file for that input; may be given again", 0},
    {"--raw", CL_SWITCH, AT(raw), NULL, "take files as strings whatever they hold", 0},
    {"--output", CL_TEXTS, AT(outputs), "NAME", "only this output; may be given again", 0},
    {"--out", CL_TEXT, AT(out), "FILE.npy", "write the output as a NumPy file", 0},
    {"--record", CL_TEXT, AT(record), "FILE", "append request and answer to a log (gRPC)", 0},
};
#undef AT

static const char about[] =
    "Asks a model and prints its answer as JSON. INPUT is JSON itself, or a file: .json, .npy,\n"
    ".npz (whose arrays are named as the inputs), or any other (an image, a text), which becomes\n"
    "one string; \"-\" or nothing is JSON from standard input. JSON is a request body, or a list\n"
    "(of rows) or object (of inputs) alone. {\"examples\": [...]} is classified or regressed, as\n"
    "the signature says. Arrays are converted to the model's types.\n"
    "A log (a TFRecord file of PredictionLogs) is what warm-up files, golden files and\n"
    "`slipway bench --replay` consist of.\n";

static enum rt_status know_signature(struct predict *p, struct rt_error *err)
{
    return p->signature ? RT_OK
                        : cl_remote_signature(&p->remote, &p->model, p->arena, &p->signature, err);
}

/* ---- the response ---- */

static enum rt_status write_file(const char *path, const struct rt_bytes *bytes,
                                 struct rt_error *err)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(bytes->p, 1, bytes->n, f) == bytes->n;
    if (f && fclose(f) != 0)
        ok = false;
    return ok ? RT_OK : rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(errno));
}

static enum rt_status show(struct predict *p, const struct slipway_tensor *outputs, int n,
                           bool rows, struct rt_error *err)
{
    struct rt_bytes text;
    enum rt_status st = RT_OK;
    rt_bytes_init(&text, SIZE_MAX);
    if (p->out) {
        st = n == 1 ? cl_npy_write(&text, &outputs[0], err)
                    : rt_fail(err, RT_INVALID_ARGUMENT,
                              "the answer has %d outputs: choose one by --output NAME", n);
        if (!st)
            st = write_file(p->out, &text, err);
    } else {
        cl_json_response(&text, outputs, n, rows);
        rt_bytes_addc(&text, '\n');
        if (text.failed)
            st = rt_fail_memory(err, "the answer", text.n);
        else
            fwrite(text.p, 1, text.n, stdout);
    }
    rt_bytes_clear(&text);
    return st;
}

/* ---- examples ---- */

/*
 * Sets *type to PB_LOG_CLASSIFY or PB_LOG_REGRESS, and *body to the JSON, if the input is
 * {"examples": [...]} and the signature is for classification or regression. p->model then has this
 * signature. Otherwise sets *type to PB_LOG_PREDICT and *body to NULL. The caller must free *body
 * with json_decref.
 */
static enum rt_status find_examples(struct predict *p, enum pb_log_type *type, json_t **body,
                                    struct rt_error *err)
{
    struct rt_error ignored = {0};
    const struct slipway_signature *s;
    json_t *v;
    *type = PB_LOG_PREDICT;
    *body = NULL;
    if (!p->input.json || cl_json_load(rt_span_str(p->input.json), &v, &ignored))
        return RT_OK; /* malformed JSON is reported later */
    const char *named = json_string_value(json_object_get(v, "signature_name"));
    struct slipway_model model = p->model;
    if (named && !model.signature)
        model.signature = rt_arena_strdup(p->arena, named);
    enum rt_status st = RT_OK;
    if (json_is_array(json_object_get(v, "examples")) &&
        !(st = cl_remote_signature(&p->remote, &model, p->arena, &s, err))) {
        if (strcmp(s->method, "tensorflow/serving/classify") == 0)
            *type = PB_LOG_CLASSIFY;
        else if (strcmp(s->method, "tensorflow/serving/regress") == 0)
            *type = PB_LOG_REGRESS;
    }
    if (st || *type == PB_LOG_PREDICT) {
        json_decref(v);
        return st;
    }
    *body = v;
    p->model.signature = model.signature;
    return p->out || p->outputs.n
               ? rt_fail(err, RT_INVALID_ARGUMENT, "--out and --output are not for examples")
               : RT_OK;
}

/* ---- over gRPC ---- */

/* Appends a PredictionLog record to a log file. */
static enum rt_status append_record(const char *path, enum pb_log_type type,
                                    const struct rt_bytes *request, struct rt_span response,
                                    struct rt_error *err)
{
    const struct pb_prediction_log log = {
        .type = type,
        .request = rt_span_of(request->p ? request->p : "", request->n),
        .response = rt_span_of(response.p ? (const char *)response.p : "", response.n),
    };
    struct rt_bytes record, out;
    rt_bytes_init(&record, SIZE_MAX);
    rt_bytes_init(&out, SIZE_MAX);
    pb_prediction_log_write(&log, (struct rt_span){0}, &record);
    rt_tfrecord_add(&out, record.p, record.n);
    enum rt_status st = RT_OK;
    if (record.failed || out.failed)
        st = rt_fail_memory(err, "a record", request->n + response.n);
    FILE *f = st ? NULL : fopen(path, "ab");
    if (!st && (!f || fwrite(out.p, 1, out.n, f) != out.n))
        st = rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && !st)
        st = rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(errno));
    rt_bytes_clear(&record);
    rt_bytes_clear(&out);
    return st;
}

static enum rt_status show_outputs(struct predict *p, struct rt_span got, bool is_row,
                                   struct rt_error *err)
{
    size_t budget = p->remote.max_bytes;
    struct slipway_answer response;
    enum rt_status st = cl_read_predict(got, p->arena, &budget, &response, err);
    return st ? st : show(p, response.outputs, response.n_outputs, is_row, err);
}

static enum rt_status show_results(enum pb_log_type type, struct rt_span got, struct rt_error *err)
{
    struct rt_bytes text;
    rt_bytes_init(&text, SIZE_MAX);
    enum rt_status st = cl_json_results(&text, type, got, err);
    rt_bytes_addc(&text, '\n');
    if (!st && text.failed)
        st = rt_fail_memory(err, "the answer", text.n);
    if (!st)
        fwrite(text.p, 1, text.n, stdout);
    rt_bytes_clear(&text);
    return st;
}

static enum rt_status send_grpc(struct predict *p, enum pb_log_type type,
                                const struct rt_bytes *request, bool is_row, struct rt_error *err)
{
    const struct cl_shot shot = {.type = type, .request = rt_span_of(request->p, request->n)};
    struct rt_bytes bytes;
    rt_bytes_init(&bytes, p->remote.max_bytes);
    enum rt_status st = cl_shoot(&p->remote, &shot, &bytes, err);
    struct rt_span got = rt_span_of(bytes.p, bytes.n);
    if (!st)
        st = type == PB_LOG_PREDICT ? show_outputs(p, got, is_row, err)
                                    : show_results(type, got, err);
    if (!st && p->record)
        st = append_record(p->record, type, request, got, err);
    rt_bytes_clear(&bytes);
    return st;
}

/* Appends a PredictRequest. */
static enum rt_status write_predict(struct predict *p, struct rt_bytes *request, bool *is_row,
                                    struct rt_error *err)
{
    enum rt_status st = know_signature(p, err);
    if (!st)
        st = cl_input_bind(&p->input, p->signature, p->arena, is_row, err);
    return st ? st
              : cl_write_predict(request, &p->model, p->input.tensors, p->input.n, p->outputs.at,
                                 p->outputs.n, err);
}

static enum rt_status over_grpc(struct predict *p, struct rt_error *err)
{
    struct rt_bytes request;
    enum pb_log_type type;
    json_t *examples;
    bool is_row = false;
    enum rt_status st = find_examples(p, &type, &examples, err);
    rt_bytes_init(&request, SIZE_MAX);
    if (!st)
        st = examples ? cl_write_examples(&request, &p->model, examples, err)
                      : write_predict(p, &request, &is_row, err);
    if (!st && request.failed)
        st = rt_fail_memory(err, "a request", request.n);
    if (!st)
        st = send_grpc(p, type, &request, is_row, err);
    rt_bytes_clear(&request);
    json_decref(examples);
    return st;
}

/* ---- over REST ---- */

/* Selects the outputs that --output names, in the order of these flags. Without --output, selects
 * all outputs. */
static enum rt_status choose(const struct predict *p, struct slipway_tensor *outputs, int *n,
                             struct rt_error *err)
{
    struct slipway_tensor *chosen = rt_arena_array(p->arena, CL_MAX_LIST, sizeof *chosen);
    if (!p->outputs.n)
        return RT_OK;
    if (!chosen)
        return rt_fail_memory(err, "outputs", 0);
    for (int i = 0; i < p->outputs.n; i++) {
        int k = 0;
        while (k < *n && strcmp(outputs[k].name, p->outputs.at[i]) != 0)
            k++;
        if (k == *n)
            return rt_fail(err, RT_INVALID_ARGUMENT, "the answer has no output \"%s\"",
                           p->outputs.at[i]);
        chosen[i] = outputs[k];
    }
    memcpy(outputs, chosen, (size_t)p->outputs.n * sizeof *outputs);
    *n = p->outputs.n;
    return RT_OK;
}

static enum rt_status show_body(struct predict *p, const struct rt_bytes *response,
                                struct rt_error *err)
{
    struct slipway_tensor *outputs;
    bool is_row;
    int n;
    json_t *o;
    if (!p->out && !p->outputs.n) {
        fwrite(response->p, 1, response->n, stdout);
        if (!response->n || response->p[response->n - 1] != '\n')
            putchar('\n');
        return RT_OK;
    }
    enum rt_status st = know_signature(p, err);
    if (!st)
        st = cl_json_load(rt_span_of(response->p, response->n), &o, err);
    if (st)
        return st;
    st = cl_json_tensors(o, "predictions", "outputs", p->signature->outputs,
                         p->signature->n_outputs, p->arena, &outputs, &n, &is_row, err);
    json_decref(o);
    if (st)
        rt_fail_prefix(err, "the answer: ");
    else if (!(st = choose(p, outputs, &n, err)))
        st = show(p, outputs, n, is_row, err);
    return st;
}

static enum rt_status over_rest(struct predict *p, struct rt_error *err)
{
    struct rt_bytes body, response;
    const char *json = NULL;
    enum pb_log_type type;
    json_t *examples;
    bool is_row;
    enum rt_status st = find_examples(p, &type, &examples, err);
    const char *suffix = type == PB_LOG_CLASSIFY  ? ":classify"
                         : type == PB_LOG_REGRESS ? ":regress"
                                                  : ":predict";
    rt_bytes_init(&body, SIZE_MAX);
    rt_bytes_init(&response, p->remote.max_bytes);
    if (p->input.json) {
        json = st ? NULL : cl_input_body(&p->input, examples, p->model.signature, p->arena);
    } else {
        st = know_signature(p, err);
        if (!st)
            st = cl_input_bind(&p->input, p->signature, p->arena, &is_row, err);
        if (!st)
            cl_json_request(&body, p->model.signature, p->input.tensors, p->input.n);
    }
    if (!st && (body.failed || !(json || body.p)))
        st = rt_fail_memory(err, "a request", body.n);
    if (!st)
        st = cl_rest(&p->remote, "POST", cl_rest_path(p->arena, &p->model, suffix),
                     json ? rt_span_str(json) : rt_span_of(body.p, body.n), &response, err);
    if (!st)
        st = show_body(p, &response, err);
    rt_bytes_clear(&body);
    rt_bytes_clear(&response);
    json_decref(examples);
    return st;
}

int cl_command_predict(int argc, const char *const *argv)
{
    struct predict p = {.target = CL_TARGET_DEFAULTS};
    const struct cl_flag_set sets[] = {
        {flags, sizeof flags / sizeof *flags, &p},
        {cl_version_flags, CL_N_VERSION_FLAGS, &p.version},
        {cl_target_flags, CL_N_TARGET_FLAGS, &p.target},
    };
    const struct cl_usage usage = {.command = "predict",
                                   .synopsis = "MODEL [INPUT...] [flags]",
                                   .about = about,
                                   .min_words = 1,
                                   .max_words = CL_MAX_LIST,
                                   .sets = sets,
                                   .n_sets = 3};
    struct cl_list words;
    int code = cl_flags_parse(&usage, argc, argv, &words);
    if (code >= 0)
        return code;
    const char *name = words.at[0];
    words.n--;
    memmove(words.at, words.at + 1, (size_t)words.n * sizeof *words.at);
    if (!words.n && !p.inputs.n)
        words.at[words.n++] = "-";

    p.arena = rt_arena_new(SIZE_MAX);
    struct rt_error err = {.arena = p.arena};
    enum rt_status st =
        p.arena ? cl_model_of(&p.model, name, &p.version, &err) : rt_fail_memory(&err, "asking", 0);
    if (!st)
        st = cl_check_pairs("--input", "ALIAS=FILE", &p.inputs, &err);
    if (!st)
        st = cl_remote_open(&p.remote, &p.target, p.arena, &err);
    if (!st && p.record && p.remote.rest)
        st = rt_fail(&err, RT_INVALID_ARGUMENT, "--record goes over gRPC");
    const bool is_refused = st != RT_OK;
    if (!st)
        st = cl_input_read(&words, &p.inputs, p.raw, p.arena, &p.input, &err);
    if (!st)
        st = p.remote.rest ? over_rest(&p, &err) : over_grpc(&p, &err);
    code = is_refused ? cl_refused("predict", &err) : st ? cl_failed("predict", &err) : CL_EXIT_OK;
    cl_remote_close(&p.remote);
    rt_arena_free(p.arena);
    return code;
}
