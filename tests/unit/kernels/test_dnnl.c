/* Tests that several threads can create, share, run and free oneDNN objects at the same time. All
 * threads use the process's only cache of primitives. */
#include "tests/support/test.h"

#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { THREADS = 4, ROUNDS = 5, SIDE = 9, DEEP = 16 };

struct shared {
    struct rt_bytes g;
    struct rt_registry *ops;
    pthread_barrier_t barrier;
    float answer[THREADS][ROUNDS];
    bool failed[THREADS];
};

struct worker {
    struct shared *of;
    int k;
};

/* Runs the graph in rounds. All threads begin each round together, and each thread opens its own
 * session in each round. */
static void *work(void *arg)
{
    const struct worker *w = arg;
    struct shared *x = w->of;
    static const char *const feed = "x", *const fetch = "y";
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
    options.tuning.no_autotune = options.tuning.no_winograd = true;
    struct rt_error err = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct rt_library *l = NULL;
        struct rt_session *s = NULL;
        struct rt_callable *c;
        struct rt_tensor in = {0}, out = {0};
        const int64_t dim[] = {1 + round % 2, SIDE, SIDE, DEEP};
        pthread_barrier_wait(&x->barrier);
        enum rt_status st = rt_library_import(&l, gd_span(&x->g), x->ops, &err);
        if (!st)
            st = rt_session_new(&s, l, &options, &err);
        if (!st)
            st = rt_session_prepare(s, &spec, &c, &err);
        if (!st)
            st = rt_tensor_new(&in, NULL, RT_F32, 4, dim, &err);
        for (int64_t i = 0; !st && i < rt_tensor_count(&in); i++)
            ((float *)in.data)[i] = (float)(i % 17) / 16 - 0.5f;
        for (int again = 0; again < 3 && !st; again++) {
            rt_tensor_clear(&out);
            st = rt_callable_run(c, &in, &out, NULL, &err);
        }
        for (int64_t i = 0; !st && i < rt_tensor_count(&out); i++)
            x->answer[w->k][round] += ((const float *)out.data)[i];
        x->failed[w->k] |= st != RT_OK;
        rt_tensor_clear(&in);
        rt_tensor_clear(&out);
        rt_session_free(s);
    }
    return NULL;
}

static void layers_are_made_and_freed_on_many_threads(void **state)
{
    struct shared x = {.ops = rt_registry_new()};
    struct worker w[THREADS];
    pthread_t thread[THREADS];
    (void)state;
    assert_true(x.ops && kn_register(x.ops));
    rt_bytes_init(&x.g, 1 << 24);
    char weights[3 * 3 * DEEP * DEEP * 8 + 100];
    int at = snprintf(weights, sizeof weights, "dtype=float value=float<3,3,%d,%d>:0", DEEP, DEEP);
    for (int i = 1; i < 3 * 3 * DEEP * DEEP; i++)
        at += snprintf(weights + at, sizeof weights - (size_t)at, ",%d", i * 7 % 11 - 5);
    gd_node(&x.g, "x", "Placeholder", "", "dtype=float");
    gd_node(&x.g, "w", "Const", "", weights);
    gd_node(&x.g, "first", "Conv2D", "x w", "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(&x.g, "relu", "Relu", "first", "T=float");
    gd_node(&x.g, "second", "Conv2D", "relu w", "T=float strides=[1,2,2,1] padding='VALID'");
    gd_node(&x.g, "y", "MaxPool", "second",
            "T=float ksize=[1,2,2,1] strides=[1,1,1,1] padding='SAME'");
    assert_int_equal(pthread_barrier_init(&x.barrier, NULL, THREADS), 0);
    for (int k = 0; k < THREADS; k++) {
        w[k] = (struct worker){&x, k};
        assert_int_equal(pthread_create(&thread[k], NULL, work, &w[k]), 0);
    }
    for (int k = 0; k < THREADS; k++)
        assert_int_equal(pthread_join(thread[k], NULL), 0);
    for (int k = 0; k < THREADS; k++) {
        assert_false(x.failed[k]);
        assert_memory_equal(x.answer[k], x.answer[0], sizeof x.answer[0]);
    }
    pthread_barrier_destroy(&x.barrier);
    rt_bytes_clear(&x.g);
    rt_registry_free(x.ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_made_and_freed_on_many_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
