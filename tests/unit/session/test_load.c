/* Tests which weights are in memory after a model has been loaded, and how loads are cancelled. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/session/session_internal.h"
#include "runtime/session/resource.h"
#include "runtime/files/saved_model.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/core/op.h"
#include "tests/support/folder.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

static struct rt_error err;

/* Sets *n to the number of variables with a value, and *n_unread to the number of those variables
 * whose value has not been read from the file. */
static void count(struct rt_session *s, int *n, int *n_unread)
{
    *n = *n_unread = 0;
    for (size_t i = 0; i < s->slots.n; i++) {
        struct rt_object *o = s->slots.entry[i].value;
        struct rt_tensor t;
        if (o->type != &rt_variable_type || !rt_variable_is_initialized((struct rt_variable *)o))
            continue;
        assert_ok(rt_variable_read((struct rt_variable *)o, false, &t, NULL, &err), &err);
        ++*n;
        *n_unread += rt_tensor_is_lazy(&t);
        rt_tensor_clear(&t);
    }
}

static struct rt_model *load(const char *dir, bool all)
{
    struct rt_model *m = NULL;
    const struct rt_model_options options = {
        .session = {.registry = test_registry}, .warm_up = true, .load_all_variables = all};
    assert_ok(rt_model_load(&m, dir, &options, &err), &err);
    return m;
}

static void weights_are_held_in_one_form_and_those_of_no_signature_in_none(void **state)
{
    (void)state;
    int n, n_unread;
    struct rt_session_stats stats;
    /* Keras writes a second copy of every variable, and the counters of a seed generator. No
     * signature reads these variables. Larger filters and matrices are stored only in packed
     * form. */
    struct rt_model *m = load("models/digits/1", false);
    count(m->session, &n, &n_unread);
    rt_session_stats(m->session, &stats);
    assert_true(stats.packed_bytes > 0);
    assert_int_equal(n, 19);
    assert_in_range(n_unread, 11, 13);
    rt_model_free(m);
}

/* Each of 100 signatures needs up to 200 ops that do not exist. For each signature, the model keeps
 * only an error message, which names the first 20 of these ops. */
static void the_ops_that_signatures_lack_are_not_kept(void **state)
{
    (void)state;
    enum { N_OPS = 200, N_SIGNATURES = 100 };
    struct rt_bytes text;
    struct rt_model *m = NULL;
    const struct rt_model_options options = {.session = {.registry = test_registry},
                                             .allow_unsupported_signatures = true};
    rt_bytes_init(&text, 1 << 20);
    rt_bytes_adds(&text, "meta_graphs { meta_info_def { tags: 'serve' } graph_def {"
                         " node { name: 'n0' op: 'Placeholder' attr { key: 'dtype' value {"
                         " type: DT_FLOAT } } }");
    for (int i = 1; i <= N_OPS; i++)
        rt_bytes_addf(&text,
                      " node { name: 'n%d' op: 'Strange%d' input: 'n%d' } node { name: 'y%d' op: "
                      "'Identity' input: 'n%d' attr { key: 'T' value { type: DT_FLOAT } } }",
                      i, i, i - 1, i, i);
    rt_bytes_adds(&text,
                  " } signature_def { key: 'x' value { inputs { key: 'x' value { name: 'n0:0'"
                  " dtype: DT_FLOAT } } outputs { key: 'y' value { name: 'n0:0' } } } }");
    for (int i = 0; i < N_SIGNATURES; i++)
        rt_bytes_addf(&text,
                      " signature_def { key: 's%d' value { inputs { key: 'x' value { name: 'n0:0'"
                      " dtype: DT_FLOAT } } outputs { key: 'y' value { name: 'y%d:0' } } } }",
                      i, N_OPS - i);
    rt_bytes_adds(&text, " }");
    rt_bytes_addc(&text, '\0');
    assert_false(text.failed);
    folder_new();
    folder_write("saved_model.pbtxt", text.p);
    assert_ok(rt_model_load(&m, folder_path("."), &options, &err), &err);
    assert_null(rt_model_signature(m, "x")->unsupported);
    assert_non_null(strstr(rt_model_signature(m, "s0")->unsupported, "; and 180 more"));
    assert_in_range(rt_arena_used(m->arena), 1, 2000000);
    rt_model_free(m);
    folder_remove();
    rt_bytes_clear(&text);
}

