/*
 * Fault injection for a server under test: makes selected libc calls of Slipway's own objects fail.
 *
 * tests/CMakeLists.txt links the server's own main.c with this file and -Wl,--wrap for every
 * function below, so that calls from Slipway's code or a static library reach the wrappers. Calls
 * inside shared libraries do not reach them. This exempts gRPC's core, which aborts by design when
 * malloc fails.
 *
 * The driver (run.py, through control.py) and the server share struct fault_control, which is in
 * the file $SLIPWAY_FAULT. The driver describes the calls that must fail, sets `armed`, and reads
 * the outcome. While `tracing` is set, calls are counted by call stack.
 *
 * Threads: any. The driver writes the description only while `armed` and `tracing` are 0.
 */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The linker defines __executable_start and _end. Addresses in reported stacks are relative to
 * __executable_start. */
extern char __executable_start, _end;

static struct fault_control *control; /* NULL if no fault can be injected */
static _Thread_local uintptr_t stack_low, stack_high;

__attribute__((constructor)) static void fault_open(void)
{
    const char *path = getenv("SLIPWAY_FAULT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    if (fd < 0)
        return;
    p = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        control = p;
    close(fd);
}

/* ---- where a call comes from ---- */

static void note_stack_bounds(void)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t n = 0;

    /* stack_low is set even if the query of the stack's bounds fails, so that no thread repeats the
     * query. */
    stack_low = 1;
    if (pthread_getattr_np(pthread_self(), &attr))
        return;
    if (!pthread_attr_getstack(&attr, &low, &n)) {
        stack_low = (uintptr_t)low;
        stack_high = stack_low + n;
    }
    pthread_attr_destroy(&attr);
}

/* Collects the return addresses of the callers by following frame pointers. Sanitizer builds are
 * compiled with frame pointers. A library function without a frame pointer ends the stack, or adds
 * an address that is the same in every run. Both effects leave the stacks comparable. */
static int stack_of(const uintptr_t *frame, uint64_t *out)
{
    int n = 0;

    if (!stack_low)
        note_stack_bounds();
    while (n < FAULT_DEPTH) {
        uintptr_t at = (uintptr_t)frame;
        if (at < stack_low || at + 2 * sizeof *frame > stack_high || at % sizeof *frame)
            break;
        /*
         * Callers in shared libraries are left out, because the libraries' addresses differ in
         * every process.
         */
        uintptr_t caller = frame[1] - (uintptr_t)&__executable_start;
        if (caller < (uintptr_t)(&_end - &__executable_start))
            out[n++] = caller;
        const uintptr_t *up = (const uintptr_t *)frame[0];
        if (up <= frame)
            break;
        frame = up;
    }
    for (int i = n; i < FAULT_DEPTH; i++)
        out[i] = 0;
    return n;
}

static uint64_t hash_of(enum fault_kind kind, const uint64_t *stack)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)kind;
    for (int i = 0; i < FAULT_DEPTH; i++)
        h = (h ^ stack[i]) * UINT64_C(0x100000001b3);
    return h | 1;
}

static void count(enum fault_kind kind, uint64_t hash, const uint64_t *stack)
{
    atomic_fetch_add(&control->calls[kind], 1);
    for (uint32_t i = (uint32_t)(hash >> 7) % FAULT_STACKS, tries = 0; tries < 256;
         i = (i + 1) % FAULT_STACKS, tries++) {
        struct fault_stack *s = &control->stacks[i];
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&s->hash, &there, hash)) {
            memcpy(s->at, stack, sizeof s->at);
            s->kind = (uint32_t)kind;
        } else if (there != hash) {
            continue;
        }
        atomic_fetch_add(&s->count, 1);
        return;
    }
}

/* Returns whether the driver has requested that the current call fail. */
static bool fails(enum fault_kind kind, const void *frame)
{
    struct fault_control *c = control;
    uint64_t stack[FAULT_DEPTH], hash = 0;
    char name[16] = "";

    if (!c || (!c->armed && !c->tracing) || !(c->kinds & (UINT32_C(1) << kind)))
        return false;
    if (*c->thread && (pthread_getname_np(pthread_self(), name, sizeof name) ||
                       strncmp(name, c->thread, strlen(c->thread)) != 0))
        return false;
    stack_of(frame, stack);
    hash = hash_of(kind, stack);
    if (c->tracing)
        count(kind, hash, stack);
    if (!c->armed || (c->stack && c->stack != hash))
        return false;
    uint32_t i = atomic_fetch_add(&c->matched, 1) + 1;
    if (i < c->first || i - c->first >= c->n)
        return false;
    if (atomic_fetch_add(&c->fired, 1) == 0) {
        memcpy(c->fired_at, stack, sizeof c->fired_at);
        c->fired_kind = (uint32_t)kind;
    }
    return true;
}

