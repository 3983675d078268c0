/* Implements the emulation of a GPU (emulation.h). */
#include "tests/gpu/emulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HAS_ASAN)
#include <sanitizer/common_interface_defs.h>
#define BEGIN_SWITCH(kept, to, size) __sanitizer_start_switch_fiber(kept, to, size)
#define END_SWITCH(kept, from, size) __sanitizer_finish_switch_fiber(kept, from, size)
#else
#define BEGIN_SWITCH(kept, to, size) ((void)(kept), (void)(to), (void)(size))
#define END_SWITCH(kept, from, size) ((void)(kept), (void)(from), (void)(size))
#endif

enum {
    WARP = 32,
    MOST_THREADS = 1024,
    STACK_BYTES = 64 << 10,
    SHARED_BYTES = 48 << 10, /* bytes of shared memory that a block may use on every GPU */
    MOST_SHARED = 16,
    POISON = 0xdb,
    N_ORDERS = 6,
};

_Thread_local struct emulated_thread emulated_thread;
intptr_t emulated_distance;

enum state { ENDED, READY, AT_BARRIER, AT_SHUFFLE, N_STATES };

struct fiber {
    ucontext_t context;
    enum state state;
    /* value that the thread passes to a shuffle, and afterwards the value that it receives */
    float value;
    int mask;        /* of the shuffle */
    void *asan_kept; /* state that AddressSanitizer saves while the fiber does not run */
};

struct shared {
    const void *key;
    size_t at, bytes;
};

/* State of the emulation on one host thread. */
struct emulator {
    void (*call)(const void *args);
    const void *args;
    int order;
    ucontext_t back; /* the scheduler */
    void *asan_back;
    const void *back_stack;
    size_t back_bytes;
    struct fiber fiber[MOST_THREADS];
    int n_fibers; /* fibers that have been created; they run one thread of each block */
    bool is_ending;
    char *stacks;
    int n_shared;
    struct shared shared[MOST_SHARED];
    size_t shared_used;
    _Alignas(16) char memory[SHARED_BYTES];
};
static _Thread_local struct emulator *emulator;

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "emulated GPU: block %lld, thread %d: %s\n", (long long)emulated_thread.block,
            emulated_thread.thread, why);
    abort();
}

static struct emulator *make(void)
{
    struct emulator *e = calloc(1, sizeof *e);
    if (e)
        e->stacks = mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!e || e->stacks == MAP_FAILED)
        die("out of memory");
    return e;
}

/* ---- fibers ---- */

/* Sets the state of the running fiber, suspends the fiber, and returns to the scheduler. */
static void wait_in(enum state state)
{
    struct emulator *e = emulator;
    struct fiber *f = &e->fiber[emulated_thread.thread];
    f->state = state;
    BEGIN_SWITCH(&f->asan_kept, e->back_stack, e->back_bytes);
    swapcontext(&f->context, &e->back);
    END_SWITCH(f->asan_kept, NULL, NULL);
}

/* Runs a fiber until it waits or ends. */
static void resume(struct emulator *e, int thread)
{
    struct fiber *f = &e->fiber[thread];
    emulated_thread.thread = thread;
    BEGIN_SWITCH(&e->asan_back, e->stacks + (size_t)thread * STACK_BYTES, STACK_BYTES);
    swapcontext(&e->back, &f->context);
    END_SWITCH(e->asan_back, NULL, NULL);
}

/* Runs a thread of each block. A fiber is not made anew for each block, because that takes
 * AddressSanitizer several system calls. */
static void run_threads(void)
{
    struct emulator *e = emulator;
    END_SWITCH(NULL, &e->back_stack, &e->back_bytes);
    while (!e->is_ending) {
        e->call(e->args);
        wait_in(ENDED);
    }
    BEGIN_SWITCH(NULL, e->back_stack, e->back_bytes);
}

static void make_fiber(struct emulator *e, int thread)
{
    struct fiber *f = &e->fiber[thread];
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = e->stacks + (size_t)thread * STACK_BYTES;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = &e->back;
    makecontext(&f->context, run_threads, 0);
}

void emulated_end(void)
{
    struct emulator *e = emulator;
    if (!e)
        return;
    e->is_ending = true;
    for (int k = 0; k < e->n_fibers; k++)
        resume(e, k);
    munmap(e->stacks, (size_t)MOST_THREADS * STACK_BYTES);
    free(e);
    emulator = NULL;
}

