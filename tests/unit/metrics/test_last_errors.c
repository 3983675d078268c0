/* Tests the list of a model's last errors. */
#include "tests/support/test.h"

#include <pthread.h>

#include "server/metrics/last_errors.h"

static _Atomic(struct srv_last_errors *) list;
static atomic_size_t bytes;
static struct srv_last_error got[SRV_LAST_ERRORS];

static void add(int64_t at_ms, const char *text)
{
    struct srv_last_error e = {.at_ms = at_ms, .code = RT_INVALID_ARGUMENT};
    srv_last_errors_add(&list, &bytes, &e, text);
}

static int end(void **state)
{
    (void)state;
    srv_last_errors_free(&list, &bytes);
    return atomic_load(&bytes) != 0; /* what was charged is released */
}

static void no_memory_is_held_before_the_first_error(void **state)
{
    (void)state;
    assert_int_equal(srv_last_errors_copy(&list, got), 0);
    assert_int_equal(srv_last_errors_count(&list), 0);
    assert_int_equal(atomic_load(&bytes), 0);
    add(1, "x");
    assert_true(atomic_load(&bytes) > SRV_LAST_ERRORS * SRV_ERROR_TEXT);
}

static void the_last_errors_are_kept_and_all_are_counted(void **state)
{
    (void)state;
    add(0, "first");
    assert_int_equal(srv_last_errors_copy(&list, got), 1);
    assert_string_equal(got[0].text, "first");
    for (int i = 1; i < SRV_LAST_ERRORS + 4; i++)
        add(i, "later");
    assert_int_equal(srv_last_errors_count(&list), SRV_LAST_ERRORS + 4);
    assert_int_equal(srv_last_errors_copy(&list, got), SRV_LAST_ERRORS);
    for (int i = 0; i < SRV_LAST_ERRORS; i++) {
        assert_int_equal(got[i].at_ms, SRV_LAST_ERRORS + 3 - i);
        assert_int_equal(got[i].code, RT_INVALID_ARGUMENT);
    }
}

static void long_texts_are_shortened(void **state)
{
    char text[2 * SRV_ERROR_TEXT];
    (void)state;
    for (size_t n = SRV_ERROR_TEXT - 2; n < sizeof text; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        add((int64_t)n, text);
        srv_last_errors_copy(&list, got);
        if (n < SRV_ERROR_TEXT)
            assert_string_equal(got[0].text, text);
        else
            assert_string_equal(got[0].text + SRV_ERROR_TEXT - 5, "x...");
    }
}

static void beyond_the_bound_nothing_is_kept(void **state)
{
    (void)state;
    atomic_store(&bytes, SRV_ERRORS_BYTES - 100);
    add(1, "x");
    assert_int_equal(srv_last_errors_copy(&list, got), 0);
    assert_int_equal(atomic_load(&bytes), SRV_ERRORS_BYTES - 100);
    atomic_store(&bytes, 0);
}

enum { THREADS = 4, ROUNDS = 100 };

static void *add_many(void *arg)
{
    struct srv_last_error copy[SRV_LAST_ERRORS];
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        add(i, "an error");
        srv_last_errors_copy(&list, copy);
    }
    return NULL;
}

static void threads_lose_no_error(void **state)
{
    pthread_t thread[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(srv_last_errors_count(&list), THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_memory_is_held_before_the_first_error, end),
        cmocka_unit_test_teardown(the_last_errors_are_kept_and_all_are_counted, end),
        cmocka_unit_test_teardown(long_texts_are_shortened, end),
        cmocka_unit_test_teardown(beyond_the_bound_nothing_is_kept, end),
        cmocka_unit_test_teardown(threads_lose_no_error, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
