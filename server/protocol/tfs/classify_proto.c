#include "server/protocol/tfs/classify_proto.h"

#include <string.h>

#include "runtime/base/arena.h"

/* ---- reading ---- */

static enum rt_status read_task(struct srv_cursor c, struct srv_inference_task *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    while (!st && (got = srv_field_next(&c, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES)) {
            out->has_spec = true;
            st = srv_model_spec_read(f.body, &out->spec, arena, err);
        } else if (srv_field_is(&f, 2, SRV_BYTES)) {
            st = srv_field_span(&f, &out->method, arena, err);
        }
    }
    return !st && got < 0 ? srv_wire_malformed(err, "tasks") : st;
}

enum rt_status srv_examples_read(struct srv_cursor message, bool is_multi,
                                 struct srv_examples_request *out, struct rt_arena *arena,
                                 struct rt_error *err)
{
    struct srv_cursor c = message;
    struct srv_field f;
    int got, n_tasks = 0;
    enum rt_status st = RT_OK;

    *out = (struct srv_examples_request){.has_spec = false};
    while ((got = srv_field_next(&c, &f)) > 0)
        n_tasks += is_multi && srv_field_is(&f, 1, SRV_BYTES);
    if (got < 0)
        return srv_wire_malformed(err, is_multi ? "MultiInferenceRequest" : "the request");
    /* Maximum number of tasks in a MultiInferenceRequest. It is far above the number of signatures
     * in any model. */
    enum { MANY = 1000 };
    if (n_tasks > MANY)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the request has %d tasks, at most %d", n_tasks,
                       MANY);
    out->tasks = rt_arena_array(arena, (size_t)n_tasks + 1, sizeof *out->tasks);
    if (!out->tasks)
        return rt_fail_memory(err, "the parts of a request", 0);
    while (!st && srv_field_next(&message, &f) > 0) {
        if (srv_field_is(&f, 2, SRV_BYTES)) {
            out->input = f.body;
        } else if (srv_field_is(&f, 1, SRV_BYTES) && is_multi) {
            st = read_task(f.body, &out->tasks[out->n_tasks++], arena, err);
        } else if (srv_field_is(&f, 1, SRV_BYTES)) {
            out->has_spec = true;
            st = srv_model_spec_read(f.body, &out->spec, arena, err);
        }
    }
    if (out->n_tasks && !st) {
        out->has_spec = out->tasks[0].has_spec;
        out->spec = out->tasks[0].spec;
    }
    return st;
}

struct example_list {
    /* an ExampleList or ExampleListWithContext; its field 1 contains the examples */
    struct srv_cursor body;
    struct srv_cursor context;
};

/* Finds the examples of an Input. If the message contains both members of its oneof, the last one
 * is used. */
static enum rt_status find_list(struct srv_cursor input, struct example_list *out,
                                struct rt_error *err)
{
    struct srv_field f;
    int got;

    *out = (struct example_list){.body = {.left = 0}};
    while ((got = srv_field_next(&input, &f)) > 0) {
        if (!srv_field_is(&f, 1, SRV_BYTES) && !srv_field_is(&f, 2, SRV_BYTES))
            continue;
        *out = (struct example_list){.body = f.body};
        if (f.number == 1)
            continue;
        struct srv_cursor list = f.body;
        while ((got = srv_field_next(&list, &f)) > 0)
            if (srv_field_is(&f, 2, SRV_BYTES))
                out->context = f.body;
        if (got < 0)
            break;
    }
    return got < 0 ? srv_wire_malformed(err, "input") : RT_OK;
}

static enum rt_status count_examples(const struct example_list *list, int64_t *n, size_t *bytes,
                                     struct rt_error *err)
{
    struct srv_cursor c = list->body;
    struct srv_field f;
    int got;

    *n = 0;
    *bytes = 0;
    while ((got = srv_field_next(&c, &f)) > 0)
        if (srv_field_is(&f, 1, SRV_BYTES)) {
            ++*n;
            *bytes += sizeof(struct rt_str) + f.body.left;
        }
    if (got < 0)
        return srv_wire_malformed(err, "input");
    if (!*n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Input is empty.");
    return RT_OK;
}

enum rt_status srv_examples_bind(struct srv_cursor input, struct srv_allowance *allowance,
                                 struct rt_tensor *out, struct rt_error *err)
{
    struct example_list list;
    struct srv_field f;
    int64_t n, at = 0;
    size_t bytes, more;
    enum rt_status st = find_list(input, &list, err);