static void a_server_that_runs_any_node_reads_all(void **state)
{
    (void)state;
    int n, n_unread;
    struct rt_model *m = load("models/digits/1", true);
    count(m->session, &n, &n_unread);
    assert_int_equal(n_unread, 0);
    rt_model_free(m);
}

/* ---- cancelled loads ---- */

static _Atomic bool cancelled;
/* n_asked counts the calls to can_never. Call number cancel_at, counted from 1, cancels the
 * load. */
static int n_asked, cancel_at;
static int n_warnings;

/* The function `can` of kernels that never apply. It is called each time that a kernel for the op
 * is chosen or timed. */
static int can_never(const struct rt_prep *p)
{
    (void)p;
    if (++n_asked == cancel_at)
        atomic_store(&cancelled, true);
    return 0;
}

#define ASKED(op_)                                                                                 \
    {                                                                                              \
        .op = op_, .device = "CPU", .name = op_ ".never", .can = can_never                         \
    }
static const struct rt_kernel asked[] = {ASKED("RestoreV2"), ASKED("AssignVariableOp"),
                                         ASKED("Conv2D"),    ASKED("MatMul"),
                                         ASKED("Softmax"),   ASKED("MaxPool")};

static void warm_up_failed(void *arg, const char *signature, const struct rt_error *why)
{
    (void)arg, (void)signature, (void)why;
    n_warnings++;
}

/* Loads a model, and cancels the load in call number `at` to can_never. If `at` is 0, cancels the
 * load before it begins. If `at` is -1, does not cancel it. */
static enum rt_status load_until(int at, struct rt_registry *all, struct rt_model **m)
{
    const struct rt_model_options options = {
        .session = {.registry = all, .cancelled = &cancelled},
        .warm_up = true,
        .on_warm_up_failure = warm_up_failed,
    };
    n_asked = n_warnings = 0;
    cancel_at = at;
    atomic_store(&cancelled, at == 0);
    err = (struct rt_error){0};
    *m = NULL;
    return rt_model_load(m, "models/digits/1", &options, &err);
}

static struct rt_registry *registry_that_is_asked(void)
{
    struct rt_registry *all = rt_registry_new();
    assert_true(all && kn_register(all));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        assert_true(rt_registry_add_kernel(all, &asked[i]));
    return all;
}

static void a_load_may_be_cancelled_at_any_node(void **state)
{
    (void)state;
    struct rt_registry *all = registry_that_is_asked();
    struct rt_model *m;

    assert_ok(load_until(-1, all, &m), &err);
    const int n = n_asked;
    assert_true(n > 20);
    atomic_store(&cancelled, true); /* cancelling has no effect on a model that is loaded */
    assert_ok(rt_session_check(m->session, &err), &err);
    rt_model_free(m);
    for (int at = 0; at <= n; at++) {
        assert_int_equal(load_until(at, all, &m), RT_CANCELLED);
        assert_null(m);
        assert_int_equal(n_warnings, 0);
        assert_in_range(n_asked, at, at + 3);
    }
    rt_registry_free(all);
}

/* n_loads counts the loads of make_lazy's tensor. n_loads_unchecked counts the loads without a
 * check. */
static int n_loads, n_loads_unchecked;

static enum rt_status load_zeros(struct rt_buffer *b, const struct rt_check *check,
                                 struct rt_error *e)
{
    void *data = calloc(1, b->size);
    (void)e;
    assert_non_null(data);
    n_loads++;
    n_loads_unchecked += !check;
    atomic_store(&b->data, data);
    return RT_OK;
}

static void free_zeros(struct rt_buffer *b)
{
    free(atomic_load(&b->data));
}

