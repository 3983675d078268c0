/*
 * Tests batches of a callable that reads variables. When a version is loaded, an analysis of the
 * variables' values permits merging the rows of requests. A client may later assign these variables
 * (SessionRun), but every request must still get the same result as when it runs alone.
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"
#include "server/batching/batch.h"
#include "tests/support/graph_def.h"

enum { MOST_ROWS = 4, COLUMNS = 4 };

static const struct {
    /* Running the node `writer` makes the rows of `fetch` depend on each other. */
    const char *fetch, *writer;
    int64_t rows;
} cases[] = {
    {"sums:0", "axis_0", 2},      {"ref_sums:0", "ref_axis_0", 2}, {"reversed:0", "axes_0", 2},
    {"added:0", "two_rows", 1},   {"chosen:0", "flag_off", 2},     {"cast_sums:0", "axis_0", 2},
    {"counted:0", "other_on", 2},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static const char *const inits[] = {"axis_1",  "ref_axis_1", "axes_1",   "one_row",
                                    "flag_on", "number_0",   "other_off"};

static struct rt_registry *ops;
static struct rt_bytes graph;

static void variable(struct rt_bytes *g, const char *name, const char *attrs)
{
    char text[128];
    snprintf(text, sizeof text, "%s shared_name='%s'", attrs, name);
    gd_node(g, name, "VarHandleOp", "", text);
}

static void functions(struct rt_bytes *g)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "same", "Identity", "x", "T=float");
    gd_function(g, "same", "x:float", "out:float", &b, "out=same:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(&b, "sums", "Cumsum", "x axis:output:0", "T=float Tidx=int32");
    gd_function(g, "sums", "x:float", "out:float", &b, "out=sums:out:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "same", "Identity", "x", "T=float");
    gd_function(g, "keep", "x:float v:resource", "out:float", &b, "out=same:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "add", "AssignAddVariableOp", "v one:output:0", "dtype=float");
    gd_node(&b, "same", "Identity", "x ^add", "T=float");
    gd_function(g, "count", "x:float v:resource", "out:float", &b, "out=same:output:0", "");
    rt_bytes_clear(&b);
}

static void nodes(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=float shape=<?,4>");
    gd_node(g, "i0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "i1", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "only0", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(g, "only1", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "w1", "Const", "", "dtype=float value=float<1,1>:1");
    gd_node(g, "w2", "Const", "", "dtype=float value=float<2,1>:1,2");
    gd_node(g, "f0", "Const", "", "dtype=float value=float<>:0");
    gd_node(g, "no", "Const", "", "dtype=bool value=bool<>:0");
    gd_node(g, "yes", "Const", "", "dtype=bool value=bool<>:1");

    variable(g, "axis", "dtype=int32 shape=<>");
    gd_node(g, "axis_1", "AssignVariableOp", "axis i1", "dtype=int32");
    gd_node(g, "axis_0", "AssignVariableOp", "axis i0", "dtype=int32");
    gd_node(g, "axis_read", "ReadVariableOp", "axis", "dtype=int32");
    gd_node(g, "sums", "Cumsum", "x axis_read", "T=float Tidx=int32");
    gd_node(g, "axis_wide", "Cast", "axis_read", "SrcT=int32 DstT=int64");
    gd_node(g, "cast_sums", "Cumsum", "x axis_wide", "T=float Tidx=int64");

    gd_node(g, "ref", "VariableV2", "", "dtype=int32 shape=<>");
    gd_node(g, "ref_axis_1", "Assign", "ref i1", "T=int32");
    gd_node(g, "ref_axis_0", "Assign", "ref i0", "T=int32");
    gd_node(g, "ref_sums", "Cumsum", "x ref", "T=float Tidx=int32");

    variable(g, "axes", "dtype=int32 shape=<1>");
    gd_node(g, "axes_1", "AssignVariableOp", "axes only1", "dtype=int32");
    gd_node(g, "axes_0", "AssignVariableOp", "axes only0", "dtype=int32");
    gd_node(g, "axes_read", "ReadVariableOp", "axes", "dtype=int32");
    gd_node(g, "reversed", "ReverseV2", "x axes_read", "T=float Tidx=int32");

    variable(g, "w", "dtype=float shape=<?,1>");
    gd_node(g, "one_row", "AssignVariableOp", "w w1", "dtype=float");
    gd_node(g, "two_rows", "AssignVariableOp", "w w2", "dtype=float");
    gd_node(g, "w_read", "ReadVariableOp", "w", "dtype=float");
    gd_node(g, "added", "AddV2", "x w_read", "T=float");

    variable(g, "flag", "dtype=bool shape=<>");
    gd_node(g, "flag_off", "AssignVariableOp", "flag no", "dtype=bool");
    gd_node(g, "flag_read", "ReadVariableOp", "flag", "dtype=bool");
    gd_node(g, "chosen", "If", "flag_read x",
            "Tcond=bool Tin=[float] Tout=[float] then_branch=@same else_branch=@sums");

    /* The first plan is made while "other" selects the branch that does not write. */
    variable(g, "other", "dtype=bool shape=<>");
    variable(g, "number", "dtype=float shape=<>");
    gd_node(g, "number_0", "AssignVariableOp", "number f0", "dtype=float");
    gd_node(g, "number_read", "ReadVariableOp", "number", "dtype=float");
    gd_node(g, "other_off", "AssignVariableOp", "other no", "dtype=bool");
    gd_node(g, "other_read", "ReadVariableOp", "other", "dtype=bool");
    gd_node(g, "counted", "If", "other_read x number",
            "Tcond=bool Tin=[float,resource] Tout=[float] then_branch=@count else_branch=@keep");
    gd_node(g, "other_on", "AssignVariableOp", "other yes", "dtype=bool");
    gd_node(g, "flag_on", "AssignVariableOp", "flag yes", "dtype=bool");
}

static int set_up(void **state)
{
    (void)state;
    ops = rt_registry_new();
    rt_bytes_init(&graph, 1 << 24);
    if (!ops || !kn_register(ops))
        return -1;
    functions(&graph);
    nodes(&graph);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_bytes_clear(&graph);
    rt_registry_free(ops);
    return 0;
}

static void run_target(struct rt_session *s, const char *what, bool is_load)
{
    const struct rt_call_spec spec = {.targets = &what, .n_targets = 1, .is_load = is_load};
    struct rt_callable *c = NULL;
    struct rt_error err = {0};
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    assert_ok(rt_callable_run(c, NULL, NULL, NULL, &err), &err);
}

static struct rt_callable *prepare(struct rt_session *s, const char *fetch, bool is_fed)
{
    const char *feed = "x:0";
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = is_fed, .fetches = &fetch, .n_fetches = 1};
    struct rt_callable *c = NULL;
    struct rt_error err = {0};
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    return c;
}

static struct rt_session *open_session(bool compiles)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_error err = {0};
    const struct rt_session_options options = {
        .registry = ops, .tuning = {.no_specialise = !compiles}, .compiles_inline = compiles};
    assert_ok(rt_library_import(&l, gd_span(&graph), ops, &err), &err);
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
        run_target(s, inits[i], true);
    return s;
}

static float number(struct rt_session *s)
{
    struct rt_tensor out = {0};
    struct rt_error err = {0};
    assert_ok(rt_callable_run(prepare(s, "number_read:0", false), NULL, &out, NULL, &err), &err);
    const float value = *(const float *)out.data;
    rt_tensor_clear(&out);
    return value;
}

/* Runs two requests as one batch. Each request must get the same bits as when it runs alone, and
 * the variables must change as they do when the requests run alone. */
static struct srv_batch_verdict batch(struct rt_session *s, struct rt_callable *c, int64_t rows,
                                      const char *what)
{
    const struct rt_model_signature signature = {.call = c, .rowwise = true};
    float x[2][MOST_ROWS * COLUMNS];
    struct rt_tensor feed[2], fetch[2] = {{0}}, want[2] = {{0}};
    struct srv_job job[2];
    struct rt_error err = {0};
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_pool *pool = rt_pool_new(1 << 20);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < rows * COLUMNS; i++)
            x[k][i] = (float)(1 + i * i + 100 * k);
        feed[k] =
            (struct rt_tensor){.dtype = RT_F32, .rank = 2, .dim = {rows, COLUMNS}, .data = x[k]};
        job[k] = (struct srv_job){.next = k ? NULL : &job[1],
                                  .signature = &signature,
                                  .n_feeds = 1,
                                  .feeds = &feed[k],
                                  .n_fetches = 1,
                                  .fetches = &fetch[k],
                                  .n_rows = rows,
                                  .deadline_ns = RT_NEVER};
    }
    const float start = number(s);
    for (int k = 0; k < 2; k++)
        assert_ok(rt_callable_run(c, &feed[k], &want[k], NULL, &err), &err);
    const float middle = number(s);
    struct srv_batch b = {.first = job,
                          .n_jobs = 2,
                          .rows = 2 * rows,
                          .run_rows = 2 * rows,
                          .needs_row_wise = true,
                          .arena = arena,
                          .pool = pool};
    const struct srv_batch_verdict verdict = srv_batch_run(&b);
    for (int k = 0; k < 2; k++) {
        assert_ok(job[k].status, &job[k].err);
        if (fetch[k].dim[0] != want[k].dim[0] ||
            memcmp(fetch[k].data, want[k].data, rt_tensor_bytes(&want[k])) != 0)
            fail_msg("%s: a batch answers request %d otherwise than when it runs alone", what, k);
        rt_tensor_clear(&fetch[k]);
        rt_tensor_clear(&want[k]);
    }
    if (number(s) - middle != middle - start)
        fail_msg("%s: a batch writes otherwise than its requests do", what);
    rt_pool_unref(pool);
    rt_arena_free(arena);
    return verdict;
}

