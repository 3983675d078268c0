/*
 * Tests that the memory that runs leave in variables and tables, including the bytes of strings,
 * counts as the session's state (runtime/session/state.h). The memory counts once, until the state
 * is replaced, removed or destroyed. A write that would exceed the limit is refused and leaves the
 * state unchanged.
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "runtime/session/resource.h"
#include "runtime/session/state.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

enum { MB = 1 << 20, RUN_LIMIT = 100 * MB, STATE_LIMIT = 100 * MB };

static struct rt_bytes graph;

static void variables(struct rt_bytes *g)
{
    gd_node(g, "half", "Const", "", "dtype=float value=float<>:0.5");
    gd_node(g, "big", "Fill", "n half", "T=float index_type=int32");
    gd_node(g, "big_size", "Size", "big", "T=float out_type=int32");
    gd_node(g, "v", "VarHandleOp", "", "dtype=float shape=<?>");
    gd_node(g, "v_set", "AssignVariableOp", "v big", "dtype=float");
    gd_node(g, "v_feed", "AssignVariableOp", "v x", "dtype=float");
    gd_node(g, "v_get", "ReadVariableOp", "v", "dtype=float");
    gd_node(g, "v_size", "Size", "v_get", "T=float out_type=int32");
    gd_node(g, "v_add", "AssignAddVariableOp", "v big", "dtype=float");
    gd_node(g, "v_gone", "DestroyResourceOp", "v", "");
    gd_node(g, "w", "VarHandleOp", "", "dtype=float shape=<?>");
    gd_node(g, "w_set", "AssignVariableOp", "w big", "dtype=float");
    gd_node(g, "w_from_v", "AssignVariableOp", "w v_get", "dtype=float");
    gd_node(g, "v_from_w", "AssignVariableOp", "v w_get", "dtype=float");
    gd_node(g, "w_get", "ReadVariableOp", "w", "dtype=float");
    gd_node(g, "w_size", "Size", "w_get", "T=float out_type=int32");
    gd_node(g, "w_gone", "DestroyResourceOp", "w", "");
    gd_node(g, "r", "VariableV2", "", "dtype=float shape=<?>");
    gd_node(g, "r_set", "Assign", "r big", "T=float validate_shape=false");
    gd_node(g, "one", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "zero", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(g, "part", "Slice", "big zero one", "T=float Index=int32");
    gd_node(g, "v_part", "AssignVariableOp", "v part", "dtype=float");
    gd_node(g, "open", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "list", "TensorListReserve", "open one_item",
            "element_dtype=float shape_type=int32");
    gd_node(g, "one_item", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "l", "VarHandleOp", "", "dtype=variant shape=<>");
    gd_node(g, "l_set", "AssignVariableOp", "l list", "dtype=variant");
}

static void strings(struct rt_bytes *g)
{
    gd_node(g, "many", "BroadcastTo", "s n", "T=string Tidx=int32");
    gd_node(g, "sv", "VarHandleOp", "", "dtype=string shape=<?>");
    gd_node(g, "sv_set", "AssignVariableOp", "sv many", "dtype=string");
    gd_node(g, "sv_get", "ReadVariableOp", "sv", "dtype=string");
    gd_node(g, "sv_size", "Size", "sv_get", "T=string out_type=int32");
    gd_node(g, "s_row", "Reshape", "s one", "T=string Tshape=int32");
    gd_node(g, "sv_update", "ResourceScatterUpdate", "sv zero s_row",
            "dtype=string Tindices=int32");
    gd_node(g, "sv_gone", "DestroyResourceOp", "sv", "");
    gd_node(g, "t", "MutableHashTableV2", "", "key_dtype=int32 value_dtype=string");
    gd_node(g, "t_put", "LookupTableInsertV2", "t n s_row", "Tin=int32 Tout=string");
    gd_node(g, "t_drop", "LookupTableRemoveV2", "t n", "Tin=int32");
    gd_node(g, "t_size", "LookupTableSizeV2", "t", "");
    gd_node(g, "i0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "i1", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "n0", "Reshape", "n nobody", "T=int32 Tshape=int32");
    gd_node(g, "nobody", "Const", "", "dtype=int32 value=int32<0>:");
    gd_node(g, "keys", "Range", "i0 n0 i1", "Tidx=int32");
    gd_node(g, "u", "MutableHashTableV2", "", "key_dtype=int32 value_dtype=int32");
    gd_node(g, "u_put", "LookupTableInsertV2", "u keys keys", "Tin=int32 Tout=int32");
    gd_node(g, "u_import", "LookupTableImportV2", "u keys keys", "Tin=int32 Tout=int32");
    gd_node(g, "u_size", "LookupTableSizeV2", "u", "");
}

static int set_up(void **state)
{
    rt_bytes_init(&graph, 1 << 24);
    gd_node(&graph, "n", "Placeholder", "", "dtype=int32 shape=<1>");
    gd_node(&graph, "s", "Placeholder", "", "dtype=string shape=<>");
    gd_node(&graph, "x", "Placeholder", "", "dtype=float shape=<?>");
    variables(&graph);
    strings(&graph);
    return test_registry_make(state);
}

static int tear_down(void **state)
{
    rt_bytes_clear(&graph);
    return test_registry_drop(state);
}

static struct rt_session *session(struct rt_budget *budget, bool serve)
{
    const struct rt_session_options options = {.registry = test_registry,
                                               .run_memory_limit = RUN_LIMIT,
                                               .state_memory_limit = STATE_LIMIT,
                                               .budget = budget};
    struct rt_session *s = gs_open(gd_span(&graph), &options);
    if (serve)
        rt_session_serve(s);
    return s;
}

static size_t held(struct rt_session *s)
{
    struct rt_session_stats stats;
    rt_session_stats(s, &stats);
    return stats.state_bytes;
}

/* Runs the node `what` if `out` is NULL. Otherwise, fetches the tensor `what`, an integer, into
 * *out. The feeds are the number n, a string of `bytes` bytes and a vector of n zeros. */
