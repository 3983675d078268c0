/*
 * A lock around OpenBLAS's table of work buffers, so that many threads may call OpenBLAS.
 *
 * A GEMM or GEMV of OpenBLAS packs its operands into a buffer that it takes from a table of the
 * whole process. The serial flavour is built without USE_LOCKING: it looks for a free entry and
 * marks it as used in two steps, so that two threads that begin at the same time may share a
 * buffer, and both results are wrong. The linker (--wrap in CMakeLists.txt) puts these functions
 * between OpenBLAS and its table: one thread at a time takes or returns a buffer, and everything
 * else of OpenBLAS runs concurrently as before.
 */
#include "runtime/base/thread.h"

/* The library's own functions, under the names that the linker gives them. */
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