static void a_batch_answers_as_its_requests_do_after_a_variable_was_assigned(void **state)
{
    const struct rt_shape shape = {.rank = 2, .dim = {-1, COLUMNS}};
    (void)state;
    for (int i = 0; i < N_CASES; i++)
        for (int compiles = 0; compiles < 2; compiles++) {
            struct rt_session *s = open_session(compiles);
            struct rt_callable *c = prepare(s, cases[i].fetch, true);
            struct rt_error why = {0};
            rt_session_serve(s);
            if (!rt_callable_is_rowwise(c, &shape, &why))
                fail_msg("%s: %s", cases[i].fetch, rt_error_text(&why));
            for (int k = 0; k < 3; k++)
                assert_false(batch(s, c, cases[i].rows, cases[i].fetch).never_merge);
            run_target(s, cases[i].writer, false);
            assert_false(rt_callable_is_rowwise(c, &shape, &why));
            for (int k = 0; k < 3; k++)
                assert_true(batch(s, c, cases[i].rows, cases[i].fetch).never_merge);
            rt_session_free(s);
        }
}

enum { N_THREADS = 4, N_ASSIGNMENTS = 20 };

struct runner {
    pthread_t thread;
    struct rt_callable *call;
    enum rt_status status;
};

static void *run_merged_rows(void *arg)
{
    struct runner *r = arg;
    const struct rt_run_options merged = {.is_merged = true};
    float x[2 * COLUMNS] = {0};
    const struct rt_tensor feed = {.dtype = RT_F32, .rank = 2, .dim = {2, COLUMNS}, .data = x};
    for (int i = 0; i < 50 && !r->status; i++) {
        struct rt_tensor out = {0};
        struct rt_error err = {0};
        r->status = rt_callable_run(r->call, &feed, &out, &merged, &err);
        rt_tensor_clear(&out);
    }
    return NULL;
}

