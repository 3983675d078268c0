#include "tests/support/test.h"

#include <stdatomic.h>

#include "kernels/matmul/gemm.h"
#include "runtime/base/thread.h"
#include "tests/support/draw.h"

/* Threads that multiply their own matrices at the same time must get the same bits as a single
 * thread, because each call to OpenBLAS has its own buffer (kernels/cpu/openblas.c). */

enum { THREADS = 4, ROUNDS = 3000, MOST = 64 * 64 };

struct shape {
    int m, n, k;
};

/* Sizes of matrices that are large enough for OpenBLAS to be used, and small enough that calls by
 * different threads often begin at the same time. */
static const struct shape shapes[] = {
    {40, 40, 40}, {64, 17, 33}, {1, 64, 64}, {64, 1, 64}, {48, 2, 64}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct worker {
    pthread_t thread;
    float a[MOST], b[MOST], expected[SHAPES][MOST];
    int wrong;
    atomic_int *ready;
};

static struct kn_gemm gemm(const struct shape *s)
{
    return (struct kn_gemm){
        .dtype = RT_F32, .m = s->m, .n = s->n, .k = s->k, .lda = s->k, .ldb = s->n, .ldc = s->n};
}

static void *multiply(void *arg)
{
    struct worker *w = arg;
    float c[MOST];

    atomic_fetch_add(w->ready, 1);
    while (atomic_load(w->ready) < THREADS) {
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SHAPES; i++) {
            const struct kn_gemm g = gemm(&shapes[i]);
            kn_gemm_run(&g, w->a, w->b, c, NULL);
            w->wrong += memcmp(c, w->expected[i], (size_t)(g.m * g.n) * sizeof *c) != 0;
        }
    return NULL;
}

static void threads_compute_what_one_does_alone(void **state)
{
    struct worker *w = calloc(THREADS, sizeof *w);
    atomic_int ready = 0;
    (void)state;

    assert_non_null(w);
    for (int t = 0; t < THREADS; t++) {
        w[t].ready = &ready;
        for (int i = 0; i < MOST; i++) {
            w[t].a[i] = draw();
            w[t].b[i] = draw();
        }
        for (int i = 0; i < SHAPES; i++) {
            const struct kn_gemm g = gemm(&shapes[i]);
            kn_gemm_run(&g, w[t].a, w[t].b, w[t].expected[i], NULL);
        }
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(rt_thread_start(&w[t].thread, "multiply", multiply, &w[t]), 0);
    int wrong = 0;
    for (int t = 0; t < THREADS; t++) {
        pthread_join(w[t].thread, NULL);
        wrong += w[t].wrong;
    }
    free(w);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_compute_what_one_does_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