void *emulated_shared(const void *key, size_t bytes)
{
    struct emulator *e = emulator;
    for (int k = 0; k < e->n_shared; k++)
        if (e->shared[k].key == key)
            return e->memory + e->shared[k].at;
    const size_t at = (e->shared_used + 15) & ~(size_t)15;
    if (e->n_shared == MOST_SHARED || bytes > SHARED_BYTES || at > SHARED_BYTES - bytes)
        die("too much shared memory");
    e->shared[e->n_shared++] = (struct shared){key, at, bytes};
    e->shared_used = at + bytes;
    return e->memory + at;
}

void emulated_barrier(void)
{
    wait_in(AT_BARRIER);
}

float emulated_shuffle_xor(float value, int mask)
{
    struct fiber *f = &emulator->fiber[emulated_thread.thread];
    f->value = value;
    f->mask = mask;
    wait_in(AT_SHUFFLE);
    return f->value;
}

/* ---- blocks ---- */

/* Returns the index of the thread that runs after k of the n threads in the launch's order. */
static int nth(int order, int k, int n)
{
    switch (order % 3) {
    case 0:
        return k;
    case 1:
        return n - 1 - k;
    default: /* odd indexes first */
        return k < n / 2 ? 2 * k + 1 : 2 * (k - n / 2);
    }
}

/* Completes the shuffle in which all lanes of the warp take part. */
static void shuffle(struct emulator *e, int first)
{
    float value[WARP];
    for (int k = 0; k < WARP; k++)
        value[k] = e->fiber[first + k].value;
    for (int k = 0; k < WARP; k++) {
        struct fiber *f = &e->fiber[first + k];
        emulated_thread.thread = first + k;
        if (f->mask != e->fiber[first].mask)
            die("the lanes of a warp are in different shuffles");
        f->value = value[k ^ f->mask];
        f->state = READY;
    }
}

/* Runs a warp until its threads have ended or wait at a barrier. Returns whether they have ended.
 */
static bool run_warp(struct emulator *e, int first)
{
    for (;;) {
        int in[N_STATES] = {0};
        for (int k = 0; k < WARP; k++) {
            const int thread = first + nth(e->order / 3, k, WARP);
            if (e->fiber[thread].state == READY)
                resume(e, thread);
        }
        for (int k = 0; k < WARP; k++)
            in[e->fiber[first + k].state]++;
        emulated_thread.thread = first;
        if (in[AT_SHUFFLE] == WARP)
            shuffle(e, first);
        else if (in[AT_SHUFFLE])
            die("only some lanes of a warp take part in a shuffle");
        else if (in[ENDED] == WARP)
            return true;
        else if (in[AT_BARRIER] == WARP)
            return false;
        else
            die("only some threads of a warp reach a barrier");
    }
}

static void run_block(struct emulator *e, int n_threads)
{
    const int n_warps = n_threads / WARP;
    int n_ended;
    for (; e->n_fibers < n_threads; e->n_fibers++)
        make_fiber(e, e->n_fibers);
    for (int k = 0; k < n_threads; k++)
        e->fiber[k].state = READY;
    do {
        n_ended = 0;
        for (int w = 0; w < n_warps; w++)
            n_ended += run_warp(e, nth(e->order, w, n_warps) * WARP);
        if (n_ended && n_ended < n_warps)
            die("only some warps of a block reach a barrier");
        for (int k = 0; k < n_threads && !n_ended; k++)
            e->fiber[k].state = READY;
    } while (!n_ended);
}

void emulated_launch(void (*call)(const void *args), const void *args, int64_t n_blocks,
                     int n_threads, bool is_cooperative)
{
    static _Thread_local int n_launches;
    struct emulator *e = emulator ? emulator : (emulator = make());
    e->call = call;
    e->args = args;
    e->order = n_launches++ % N_ORDERS;
    emulated_thread.n_blocks = n_blocks;
    emulated_thread.n_threads = n_threads;
    if (is_cooperative && (n_threads % WARP || n_threads > MOST_THREADS))
        die("the number of threads of a block is not a multiple of the warp, or is too large");
    for (int64_t b = 0; b < n_blocks; b++) {
        emulated_thread.block = b;
        e->n_shared = 0;
        e->shared_used = 0;
        memset(e->memory, POISON, sizeof e->memory);
        if (is_cooperative) {
            run_block(e, n_threads);
            continue;
        }
        for (int k = 0; k < n_threads; k++) {
            emulated_thread.thread = k;
            call(args);
        }
    }
}
