#include "tests/support/tiers.h"

#include "kernels/kernels.h"
#include "tests/support/graph_session.h"

int tiers_set_up(void **state)
{
    struct tiers *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

int tiers_tear_down(void **state)
{
    struct tiers *x = *state;
    rt_session_free(x->tier[0]);
    rt_session_free(x->tier[1]);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

void tiers_open(struct tiers *x, const char *feed, const char *const *fetches, int n)
{
    for (int tier = 0; tier < 2; tier++) {
        const struct rt_session_options options = {
            .registry = x->ops,
            .tuning = {.no_fusion = x->no_fusion, .no_specialise = tier == 0},
            .compiles_inline = tier == 1};
        const struct rt_call_spec spec = {
            .feeds = &feed, .n_feeds = feed != NULL, .fetches = fetches, .n_fetches = n};
        x->tier[tier] = gs_open(gd_span(&x->g), &options);
        x->call[tier] = gs_prepare(x->tier[tier], &spec);
    }
    x->n_fetches = n;
}

void tiers_same(const struct rt_tensor *a, const struct rt_tensor *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    for (int d = 0; d < a->rank; d++)
        assert_int_equal(a->dim[d], b->dim[d]);
    if (rt_tensor_bytes(a))
        assert_memory_equal(a->data, b->data, rt_tensor_bytes(a));
}

void tiers_compare(struct tiers *x, const struct rt_tensor *feed)
{
    struct rt_tensor a[TIERS_FETCHES], b[TIERS_FETCHES];
    struct rt_error err = {0}, other = {0};
    assert_true(x->n_fetches <= TIERS_FETCHES);
    const enum rt_status st = rt_callable_run(x->call[0], feed, a, NULL, &err);
    for (int again = 0; again < 3; again++) {
        assert_int_equal(rt_callable_run(x->call[1], feed, b, NULL, &other), st);
        if (st) {
            assert_string_equal(rt_error_text(&err), rt_error_text(&other));
            continue;
        }
        for (int k = 0; k < x->n_fetches; k++) {
            tiers_same(&a[k], &b[k]);
            rt_tensor_clear(&b[k]);
        }
    }
    for (int k = 0; k < x->n_fetches && !st; k++)
        rt_tensor_clear(&a[k]);
}

int tiers_specialisations(const struct tiers *x)
{
    struct rt_session_stats stats;
    rt_session_stats(x->tier[1], &stats);
    return stats.n_specialisations;
}
