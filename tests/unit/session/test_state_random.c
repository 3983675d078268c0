/*
 * Tests the generators of random nodes, which are part of the state. Consecutive and concurrent
 * calls must draw from a single sequence of numbers, in every mode of tests/support/state_graph.h.
 */
#include "tests/support/state_graph.h"

#include <pthread.h>

/* The nodes that draw random numbers. Each has a node NAME_twice, which doubles its output. */
static const char *const drawn[] = {"g_uniform",  "g_normal", "g_int", "g_fed",
                                    "g_function", "g_branch", "g_loop"};
enum { N_GENERATORS = sizeof drawn / sizeof *drawn, N_THREADS = 3 };

/* Adds the random nodes. Each has its own generator, which continues from run to run. */
static void generators(struct rt_bytes *g)
{
    const char *uniform = "T=int32 dtype=float seed=7 seed2=3";
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(&b, "draw", "RandomUniform", "dims:output:0", uniform);
    gd_function(g, "draw", "p:float", "out:float", &b, "out=draw:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(&b, "draw", "RandomUniform", "dims:output:0", uniform);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_node(&b, "sum", "AddV2", "x draw:output:0", "T=float");
    gd_function(g, "add_drawn", "i:float l:float x:float", "j:float m:float y:float", &b,
                "j=next:z:0 m=l y=sum:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "less", "Less", "i limit", "T=float");
    gd_function(g, "below_of_three", "i:float limit:float x:float", "out:bool", &b, "out=less:z:0",
                "");
    rt_bytes_clear(&b);

    gd_node(g, "g_dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(g, "g_zeros", "Const", "", "dtype=float value=float<5>:0");
    gd_node(g, "g_least", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "g_most", "Const", "", "dtype=int32 value=int32<>:1000000");
    gd_node(g, "g_uniform", "RandomUniform", "g_dims", uniform);
    gd_node(g, "g_normal", "RandomStandardNormal", "g_dims", uniform);
    gd_node(g, "g_ints", "RandomUniformInt", "g_dims g_least g_most",
            "T=int32 Tout=int32 seed=7 seed2=3");
    gd_node(g, "g_int", "Cast", "g_ints", "SrcT=int32 DstT=float");
    gd_node(g, "g_fed", "RandomUniform", "p_int", uniform);
    gd_node(g, "g_function", "StatefulPartitionedCall", "p", "Tin=[float] Tout=[float] f=@draw");
    gd_node(g, "g_branch", "If", "always p",
            "Tcond=bool Tin=[float] Tout=[float] then_branch=@draw else_branch=@draw");
    gd_node(g, "g_loops", "While", "zero two g_zeros",
            "T=[float,float,float] cond=@below_of_three body=@add_drawn");
    gd_node(g, "g_loop", "Identity", "g_loops:2", "T=float");
    for (int k = 0; k < N_GENERATORS; k++) {
        char twice[64], in[64];
        snprintf(twice, sizeof twice, "%s_twice", drawn[k]);
        snprintf(in, sizeof in, "%s two", drawn[k]);
        gd_node(g, twice, "Mul", in, "T=float");
    }
}

enum { FEW = 4, MANY = 16 };

/* Adds two functions that have a node of the same name. They draw 2 of FEW or of MANY classes, and
 * return the expected count of the last class. */
static void samplers(struct rt_bytes *g)
{
    static const char *const ops[] = {"Fixed", "Learned", "ThreadUnsafe"};
    for (int k = 0; k < 3; k++)
        for (int n = FEW; n <= MANY; n += MANY - FEW) {
            char text[32], op[64], name[64], attrs[400];
            struct rt_bytes b;
            snprintf(op, sizeof op, "%sUnigramCandidateSampler", ops[k]);
            snprintf(text, sizeof text, "dtype=int64 value=int64<1,1>:%d", n - 1);
            snprintf(attrs, sizeof attrs, "num_true=1 num_sampled=2 unique=false range_max=%d%s", n,
                     k          ? ""
                     : n == FEW ? " unigrams=[1f,1f,1f,1f]"
                                : " unigrams=[1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f,1f]");
            rt_bytes_init(&b, 1 << 20);
            gd_node(&b, "last", "Const", "", text);
            gd_node(&b, "pick", op, "last:output:0", attrs);
            snprintf(name, sizeof name, "pick_%s_%d", ops[k], n);
            gd_function(g, name, "p:float", "out:float", &b, "out=pick:true_expected_count:0", "");
            rt_bytes_clear(&b);
            snprintf(attrs, sizeof attrs, "Tin=[float] Tout=[float] f=@%s", name);
            gd_node(g, name, "StatefulPartitionedCall", "p", attrs);
        }
}

static int set_up(void **state)
{
    const int failed = state_set_up(state);
    generators(&state_graph);
    samplers(&state_graph);
    return failed;
}

enum { N_DRAWS = 24 };

struct drawing {
    struct rt_callable *once, *twice;
    const char *name;
    double sum[N_DRAWS]; /* the sums that the calls of one thread return */
};

static void prepare_draws(struct drawing *d, struct rt_session *s, int k)
{
    char name[64];
    d->name = drawn[k];
    snprintf(name, sizeof name, "%s:0", drawn[k]);
    d->once = state_prepare(s, name);
    snprintf(name, sizeof name, "%s_twice:0", drawn[k]);
    d->twice = state_prepare(s, name);
}

/* Computes the sums that one callable gets in successive runs, node by node. In a test, the sums of
 * all calls must be these sums, in any order. */
static void expected_draws(int k, double *sum)
{
    struct rt_session *s = state_open(STATE_NODE_BY_NODE);
    struct drawing d;
    prepare_draws(&d, s, k);
    rt_session_serve(s);
    for (int i = 0; i < N_THREADS * N_DRAWS; i++)
        sum[i] = state_run(d.once, 5, d.name);
    rt_session_free(s);
}

static void calls_in_turn_draw_from_one_generator(void **state)
{
    static const char *const turns[] = {"121211212", "1112", "2221"};
    (void)state;
    for (int k = 0; k < N_GENERATORS; k++) {
        double expected[N_THREADS * N_DRAWS];
        expected_draws(k, expected);
        for (int i = 0; i < N_DRAWS; i++)
            for (int j = 0; j < i; j++)
                assert_true(expected[i] != expected[j]);
        for (int mode = 0; mode < STATE_N_MODES; mode++)
            for (int t = 0; t < 3; t++) {
                struct rt_session *s = state_open((enum state_mode)mode);
                struct drawing d;
                prepare_draws(&d, s, k);
                rt_session_serve(s);
                for (int i = 0; i < N_DRAWS; i++) {
                    const bool once = turns[t][(size_t)i % strlen(turns[t])] == '1';
                    const double got =
                        once ? state_run(d.once, 5, d.name) : state_run(d.twice, 5, d.name) / 2;
                    if (got != expected[i])
                        fail_msg("mode %d, \"%s\": %s, call %d: %.9g, not %.9g", mode, turns[t],
                                 d.name, i, got, expected[i]);
                }
                rt_session_free(s);
            }
    }
}

static void *draw_all(void *arg)
{
    struct drawing *d = arg;
    for (int i = 0; i < N_DRAWS; i++)
        d->sum[i] = i % 2 ? state_run(d->once, 5, d->name) : state_run(d->twice, 5, d->name) / 2;
    return NULL;
}

static int compare_sums(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Each drawn tensor must go to exactly one call. The test omits the last generator, because its
 * loop draws two tensors, and another call may draw a tensor between them. */
static void calls_beside_each_other_draw_from_one_generator(void **state)
{
    (void)state;
    for (int k = 0; k < N_GENERATORS - 1; k++) {
        double expected[N_THREADS * N_DRAWS], got[N_THREADS * N_DRAWS];
        expected_draws(k, expected);
        qsort(expected, N_THREADS * N_DRAWS, sizeof *expected, compare_sums);
        for (int mode = 0; mode < STATE_N_MODES; mode++) {
            struct rt_session *s = state_open((enum state_mode)mode);
            struct drawing d[N_THREADS];
            pthread_t thread[N_THREADS];
            for (int t = 0; t < N_THREADS; t++)
                prepare_draws(&d[t], s, k);
            rt_session_serve(s);
            for (int t = 0; t < N_THREADS; t++)
                assert_int_equal(pthread_create(&thread[t], NULL, draw_all, &d[t]), 0);
            for (int t = 0; t < N_THREADS; t++) {
                pthread_join(thread[t], NULL);
                memcpy(&got[(size_t)t * N_DRAWS], d[t].sum, sizeof d[t].sum);
            }
            qsort(got, N_THREADS * N_DRAWS, sizeof *got, compare_sums);
            assert_memory_equal(got, expected, sizeof got);
            rt_session_free(s);
        }
    }
}

static void samplers_of_one_name_have_distributions_of_their_own(void **state)
{
    static const char *const few[] = {"pick_Fixed_4:0", "pick_Learned_4:0",
                                      "pick_ThreadUnsafe_4:0"};
    static const char *const many[] = {"pick_Fixed_16:0", "pick_Learned_16:0",
                                       "pick_ThreadUnsafe_16:0"};
    (void)state;
    for (int mode = 0; mode < STATE_N_MODES; mode++)
        for (int k = 0; k < 3; k++) {
            struct rt_session *s = state_open((enum state_mode)mode);
            struct rt_callable *a = state_prepare(s, few[k]), *b = state_prepare(s, many[k]);
            rt_session_serve(s);
            const double got_few = state_run(a, 1, few[k]), got_many = state_run(b, 1, many[k]);
            if (got_few != 2.0 / FEW || got_many != 2.0 / MANY)
                fail_msg("mode %d, %s: %g and %g", mode, many[k], got_few, got_many);
            rt_session_free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_turn_draw_from_one_generator),
        cmocka_unit_test(samplers_of_one_name_have_distributions_of_their_own),
        cmocka_unit_test(calls_beside_each_other_draw_from_one_generator),
    };
    return cmocka_run_group_tests(tests, set_up, state_tear_down);
}
