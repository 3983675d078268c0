#include "server/replay/golden_compare.h"

#include <stdio.h>

#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/tolerance.h"
#include "runtime/base/half.h"
#include "server/protocol/tfs/tensor_wire.h"

enum { TEXT = 64 }; /* buffer size for a value formatted as text */

static enum rt_status malformed(struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "the recorded response is not well formed");
}

/* ---- numbers ---- */

/* Returns the number of floating-point numbers per element. Returns 0 if elements of this type are
 * compared as bytes. */
static int parts_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
    case RT_F64:
    case RT_F16:
    case RT_BF16:
        return 1;
    case RT_C64:
    case RT_C128:
        return 2;
    default:
        return 0;
    }
}

static double real_at(enum rt_dtype dtype, const void *data, int64_t i)
{
    const char *p = data;
    uint16_t h;
    float f;
    double d;

    switch (dtype) {
    case RT_F16:
    case RT_BF16:
        memcpy(&h, p + i * 2, sizeof h);
        return (double)(dtype == RT_F16 ? rt_half_value(h) : rt_bfloat_value(h));
    case RT_F32:
    case RT_C64:
        memcpy(&f, p + i * 4, sizeof f);
        return (double)f;
    default:
        memcpy(&d, p + i * 8, sizeof d);
        return d;
    }
}

static double step_of(enum rt_dtype dtype)
{
    return dtype == RT_F16    ? RT_TOLERANCE_HALF_STEP
           : dtype == RT_BF16 ? RT_TOLERANCE_BFLOAT16_STEP
                              : 0;
}

static int64_t first_real_difference(const struct rt_tensor *got, const struct rt_tensor *want,
                                     double tolerance)
{
    enum rt_dtype dtype = (enum rt_dtype)want->dtype;
    int parts = parts_of(dtype);
    int64_t n = rt_tensor_count(want) * parts;
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = rt_tolerance_largest(largest, real_at(dtype, want->data, i));
    double allowed = rt_tolerance_allowed(largest, tolerance, step_of(dtype));
    for (int64_t i = 0; i < n; i++)
        if (!rt_is_close(real_at(dtype, got->data, i), real_at(dtype, want->data, i), allowed))
            return i / parts;
    return -1;
}

/* ---- other elements ---- */

static bool same_string(const struct rt_str *a, const struct rt_str *b)
{
    return a->n == b->n && (!a->n || memcmp(rt_str_data(a), rt_str_data(b), a->n) == 0);
}

static int64_t first_difference(const struct rt_tensor *got, const struct rt_tensor *want,
                                double tolerance)
{
    enum rt_dtype dtype = (enum rt_dtype)want->dtype;
    int64_t n = rt_tensor_count(want);
    size_t size = rt_dtype_size(dtype);

    if (parts_of(dtype))
        return first_real_difference(got, want, tolerance);
    for (int64_t i = 0; i < n; i++)
        if (dtype == RT_STRING ? !same_string(&rt_strs(got)[i], &rt_strs(want)[i])
                               : memcmp((const char *)got->data + (size_t)i * size,
                                        (const char *)want->data + (size_t)i * size, size) != 0)
            return i;
    return -1;
}

static bool is_unsigned(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_U8:
    case RT_U16:
    case RT_U32:
    case RT_U64:
    case RT_QU8:
    case RT_QU16:
    case RT_BOOL:
    case RT_U4:
    case RT_U2:
        return true;
    default:
        return false;
    }
}

static void integer_text(char *buffer, const struct rt_tensor *t, int64_t i)
{
    size_t size = rt_dtype_size((enum rt_dtype)t->dtype);
    uint64_t bits = 0;

    memcpy(&bits, (const char *)t->data + (size_t)i * size, size < sizeof bits ? size : 8);
    if (is_unsigned((enum rt_dtype)t->dtype)) {
        snprintf(buffer, TEXT, "%llu", (unsigned long long)bits);
        return;
    }
    if (size < sizeof bits && bits >> (size * 8 - 1)) /* extends the sign bit to 64 bits */
        bits |= UINT64_MAX << (size * 8);
    snprintf(buffer, TEXT, "%lld", (long long)bits);
}

