/* Tests the priority of threads. */
#include "runtime/base/thread.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { LOWEST = 19 };

static atomic_int id;
static atomic_bool ends;

static void *low_thread(void *arg)
{
    (void)arg;
    setpriority(PRIO_PROCESS, 0, LOWEST);
    for (atomic_store(&id, rt_thread_id()); !atomic_load(&ends); usleep(1000))
        ;
    return NULL;
}

/* A process without the privilege to raise a priority keeps it, and lowers no thread any more. */
static void all_threads_are_raised_and_none_is_lowered_any_more(void **state)
{
    (void)state;
    const int normal = getpriority(PRIO_PROCESS, (id_t)getpid());
    pthread_t thread;

    assert_int_equal(rt_thread_start(&thread, "low", low_thread, NULL), 0);
    while (!atomic_load(&id))
        usleep(1000);
    const id_t low = (id_t)atomic_load(&id);
    assert_int_equal(getpriority(PRIO_PROCESS, low), LOWEST);
    const bool may_raise = setpriority(PRIO_PROCESS, low, normal) == 0;
    setpriority(PRIO_PROCESS, low, LOWEST);
    rt_threads_raise();
    assert_int_equal(getpriority(PRIO_PROCESS, low), may_raise ? normal : LOWEST);
    rt_thread_low_priority();
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)getpid()), normal);
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_are_raised_and_none_is_lowered_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
