/* Functions that read clocks. Deadlines are absolute CLOCK_MONOTONIC times in nanoseconds. RT_NEVER
 * means no deadline. 0 means no deadline only if the comment of the function states this. Threads:
 * any. */
#ifndef RT_BASE_CLOCK_H
#define RT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RT_NEVER INT64_MAX /* no deadline */

static inline int64_t rt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the wall-clock time, for log lines, file times and exported traces only. */
static inline int64_t rt_wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the CPU time of the calling thread. */
static inline int64_t rt_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the CPU time of all threads of the process together. */
static inline int64_t rt_process_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