static const char *value_text(char *buffer, const struct rt_tensor *t, int64_t i)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int parts = parts_of(dtype);

    if (dtype == RT_STRING) {
        const struct rt_str *s = &rt_strs(t)[i];
        snprintf(buffer, TEXT, "\"%.*s\"%s", (int)(s->n < 48 ? s->n : 48), rt_str_data(s),
                 s->n > 48 ? "..." : "");
    } else if (parts == 2) {
        snprintf(buffer, TEXT, "(%.9g,%.9g)", real_at(dtype, t->data, 2 * i),
                 real_at(dtype, t->data, 2 * i + 1));
    } else if (parts) {
        snprintf(buffer, TEXT, "%.*g", dtype == RT_F64 ? 17 : 9, real_at(dtype, t->data, i));
    } else {
        integer_text(buffer, t, i);
    }
    return buffer;
}

/* ---- tensors ---- */

/* Formats the multi-dimensional index of element i, for example "[1,0]". */
static const char *index_text(char *buffer, size_t n, const struct rt_tensor *t, int64_t i)
{
    int64_t at[RT_MAX_RANK] = {0};

    for (int d = t->rank - 1; d >= 0; d--) {
        at[d] = i % t->dim[d];
        i /= t->dim[d];
    }
    return rt_shape_text(buffer, n, t->rank, at);
}

enum rt_status srv_golden_tensor(const char *name, const struct rt_tensor *got,
                                 const struct rt_tensor *want, double tolerance,
                                 struct rt_error *err)
{
    char a[128], b[128], at[128];

    if (got->dtype != want->dtype)
        return rt_fail(err, RT_FAILED_PRECONDITION, "output \"%s\" is of type %s, recorded was %s",
                       name, rt_dtype_name((enum rt_dtype)got->dtype),
                       rt_dtype_name((enum rt_dtype)want->dtype));
    if (got->rank != want->rank ||
        memcmp(got->dim, want->dim, (size_t)want->rank * sizeof *want->dim) != 0)
        return rt_fail(err, RT_FAILED_PRECONDITION, "output \"%s\" has shape %s, recorded was %s",
                       name, rt_shape_text(a, sizeof a, got->rank, got->dim),
                       rt_shape_text(b, sizeof b, want->rank, want->dim));
    int64_t i = first_difference(got, want, tolerance);
    if (i < 0)
        return RT_OK;
    return rt_fail(err, RT_FAILED_PRECONDITION, "output \"%s\"%s is %s, recorded was %s", name,
                   index_text(at, sizeof at, want, i), value_text(a, got, i),
                   value_text(b, want, i));
}

/* ---- Predict and SessionRun: named tensors ---- */

enum {
    /* field number of `outputs` in PredictResponse, and of `tensor` in SessionRunResponse */
    OUTPUTS = 1,
    MIN_BUDGET = 256 << 20,
};

static enum rt_status read_tensor(struct rt_span message, struct srv_allowance *memory,
                                  struct srv_growth *growth, struct rt_tensor *out,
                                  struct rt_error *err)
{
    struct srv_cursor c = srv_cursor_of(&message, message.n);

    c.cancellation = srv_growth_cancellation(growth);
    return srv_tensor_read(c, RT_NO_DTYPE, out, memory, err);
}

/* Returns the memory budget in bytes for decoding a tensor from a message of n bytes. The budget is
 * `more` bytes plus the memory of the elements that the message encodes one by one. */
static size_t budget_of(size_t n, size_t more)
{
    size_t budget;
    return __builtin_mul_overflow(n, 2 * sizeof(struct rt_str), &budget) ||
                   __builtin_add_overflow(budget, more, &budget)
               ? SIZE_MAX / 2
               : budget;
}

static enum rt_status compare_entry(struct rt_span name, struct rt_span got, struct rt_span want,
                                    double tolerance, struct srv_growth *growth,
                                    struct rt_error *err)
{
    struct rt_tensor a = {0}, b = {0};
    struct srv_allowance memory = {.budget = growth ? growth->budget : NULL,
                                   .own = growth ? growth->own : NULL,
                                   .what = "the response as tensors"};
    char text[128];

