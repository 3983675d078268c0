#include "server/replay/model_warmup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Appends the bytes of a tensor of n elements, as raw_input_contents holds them. A text is empty,
 * which is a length of four bytes. */
static enum rt_status make_values(struct warmup *w, const input_message *in, enum rt_dtype dtype,
                                  size_t n, struct rt_bytes *out, struct rt_error *err)
{
    const bool is_random =
        in->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA &&
        dtype != RT_STRING;
    const size_t size = dtype == RT_STRING ? 4 : rt_dtype_size(dtype);
    size_t bytes;

    if (!rt_mul_size(n, size, &bytes) || !rt_bytes_reserve(out, bytes))
        return rt_fail_memory(err, "an input", out->limit);
    memset(out->p + out->n, 0, bytes);
    for (size_t i = 0; is_random && i < n; i++) {
        const uint64_t bits = random_bits(w, dtype); /* the machine is little-endian */
        memcpy(out->p + out->n + i * size, &bits, size);
    }
    out->n += bytes;
    return RT_OK;
}

static enum rt_status read_values(const struct warmup *w, const char *name, struct rt_bytes *out,
                                  struct rt_error *err)
{
    char path[4096];
    char *p = NULL;
    size_t n = 0;
    const int base = (int)srv_triton_base_length(w->dir);

    if (!*name || name[0] == '.' || strchr(name, '/'))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input_data_file \"%.100s\" is no name of a file in the directory warmup",
                       name);
    if ((size_t)snprintf(path, sizeof path, "%.*s/warmup/%s", base, w->dir, name) >= sizeof path)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the path of %.100s is too long", name);
    const enum rt_status st =
        rt_file_read(path, (size_t)w->target.options->max_body_bytes, &p, &n, err);
    if (!st)
        rt_bytes_add(out, p, n);
    free(p);
    return st;
}

/* Appends an input to the request, and its values to `raw`. */
static enum rt_status add_input(struct warmup *w, const Inference__ModelWarmup *m, const char *name,
                                const input_message *in, struct rt_bytes *out, struct rt_bytes *raw,
                                struct rt_error *err)
{
    const char *type;
    const enum rt_dtype dtype = srv_triton_dtype((int)in->data_type, &type);
    const int batch = w->triton->message->max_batch_size > 0;
    int64_t dim[RT_MAX_RANK];
    int64_t n = 1;
    struct rt_bytes item, dims, values;

    if (in->n_dims + (size_t)batch > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "there are %zu dims", in->n_dims);
    const int rank = (int)in->n_dims + batch;
    for (int i = 0; i < rank; i++) {
        dim[i] = batch && i == 0 ? (m->batch_size ? m->batch_size : 1) : in->dims[i - batch];
        if (dim[i] < 0 || !rt_mul(n, dim[i], &n))
            return rt_fail(err, RT_INVALID_ARGUMENT, "the dims are no shape");
    }
    rt_bytes_init(&item, out->limit);
    rt_bytes_init(&dims, out->limit);
    rt_bytes_init(&values, out->limit);
    srv_put_text(&item, 1, name);
    srv_put_text(&item, 2, dtype == RT_STRING ? "BYTES" : type);
    srv_oip_put_dims(&dims, rank, dim);
    srv_put_message(&item, 3, &dims);
    srv_put_message(out, 5, &item);
    const enum rt_status st =
        in->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE
            ? read_values(w, in->input_data_file, &values, err)
            : make_values(w, in, dtype, (size_t)n, &values, err);
    if (!st)
        srv_put_message(raw, 7, &values);
    rt_bytes_clear(&item);
    rt_bytes_clear(&dims);
    rt_bytes_clear(&values);
    return st;
}

/* Appends the request as a ModelInferRequest of the Open Inference Protocol. */
static enum rt_status make_request(struct warmup *w, const Inference__ModelWarmup *m,
                                   struct rt_bytes *out, struct rt_error *err)
{
    struct rt_bytes raw;
    enum rt_status st = RT_OK;

    rt_bytes_init(&raw, out->limit);
    srv_put_text(out, 1, w->target.version->model);
    for (size_t i = 0; !st && i < m->n_inputs; i++) {
        st = m->inputs[i]->value
                 ? add_input(w, m, m->inputs[i]->key, m->inputs[i]->value, out, &raw, err)
                 : rt_fail(err, RT_INVALID_ARGUMENT, "it has no values");
        if (st)
            rt_fail_prefix(err, "input \"%.100s\": ", m->inputs[i]->key);
    }
    rt_bytes_add(out, raw.p, raw.n);
    if (!st && (out->failed || raw.failed))
        st = rt_fail_memory(err, "a request", out->limit);
    rt_bytes_clear(&raw);
    return st;
}

/* Runs the request. No response is written, because nobody would read it. */
static enum rt_status perform(const struct warmup *w, struct rt_span request,
                              struct rt_arena *arena, struct rt_error *err)
{
    struct srv_inference inf;
    struct srv_job job;

    enum rt_status st = srv_replay_may_go_on(&w->target, err);
    if (st)
        return st;
    st = srv_replay_perform(&w->target, &inf, &job, &srv_oip_infer, request, arena, err);
    srv_inference_clear(&inf);
    return st;
}

static enum rt_status play(struct warmup *w, const Inference__ModelWarmup *m,
                           struct rt_arena *arena, int64_t *n, struct rt_error *err)
{
    const uint32_t count = m->count ? m->count : 1;
    struct rt_bytes request;

    rt_bytes_init(&request, (size_t)w->target.options->max_body_bytes);
    enum rt_status st = make_request(w, m, &request, err);
    for (uint32_t i = 0; !st && i < count; i++, *n += !st)
        st = perform(w, rt_span_of(request.p, request.n), arena, err);
    rt_bytes_clear(&request);
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