#define FAILS(kind) fails(kind, __builtin_frame_address(0))

int __real_fstat(int fd, struct stat *out);

static bool is_file(int fd)
{
    struct stat s;
    return fd > 2 && __real_fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
}

/* ---- the functions ---- */

/*
 * FAULT_WRAP(type, name, parameters) declares the libc function as __real_NAME and begins the
 * definition of __wrap_NAME, to which the linker redirects calls of the function.
 */
#define FAULT_WRAP(type, name, ...)                                                                \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

#define FAIL(kind, error, value)                                                                   \
    do {                                                                                           \
        if (FAILS(kind)) {                                                                         \
            errno = (error);                                                                       \
            return (value);                                                                        \
        }                                                                                          \
    } while (0)

FAULT_WRAP(void *, malloc, size_t n)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_malloc(n);
}

FAULT_WRAP(void *, calloc, size_t n, size_t size)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_calloc(n, size);
}

FAULT_WRAP(void *, realloc, void *p, size_t n)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_realloc(p, n);
}

FAULT_WRAP(int, posix_memalign, void **p, size_t align, size_t n)
{
    if (FAILS(FAULT_MEMORY))
        return ENOMEM;
    return __real_posix_memalign(p, align, n);
}

FAULT_WRAP(void *, aligned_alloc, size_t align, size_t n)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_aligned_alloc(align, n);
}

FAULT_WRAP(char *, strdup, const char *s)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_strdup(s);
}

FAULT_WRAP(char *, strndup, const char *s, size_t n)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_strndup(s, n);
}

FAULT_WRAP(char *, realpath, const char *path, char *out)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_realpath(path, out);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    int mode = 0;

    FAIL(FAULT_OPEN, EMFILE, -1);
    if (flags & O_CREAT) {
        va_start(ap, flags);
        mode = va_arg(ap, int);
        va_end(ap);
    }
    return __real_open(path, flags, mode);
}

FAULT_WRAP(FILE *, fopen, const char *path, const char *mode)
{
    FAIL(FAULT_OPEN, EMFILE, NULL);
    return __real_fopen(path, mode);
}

FAULT_WRAP(FILE *, fdopen, int fd, const char *mode)
{
    FAIL(FAULT_MEMORY, ENOMEM, NULL);
    return __real_fdopen(fd, mode);
}

FAULT_WRAP(DIR *, opendir, const char *path)
{
    FAIL(FAULT_OPEN, EMFILE, NULL);
    return __real_opendir(path);
}

FAULT_WRAP(int, scandir, const char *path, struct dirent ***out,
           int (*filter)(const struct dirent *e),
           int (*order)(const struct dirent **a, const struct dirent **b))
{
    FAIL(FAULT_OPEN, EMFILE, -1);
    FAIL(FAULT_MEMORY, ENOMEM, -1);
    return __real_scandir(path, out, filter, order);
}

FAULT_WRAP(struct dirent *, readdir, DIR *dir)
{
    FAIL(FAULT_READ, EIO, NULL);
    return __real_readdir(dir);
}

FAULT_WRAP(ssize_t, read, int fd, void *p, size_t n)
{
    if (is_file(fd)) {
        FAIL(FAULT_READ, EIO, -1);
        if (n > 1 && FAILS(FAULT_SHORT))
            n /= 2;
    }
    return __real_read(fd, p, n);
}

FAULT_WRAP(ssize_t, pread, int fd, void *p, size_t n, off_t at)
{
    FAIL(FAULT_READ, EIO, -1);
    if (n > 1 && FAILS(FAULT_SHORT))
        n /= 2;
    return __real_pread(fd, p, n, at);
}

/* fread reports a read error through the error flag of the stream. */
FAULT_WRAP(size_t, fread, void *p, size_t size, size_t n, FILE *f)
{
    if (is_file(fileno(f)) && FAILS(FAULT_READ)) {
        f->_flags |= 0x20; /* glibc's flag _IO_ERR_SEEN */
        errno = EIO;
        return 0;
    }
    return __real_fread(p, size, n, f);
}

FAULT_WRAP(char *, fgets, char *p, int n, FILE *f)
{
    if (is_file(fileno(f)) && FAILS(FAULT_READ)) {
        f->_flags |= 0x20;
        errno = EIO;
        return NULL;
    }
    return __real_fgets(p, n, f);
}

FAULT_WRAP(ssize_t, getline, char **line, size_t *room, FILE *f)
{
    FAIL(FAULT_MEMORY, ENOMEM, -1);
    if (is_file(fileno(f)) && FAILS(FAULT_READ)) {
        f->_flags |= 0x20;
        errno = EIO;
        return -1;
    }
    return __real_getline(line, room, f);
}