/* An assignment invalidates the plan. All runs of merged rows then repeat the row analysis at the
 * same time, and must reach the same result. */
static void rows_are_analysed_by_many_threads_at_once(void **state)
{
    const struct rt_shape shape = {.rank = 2, .dim = {-1, COLUMNS}};
    (void)state;
    for (int i = 0; i < N_ASSIGNMENTS; i++) {
        struct rt_session *s = open_session(false);
        struct rt_callable *c = prepare(s, "sums:0", true);
        struct runner r[N_THREADS] = {{0}};
        struct rt_error why = {0};
        rt_session_serve(s);
        assert_true(rt_callable_is_rowwise(c, &shape, &why));
        prepare(s, "chosen:0", true);
        /* The variable belongs to a different callable, but the assignment invalidates all plans of
         * the session. */
        run_target(s, "flag_off", false);
        for (int k = 0; k < N_THREADS; k++) {
            r[k].call = c;
            assert_int_equal(pthread_create(&r[k].thread, NULL, run_merged_rows, &r[k]), 0);
        }
        for (int k = 0; k < N_THREADS; k++)
            pthread_join(r[k].thread, NULL);
        for (int k = 0; k < N_THREADS; k++)
            assert_int_equal(r[k].status, r[0].status);
        assert_int_equal(r[0].status, RT_OK);
        rt_session_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_analysed_by_many_threads_at_once),
        cmocka_unit_test(a_batch_answers_as_its_requests_do_after_a_variable_was_assigned),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