    snprintf(text, sizeof text, "%.*s", (int)(name.n < 100 ? name.n : 100), (const char *)name.p);
    /* A short message may encode many equal elements, so the memory for both tensors is limited.
     * The limit for the response's tensor is MIN_BUDGET bytes plus the memory of the elements that
     * the message encodes one by one. The recorded tensor may be as large as the response's tensor.
     * A larger recorded tensor has a different shape, so the comparison would fail anyway. */
    memory.left = budget_of(got.n, MIN_BUDGET);
    enum rt_status st = read_tensor(got, &memory, growth, &a, err);
    if (!st) {
        memory.left = budget_of(want.n, rt_tensor_bytes(&a) + got.n + 4096);
        st = read_tensor(want, &memory, growth, &b, err);
        if (st)
            rt_fail_prefix(err, "recorded output \"%s\": ", text);
    }
    if (!st)
        st = srv_golden_tensor(text, &a, &b, tolerance, err);
    rt_tensor_clear(&a);
    rt_tensor_clear(&b);
    srv_allowance_settle(&memory, 0, err);
    return st;
}

static enum rt_status compare_entries(struct rt_span got, struct rt_span want, double tolerance,
                                      struct srv_growth *growth, struct rt_error *err)
{
    struct rt_span name, tensor, own_name, own;
    enum rt_status st = RT_OK;
    int more = 0;

    while (!st && (more = pb_entry_next(&want, OUTPUTS, &name, &tensor)) > 0) {
        struct rt_span rest = got;
        int found;
        while ((found = pb_entry_next(&rest, OUTPUTS, &own_name, &own)) > 0 &&
               !rt_span_eq(name, own_name))
            ;
        if (found > 0)
            st = compare_entry(name, own, tensor, tolerance, growth, err);
        else
            st = rt_fail(err, RT_FAILED_PRECONDITION,
                         "output \"%.*s\" was recorded and is not answered",
                         (int)(name.n < 100 ? name.n : 100), (const char *)name.p);
    }
    return st || more == 0 ? st : malformed(err);
}

/* ---- Classify, Regress, MultiInference: scores ---- */

/* A score of an example in a task: the score of one class, or the value of a regression. */
struct score {
    int task;
    int64_t example, index; /* index of the class, or -1 for a regression */
    struct rt_span label;
    float value;
};

struct scores {
    struct rt_arena *arena;
    struct score *at;
    size_t n, capacity;
    bool failed, no_memory;
    int task;
};

static void add_score(struct scores *s, int64_t example, int64_t index, struct rt_span one)
{
    struct score new = {.task = s->task, .example = example, .index = index};
    struct pb_field f;
    int more;

    while ((more = pb_field_next(&one, &f)) > 0)
        if (index >= 0 && f.number == 1 && f.type == PB_BYTES)
            new.label = f.bytes;
        else if (f.number == (index >= 0 ? 2 : 1) && f.type == PB_FIXED32)
            new.value = rt_float_of_bits((uint32_t)f.value);
    s->failed |= more < 0;
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        struct score *grown = rt_arena_array(s->arena, capacity, sizeof *grown);
        if (!grown) {
            s->no_memory = true;
            return;
        }
        if (s->n)
            memcpy(grown, s->at, s->n * sizeof *grown);
        s->at = grown;
        s->capacity = capacity;
    }
    s->at[s->n++] = new;
}

/* Adds the scores of a ClassificationResult or RegressionResult. Its field 1 contains the examples.
 * In a ClassificationResult, field 1 of an example contains the example's classes. */
static void add_result(struct scores *s, bool has_classes, struct rt_span result)
{
    struct pb_field f, g;
    int64_t example = 0;
    int more = 0, inner = 0;

    while (!s->no_memory && (more = pb_field_next(&result, &f)) > 0) {
        if (f.number != 1 || f.type != PB_BYTES)
            continue;
        if (!has_classes)
            add_score(s, example, -1, f.bytes);
        for (int64_t i = 0; has_classes && (inner = pb_field_next(&f.bytes, &g)) > 0;)
            if (g.number == 1 && g.type == PB_BYTES)
                add_score(s, example, i++, g.bytes);
        s->failed |= inner < 0;
        example++;
    }
    s->failed |= !s->no_memory && more < 0;
}