FAULT_WRAP(int, stat, const char *path, struct stat *out)
{
    FAIL(FAULT_STAT, EIO, -1);
    return __real_stat(path, out);
}

FAULT_WRAP(int, lstat, const char *path, struct stat *out)
{
    FAIL(FAULT_STAT, EIO, -1);
    return __real_lstat(path, out);
}

FAULT_WRAP(int, fstat, int fd, struct stat *out)
{
    FAIL(FAULT_STAT, EIO, -1);
    return __real_fstat(fd, out);
}

FAULT_WRAP(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    FAIL(FAULT_MMAP, ENOMEM, MAP_FAILED);
    return __real_mmap(at, n, prot, flags, fd, offset);
}

FAULT_WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *),
           void *arg)
{
    if (FAILS(FAULT_THREAD))
        return EAGAIN;
    return __real_pthread_create(out, attr, run, arg);
}

FAULT_WRAP(int, eventfd, unsigned int value, int flags)
{
    FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    return __real_eventfd(value, flags);
}

FAULT_WRAP(int, epoll_create1, int flags)
{
    FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    return __real_epoll_create1(flags);
}

FAULT_WRAP(int, epoll_ctl, int fd, int op, int what, struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD)
        FAIL(FAULT_DESCRIPTOR, ENOSPC, -1);
    return __real_epoll_ctl(fd, op, what, event);
}

FAULT_WRAP(int, inotify_init1, int flags)
{
    FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    return __real_inotify_init1(flags);
}

FAULT_WRAP(int, inotify_add_watch, int fd, const char *path, uint32_t mask)
{
    FAIL(FAULT_DESCRIPTOR, ENOSPC, -1);
    return __real_inotify_add_watch(fd, path, mask);
}

FAULT_WRAP(int, signalfd, int fd, const sigset_t *set, int flags)
{
    FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    return __real_signalfd(fd, set, flags);
}

FAULT_WRAP(int, socket, int domain, int type, int protocol)
{
    FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    return __real_socket(domain, type, protocol);
}

FAULT_WRAP(int, accept4, int fd, struct sockaddr *from, socklen_t *n, int flags)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, ECONNABORTED, EPERM, EPROTO};
    static _Atomic unsigned n_failed;

    FAIL(FAULT_DESCRIPTOR, errors[atomic_fetch_add(&n_failed, 1) % 7], -1);
    return __real_accept4(fd, from, n, flags);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list ap;

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        FAIL(FAULT_DESCRIPTOR, EMFILE, -1);
    va_start(ap, command);
    /* For commands without an argument, `value` is indeterminate, and the kernel ignores it. */
    long value = va_arg(ap, long);
    va_end(ap);
    return __real_fcntl(fd, command, value);
}

FAULT_WRAP(ssize_t, write, int fd, const void *p, size_t n)
{
    if (is_file(fd))
        FAIL(FAULT_WRITE, ENOSPC, -1);
    return __real_write(fd, p, n);
}

FAULT_WRAP(ssize_t, writev, int fd, const struct iovec *iov, int n)
{
    if (is_file(fd))
        FAIL(FAULT_WRITE, ENOSPC, -1);
    return __real_writev(fd, iov, n);
}

FAULT_WRAP(size_t, fwrite, const void *p, size_t size, size_t n, FILE *f)
{
    if (is_file(fileno(f)) && FAILS(FAULT_WRITE)) {
        f->_flags |= 0x20;
        errno = ENOSPC;
        return 0;
    }
    return __real_fwrite(p, size, n, f);
}

FAULT_WRAP(int, fflush, FILE *f)
{
    if (f && is_file(fileno(f)))
        FAIL(FAULT_WRITE, ENOSPC, EOF);
    return __real_fflush(f);
}

FAULT_WRAP(int, fclose, FILE *f)
{
    bool fail = is_file(fileno(f)) && FAILS(FAULT_WRITE);
    int rc = __real_fclose(f);

    if (fail)
        errno = ENOSPC;
    return fail ? EOF : rc;
}

FAULT_WRAP(int, ftruncate, int fd, off_t n)
{
    FAIL(FAULT_WRITE, ENOSPC, -1);
    return __real_ftruncate(fd, n);
}

FAULT_WRAP(int, rename, const char *from, const char *to)
{
    FAIL(FAULT_WRITE, ENOSPC, -1);
    return __real_rename(from, to);
}

FAULT_WRAP(int, mkdir, const char *path, mode_t mode)
{
    FAIL(FAULT_WRITE, ENOSPC, -1);
    return __real_mkdir(path, mode);
}