/* Gives the session's only variable a lazy value of four floats. */
static void make_lazy(struct rt_session *s)
{
    struct rt_buffer *b = rt_buffer_foreign(NULL, 16, NULL, free_zeros);
    assert_non_null(b);
    assert_int_equal(s->slots.n, 1);
    b->kind = RT_BUF_LAZY;
    b->load = load_zeros;
    struct rt_tensor t = {.dtype = RT_F32, .rank = 1, .dim = {4}, .buf = b};
    assert_ok(rt_variable_assign(s->slots.entry[0].value, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
}

/* A weight of several gigabytes is read in pieces, and the load's check is called between the
 * pieces. Every code path that reads a weight during a load must therefore call the check. */
static void a_weight_is_read_with_a_check_of_the_load(void **state)
{
    (void)state;
    enum { COMPILED, SEALED, ALL_LOADED, N_WAYS };
    for (int way = 0; way < N_WAYS; way++) {
        const struct rt_session_options options = {.registry = test_registry};
        struct rt_bytes g;
        rt_bytes_init(&g, 1 << 20);
        gd_node(&g, "x", "Placeholder", "", "dtype=float");
        gd_node(&g, "zeros", "Const", "", "dtype=float value=float<4>:0");
        gd_node(&g, "v", "VarHandleOp", "", "dtype=float shape=<4> shared_name='v'");
        gd_node(&g, "load", "AssignVariableOp", "v zeros", "dtype=float");
        gd_node(&g, "read", "ReadVariableOp", "v", "dtype=float");
        gd_node(&g, "y", "AddV2", "x read", "T=float");
        struct rt_session *s = gs_open(gd_span(&g), &options);
        gs_load(s, "load");
        make_lazy(s);
        rt_session_serve(s);
        n_loads = n_loads_unchecked = 0;
        struct rt_callable *call = gs_call(s, "x", "y");
        assert_int_equal(n_loads, 0);
        if (way == COMPILED) {
            rt_session_loading(s, true, NULL);
            rt_callable_request_compilation(call, &(struct rt_shape){.rank = 1, .dim = {4}});
            assert_int_equal(rt_session_compile(s), 1);
            rt_session_loading(s, false, NULL);
        } else if (way == SEALED)
            assert_ok(rt_session_seal(s, &call, 1, false, &err), &err);
        else
            assert_ok(rt_session_seal(s, NULL, 0, true, &err), &err);
        assert_int_equal(n_loads, 1);
        assert_int_equal(n_loads_unchecked, 0);
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

static void a_weight_that_a_run_changes_is_read_with_a_check_of_the_run(void **state)
{
    (void)state;
    static const char *const targets[] = {"add", "scatter", "assign"};
    for (int k = 0; k < 3; k++) {
        const struct rt_session_options options = {.registry = test_registry};
        const struct rt_call_spec spec = {.targets = &targets[k], .n_targets = 1};
        struct rt_bytes g;
        rt_bytes_init(&g, 1 << 20);
        gd_node(&g, "zeros", "Const", "", "dtype=float value=float<4>:0");
        gd_node(&g, "zero", "Const", "", "dtype=int32 value=int32<>:0");
        gd_node(&g, "one", "Const", "", "dtype=float value=float<>:1");
        gd_node(&g, "v", "VarHandleOp", "", "dtype=float shape=<4> shared_name='v'");
        gd_node(&g, "load", "AssignVariableOp", "v zeros", "dtype=float");
        gd_node(&g, "add", "AssignAddVariableOp", "v zeros", "dtype=float");
        gd_node(&g, "scatter", "ResourceScatterAdd", "v zero one", "dtype=float Tindices=int32");
        gd_node(&g, "read", "ReadVariableOp", "v", "dtype=float");
        gd_node(&g, "assign", "AssignVariableOp", "v read", "dtype=float");
        struct rt_session *s = gs_open(gd_span(&g), &options);
        gs_load(s, "load");
        make_lazy(s);
        rt_session_serve(s);
        n_loads = n_loads_unchecked = 0;
        struct rt_callable *call = gs_prepare(s, &spec);
        assert_ok(rt_callable_run(call, NULL, NULL, NULL, &err), &err);
        assert_int_equal(n_loads, 1);
        assert_int_equal(n_loads_unchecked, 0);
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

/* Returns the number of bytes in the session's idle pools and its pool of weights. */
static size_t bytes_in_use(struct rt_session *s)
{
    size_t n = rt_pool_in_use(s->state.weights);
    for (int i = 0; i < s->n_pools; i++)
        n += rt_pool_in_use(s->pools[i]);
    return n;
}

/* While a session is loaded, the list of tensors of a version 1 checkpoint stays in memory for the
 * next node that restores from it. After a run of the served session, the list must not stay in
 * memory, because it may take gigabytes. */
static void a_run_leaves_no_list_of_a_checkpoint_in_memory(void **state)
{
    (void)state;
    const struct rt_session_options options = {.registry = test_registry};
    static const char *const feeds[] = {"file", "name"};
    static const char *const texts[] = {"tests/goldens/checkpoint/v1", "f32"};
    const char *fetch = "r";
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 2, .fetches = &fetch, .n_fetches = 1};
    struct rt_bytes g;
    struct rt_tensor in[2], out;
    rt_bytes_init(&g, 1 << 20);
    for (int k = 0; k < 2; k++) {
        gd_node(&g, feeds[k], "Placeholder", "", "dtype=string");
        assert_ok(rt_tensor_new(&in[k], NULL, RT_STRING, 0, NULL, &err), &err);
        assert_true(rt_str_set(in[k].data, NULL, texts[k], strlen(texts[k]), &err));
    }
    gd_node(&g, "r", "Restore", "file name", "dt=float preferred_shard=-1");
    struct rt_session *s = gs_open(gd_span(&g), &options);
    for (int served = 0; served < 2; served++) {
        assert_ok(rt_callable_run(gs_prepare(s, &spec), in, &out, NULL, &err), &err);
        assert_int_equal(rt_tensor_count(&out), 6);
        rt_tensor_clear(&out);
        assert_int_equal(bytes_in_use(s) > 0, !served);
        rt_session_serve(s);
        assert_int_equal(bytes_in_use(s), 0);
    }
    assert_true(s->n_pools > 0);
    rt_session_free(s);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    rt_bytes_clear(&g);
}

/* Compiles three shapes before serving, as a server does after warm-up requests, and cancels the
 * compilation in call number `at` to can_never. Returns the number of shapes that were
 * compiled. */
static int compile_until(int at, struct rt_model *m)
{
    const struct rt_model_signature *s = rt_model_signature(m, "serving_default");
    rt_session_loading(m->session, true, &cancelled);
    for (int rows = 2; rows < 5; rows++) {
        struct rt_shape shape = s->def->inputs[0].shape;
        shape.dim[0] = rows;
        rt_callable_request_compilation(s->call, &shape);
    }
    n_asked = 0;
    cancel_at = at;
    return rt_session_compile(m->session);
}

static void what_is_compiled_before_a_model_is_served_may_be_cancelled(void **state)
{
    (void)state;
    struct rt_registry *all = registry_that_is_asked();
    struct rt_model *m;
    assert_ok(load_until(-1, all, &m), &err);
    assert_int_equal(compile_until(-1, m), 3);
    const int n = n_asked;
    assert_true(n > 6);
    rt_model_free(m);
    for (int at = 1; at <= n; at++) {
        struct rt_callable *c;
        assert_ok(load_until(-1, all, &m), &err);
        assert_true(compile_until(at, m) <= 3);
        assert_in_range(n_asked, at, at + 3);
        assert_int_equal(rt_session_compile(m->session), 0);
        const char *const name = rt_model_signature(m, "serving_default")->def->inputs[0].name;
        const struct rt_call_spec spec = {
            .feeds = &name, .n_feeds = 1, .fetches = &name, .n_fetches = 1};
        assert_int_equal(rt_session_prepare(m->session, &spec, &c, &err), RT_CANCELLED);
        rt_session_loading(m->session, false, NULL);
        assert_ok(rt_session_prepare(m->session, &spec, &c, &err), &err);
        rt_model_free(m);
    }
    rt_registry_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_held_in_one_form_and_those_of_no_signature_in_none),
        cmocka_unit_test(the_ops_that_signatures_lack_are_not_kept),
        cmocka_unit_test(a_server_that_runs_any_node_reads_all),
        cmocka_unit_test(a_load_may_be_cancelled_at_any_node),
        cmocka_unit_test(a_weight_is_read_with_a_check_of_the_load),
        cmocka_unit_test(a_weight_that_a_run_changes_is_read_with_a_check_of_the_run),
        cmocka_unit_test(a_run_leaves_no_list_of_a_checkpoint_in_memory),
        cmocka_unit_test(what_is_compiled_before_a_model_is_served_may_be_cancelled),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
