/* Implements `slipway bench`, which sends load to a server and checks the responses. The load can
 * be a replayed request log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/c/message.h"
#include "clients/cli/cli.h"
#include "clients/cli/convert.h"
#include "clients/cli/input.h"
#include "clients/cli/load.h"
#include "clients/cli/rest.h"
#include "runtime/base/print.h"
#include "runtime/base/tfrecord.h"

enum { MAX_VARIANTS = 64, VARIANTS = 8, CONNECTIONS = 4, MAX_RECORD = INT32_MAX };

struct bench {
    struct cl_target target;
    struct cl_version_flags version;
    double rate, seconds, warmup, tolerance;
    int64_t concurrency, connections, requests, batch;
    struct cl_list shapes;
    const char *replay;
    bool no_check, json, progress, raw;

    struct rt_arena *arena;
    struct cl_remote remote; /* used only for the calls before the measurement */
    struct slipway_model model;
    int n_shots;
    struct cl_shot shots[MAX_VARIANTS];

    struct rt_mutex mu;
    struct rt_tfrecord *log; /* mu guards `log`, `log_err` and n_skipped */
    struct rt_error log_err;
    int64_t n_skipped;
};

#define AT(field) offsetof(struct bench, field)
static const struct cl_flag flags[] = {
    {"--rate", CL_REAL, AT(rate), "N", "requests a second, whatever the server does (open loop)",
     0},
    {"--concurrency", CL_COUNT, AT(concurrency), "N",
     "requests at a time: at most that many (16; replay: 1)", 1},
    {"--connections", CL_COUNT, AT(connections), "N", "gRPC connections (4); REST: one each", 1},
    {"--seconds", CL_REAL, AT(seconds), "S", "how long to measure (5)", 0},
    {"--requests", CL_COUNT, AT(requests), "N", "how many to send, instead", 1},
    {"--warmup", CL_REAL, AT(warmup), "S", "seconds before measuring (1; none with --requests)", 0},
    {"--batch", CL_COUNT, AT(batch), "N", "rows of a random request (1)", 1},
    {"--shape", CL_TEXTS, AT(shapes), "ALIAS=2x3", "dimensions of an input behind the first", 0},
    {"--raw", CL_SWITCH, AT(raw), NULL, "take files as strings whatever they hold", 0},
    {"--tolerance", CL_REAL, AT(tolerance), "X",
     "numbers off by X times the output's largest are right (1e-4)", 0},
    {"--no_check", CL_SWITCH, AT(no_check), NULL, "do not look at the answers", 0},
    {"--replay", CL_TEXT, AT(replay), "FILE", "a TFRecord file of PredictionLogs (gRPC)", 0},
    {"--progress", CL_SWITCH, AT(progress), NULL, "a line each second (on a terminal anyway)", 0},
    {"--json", CL_SWITCH, AT(json), NULL, "print the result as JSON", 0},
};
#undef AT

static const char about[] =
    "Sends requests and prints rates, latencies and faults. Each INPUT is one request (as for\n"
    "`slipway predict`), sent in turn; without any, eight random ones are made as the model's\n"
    "metadata says. Each is first asked alone, and every later answer is compared with that one.\n"
    "With --rate latency counts from when a request was due, so that a stall of the server shows\n"
    "in all the requests that it delayed. With --replay the requests come from a log, in its\n"
    "order, and answers are compared with the recorded ones.\n"
    "The exit status is 1 when a request failed or an answer was wrong.\n";

/* ---- random requests ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Returns the dimensions from --shape for an input, for example "2x3", or NULL. */
static const char *given_shape(const struct bench *b, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < b->shapes.n; i++)
        if (strncmp(b->shapes.at[i], name, n) == 0 && b->shapes.at[i][n] == '=')
            return b->shapes.at[i] + n + 1;
    return NULL;
}

