/*
 * Wrappers of POSIX mutexes, condition variables and threads. They carry the attributes of clang's
 * thread safety analysis. Time-outs use CLOCK_MONOTONIC.
 */
#ifndef RT_BASE_THREAD_H
#define RT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/check.h"

#if defined(__clang__)
#define RT_CAPABILITY(x)          __attribute__((capability(x)))
#define RT_REQUIRES(x)            __attribute__((requires_capability(x)))
#define RT_ACQUIRE(x)             __attribute__((acquire_capability(x)))
#define RT_TRY_ACQUIRE(result, x) __attribute__((try_acquire_capability(result, x)))
#define RT_RELEASE(x)             __attribute__((release_capability(x)))
#define RT_NO_ANALYSIS            __attribute__((no_thread_safety_analysis))
#else
#define RT_CAPABILITY(x)
#define RT_REQUIRES(x)
#define RT_ACQUIRE(x)
#define RT_TRY_ACQUIRE(result, x)
#define RT_RELEASE(x)
#define RT_NO_ANALYSIS
#endif

struct RT_CAPABILITY("mutex") rt_mutex {
    pthread_mutex_t m;
};
#define RT_MUTEX_INIT                                                                              \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }

struct rt_cond {
    pthread_cond_t c; /* initialised only by rt_cond_init, which selects CLOCK_MONOTONIC */
};

void rt_mutex_init(struct rt_mutex *mu);
void rt_mutex_clear(struct rt_mutex *mu);
void rt_mutex_lock(struct rt_mutex *mu) RT_ACQUIRE(*mu);
/* Waits at most until `until_ns` on CLOCK_MONOTONIC. Returns whether the mutex is locked. */
bool rt_mutex_lock_until(struct rt_mutex *mu, int64_t until_ns) RT_TRY_ACQUIRE(true, *mu);
/* Locks a mutex that another thread may hold for long, for example during a run. While it waits, it
 * calls the check, which may be NULL, about every millisecond. If the check fails, returns its
 * status, and the mutex is not locked. */
enum rt_status rt_mutex_lock_checked(struct rt_mutex *mu, const struct rt_check *check,
                                     struct rt_error *err) RT_TRY_ACQUIRE(RT_OK, *mu);
void rt_mutex_unlock(struct rt_mutex *mu) RT_RELEASE(*mu);

void rt_cond_init(struct rt_cond *c);
void rt_cond_clear(struct rt_cond *c);
void rt_cond_wait(struct rt_cond *c, struct rt_mutex *mu) RT_REQUIRES(*mu);
/* Waits at most until `until_ns` on CLOCK_MONOTONIC, or without a limit if `until_ns` is RT_NEVER.
 * Returns false on time-out. */
bool rt_cond_wait_until(struct rt_cond *c, struct rt_mutex *mu, int64_t until_ns) RT_REQUIRES(*mu);
void rt_cond_signal(struct rt_cond *c);
void rt_cond_broadcast(struct rt_cond *c);

/* Starts a thread that runs fn(arg) with all signals blocked. `name` is truncated to 15 characters.
 * Returns 0 or an errno value. */
int rt_thread_start(pthread_t *out, const char *name, void *(*fn)(void *), void *arg);
/* Lowers the priority of the calling thread to nice 10. Called by background threads, such as those
 * that load or compile. */
void rt_thread_low_priority(void);
/* Returns the id of the calling thread for the functions below. */
int rt_thread_id(void);
/* Lowers the priority of another thread of the process to nice 10. Only a privileged process can
 * raise the priority again. */
void rt_thread_lower(int id);
/* Gives another thread of the process only the time that no other thread wants (SCHED_IDLE). Used
 * for work of which there may be hundreds of threads, which would take most of the time even if
 * each were lowered. */
void rt_thread_make_idle(int id);
/* Returns whether another thread of the process waits for something other than a processor. Returns
 * false if the kernel does not tell. */
bool rt_thread_is_blocked(int id);
/* Raises all threads of the process to the priority of the main thread, as far as the process may.
 * From then on, no thread is lowered. Called before the main thread waits for all other threads,
 * because a low-priority thread gets little processor time on a machine under load. */
void rt_threads_raise(void);

#endif