static void add_response(struct scores *s, enum srv_api api, struct rt_span response)
{
    struct pb_field f, g;
    int more, inner;

    while ((more = pb_field_next(&response, &f)) > 0) {
        if (f.number != 1 || f.type != PB_BYTES)
            continue;
        if (api != SRV_MULTI_INFERENCE) {
            add_result(s, api == SRV_CLASSIFY, f.bytes);
            continue;
        }
        while ((inner = pb_field_next(&f.bytes, &g)) > 0)
            if ((g.number == 2 || g.number == 3) && g.type == PB_BYTES)
                add_result(s, g.number == 2, g.bytes);
        s->failed |= inner < 0;
        s->task++;
    }
    s->failed |= more < 0;
}

static enum rt_status score_differs(const struct score *got, const struct score *want,
                                    bool is_multi, struct rt_error *err)
{
    char task[32] = "", index[32] = "";

    if (is_multi)
        snprintf(task, sizeof task, "task %d, ", want->task);
    if (want->index >= 0)
        snprintf(index, sizeof index, ", class %lld", (long long)want->index);
    if (want->index >= 0 && !rt_span_eq(got->label, want->label))
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%sexample %lld%s is labelled \"%.*s\", recorded was \"%.*s\"", task,
                       (long long)want->example, index,
                       (int)(got->label.n < 48 ? got->label.n : 48), (const char *)got->label.p,
                       (int)(want->label.n < 48 ? want->label.n : 48), (const char *)want->label.p);
    return rt_fail(err, RT_FAILED_PRECONDITION, "%s%s of example %lld%s is %.9g, recorded was %.9g",
                   task, want->index >= 0 ? "score" : "value", (long long)want->example, index,
                   (double)got->value, (double)want->value);
}

static enum rt_status compare_lists(const struct scores *got, const struct scores *want,
                                    bool is_multi, double tolerance, struct rt_error *err)
{
    double largest = 0;

    if (got->n != want->n)
        return rt_fail(err, RT_FAILED_PRECONDITION, "%zu scores in all, recorded were %zu", got->n,
                       want->n);
    for (size_t i = 0; i < want->n; i++)
        largest = rt_tolerance_largest(largest, (double)want->at[i].value);
    double allowed = rt_tolerance_allowed(largest, tolerance, 0);
    for (size_t i = 0; i < want->n; i++) {
        const struct score *a = &got->at[i], *b = &want->at[i];
        if (a->task != b->task || a->example != b->example || a->index != b->index)
            return rt_fail(err, RT_FAILED_PRECONDITION,
                           "example %lld has another number of classes than recorded",
                           (long long)b->example);
        if (!rt_span_eq(a->label, b->label) ||
            !rt_is_close((double)a->value, (double)b->value, allowed))
            return score_differs(a, b, is_multi, err);
    }
    return RT_OK;
}

static enum rt_status compare_scores(enum srv_api api, struct rt_span got, struct rt_span want,
                                     double tolerance, struct rt_error *err)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct scores a = {.arena = arena}, b = {.arena = arena};
    enum rt_status st;

    if (!arena)
        return rt_fail_memory(err, "comparing scores", 0);
    add_response(&a, api, got);
    add_response(&b, api, want);
    if (a.no_memory || b.no_memory)
        st = rt_fail_memory(err, "comparing scores", 0);
    else if (a.failed || b.failed)
        st = malformed(err);
    else
        st = compare_lists(&a, &b, api == SRV_MULTI_INFERENCE, tolerance, err);
    rt_arena_free(arena);
    return st;
}

enum rt_status srv_golden_compare(enum srv_api api, struct rt_span got, struct rt_span want,
                                  double tolerance, struct srv_growth *growth, struct rt_error *err)
{
    switch (api) {
    case SRV_CLASSIFY:
    case SRV_REGRESS:
    case SRV_MULTI_INFERENCE:
        return compare_scores(api, got, want, tolerance, err);
    default:
        return compare_entries(got, want, tolerance, growth, err);
    }
}