static enum rt_status random_shape(const struct bench *b, const struct slipway_input *in,
                                   struct slipway_tensor *t, struct rt_error *err)
{
    const char *given = given_shape(b, in->name);
    t->rank = in->rank > 0 ? in->rank : in->rank < 0 ? 1 : 0;
    memcpy(t->dim, in->dim, sizeof t->dim);
    if (t->rank && (in->rank < 0 || t->dim[0] < 0))
        t->dim[0] = b->batch;
    for (int d = 1; given && *given; d++) {
        char *end;
        long long v = strtoll(given, &end, 10);
        if (end == given || v < 0 || (*end && *end != 'x') || d == SLIPWAY_MAX_RANK ||
            (in->rank >= 0 && d >= in->rank))
            return rt_fail(err, RT_INVALID_ARGUMENT, "--shape %s=%s does not fit", in->name,
                           given_shape(b, in->name));
        t->dim[d] = v;
        t->rank = d + 1 > t->rank ? d + 1 : t->rank;
        given = *end ? end + 1 : end;
    }
    for (int d = 0; d < t->rank; d++)
        if (t->dim[d] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "input \"%s\": dimension %d is unknown, give --shape %s=...", in->name,
                           d, in->name);
    return RT_OK;
}

static enum rt_status random_tensor(const struct bench *b, const struct slipway_input *in,
                                    uint64_t *state, struct slipway_tensor *t, struct rt_error *err)
{
    *t = (struct slipway_tensor){.name = in->name, .dtype = in->dtype};
    enum rt_status st = random_shape(b, in, t, err);
    size_t size = slipway_dtype_size(t->dtype);
    int64_t n = slipway_count(t);
    bool is_mask = strstr(in->name, "mask") != NULL;
    if (st)
        return st;
    char *data = size && n >= 0 ? rt_arena_array(b->arena, (size_t)n + 1, size) : NULL;
    if (!data)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\" cannot be made up: give INPUT",
                       in->name);
    t->data = n ? data : NULL;
    for (int64_t i = 0; i < n; i++) {
        uint64_t random = next_random(state);
        char *p = data + (size_t)i * size;
        bool ok = true;
        if (t->dtype == SLIPWAY_STRING) {
            struct slipway_string s = {rt_arena_printf(b->arena, "word%d", (int)(random % 1000)),
                                       0};
            s.n = s.p ? strlen(s.p) : 0;
            ok = s.p != NULL;
            memcpy(p, &s, sizeof s);
        } else if (cl_is_real(t->dtype))
            ok = cl_set_real(t->dtype, p, is_mask ? 1 : (double)(random >> 11) * 0x1p-53);
        else
            ok = cl_set_integer(t->dtype, p,
                                is_mask ? 1
                                        : (int64_t)(random % (t->dtype == SLIPWAY_BOOL ? 2
                                                              : size == 1              ? 100
                                                                                       : 1000)));
        if (!ok)
            return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\" cannot be made up: give INPUT",
                           in->name);
    }
    return RT_OK;
}

/* ---- shots ---- */

static struct rt_span keep(struct rt_arena *arena, const struct rt_bytes *bytes)
{
    char *p = bytes->failed ? NULL : rt_arena_strndup(arena, bytes->p ? bytes->p : "", bytes->n);
    return rt_span_of(p, p ? bytes->n : 0);
}

static enum rt_status add_shot(struct bench *b, const struct slipway_tensor *t, int n,
                               const char *json, struct rt_error *err)
{
    struct cl_shot *shot = &b->shots[b->n_shots];
    struct rt_bytes bytes;
    enum rt_status st = RT_OK;
    rt_bytes_init(&bytes, INT32_MAX);
    *shot = (struct cl_shot){.type = PB_LOG_PREDICT};
    if (!b->remote.rest)
        st = cl_write_predict(&bytes, &b->model, t, n, NULL, 0, err);
    else {
        shot->path = cl_rest_path(b->arena, &b->model, ":predict");
        if (json)
            rt_bytes_adds(&bytes, json);
        else
            cl_json_request(&bytes, b->model.signature, t, n);
    }
    if (!st) {
        shot->request = keep(b->arena, &bytes);
        if (!shot->request.p || (b->remote.rest && !shot->path))
            st = rt_fail_memory(err, "a request", bytes.n);
    }
    rt_bytes_clear(&bytes);
    b->n_shots += !st;
    return st;
}

