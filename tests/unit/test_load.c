#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/plan.h"
#include "runtime/resource.h"
#include "runtime/saved_model.h"

/* What is in memory when a model has been loaded. */

static struct rt_registry *ops;
static struct rt_error err;

/* Variables with a value, and those of whose value nothing is in memory. */
static void count(struct rt_session *s, int *n, int *n_unread)
{
    *n = *n_unread = 0;
    for (size_t i = 0; i < s->slots.n; i++) {
        struct rt_object *o = s->slots.entry[i].value;
        struct rt_tensor t;
        if (o->type != &rt_variable_type || !rt_variable_is_initialized((struct rt_variable *)o))
            continue;
        assert_ok(rt_variable_read((struct rt_variable *)o, false, &t, &err), &err);
        ++*n;
        *n_unread += rt_tensor_is_lazy(&t);
        rt_tensor_clear(&t);
    }
}

static struct rt_model *load(const char *dir, bool all)
{
    struct rt_model *m = NULL;
    const struct rt_model_options options = {
        .session = {.registry = ops}, .warm_up = true, .load_all_variables = all};
    assert_ok(rt_model_load(&m, dir, &options, &err), &err);
    return m;
}

static void weights_are_held_in_one_form_and_those_of_no_signature_in_none(void **state)
{
    (void)state;
    int n, n_unread;
    struct rt_session_stats stats;
    /* Keras writes every variable twice: no signature reaches one of the two, nor the counters of
     * a seed. Of the others the larger filters and matrices are packed. */
    struct rt_model *m = load("models/digits/1", false);
    count(m->session, &n, &n_unread);
    rt_session_stats(m->session, &stats);
    assert_true(stats.packed_bytes > 0);
    assert_int_equal(n, 19);
    assert_in_range(n_unread, 11, 13);
    rt_model_free(m);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_held_in_one_form_and_those_of_no_signature_in_none),
        cmocka_unit_test(a_server_that_runs_any_node_reads_all),
    };
    ops = rt_registry_new();
    if (!ops || !kn_register(ops))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_registry_free(ops);
    return failed;
}
