/*
 * Runs random programs that have side effects and whose outputs TensorFlow recorded
 * (tests/conformance/random_state.py --record). Several signatures read and write resource
 * variables, ref variables and a table, through functions, branches and loops. Runs of the
 * signatures are interleaved, and every second run fetches the complete state.
 */
#include "tests/support/recorded.h"
#include "tests/support/registry.h"
#include "tests/support/test.h"

#include "tests/support/graph_session.h"

#define FOLDER "tests/goldens/random_state"
enum { MOST = 8, MOST_VALUES = 8 };

struct names {
    int n;
    char *name[MOST];
};

struct program {
    char *data;
    struct rt_span graph;
    struct names init, *signature;
    struct recorded_reader runs;
};
enum { SIGNATURES = 5 };

static struct rt_error err;

static void read_names(struct recorded_reader *r, struct names *x)
{
    x->n = recorded_int(r);
    assert_in_range(x->n, 1, MOST);
    for (int k = 0; k < x->n; k++)
        x->name[k] = recorded_name(r);
}

static void read_program(const char *path, struct program *p)
{
    p->data = recorded_open(path, &p->runs);
    p->graph = recorded_text(&p->runs);
    read_names(&p->runs, &p->init);
    p->signature = calloc(SIGNATURES, sizeof *p->signature);
    assert_non_null(p->signature);
    for (int k = 0; k < SIGNATURES; k++)
        read_names(&p->runs, &p->signature[k]);
}

static void forget(struct program *p)
{
    for (int k = -1; k < SIGNATURES; k++) {
        struct names *x = k < 0 ? &p->init : &p->signature[k];
        for (int i = 0; i < x->n; i++)
            free(x->name[i]);
    }
    free(p->signature);
    free(p->data);
}

static struct rt_session *open_session(const struct program *p, const struct rt_tuning *tuning)
{
    const struct rt_session_options options = {
        .registry = test_registry, .tuning = *tuning, .compiles_inline = true};
    struct rt_session *s = gs_open(p->graph, &options);
    for (int k = 0; k < p->init.n; k++)
        gs_load(s, p->init.name[k]);
    rt_session_serve(s);
    return s;
}

static void compare(const char *what, const struct rt_tensor *got, struct recorded_reader *r)
{
    const int n = recorded_int(r);
    assert_int_equal(got->dtype, RT_I32);
    assert_int_equal(rt_tensor_count(got), n);
    for (int i = 0; i < n; i++) {
        const int32_t want = recorded_int(r), is = ((const int32_t *)got->data)[i];
        if (is != want)
            fail_msg("%s: %d, not %d", what, is, want);
    }
}

static void run_once(struct rt_session *s, const struct program *p, const char *what,
                     struct recorded_reader *r)
{
    static const char *const feeds[] = {"x:0", "row:0"};
    static const int32_t zeros[MOST_VALUES];
    const int k = recorded_int(r);
    int32_t x = recorded_int(r);
    const int64_t n_rows = recorded_int(r);
    const bool is_answered = recorded_int(r);
    assert_true(k >= 0 && k < SIGNATURES && n_rows <= MOST_VALUES);
    const struct names *of = &p->signature[k];
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 2, .fetches = (const char *const *)of->name, .n_fetches = of->n};
    const struct rt_tensor in[] = {
        {.dtype = RT_I32, .data = &x},
        {.dtype = RT_I32, .rank = 1, .dim = {n_rows}, .data = (void *)(uintptr_t)zeros}};
    struct rt_tensor out[MOST] = {0};
    struct rt_callable *c = gs_prepare(s, &spec);
    const enum rt_status st = rt_callable_run(c, in, out, NULL, &err);
    if (st != (is_answered ? RT_OK : RT_INVALID_ARGUMENT))
        fail_msg("%s: %s", what, st ? rt_error_text(&err) : "not refused");
    for (int i = 0; i < of->n && is_answered; i++) {
        compare(what, &out[i], r);
        rt_tensor_clear(&out[i]);
    }
}

static void check(void *arg, const char *name)
{
    static const struct {
        const char *name;
        struct rt_tuning tuning;
    } ways[] = {{"node by node", {.no_fusion = true, .no_specialise = true}},
                {"compiled", {.no_fusion = true, .no_autotune = true}},
                {"fused", {.no_specialise = true}},
                {"compiled and fused", {.no_autotune = true}}};
    struct program p = {0};
    char path[320];
    (void)arg;
    snprintf(path, sizeof path, FOLDER "/%s.bin", name);
    read_program(path, &p);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct rt_session *s = open_session(&p, &ways[w].tuning);
        struct recorded_reader r = p.runs;
        for (int turn = 0; r.at < r.end; turn++) {
            char what[200];
            snprintf(what, sizeof what, "%.100s, %s, run %d", path, ways[w].name, turn);
            run_once(s, &p, what, &r);
        }
        rt_session_free(s);
    }
    forget(&p);
}

static void programs_of_effects_answer_as_in_tensorflow(void **state)
{
    (void)state;
    assert_true(recorded_each(FOLDER, ".bin", check, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_effects_answer_as_in_tensorflow)};
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
