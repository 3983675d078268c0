/* Tests the priority of threads, and locks that are waited for with a check. */
#include "runtime/base/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
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
    rt_thread_make_idle((int)low);
    assert_int_equal(sched_getscheduler((pid_t)low), SCHED_IDLE);
    rt_threads_raise();
    assert_int_equal(sched_getscheduler((pid_t)low), may_raise ? SCHED_OTHER : SCHED_IDLE);
    assert_int_equal(getpriority(PRIO_PROCESS, low), may_raise ? normal : LOWEST);
    rt_thread_make_idle(rt_thread_id());
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    rt_thread_low_priority();
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)getpid()), normal);
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
}

static struct rt_mutex mu = RT_MUTEX_INIT;
static atomic_int n_checks;

static enum rt_status fail_third(void *arg, struct rt_error *err)
{
    (void)arg;
    if (atomic_fetch_add(&n_checks, 1) < 2)
        return RT_OK;
    return rt_fail(err, RT_DEADLINE_EXCEEDED, "it is late");
}

static enum rt_status never_fail(void *arg, struct rt_error *err)
{
    (void)arg;
    (void)err;
    atomic_fetch_add(&n_checks, 1);
    return RT_OK;
}

static const struct rt_check impatient = {fail_third, NULL}, patient = {never_fail, NULL};

static void *wait_for_lock(void *failed)
{
    struct rt_error err = {0};

    *(enum rt_status *)failed = rt_mutex_lock_checked(&mu, &impatient, &err);
    return NULL;
}

static void *wait_with(void *check)
{
    struct rt_error err = {0};

    if (rt_mutex_lock_checked(&mu, check, &err))
        return check;
    rt_mutex_unlock(&mu);
    return NULL;
}

static void a_check_ends_the_wait_for_a_lock(void **state)
{
    (void)state;
    enum rt_status failed = RT_OK;
    pthread_t thread;

    rt_mutex_lock(&mu);
    assert_int_equal(rt_thread_start(&thread, "waits", wait_for_lock, &failed), 0);
    pthread_join(thread, NULL);
    rt_mutex_unlock(&mu);
    assert_int_equal(failed, RT_DEADLINE_EXCEEDED);
    assert_int_equal(atomic_load(&n_checks), 3);
}

static void a_lock_is_taken_when_it_becomes_free(void **state)
{
    (void)state;
    void *failed;
    pthread_t thread;

    atomic_store(&n_checks, 0);
    rt_mutex_lock(&mu);
    assert_int_equal(rt_thread_start(&thread, "waits", wait_with, (void *)(uintptr_t)&patient), 0);
    while (atomic_load(&n_checks) < 5)
        usleep(1000);
    rt_mutex_unlock(&mu);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(rt_thread_start(&thread, "waits", wait_with, NULL), 0); /* without a check */
    pthread_join(thread, &failed);
    assert_null(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_are_raised_and_none_is_lowered_any_more),
        cmocka_unit_test(a_check_ends_the_wait_for_a_lock),
        cmocka_unit_test(a_lock_is_taken_when_it_becomes_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