    *out = (struct rt_tensor){.dtype = 0};
    if (!st)
        st = count_examples(&list, &n, &bytes, err);
    if (st)
        return st;
    if (__builtin_mul_overflow((size_t)n, list.context.left, &more) ||
        __builtin_add_overflow(more, bytes, &more) || more > allowance->left)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%lld examples, each with the context of %zu bytes: more than the %zu "
                       "bytes that a request may take, twice --max_body_bytes",
                       (long long)n, list.context.left, allowance->left);
    st = srv_allowance_take(allowance, more, err);
    if (!st)
        st = rt_tensor_new(out, NULL, RT_STRING, 1, &n, err);
    while (!st && at < n && srv_field_next(&list.body, &f) > 0) {
        if (!srv_field_is(&f, 1, SRV_BYTES))
            continue;
        struct srv_cursor context = list.context;
        size_t n_context = context.left, n_own = f.body.left;
        char *to = rt_str_resize((struct rt_str *)out->data + at++, NULL, n_context + n_own, err);
        if (!to) {
            st = err->code;
            break;
        }
        srv_cursor_copy(&context, to, n_context);
        srv_cursor_copy(&f.body, to + n_context, n_own);
    }
    if (st)
        rt_tensor_clear(out);
    return st;
}

/* ---- writing ---- */

/* Cost of writing one class or one regression value, in bytes. It is reported to
 * srv_should_continue in addition to the length of the label. */
enum { SCORE_COST = 16 };

static size_t class_size(struct rt_span label, float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return (label.n ? srv_bytes_size(1, label.n) : 0) + (bits ? 5 : 0);
}

static size_t classes_size(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t i,
                           struct srv_cancellation *cancellation)
{
    int64_t width = srv_scoring_width(s, fetches);
    size_t size = 0;

    for (int64_t k = 0; k < width && size <= SRV_MESSAGE_MOST; k++) {
        size += srv_bytes_size(1, class_size(srv_scoring_label(s, fetches, i, k),
                                             srv_scoring_score(s, fetches, i, k)));
        if (!srv_should_continue(cancellation, SCORE_COST))
            break;
    }
    return size;
}

static size_t value_size(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t i)
{
    return class_size(rt_span_of("", 0), srv_scoring_score(s, fetches, i, 0));
}

/* Returns the size of a ClassificationResult or RegressionResult. Stops measuring when the size
 * exceeds SRV_MESSAGE_MOST bytes, or when `cancellation` reports that the response is cancelled. */
static size_t result_size(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t n,
                          struct srv_cancellation *cancellation)
{
    size_t size = 0;

    for (int64_t i = 0; i < n && size <= SRV_MESSAGE_MOST; i++) {
        size += srv_bytes_size(1, s->api == SRV_CLASSIFY ? classes_size(s, fetches, i, cancellation)
                                                         : value_size(s, fetches, i));
        if (!srv_should_continue(cancellation, SCORE_COST))
            break;
    }
    return size;
}

static void put_classes(struct rt_bytes *out, const struct srv_scoring *s,
                        const struct rt_tensor *fetches, int64_t i,
                        struct srv_cancellation *cancellation)
{
    int64_t width = srv_scoring_width(s, fetches);

    srv_put_head(out, 1, classes_size(s, fetches, i, cancellation));
    for (int64_t k = 0; k < width; k++) {
        struct rt_span label = srv_scoring_label(s, fetches, i, k);
        float score = srv_scoring_score(s, fetches, i, k);
        if (!srv_should_continue(cancellation, label.n + SCORE_COST))
            return;
        srv_put_head(out, 1, class_size(label, score));
        if (label.n)
            srv_put_bytes(out, 1, label.p, label.n);
        srv_put_float(out, 2, score);
    }
}

