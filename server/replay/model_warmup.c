#include "server/replay/model_warmup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "inference/model_config.pb-c.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "server/metrics/metrics.h"
#include "server/protocol/oip/oip.h"
#include "server/replay/replay_request.h"
#include "server/triton/triton.h"

typedef Inference__ModelWarmup__Input input_message;

struct warmup {
    const struct srv_triton *triton;
    const char *dir; /* directory of the version's SavedModel */
    struct srv_replay_target target;
    uint64_t random; /* state of the generator of random numbers */
};

static uint64_t next_random(struct warmup *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return w->random >> 8;
}

/* Returns the bits of a random number: 0 or 1 for integers, and from 0.5 to 1 for other types. */
static uint64_t random_bits(struct warmup *w, enum rt_dtype dtype)
{
    const uint64_t r = next_random(w);

    switch (dtype) {
    case RT_F16:
        return UINT64_C(0x3800) | (r & 0x3ff);
    case RT_BF16:
        return UINT64_C(0x3f00) | (r & 0x7f);
    case RT_F32:
        return UINT64_C(0x3f000000) | (r & 0x7fffff);
    case RT_F64:
        return UINT64_C(0x3fe) << 52 | (r & ((UINT64_C(1) << 52) - 1));
    default:
        return r & 1;
    }
}

/* An input of a request. */
struct input {
    const char *name;
    const input_message *message;
    enum rt_dtype dtype;
    const char *type; /* name of dtype, as in config.pbtxt */
    int rank;
    int64_t dim[RT_MAX_RANK];
    int64_t n;    /* number of elements */
    size_t bytes; /* size in raw_input_contents, or of the file when it was counted */
};

static bool is_file(const input_message *in)
{
    return in->input_data_type_case ==
           INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE;
}

/* Appends the bytes of a tensor. A text is empty, which is a length of four bytes. */
static enum rt_status make_values(struct warmup *w, const struct input *in, struct rt_bytes *out,
                                  struct rt_error *err)
{
    const bool is_random = in->message->input_data_type_case ==
                               INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA &&
                           in->dtype != RT_STRING;
    const size_t size = rt_dtype_size(in->dtype);

    srv_put_head(out, 7, in->bytes);
    if (!rt_bytes_reserve(out, in->bytes))
        return rt_fail_memory(err, "an input", out->limit);
    memset(out->p + out->n, 0, in->bytes);
    for (int64_t i = 0; is_random && i < in->n; i++) {
        const uint64_t bits = random_bits(w, in->dtype); /* the machine is little-endian */
        memcpy(out->p + out->n + (size_t)i * size, &bits, size);
    }
    out->n += in->bytes;
    return RT_OK;
}

static enum rt_status find_file(const struct warmup *w, const char *name, char *path, size_t size,
                                struct rt_error *err)
{
    const int base = (int)srv_triton_base_length(w->dir);

    if (!*name || name[0] == '.' || strchr(name, '/'))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input_data_file \"%.100s\" is no name of a file in the directory warmup",
                       name);
    return (size_t)snprintf(path, size, "%.*s/warmup/%s", base, w->dir, name) < size
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT, "the path of %.100s is too long", name);
}

static enum rt_status read_values(const struct warmup *w, const char *name, struct rt_bytes *out,
                                  struct rt_error *err)
{
    char path[4096];
    char *p = NULL;
    size_t n = 0;
    enum rt_status st = find_file(w, name, path, sizeof path, err);

    if (!st)
        st = rt_file_read(path, (size_t)w->target.options->max_body_bytes, &p, &n, err);
    if (!st)
        srv_put_bytes(out, 7, p, n);
    free(p);
    return st;
}

/* Counts the elements and bytes of an input. A file that read_values refuses counts as 0 bytes. */
static enum rt_status count_values(const struct warmup *w, struct input *in, struct rt_error *err)
{
    char path[4096];
    struct stat s;

    if (!is_file(in->message))
        return rt_mul_size((size_t)in->n, in->dtype == RT_STRING ? 4 : rt_dtype_size(in->dtype),
                           &in->bytes)
                   ? RT_OK
                   : rt_fail(err, RT_INVALID_ARGUMENT, "the dims are no shape");
    const enum rt_status st = find_file(w, in->message->input_data_file, path, sizeof path, err);
    const bool fits = !st && stat(path, &s) == 0 && S_ISREG(s.st_mode) &&
                      s.st_size <= w->target.options->max_body_bytes;
    in->bytes = fits ? (size_t)s.st_size : 0;
    return st;
}

static enum rt_status read_input(const struct warmup *w, const Inference__ModelWarmup *m,
                                 struct input *in, struct rt_error *err)
{
    const int batch = w->triton->message->max_batch_size > 0;

    in->dtype = srv_triton_dtype((int)in->message->data_type, &in->type);
    if (in->message->n_dims + (size_t)batch > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "there are %zu dims", in->message->n_dims);
    in->rank = (int)in->message->n_dims + batch;
    in->n = 1;
    for (int i = 0; i < in->rank; i++) {
        in->dim[i] =
            batch && i == 0 ? (m->batch_size ? m->batch_size : 1) : in->message->dims[i - batch];
        if (in->dim[i] < 0 || !rt_mul(in->n, in->dim[i], &in->n))
            return rt_fail(err, RT_INVALID_ARGUMENT, "the dims are no shape");
    }
    return count_values(w, in, err);
}

/* Appends an input and its values to the request. */
static enum rt_status add_input(struct warmup *w, const struct input *in, struct rt_bytes *out,
                                struct rt_error *err)
{
    struct rt_bytes item, dims;