static enum rt_status shots_from_inputs(struct bench *b, const struct cl_list *inputs,
                                        struct rt_error *err)
{
    const struct slipway_signature *s = NULL;
    enum rt_status st = RT_OK;
    for (int i = 0; i < inputs->n && !st; i++) {
        const struct cl_list one = {.n = 1, .at = {inputs->at[i]}}, none = {0};
        struct cl_input in;
        const char *json = NULL;
        bool is_row;
        st = cl_input_read(&one, &none, b->raw, b->arena, &in, err);
        if (!st && b->remote.rest && in.json) {
            json = cl_input_body(&in, false, b->model.signature, b->arena);
            if (!json)
                st = rt_fail_memory(err, "a request", 0);
        } else {
            if (!st && !s)
                st = cl_remote_signature(&b->remote, &b->model, b->arena, &s, err);
            if (!st)
                st = cl_input_bind(&in, s, b->arena, &is_row, err);
        }
        if (!st)
            st = add_shot(b, in.tensors, in.n, json, err);
    }
    return st;
}

static enum rt_status random_shots(struct bench *b, struct rt_error *err)
{
    const struct slipway_signature *s;
    uint64_t state = 42;
    enum rt_status st = cl_remote_signature(&b->remote, &b->model, b->arena, &s, err);
    for (int i = 0; i < b->shapes.n && !st; i++) {
        const size_t n = strcspn(b->shapes.at[i], "=");
        char *name = rt_arena_strndup(b->arena, b->shapes.at[i], n);
        st = name ? cl_check_name(name, s->inputs, s->n_inputs, err)
                  : rt_fail_memory(err, "inputs", n);
        if (st)
            rt_fail_prefix(err, "--shape %s: ", b->shapes.at[i]);
    }
    for (int i = 0; i < VARIANTS && !st; i++) {
        struct slipway_tensor *t = rt_arena_array(b->arena, (size_t)s->n_inputs + 1, sizeof *t);
        if (!t)
            return rt_fail_memory(err, "inputs", 0);
        for (int k = 0; k < s->n_inputs && !st; k++)
            st = random_tensor(b, &s->inputs[k], &state, &t[k], err);
        if (!st)
            st = add_shot(b, t, s->n_inputs, NULL, err);
    }
    return st;
}

/* Sends each request once before the load. Its response becomes the expected response. */
static enum rt_status query_alone(struct bench *b, struct rt_error *err)
{
    struct rt_bytes response;
    enum rt_status st = RT_OK;
    rt_bytes_init(&response, b->remote.max_bytes);
    for (int i = 0; i < b->n_shots && !st; i++) {
        st = cl_shoot(&b->remote, &b->shots[i], &response, err);
        if (!st && !b->no_check) {
            b->shots[i].want = keep(b->arena, &response);
            if (!b->shots[i].want.p)
                st = rt_fail_memory(err, "an answer", response.n);
        }
    }
    rt_bytes_clear(&response);
    return st;
}

static bool next_shot(void *arg, int64_t i, struct cl_shot *out, struct rt_bytes *kept)
{
    const struct bench *b = arg;
    (void)kept;
    *out = b->shots[i % b->n_shots];
    return true;
}

/* ---- replay ---- */

static bool next_record(void *arg, int64_t i, struct cl_shot *out, struct rt_bytes *kept)
{
    struct bench *b = arg;
    struct rt_span record;
    struct pb_prediction_log log = {0};
    (void)i;
    kept->n = 0;
    rt_mutex_lock(&b->mu);
    bool there = !b->log_err.code;
    while (there) {
        there = rt_tfrecord_next(b->log, &record, &b->log_err) == RT_OK;
        if (there && pb_prediction_log_read(record, &log) && cl_log_method(log.type) &&
            log.request.p)
            break;
        b->n_skipped += there;
    }
    if (there) {
        rt_bytes_add(kept, log.request.p, log.request.n);
        if (log.response.n)
            rt_bytes_add(kept, log.response.p, log.response.n);
    }
    rt_mutex_unlock(&b->mu);
    if (!there || kept->failed)
        return false;
    *out = (struct cl_shot){.type = log.type, .request = rt_span_of(kept->p, log.request.n)};
    if (log.response.p && !b->no_check)
        out->want = rt_span_of(kept->p + log.request.n, log.response.n);
    return true;
}

/* ---- the report ---- */

static const struct {
    const char *name, *key;
    double q;
} quantiles[] = {{"p50", "p50", 0.5},  {"p90", "p90", 0.9},      {"p95", "p95", 0.95},
                 {"p99", "p99", 0.99}, {"p99.9", "p999", 0.999}, {"max", "max", 1}};
