/* Tests state that some calls read while another call writes it (tests/support/state_graph.h). */
#include "tests/support/state_graph.h"

#include <pthread.h>
#include <stdatomic.h>

enum { N_THREADS = 3, N_RUNS = 300 };

struct crowd {
    struct rt_callable *read, *write;
    const char *name;
    atomic_int n_written; /* number of writes whose runs have ended */
};

/* Reads a state repeatedly. Each value must be at least the value written before the call began. It
 * must not be less than the previous value that this thread read, or more than the last value that
 * is ever written. */
static void *read_all(void *arg)
{
    struct crowd *c = arg;
    double last = STATE_FIRST;
    for (int k = 0; k < N_RUNS; k++) {
        const double least = STATE_FIRST + atomic_load(&c->n_written);
        const double got = state_run(c->read, 1, c->name);
        assert_true(got >= least && got >= last && got <= STATE_FIRST + N_RUNS);
        last = got;
    }
    return NULL;
}

static void *write_all(void *arg)
{
    struct crowd *c = arg;
    for (int k = 1; k <= N_RUNS; k++) {
        state_run(c->write, 1, "a write");
        atomic_store(&c->n_written, k);
    }
    return NULL;
}

static void readers_beside_a_writer_read_what_is_written(void **state)
{
    static const char *const pairs[][2] = {
        {"r_identity:0", "r_add"},   {"r_ones:0", "r_add"},        {"r:0", "r_add"},
        {"k_filled:0", "k_add"},     {"v_ones:0", "v_add"},        {"v_loop:0", "v_by_switch"},
        {"u_gather:0", "u_scatter"}, {"t_size:0", "t_insert_key"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int mode = 0; mode < STATE_N_MODES; mode++) {
            struct rt_session *s = state_open((enum state_mode)mode);
            struct crowd c = {.name = pairs[i][0]};
            pthread_t thread[N_THREADS + 1];
            if (mode != STATE_WRITER_COMES_LATE)
                c.write = state_prepare(s, pairs[i][1]);
            c.read = state_prepare(s, pairs[i][0]);
            rt_session_serve(s);
            state_run(c.read, 1, c.name);
            if (!c.write)
                c.write = state_prepare(s, pairs[i][1]);
            for (int t = 0; t < N_THREADS; t++)
                assert_int_equal(pthread_create(&thread[t], NULL, read_all, &c), 0);
            assert_int_equal(pthread_create(&thread[N_THREADS], NULL, write_all, &c), 0);
            for (int t = 0; t <= N_THREADS; t++)
                pthread_join(thread[t], NULL);
            assert_true(state_run(c.read, 1, c.name) == STATE_FIRST + N_RUNS);
            rt_session_free(s);
        }
}

/* An output does not change when the state is written. A response that is being written may still
 * hold this output. */
static void an_answer_stays_as_it_was_while_the_state_is_written(void **state)
{
    static const char *const pairs[][2] = {
        {"r:0", "r_add"},
        {"r_identity:0", "r_add"},
        {"r_identities:0", "r_subtract"},
        {"k_filled:0", "k_add"},
        {"v_read:0", "v_add"},
        {"u_read:0", "u_scatter"},
        {"w_gathered:0", "w_scatter"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int mode = 0; mode < STATE_N_MODES; mode++) {
            struct rt_session *s = state_open((enum state_mode)mode);
            struct rt_error err = {0};
            float value = 1;
            const struct rt_tensor in = {.dtype = RT_F32, .data = &value};
            struct rt_tensor out[4] = {{0}};
            struct rt_callable *read = state_prepare(s, pairs[i][0]);
            rt_session_serve(s);
            double before[4] = {0};
            for (int k = 0; k < 4; k++) {
                assert_ok(rt_callable_run(read, &in, &out[k], NULL, &err), &err);
                before[k] = state_sum(&out[k]);
                state_run(state_prepare(s, pairs[i][1]), 1, pairs[i][1]);
            }
            for (int k = 0; k < 4; k++) {
                const double after = state_sum(&out[k]);
                assert_true(after == before[k] && (k == 0 || after != before[k - 1]));
                rt_tensor_clear(&out[k]);
            }
            rt_session_free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_beside_a_writer_read_what_is_written),
        cmocka_unit_test(an_answer_stays_as_it_was_while_the_state_is_written),
    };
    return cmocka_run_group_tests(tests, state_set_up, state_tear_down);
}