    rt_bytes_init(&item, out->limit);
    rt_bytes_init(&dims, out->limit);
    srv_put_text(&item, 1, in->name);
    srv_put_text(&item, 2, in->dtype == RT_STRING ? "BYTES" : in->type);
    srv_oip_put_dims(&dims, in->rank, in->dim);
    srv_put_message(&item, 3, &dims);
    srv_put_message(out, 5, &item);
    rt_bytes_clear(&item);
    rt_bytes_clear(&dims);
    return is_file(in->message) ? read_values(w, in->message->input_data_file, out, err)
                                : make_values(w, in, out, err);
}

/* Charges the values of a request to the budget: as bytes, and as tensors or the content of a file
 * that is being read. Waits while they do not fit beside those of other loads. */
static enum rt_status charge(const struct warmup *w, const struct input *in, size_t n, size_t *own,
                             struct rt_error *err)
{
    size_t bytes = 0, strings;
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < n; i++)
        if (!rt_add_size(bytes, in[i].bytes, &bytes) || !rt_add_size(bytes, in[i].bytes, &bytes) ||
            !rt_mul_size(in[i].dtype == RT_STRING ? (size_t)in[i].n : 0, sizeof(struct rt_str),
                         &strings) ||
            !rt_add_size(bytes, strings, &bytes))
            return rt_fail(err, RT_INVALID_ARGUMENT, "the dims are no shape");
    while (!st && !srv_budget_take(w->target.budget, own, bytes)) {
        st = srv_budget_refused(w->target.budget, *own, bytes, "the request", err);
        if (st != RT_UNAVAILABLE)
            return st;
        st = srv_replay_wait(&w->target, err);
    }
    return st;
}

/* Appends the request as a ModelInferRequest of the Open Inference Protocol. */
static enum rt_status make_request(struct warmup *w, const Inference__ModelWarmup *m,
                                   struct input *in, size_t *own, struct rt_bytes *out,
                                   struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; !st && i < m->n_inputs; i++) {
        in[i] = (struct input){.name = m->inputs[i]->key, .message = m->inputs[i]->value};
        st = in[i].message ? read_input(w, m, &in[i], err)
                           : rt_fail(err, RT_INVALID_ARGUMENT, "it has no values");
        if (st)
            return rt_fail_prefix(err, "input \"%.100s\": ", in[i].name);
    }
    st = charge(w, in, m->n_inputs, own, err);
    srv_put_text(out, 1, w->target.version->model);
    for (size_t i = 0; !st && i < m->n_inputs; i++) {
        st = add_input(w, &in[i], out, err);
        if (st)
            rt_fail_prefix(err, "input \"%.100s\": ", in[i].name);
    }
    return !st && out->failed ? rt_fail_memory(err, "a request", out->limit) : st;
}

/* Runs the request, which has been charged to the budget with its tensors. No response is written,
 * because nobody would read it. */
static enum rt_status perform(const struct warmup *w, struct rt_span request, size_t *charged,
                              struct rt_arena *arena, struct rt_error *err)
{
    struct srv_replay_target target = w->target;
    struct srv_inference inf;
    struct srv_job job;

    enum rt_status st = srv_replay_may_go_on(&w->target, err);
    if (st)
        return st;
    target.charged = charged;
    st = srv_replay_perform(&target, &inf, &job, &srv_oip_infer, request, arena, err);
    srv_inference_clear(&inf);
    return st;
}

static enum rt_status play(struct warmup *w, const Inference__ModelWarmup *m,
                           struct rt_arena *arena, int64_t *n, struct rt_error *err)
{
    const uint32_t count = m->count ? m->count : 1;
    struct input *in = calloc(m->n_inputs + 1, sizeof *in);
    struct srv_replay_held held;
    struct rt_bytes request;
    size_t own = 0;

    rt_bytes_init(&request, (size_t)w->target.options->max_body_bytes);
    enum rt_status st = in ? make_request(w, m, in, &own, &request, err)
                           : rt_fail_memory(err, "a request", m->n_inputs * sizeof *in);
    srv_replay_hold(&held, w->target.budget, &own);
    for (uint32_t i = 0; !st && i < count; i++, *n += !st)
        st = perform(w, rt_span_of(request.p, request.n), &own, arena, err);
    srv_replay_release(&held);
    rt_bytes_clear(&request);
    free(in);
    srv_replay_give(w->target.budget, &own);
    return st ? rt_fail_prefix(err, "%s: model_warmup \"%.100s\": ", w->triton->path, m->name)
              : RT_OK;
}

enum rt_status srv_model_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                                    const _Atomic bool *cancelled, struct rt_error *err)
{
    const struct srv_triton *t = v->triton;
    const int64_t start = rt_now_ns();
    int64_t n = 0;

    if (!t || !t->message->n_model_warmup || !s->options.enable_model_warmup)
        return RT_OK;
    struct warmup w = {
        .triton = t,
        .dir = dir,
        .target = {.version = v,
                   .options = &s->options,
                   .budget = &s->replays,
                   .run = {.deadline_ns = start + SRV_REPLAY_LIMIT_S * INT64_C(1000000000),
                           .cancelled = cancelled}}};
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    enum rt_status st = arena ? RT_OK : rt_fail_memory(err, "a warm-up", 0);
    for (size_t i = 0; !st && i < t->message->n_model_warmup; i++)
        st = play(&w, t->message->model_warmup[i], arena, &n, err);
    rt_arena_free(arena);
    const int64_t ns = rt_now_ns() - start;
    srv_metrics_warmup(s->metrics, dir, st, n, ns);
    if (!st)
        RT_LOG(RT_LOG_INFO,
               "model %s version %lld: warmed up with %lld requests of config.pbtxt in %.1f ms",
               v->model, (long long)v->version, (long long)n, (double)ns / 1e6);
    return st;
}
