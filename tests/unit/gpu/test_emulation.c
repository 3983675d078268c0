/*
 * Tests that the emulation of a GPU finds faults in kernels. Each test adds a fault to a correct
 * kernel. A missing barrier changes the result in some order of the threads. A barrier or shuffle
 * that only some threads reach ends the process.
 */
#include "tests/support/test.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/emulation.h"

#include "kernels/cuda/device/block.cuh"

enum { THREADS = 256, N = 1000, ORDERS = 6 };

struct reversing {
    float *out;
    const float *in;
    int without_barrier;
};

/* Reverses blocks of THREADS elements through shared memory. */
KC_KERNEL(reverse, reversing, args)
{
    KC_SHARED(float, tile, THREADS);
    const int64_t first = KC_BLOCK * THREADS;
    tile[KC_THREAD] = args.in[first + KC_THREAD];
    if (!args.without_barrier)
        KC_BARRIER();
    args.out[first + KC_THREAD] = tile[THREADS - 1 - KC_THREAD];
}

static void call_reverse(const void *args)
{
    reverse(*(const struct reversing *)args);
}

/* Returns the number of thread orders for which the result is correct. */
static int right_orders(bool without_barrier)
{
    float in[2 * THREADS], out[2 * THREADS];
    int n = 0;
    const struct reversing args = {.out = out, .in = in, .without_barrier = without_barrier};
    for (int k = 0; k < 2 * THREADS; k++)
        in[k] = (float)k;
    for (int order = 0; order < ORDERS; order++) {
        bool right = true;
        emulated_launch(call_reverse, &args, 2, THREADS, true);
        for (int k = 0; k < 2 * THREADS; k++)
            right = right && out[k] == in[k / THREADS * THREADS + THREADS - 1 - k % THREADS];
        n += right;
    }
    return n;
}

static void a_missing_barrier_changes_the_result(void **state)
{
    (void)state;
    assert_int_equal(right_orders(false), ORDERS);
    assert_int_equal(right_orders(true), 0);
    emulated_end();
}

struct reducing {
    float *out;
    const float *in;
    int64_t n;
};

KC_BLOCK_REDUCTION(block_sum, kc_add)
KC_BLOCK_REDUCTION(block_max, kc_max)

KC_KERNEL(reduce, reducing, args)
{
    float sum = 0, top = -INFINITY;
    for (int64_t k = KC_THREAD; k < args.n; k += KC_BLOCK_THREADS) {
        sum += args.in[k];
        top = kc_max(top, args.in[k]);
    }
    args.out[2 * KC_INDEX] = block_sum(sum);
    args.out[2 * KC_INDEX + 1] = block_max(top);
}

static void call_reduce(const void *args)
{
    reduce(*(const struct reducing *)args);
}

static void reductions_of_a_block_reach_all_its_threads(void **state)
{
    (void)state;
    float in[N], out[2 * THREADS];
    const struct reducing args = {.out = out, .in = in, .n = N};
    for (int k = 0; k < N; k++)
        in[k] = (float)(k % 7);
    for (int order = 0; order < ORDERS; order++) {
        memset(out, 0, sizeof out);
        emulated_launch(call_reduce, &args, 1, THREADS, true);
        for (int k = 0; k < THREADS; k++) {
            assert_true(out[2 * k] == 2997);
            assert_true(out[2 * k + 1] == 6);
        }
    }
    in[N - 1] = NAN;
    emulated_launch(call_reduce, &args, 1, THREADS, true);
    assert_true(isnan(out[0]) && isnan(out[1]));
    emulated_end();
}

struct diverging {
    int barrier; /* number of threads that reach the barrier */
    int shuffle; /* number of threads that take part in the shuffle */
};

KC_KERNEL(diverge, diverging, args)
{
    if (KC_THREAD < args.shuffle)
        (void)KC_SHUFFLE_XOR(1.0f, 1);
    if (KC_THREAD < args.barrier)
        KC_BARRIER();
}

static void call_diverge(const void *args)
{
    diverge(*(const struct diverging *)args);
}

/* Returns whether a launch ends the process by abort. */
static bool aborts(int barrier, int shuffle)
{
    const struct diverging args = {barrier, shuffle};
    const pid_t child = fork();
    int status;
    if (child == 0) {
        close(STDERR_FILENO); /* hides the error message, which is expected */
        signal(SIGABRT, SIG_DFL);
        emulated_launch(call_diverge, &args, 1, 2 * KC_WARP, true);
        emulated_end();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void a_barrier_or_shuffle_that_only_some_threads_reach_is_found(void **state)
{
    (void)state;
    assert_false(aborts(0, 0));
    assert_false(aborts(2 * KC_WARP, 2 * KC_WARP));
    assert_false(aborts(0, KC_WARP));
    assert_true(aborts(1, 0));
    assert_true(aborts(KC_WARP, 0));
    assert_true(aborts(2 * KC_WARP - 1, 0));
    assert_true(aborts(0, 1));
    assert_true(aborts(0, KC_WARP + 1));
    assert_true(aborts(2 * KC_WARP, KC_WARP - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_barrier_changes_the_result),
        cmocka_unit_test(reductions_of_a_block_reach_all_its_threads),
        cmocka_unit_test(a_barrier_or_shuffle_that_only_some_threads_reach_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
