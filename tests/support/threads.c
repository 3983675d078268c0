/*
 * Counts the threads that a test program starts. If there are any, prints their number when the
 * program ends. tests/run_tests.py runs only the programs that print a number under
 * ThreadSanitizer. Programs are linked with LINKER:--wrap=pthread_create.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

static atomic_int started;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    const int status = __real_pthread_create(thread, attributes, start, argument);
    if (status == 0)
        atomic_fetch_add(&started, 1);
    return status;
}

__attribute__((destructor)) static void print_started(void)
{
    const int n = atomic_load(&started);
    if (n > 0)
        printf("[ THREADS  ] %d\n", n);
}
