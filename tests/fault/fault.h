/*
 * A file that a server under test (fault.c) and its driver (control.py) both map. control.py
 * repeats this layout, so both must be changed together.
 */
#ifndef TESTS_FAULT_FAULT_H
#define TESTS_FAULT_FAULT_H

#include <stdatomic.h>
#include <stdint.h>

enum fault_kind {
    FAULT_MEMORY, /* calls to malloc and related functions fail with ENOMEM */
    FAULT_OPEN,   /* calls to open fail with EMFILE */
    FAULT_READ,   /* calls to read on a file fail with EIO */
    FAULT_SHORT,  /* calls to read return half of the requested bytes */
    FAULT_STAT,   /* calls to stat fail with EIO */
    FAULT_MMAP,   /* calls to mmap fail with ENOMEM */
    FAULT_THREAD, /* calls to pthread_create fail with EAGAIN */
    /* Calls to eventfd, epoll, inotify and socket fail with EMFILE or ENOSPC, and calls to accept4
     * fail with various errors. */
    FAULT_DESCRIPTOR,
    FAULT_WRITE, /* calls to write on a file fail with ENOSPC */
    FAULT_KINDS,
};

enum { FAULT_DEPTH = 8, FAULT_STACKS = 1 << 16 };

/* A call stack from which a wrapped function was called, as return addresses relative to the start
 * of the executable, innermost first. */
struct fault_stack {
    _Atomic uint64_t hash; /* hash 0 means that the entry is free */
    uint32_t kind;
    _Atomic uint32_t count;
    uint64_t at[FAULT_DEPTH];
};

struct fault_control {
    uint32_t armed, tracing;
    /*
     * The calls that fail. `kinds` has one bit per fault_kind, `stack` is the hash of a stack or 0
     * for any stack, and `thread` is a prefix of the thread's name. The calls that match are
     * counted from 1, and those with the numbers `first` to `first` + n - 1 fail.
     */
    uint32_t kinds, first, n, pad;
    uint64_t stack;
    char thread[16];
    /* Counts of events since the driver last cleared these fields. */
    _Atomic uint32_t matched, fired;
    uint32_t fired_kind, pad2;
    uint64_t fired_at[FAULT_DEPTH]; /* stack of the first call that failed */
    _Atomic uint64_t calls[FAULT_KINDS];
    struct fault_stack stacks[FAULT_STACKS];
};

#endif