static enum rt_status run(struct rt_session *s, const char *what, int32_t n, size_t bytes,
                          int64_t *out, struct rt_error *err)
{
    static const char *const feeds[] = {"n:0", "s:0", "x:0"};
    const struct rt_call_spec spec = {.feeds = feeds,
                                      .n_feeds = 3,
                                      .fetches = &what,
                                      .n_fetches = out != NULL,
                                      .targets = &what,
                                      .n_targets = out == NULL};
    struct rt_callable *c = NULL;
    struct rt_tensor in[3], got = {0};
    *err = (struct rt_error){0};
    enum rt_status st = rt_session_prepare(s, &spec, &c, err);
    if (st)
        return st;
    assert_ok(rt_tensor_new(&in[0], NULL, RT_I32, 1, (int64_t[]){1}, err), err);
    *(int32_t *)in[0].data = n;
    assert_ok(rt_tensor_new(&in[1], NULL, RT_STRING, 0, NULL, err), err);
    char *p = rt_str_resize(in[1].data, NULL, bytes, err);
    assert_non_null(p);
    memset(p, 'a', bytes);
    assert_ok(rt_tensor_new(&in[2], NULL, RT_F32, 1, (int64_t[]){n}, err), err);
    memset(in[2].data, 0, (size_t)n * 4);
    st = rt_callable_run(c, in, &got, NULL, err);
    if (!st && out)
        *out = got.dtype == RT_I64 ? *(int64_t *)got.data : *(int32_t *)got.data;
    rt_tensor_clear(&got);
    for (int k = 0; k < 3; k++)
        rt_tensor_clear(&in[k]);
    return st;
}

static void runs(struct rt_session *s, const char *what, int32_t n, size_t bytes)
{
    struct rt_error err;
    if (run(s, what, n, bytes, NULL, &err))
        fail_msg("%s %d: %s", what, (int)n, rt_error_text(&err));
}

