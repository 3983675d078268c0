/*
 * A lock around OpenBLAS's table of work buffers, so that several threads may call OpenBLAS at the
 * same time.
 *
 * A GEMM or GEMV of OpenBLAS packs its operands into a buffer from a process-wide table. The serial
 * build of OpenBLAS has no USE_LOCKING, so it finds a free entry and marks the entry as used in
 * separate steps. Two threads may therefore get the same buffer and compute wrong results. The
 * linker (--wrap in CMakeLists.txt) puts the functions below between OpenBLAS and its table. Only
 * one thread at a time acquires or releases a buffer. All other code of OpenBLAS runs concurrently.
 */
#include "runtime/base/thread.h"

/* OpenBLAS's own functions, under the names that the linker's --wrap gives them. */
void *__real_blas_memory_alloc(int kind);
void __real_blas_memory_free(void *buffer);
void *__wrap_blas_memory_alloc(int kind);
void __wrap_blas_memory_free(void *buffer);

static struct rt_mutex table_mu = RT_MUTEX_INIT;

void *__wrap_blas_memory_alloc(int kind)
{
    rt_mutex_lock(&table_mu);
    void *buffer = __real_blas_memory_alloc(kind);
    rt_mutex_unlock(&table_mu);
    return buffer;
}

void __wrap_blas_memory_free(void *buffer)
{
    rt_mutex_lock(&table_mu);
    __real_blas_memory_free(buffer);
    rt_mutex_unlock(&table_mu);
}
