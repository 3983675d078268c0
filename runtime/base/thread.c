#include "runtime/base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/sanitizer.h"

void rt_mutex_init(struct rt_mutex *mu)
{
    pthread_mutex_init(&mu->m, NULL);
}

void rt_mutex_clear(struct rt_mutex *mu)
{
    pthread_mutex_destroy(&mu->m);
}

void rt_mutex_lock(struct rt_mutex *mu) RT_NO_ANALYSIS
{
    pthread_mutex_lock(&mu->m);
}

static struct timespec timespec_of(int64_t ns)
{
    if (ns < 0)
        ns = 0;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

#if RT_HAS_TSAN /* ThreadSanitizer of clang 14 does not know pthread_mutex_clocklock */
bool rt_mutex_lock_until(struct rt_mutex *mu, int64_t until_ns) RT_NO_ANALYSIS
{
    while (pthread_mutex_trylock(&mu->m)) {
        if (rt_now_ns() >= until_ns)
            return false;
        usleep(100);
    }
    return true;
}
#else
bool rt_mutex_lock_until(struct rt_mutex *mu, int64_t until_ns) RT_NO_ANALYSIS
{
    const struct timespec t = timespec_of(until_ns);
    return pthread_mutex_clocklock(&mu->m, CLOCK_MONOTONIC, &t) == 0;
}
#endif

RT_NO_ANALYSIS
enum rt_status rt_mutex_lock_checked(struct rt_mutex *mu, const struct rt_check *check,
                                     struct rt_error *err)
{
    enum { TRY_NS = 1000000 }; /* time between two calls of the check */
    enum rt_status st = RT_OK;

    /* A mutex that is free is locked without a look at the clock. */
    if (rt_mutex_lock_until(mu, 0))
        return RT_OK;
    while (!st && !rt_mutex_lock_until(mu, rt_now_ns() + TRY_NS))
        st = rt_check_call(check, err);
    return st;
}

void rt_mutex_unlock(struct rt_mutex *mu) RT_NO_ANALYSIS
{
    pthread_mutex_unlock(&mu->m);
}

void rt_cond_init(struct rt_cond *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&c->c, &a);
    pthread_condattr_destroy(&a);
}

void rt_cond_clear(struct rt_cond *c)
{
    pthread_cond_destroy(&c->c);
}

void rt_cond_wait(struct rt_cond *c, struct rt_mutex *mu)
{
    pthread_cond_wait(&c->c, &mu->m);
}

bool rt_cond_wait_until(struct rt_cond *c, struct rt_mutex *mu, int64_t until_ns)
{
    if (until_ns == RT_NEVER) {
        rt_cond_wait(c, mu);
        return true;
    }
    const struct timespec t = timespec_of(until_ns);
    return pthread_cond_timedwait(&c->c, &mu->m, &t) == 0;
}

void rt_cond_signal(struct rt_cond *c)
{
    pthread_cond_signal(&c->c);
}

void rt_cond_broadcast(struct rt_cond *c)
{
    pthread_cond_broadcast(&c->c);
}

struct start {
    char name[16];
    void *(*fn)(void *);
    void *arg;
};

static void *thread_main(void *p)
{
    struct start s = *(struct start *)p;
    free(p);
    pthread_setname_np(pthread_self(), s.name);
    /* No thread is ever cancelled. If the cancel type is asynchronous, the C library need not set
     * and restore the cancel type around every system call that may block. */
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &ignored);
    return s.fn(s.arg);
}

int rt_thread_start(pthread_t *out, const char *name, void *(*fn)(void *), void *arg)
{
    struct start *s = malloc(sizeof *s);
    if (!s)
        return 12; /* ENOMEM */
    snprintf(s->name, sizeof s->name, "%s", name);
    s->fn = fn;
    s->arg = arg;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(out, NULL, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        free(s);
    return rc;
}

int rt_thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

static atomic_bool raised; /* whether rt_threads_raise was called */

void rt_thread_lower(int id)
{
    enum { LOW_PRIORITY = 10 };
    /* Without the second test, a process that runs as root could raise the priority. */
    if (!atomic_load(&raised) && getpriority(PRIO_PROCESS, (id_t)id) < LOW_PRIORITY)
        setpriority(PRIO_PROCESS, (id_t)id, LOW_PRIORITY);
}

void rt_thread_make_idle(int id)
{
    const struct sched_param none = {0};

    if (!atomic_load(&raised))
        sched_setscheduler(id, SCHED_IDLE, &none);
}

bool rt_thread_is_blocked(int id)
{
    char path[64], text[256], *name_end;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* the state follows the name, which is in parentheses and may contain some itself */
    name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] && name_end[2] != 'R';
}

void rt_threads_raise(void)
{
    const int normal = getpriority(PRIO_PROCESS, (id_t)getpid());
    const struct sched_param none = {0};
    DIR *threads = opendir("/proc/self/task");

    atomic_store(&raised, true);
    for (struct dirent *e; threads && (e = readdir(threads));) {
        const id_t id = (id_t)strtol(e->d_name, NULL, 10);
        if (id && sched_getscheduler((pid_t)id) == SCHED_IDLE)
            sched_setscheduler((pid_t)id, SCHED_OTHER, &none);
        if (id && getpriority(PRIO_PROCESS, id) > normal)
            setpriority(PRIO_PROCESS, id, normal);
    }
    if (threads)
        closedir(threads);
}

void rt_thread_low_priority(void)
{
    rt_thread_lower(rt_thread_id());
}