static void refused(struct rt_session *s, const char *what, int32_t n, size_t bytes)
{
    struct rt_error err;
    assert_fails(run(s, what, n, bytes, NULL, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "--state_memory_limit_bytes");
    assert_non_null(strstr(rt_error_text(&err), "in use of the limit of 104857600"));
}

static int64_t number(struct rt_session *s, const char *what)
{
    struct rt_error err;
    int64_t n = -1;
    assert_ok(run(s, what, 1, 0, &n, &err), &err);
    return n;
}

static void holds(struct rt_session *s, size_t bytes)
{
    /* There are four block sizes per power of two, so a block may be a quarter larger than
     * requested. */
    const size_t have = held(s);
    if (have < bytes || have > bytes + bytes / 4 + 4096)
        fail_msg("the state holds %zu bytes, not %zu", have, bytes);
}

static void a_variable_counts_once_and_not_as_a_run(void **state)
{
    struct rt_budget budget = {.limit = 150 * MB};
    struct rt_session *s = session(&budget, true);
    (void)state;
    runs(s, "v_set", 15000000, 0); /* v takes 60 MB */
    holds(s, 60000000);
    assert_true(atomic_load(&budget.used) < 8 * MB);
    for (int i = 0; i < 5; i++) /* each run still has its own memory limit */
        runs(s, "big_size", 22000000, 0);
    runs(s, "w_from_v", 1, 0); /* the variables w and v share a buffer */
    holds(s, 60000000);
    runs(s, "v_gone", 1, 0);
    holds(s, 60000000);
    runs(s, "w_gone", 1, 0);
    assert_int_equal(held(s), 0);
    rt_session_free(s);
    assert_int_equal(atomic_load(&budget.used), 0);
}

static void what_exceeds_the_limit_is_refused_and_changes_nothing(void **state)
{
    struct rt_session *s = session(NULL, true);
    (void)state;
    runs(s, "v_set", 15000000, 0);
    const size_t before = held(s);
    refused(s, "w_set", 15000000, 0);
    refused(s, "r_set", 15000000, 0);
    assert_int_equal(held(s), before);
    assert_int_equal(number(s, "v_size:0"), 15000000);
    /* The memory of a value that is being replaced does not count when its replacement is checked
     * against the limit. */
    for (int i = 0; i < 4; i++)
        runs(s, "v_set", 16000000 + i, 0);
    refused(s, "w_set", 15000000, 0);
    assert_int_equal(number(s, "v_size:0"), 16000003);
    runs(s, "v_set", 10, 0);
    runs(s, "w_set", 15000000, 0);
    runs(s, "w_gone", 1, 0);
    runs(s, "v_gone", 1, 0);
    assert_int_equal(held(s), 0);
    rt_session_free(s);
}

/* A value is copied into the state if it would otherwise keep other memory in use, as a slice of a
 * tensor or a value in a request's memory would. */
static void what_would_hold_other_memory_is_copied(void **state)
{
    struct rt_session *s = session(NULL, true);
    (void)state;
    runs(s, "v_feed", 1000, 0);
    holds(s, 4000);
    runs(s, "v_part", 5000000, 0);
    holds(s, 64);
    refused(s, "v_feed", 30000000, 0);
    assert_int_equal(number(s, "v_size:0"), 1);
    rt_session_free(s);
}

static void adding_in_place_takes_no_more(void **state)
{
    struct rt_session *s = session(NULL, true);
    (void)state;
    runs(s, "v_set", 10000000, 0);
    for (int i = 0; i < 5; i++)
        runs(s, "v_add", 10000000, 0);
    holds(s, 40000000);
    rt_session_free(s);
}

static void strings_count_and_shared_ones_once(void **state)
{
    struct rt_session *s = session(NULL, true);
    (void)state;
    for (int i = 0; i < 50; i++)
        runs(s, "sv_set", 3000, MB);
    holds(s, MB + 3000 * sizeof(struct rt_str));
    refused(s, "sv_set", 10, 101 * MB);
    assert_int_equal(number(s, "sv_size:0"), 3000);
    for (int i = 0; i < 50; i++) /* in each run, one element gets a new string */
        runs(s, "sv_update", 1, 4 * MB);
    holds(s, 5 * MB + 3000 * sizeof(struct rt_str));
    runs(s, "sv_set", 10, 99 * MB);
    refused(s, "sv_update", 1, 10 * MB);
    runs(s, "sv_gone", 1, 0);
    assert_int_equal(held(s), 0);
    rt_session_free(s);
}

static void tables_count_what_they_hold(void **state)
{
    struct rt_session *s = session(NULL, true);
    struct rt_error err;
    int n = 0;
    (void)state;
    while (n < 200 && run(s, "t_put", n, MB, NULL, &err) == RT_OK)
        n++;
    assert_int_equal(n, 99); /* the table's arrays leave too little memory for another string */
    refused(s, "t_put", 1000, MB);
    assert_int_equal(number(s, "t_size:0"), n);
    for (int i = 0; i < 300; i++)
        runs(s, "t_put", i % n, MB);
    for (int i = 0; i < n; i++)
        runs(s, "t_drop", i, 0);
    assert_true(held(s) < 64 << 10);
    runs(s, "u_put", 1000000, 0);
    const size_t million = held(s);
    assert_true(million > 1000000 * (4 + 4 + 1 + 8));
    assert_fails(run(s, "u_put", 20000000, 0, NULL, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "of 20000000 pairs were inserted before");
    const int64_t inserted = number(s, "u_size:0");
    assert_true(inserted > 1000000 && inserted < 20000000);
    assert_true(held(s) <= STATE_LIMIT);
    /* A refused import leaves the pairs in the table unchanged. An import that needs no more memory
     * than the pairs that it replaces is accepted. */
    refused(s, "u_import", 20000000, 0);
    assert_int_equal(number(s, "u_size:0"), inserted);
    runs(s, "u_import", (int)inserted, 0);
    assert_int_equal(number(s, "u_size:0"), inserted);
    assert_true(held(s) <= STATE_LIMIT);
    runs(s, "u_import", 1, 0);
    assert_true(held(s) < 64 << 10);
    rt_session_free(s);
}

static void what_a_loaded_model_holds_is_not_in_the_limit(void **state)
{
    struct rt_session *s = session(NULL, false);
    struct rt_error err;
    (void)state;
    runs(s, "v_set", 15000000, 0);
    assert_fails(run(s, "w_set", 15000000, 0, NULL, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "of the limit of 104857600");
    rt_session_serve(s);
    runs(s, "w_set", 15000000, 0);
    runs(s, "v_set", 15000001, 0);
    holds(s, 120000000);
    rt_session_free(s);
}

static void objects_are_not_kept(void **state)
{
    struct rt_session *s = session(NULL, true);
    struct rt_error err;
    (void)state;
    assert_fails(run(s, "l_set", 1, 0, NULL, &err), RT_UNIMPLEMENTED, &err,
                 "a variable of variant: objects are not kept between runs");
    rt_session_free(s);
}

static void weights_that_are_replaced_raise_the_limit(void **state)
{
    struct rt_state s;
    struct rt_error err = {0};
    (void)state;
    assert_true(rt_state_init(&s, 0, "a flag"));
    rt_state_serve(&s, 1000);
    struct rt_buffer *b = rt_buffer_foreign(NULL, 5000, NULL, NULL);
    assert_non_null(b);
    b->kind = RT_BUF_LAZY;
    const struct rt_tensor weights = {.dtype = RT_F32, .rank = 1, .dim = {1250}, .buf = b};
    /* The second reference represents a plan that holds the weights in memory. While it exists, the
     * limit does not rise. */
    rt_buffer_ref(b);
    rt_state_replaced(&s, &weights);
    assert_int_equal(rt_pool_hold(s.pool, 5000, 0, "a test", &err), RT_RESOURCE_EXHAUSTED);
    rt_buffer_unref(b);
    rt_state_replaced(&s, &weights);
    assert_ok(rt_pool_hold(s.pool, 6000, 0, "a test", &err), &err);
    assert_fails(rt_pool_hold(s.pool, 1, 0, "a test", &err), RT_RESOURCE_EXHAUSTED, &err,
                 "out of memory: 1 bytes for a test, with 6000 in use of the limit of 6000 "
                 "(--state_memory_limit_bytes)");
    rt_pool_release(s.pool, 6000);
    rt_buffer_unref(b);
    rt_state_clear(&s);
}

/* ---- concurrent runs ---- */

struct crowd {
    struct rt_session *s;
    int k;
};

static void *assign_all(void *arg)
{
    static const char *const what[] = {"v_set", "w_from_v", "v_from_w", "w_set", "sv_set", "t_put"};
    const struct crowd *c = arg;
    for (int i = 0; i < 200; i++)
        runs(c->s, what[(i + c->k) % 6], 1000 + i, 5000);
    return NULL;
}

static void runs_that_assign_at_once_count_right(void **state)
{
    struct rt_session *s = session(NULL, true);
    struct crowd c[4];
    pthread_t thread[4];
    (void)state;
    runs(s, "v_set", 1000, 0);
    runs(s, "w_set", 1000, 0);
    for (int k = 0; k < 4; k++) {
        c[k] = (struct crowd){s, k};
        assert_int_equal(pthread_create(&thread[k], NULL, assign_all, &c[k]), 0);
    }
    for (int k = 0; k < 4; k++)
        pthread_join(thread[k], NULL);
    runs(s, "v_gone", 1, 0);
    runs(s, "w_gone", 1, 0);
    runs(s, "sv_gone", 1, 0);
    for (int i = 0; i < 200; i++)
        runs(s, "t_drop", 1000 + i, 0);
    assert_true(held(s) < 64 << 10);
    rt_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_counts_once_and_not_as_a_run),
        cmocka_unit_test(what_exceeds_the_limit_is_refused_and_changes_nothing),
        cmocka_unit_test(what_would_hold_other_memory_is_copied),
        cmocka_unit_test(adding_in_place_takes_no_more),
        cmocka_unit_test(strings_count_and_shared_ones_once),
        cmocka_unit_test(tables_count_what_they_hold),
        cmocka_unit_test(what_a_loaded_model_holds_is_not_in_the_limit),
        cmocka_unit_test(objects_are_not_kept),
        cmocka_unit_test(weights_that_are_replaced_raise_the_limit),
        cmocka_unit_test(runs_that_assign_at_once_count_right),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