static void put_result(struct rt_bytes *out, const struct srv_scoring *s,
                       const struct rt_tensor *fetches, int64_t n,
                       struct srv_cancellation *cancellation)
{
    for (int64_t i = 0; i < n && srv_should_continue(cancellation, SCORE_COST); i++) {
        if (s->api == SRV_CLASSIFY) {
            put_classes(out, s, fetches, i, cancellation);
            continue;
        }
        srv_put_head(out, 1, value_size(s, fetches, i));
        srv_put_float(out, 1, srv_scoring_score(s, fetches, i, 0));
    }
}

enum rt_status srv_scoring_write(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t n, const struct srv_model_echo *echo,
                                 struct srv_growth *growth, unsigned char **out, size_t *n_out,
                                 struct rt_error *err)
{
    struct srv_cancellation *cancellation = srv_growth_cancellation(growth);
    const size_t result = result_size(s, fetches, n, cancellation);
    struct rt_bytes message;
    enum rt_status st = srv_growth_open(
        growth, &message, srv_bytes_size(1, result) + srv_model_echo_size(echo, 2), err);

    if (st)
        return st;
    srv_put_head(&message, 1, result);
    put_result(&message, s, fetches, n, cancellation);
    srv_model_echo_put(&message, echo, 2);
    return srv_growth_close(growth, &message, out, n_out, err);
}

static size_t scored_size(const struct srv_scoring *s, const struct srv_model_echo *echo,
                          size_t result)
{
    return srv_model_echo_size(echo, 1) + srv_bytes_size(s->api == SRV_CLASSIFY ? 2 : 3, result);
}

enum rt_status srv_multi_write(const struct srv_scoring *s, int n_scorings,
                               const struct rt_tensor *fetches, int64_t n,
                               const struct srv_model_echo *echo, struct srv_growth *growth,
                               unsigned char **out, size_t *n_out, struct rt_error *err)
{
    struct srv_cancellation *cancellation = srv_growth_cancellation(growth);
    struct rt_bytes message;
    size_t total = 0;

    for (int i = 0; i < n_scorings && total <= SRV_MESSAGE_MOST; i++)
        total += srv_bytes_size(
            1, scored_size(&s[i], &echo[i], result_size(&s[i], fetches, n, cancellation)));
    enum rt_status st = srv_growth_open(growth, &message, total, err);
    if (st)
        return st;
    for (int i = 0; i < n_scorings && !(cancellation && cancellation->over); i++) {
        const size_t result = result_size(&s[i], fetches, n, cancellation);
        srv_put_head(&message, 1, scored_size(&s[i], &echo[i], result));
        srv_model_echo_put(&message, &echo[i], 1);
        srv_put_head(&message, s[i].api == SRV_CLASSIFY ? 2 : 3, result);
        put_result(&message, &s[i], fetches, n, cancellation);
    }
    return srv_growth_close(growth, &message, out, n_out, err);
}

/* ---- requests ---- */

static void put_input(struct rt_bytes *out, const struct rt_tensor *examples)
{
    int64_t n = rt_tensor_count(examples);
    size_t size = 0;

    for (int64_t i = 0; i < n; i++)
        size += srv_bytes_size(1, rt_strs(examples)[i].n);
    srv_put_head(out, 2, srv_bytes_size(1, size));
    srv_put_head(out, 1, size);
    for (int64_t i = 0; i < n; i++)
        srv_put_bytes(out, 1, rt_str_data(&rt_strs(examples)[i]), rt_strs(examples)[i].n);
}

void srv_examples_write_request(const struct srv_model_echo *echo, const struct rt_tensor *examples,
                                struct rt_bytes *out)
{
    srv_model_echo_put(out, echo, 1);
    put_input(out, examples);
}

void srv_multi_write_request(const struct srv_scoring *s, int n_scorings,
                             const struct srv_model_echo *echo, const struct rt_tensor *examples,
                             struct rt_bytes *out)
{
    for (int i = 0; i < n_scorings; i++) {
        const char *method = srv_scoring_method(s[i].api);
        srv_put_head(out, 1, srv_model_echo_size(&echo[i], 1) + srv_bytes_size(2, strlen(method)));
        srv_model_echo_put(out, &echo[i], 1);
        srv_put_text(out, 2, method);
    }
    put_input(out, examples);
}
