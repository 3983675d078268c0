/*
 * Compiles the device code in kernels/cuda as C, and runs its kernels on the host. The build
 * includes this header before each source of device code. The header defines the macros of
 * kernels/cuda/device/device_code.h.
 *
 * The blocks of a launch run one after another. The threads of a block are fibers: a thread runs
 * until it ends, waits at a barrier or takes part in a shuffle. A warp runs as far as it can before
 * the next warp runs. The order of the warps, and of the lanes in a warp, changes from launch to
 * launch. Shared memory is poisoned when a block begins. A missing barrier therefore changes a
 * result, and a barrier or shuffle that some threads do not reach ends the process with a message.
 *
 * Addresses in the memory of the fake driver are not accessible. KC_ADDRESS turns such an address
 * into the address of the same byte in an accessible mapping.
 *
 * Threads: several threads of the host may run launches at the same time. All state of a launch is
 * thread-local.
 */
#ifndef TESTS_GPU_EMULATION_H
#define TESTS_GPU_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the position of the running thread */
struct emulated_thread {
    int64_t block, n_blocks;
    int thread, n_threads; /* index of the thread in its block, and number of threads per block */
};
extern _Thread_local struct emulated_thread emulated_thread;
/* the distance, in bytes, from an address of the fake driver to the same byte on the host */
extern intptr_t emulated_distance;

/*
 * Runs `call(args)` once for each thread of the grid. Kernels that use neither barriers nor
 * shuffles may pass false for `is_cooperative`. Their threads then run without fibers, which is
 * faster.
 */
void emulated_launch(void (*call)(const void *args), const void *args, int64_t n_blocks,
                     int n_threads, bool is_cooperative);

/* Frees the memory that the calling thread's launches have allocated. */
void emulated_end(void);

/* Returns the `bytes` bytes of the block's shared memory that hold the variable identified by
 * `key`. */
void *emulated_shared(const void *key, size_t bytes);
/* Waits until all threads of the block have called the function. */
void emulated_barrier(void);
/* Returns the value that lane `lane ^ mask` of the warp passed to the same call. */
float emulated_shuffle_xor(float value, int mask);

#define KC_KERNEL(name, type, args)                                                                \
    void name(struct type args);                                                                   \
    void name(struct type args)
#define KC_KERNEL_RESIDENT(name, type, args, n) KC_KERNEL(name, type, args)
#define KC_DEVICE                               static inline
#define KC_UNROLL
#define KC_ALIGNED(n)    __attribute__((aligned(n)))
#define KC_ADDRESS(p)    ((__typeof__(p))((intptr_t)(p) + emulated_distance))
#define KC_BLOCK         (emulated_thread.block)
#define KC_N_BLOCKS      (emulated_thread.n_blocks)
#define KC_THREAD        (emulated_thread.thread)
#define KC_BLOCK_THREADS (emulated_thread.n_threads)
#define KC_SHARED(type, name, n)                                                                   \
    static const char name##_key;                                                                  \
    type *name = emulated_shared(&name##_key, (n) * sizeof(type))
#define KC_BARRIER()                emulated_barrier()
#define KC_SHUFFLE_XOR(value, mask) emulated_shuffle_xor(value, mask)

#endif