enum { N_QUANTILES = sizeof quantiles / sizeof *quantiles };

static double ms(double ns)
{
    return ns / 1e6;
}

static json_t *json_times(const struct cl_histogram *h)
{
    json_t *o = json_object();
    json_object_set_new(o, "mean", json_real(ms(cl_histogram_mean(h))));
    for (int i = 0; i < N_QUANTILES; i++)
        json_object_set_new(o, quantiles[i].key,
                            json_real(ms((double)cl_histogram_quantile(h, quantiles[i].q))));
    return o;
}

static void report_json(const struct bench *b, const struct cl_load *l, const struct cl_result *r)
{
    json_t *faults = json_array();
    int64_t n = r->n_ok + r->n_wrong;
    for (int i = 0; i < r->n_faults; i++)
        json_array_append_new(
            faults, json_pack("{s:s, s:s, s:I}", "code", rt_status_name(r->faults[i].code), "text",
                              r->faults[i].text, "n", (json_int_t)r->faults[i].n));
    json_t *o = json_pack(
        "{s:s?, s:s, s:s, s:f, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:s?}",
        "model", b->model.name, "server", b->target.server, "loop", l->rate > 0 ? "open" : "closed",
        "rate", l->rate, "concurrency", (json_int_t)l->n_threads, "seconds", r->seconds, "answered",
        (json_int_t)n, "per_second", r->seconds > 0 ? (double)n / r->seconds : 0.0, "failed",
        (json_int_t)r->n_failed, "wrong", (json_int_t)r->n_wrong, "late", (json_int_t)r->n_late,
        "skipped", (json_int_t)b->n_skipped, "latency_ms", json_times(r->latency), "service_ms",
        json_times(r->service), "failures", faults, "first_wrong",
        *r->first_wrong ? r->first_wrong : NULL);
    if (o)
        json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

static void print_times(const char *what, const struct cl_histogram *h)
{
    rt_print(stdout, "%s mean %.3f", what, ms(cl_histogram_mean(h)));
    for (int i = 0; i < N_QUANTILES; i++)
        rt_print(stdout, "  %s %.3f", quantiles[i].name,
                 ms((double)cl_histogram_quantile(h, quantiles[i].q)));
    rt_print(stdout, "\n");
}

static void report(const struct bench *b, const struct cl_load *l, const struct cl_result *r)
{
    int64_t n = r->n_ok + r->n_wrong;
    rt_print(stdout, "%s, ", b->replay ? b->replay : b->model.name);
    if (l->rate > 0)
        rt_print(stdout, "%g a second", l->rate);
    else
        rt_print(stdout, "%" PRId64 " at a time", l->n_threads);
    rt_print(stdout,
             ", %.2f s: %" PRId64 " answered (%.1f/s), %" PRId64 " failed, %" PRId64 " wrong%s\n",
             r->seconds, n, r->seconds > 0 ? (double)n / r->seconds : 0, r->n_failed, r->n_wrong,
             b->no_check ? " (not looked at)" : "");
    print_times("latency ms:", r->latency);
    if (l->rate > 0) {
        print_times("service ms:", r->service);
        if (r->n_late)
            rt_print(stdout,
                     "%" PRId64 " were sent more than 1 ms after they were due: more --concurrency "
                     "may help\n",
                     r->n_late);
    }
    if (b->n_skipped)
        rt_print(stdout, "%" PRId64 " records are no requests that can be sent\n", b->n_skipped);
    for (int i = 0; i < r->n_faults; i++) {
        rt_print(stdout, "failed %" PRId64 " times: %s: ", r->faults[i].n,
                 rt_status_name(r->faults[i].code));
        cl_print_line(stdout, r->faults[i].text);
    }
    if (r->n_wrong)
        rt_print(stdout, "first wrong answer: %s\n", r->first_wrong);
}

/* ---- the command ---- */

static enum rt_status begin(struct bench *b, const struct cl_list *words, struct rt_error *err)
{
    enum rt_status st = cl_remote_open(&b->remote, &b->target, b->arena, err);
    if (st)
        return st;
    if (b->replay && words->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--replay names its models itself");
    if (b->replay && b->remote.rest)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--replay goes over gRPC");
    if (b->replay)
        return RT_OK;
    if (!words->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a model is wanted, or --replay FILE");
    st = cl_check_pairs("--shape", "ALIAS=2x3", &b->shapes, err);
    return st ? st : cl_model_of(&b->model, words->at[0], &b->version, err);
}

static enum rt_status prepare(struct bench *b, const struct cl_list *words, struct cl_load *l,
                              struct rt_error *err)
{
    struct cl_list inputs = *words;
    if (b->replay) {
        l->source = (struct cl_source){next_record, b};
        return rt_tfrecord_open(&b->log, b->replay, MAX_RECORD, err);
    }
    inputs.n--;
    memmove(inputs.at, inputs.at + 1, (size_t)inputs.n * sizeof *inputs.at);
    l->source = (struct cl_source){next_shot, b};
    enum rt_status st = inputs.n ? shots_from_inputs(b, &inputs, err) : random_shots(b, err);
    return st ? st : query_alone(b, err);
}

static void set_defaults(struct bench *b, struct cl_load *l)
{
    bool counted = b->replay || b->requests;
    if (!b->concurrency)
        b->concurrency = b->replay ? 1 : 16;
    *l = (struct cl_load){
        .target = &b->target,
        .rate = b->rate,
        .n_threads = b->concurrency > CL_MAX_THREADS ? CL_MAX_THREADS : b->concurrency,
        .n_connections = b->connections,
        .warmup_s = b->warmup >= 0 ? b->warmup
                    : counted      ? 0
                                   : 1,
        .seconds = b->seconds > 0 ? b->seconds
                   : counted      ? 0
                                  : 5,
        .max_shots = b->requests,
        .tolerance = b->no_check ? -1 : b->tolerance,
        .progress = b->progress || (isatty(STDERR_FILENO) && !b->json),
    };
}

int cl_command_bench(int argc, const char *const *argv)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b)
        return CL_EXIT_FAILED;
    b->target = (struct cl_target)CL_TARGET_DEFAULTS;
    b->batch = 1;
    b->connections = CONNECTIONS;
    b->tolerance = 1e-4;
    b->warmup = -1;
    const struct cl_flag_set sets[] = {
        {flags, sizeof flags / sizeof *flags, b},
        {cl_version_flags, CL_N_VERSION_FLAGS, &b->version},
        {cl_target_flags, CL_N_TARGET_FLAGS, &b->target},
    };
    const struct cl_usage usage = {.command = "bench",
                                   .synopsis = "MODEL [INPUT...] [flags] | --replay FILE [flags]",
                                   .about = about,
                                   .max_words = CL_MAX_LIST,
                                   .sets = sets,
                                   .n_sets = 3};
    struct cl_list words;
    struct cl_load load;
    int code = cl_flags_parse(&usage, argc, argv, &words);
    if (code >= 0) {
        free(b);
        return code;
    }
    struct cl_result result = {0};
    b->arena = rt_arena_new(SIZE_MAX);
    struct rt_error err = {.arena = b->arena};
    rt_mutex_init(&b->mu);
    set_defaults(b, &load);
    enum rt_status st = b->arena ? begin(b, &words, &err) : rt_fail_memory(&err, "measuring", 0);
    const bool is_refused = st != RT_OK;
    if (!st)
        st = prepare(b, &words, &load, &err);
    cl_remote_close(&b->remote); /* the load generator opens new connections */
    if (!st)
        st = cl_load_run(&load, &result, &err);
    if (!st && b->replay && b->log_err.code != RT_OUT_OF_RANGE && b->log_err.code)
        st = rt_fail(&err, b->log_err.code, "%s: %s", b->replay, rt_error_text(&b->log_err));
    if (result.latency && (!st || b->replay)) {
        if (b->json)
            report_json(b, &load, &result);
        else
            report(b, &load, &result);
    }
    bool is_well = !st && !result.n_failed && !result.n_wrong && result.n_ok;
    code = is_refused ? cl_refused("bench", &err)
           : st       ? cl_failed("bench", &err)
           : is_well  ? CL_EXIT_OK
                      : CL_EXIT_FAILED;
    cl_result_clear(&result);
    rt_tfrecord_close(b->log);
    rt_mutex_clear(&b->mu);
    rt_arena_free(b->arena);
    free(b);
    return code;
}
