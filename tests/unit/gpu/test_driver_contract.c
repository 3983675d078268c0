/*
 * Tests the behaviour of the CUDA driver on which Slipway relies. The tests run on the fake driver
 * of tests/gpu. If SLIPWAY_REAL_DRIVER is set, they run on the machine's driver, which must behave
 * in the same way.
 */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/cuda/device/copy.h"
#include "kernels/cuda/driver/image.h"

enum {
    N = 1 << 16,
    BYTES = N * (int)sizeof(float),
    /* results that the driver must return and that kernels/cuda/driver/api.h does not declare */
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};

struct fixture {
    struct cuda_driver d;
    int device;
    struct CUctx_st *context;
    struct CUmod_st *module;
    struct CUfunc_st *copy; /* the kernel kc_copy */
    struct CUstream_st *stream;
    cuda_address a, b;
    float in[N], out[N];
};

static struct fixture *x;

/* Loads the fake driver. Afterwards, the name libcuda.so.1 refers to this driver. */
static void load_fake_driver(void)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    snprintf(strrchr(path, '/'), 64, "/../fake_cuda/libcuda.so.1");
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        fail_msg("%s", dlerror());
}

static int set_up(void **state)
{
    struct rt_error err = {0};
    (void)state;
    if (!kc_image((enum kc_module)0))
        return 0; /* without code for GPUs, there is no kernel to launch */
    if (!getenv("SLIPWAY_REAL_DRIVER"))
        load_fake_driver();
    x = calloc(1, sizeof *x);
    assert_non_null(x);
    assert_ok(cuda_driver_open(&x->d, &err), &err);
    const struct cuda_driver *d = &x->d;
    assert_int_equal(d->DeviceGet(&x->device, 0), CUDA_OK);
    assert_int_equal(d->DevicePrimaryCtxRetain(&x->context, x->device), CUDA_OK);
    assert_int_equal(d->CtxSetCurrent(x->context), CUDA_OK);
    assert_int_equal(d->ModuleLoadData(&x->module, kc_image(kc_copy_module)), CUDA_OK);
    assert_int_equal(d->ModuleGetFunction(&x->copy, x->module, "kc_copy"), CUDA_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (!x)
        return 0;
    assert_int_equal(x->d.ModuleUnload(x->module), CUDA_OK);
    assert_int_equal(x->d.DevicePrimaryCtxRelease(x->device), CUDA_OK);
    cuda_driver_close(&x->d);
    free(x);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    if (!x)
        return 0;
    assert_int_equal(x->d.StreamCreate(&x->stream, CUDA_STREAM_NON_BLOCKING), CUDA_OK);
    assert_int_equal(x->d.MemAlloc(&x->a, BYTES), CUDA_OK);
    assert_int_equal(x->d.MemAlloc(&x->b, BYTES), CUDA_OK);
    for (int i = 0; i < N; i++) {
        x->in[i] = (float)i;
        x->out[i] = -1;
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (!x)
        return 0;
    assert_int_equal(x->d.StreamSynchronize(x->stream), CUDA_OK);
    assert_int_equal(x->d.StreamDestroy(x->stream), CUDA_OK);
    assert_int_equal(x->d.MemFree(x->a), CUDA_OK);
    assert_int_equal(x->d.MemFree(x->b), CUDA_OK);
    return 0;
}

/* Returns the driver, or skips the test if the binary has no code for GPUs. */
static const struct cuda_driver *driver(void)
{
    if (!x)
        skip();
    return &x->d;
}

static int launch_copy(cuda_address to, cuda_address from, int n)
{
    struct kc_copy args = {.n = n, .rank = 1};
    args.to = (float *)(uintptr_t)to;           // NOLINT: an address in the GPU's memory
    args.from = (const float *)(uintptr_t)from; // NOLINT: an address in the GPU's memory
    args.dim[0] = n;
    args.dst[0] = args.src[0] = 1;
    void *params[] = {&args};
    return x->d.LaunchKernel(x->copy, 64, 1, 1, KC_THREADS, 1, 1, 0, x->stream, params, NULL);
}

static void assert_out_is_in(void)
{
    for (int i = 0; i < N; i++)
        if (x->out[i] != x->in[i])
            fail_msg("element %d is %g, not %g", i, (double)x->out[i], (double)x->in[i]);
}

/* ---- memory ---- */

static void memory_is_aligned_and_freed_once(void **state)
{
    const struct cuda_driver *d = driver();
    cuda_address odd[8];
    (void)state;
    for (int k = 0; k < 8; k++) {
        assert_int_equal(d->MemAlloc(&odd[k], (size_t)(2 * k + 1)), CUDA_OK);
        assert_int_equal(odd[k] % 256, 0);
    }
    for (int k = 0; k < 8; k++)
        assert_int_equal(d->MemFree(odd[k]), CUDA_OK);
    assert_int_not_equal(d->MemFree(odd[0]), CUDA_OK);
}

static void too_much_memory_is_refused(void **state)
{
    const struct cuda_driver *d = driver();
    size_t free_bytes, total;
    cuda_address a;
    (void)state;
    assert_int_equal(d->MemGetInfo(&free_bytes, &total), CUDA_OK);
    assert_true(free_bytes <= total);
    assert_int_equal(d->MemAlloc(&a, total * 2), CUDA_NO_MEMORY);
    assert_int_equal(d->MemAlloc(&a, 16), CUDA_OK);
    assert_int_equal(d->MemFree(a), CUDA_OK);
}

static void a_copy_beyond_the_end_of_memory_is_refused(void **state)
{
    const struct cuda_driver *d = driver();
    (void)state;
    assert_int_equal(d->MemcpyDtoH(x->out, x->a, BYTES + 512), INVALID_VALUE);
    assert_int_equal(d->MemcpyHtoD(x->a, x->in, BYTES + 512), INVALID_VALUE);
}

static void a_copy_is_complete_when_the_call_returns(void **state)
{
    const struct cuda_driver *d = driver();
    (void)state;
    assert_int_equal(d->MemcpyHtoD(x->a, x->in, BYTES), CUDA_OK);
    assert_int_equal(d->MemcpyDtoH(x->out, x->a, BYTES), CUDA_OK);
    assert_out_is_in();
}

/* ---- streams ---- */

static void a_stream_works_in_order(void **state)
{
    const struct cuda_driver *d = driver();
    (void)state;
    assert_int_equal(d->MemcpyHtoDAsync(x->a, x->in, BYTES, x->stream), CUDA_OK);
    assert_int_equal(launch_copy(x->b, x->a, N), CUDA_OK);
    assert_int_equal(d->MemcpyDtoDAsync(x->a, x->b, BYTES, x->stream), CUDA_OK);
    assert_int_equal(d->MemcpyDtoHAsync(x->out, x->a, BYTES, x->stream), CUDA_OK);
    assert_int_equal(d->StreamSynchronize(x->stream), CUDA_OK);
    assert_out_is_in();
}

/* After the answer that the stream is done, all results are there. */
static void a_stream_says_when_its_work_is_done(void **state)
{
    const struct cuda_driver *d = driver();
    int result, n_busy = 0;
    (void)state;
    assert_int_equal(d->StreamQuery(x->stream), CUDA_OK);
    for (int k = 0; k < 100; k++) {
        assert_int_equal(d->MemcpyHtoDAsync(x->a, x->in, BYTES, x->stream), CUDA_OK);
        assert_int_equal(launch_copy(x->b, x->a, N), CUDA_OK);
        while ((result = d->StreamQuery(x->stream)) == CUDA_NOT_READY)
            n_busy++;
        assert_int_equal(result, CUDA_OK);
        assert_int_equal(d->MemcpyDtoH(x->out, x->b, BYTES), CUDA_OK);
        assert_out_is_in();
        x->in[k] = -2;
    }
    assert_true(n_busy > 0);
}

static void the_parameter_of_a_launch_is_copied(void **state)
{
    const struct cuda_driver *d = driver();
    (void)state;
    assert_int_equal(d->MemcpyHtoD(x->a, x->in, BYTES), CUDA_OK);
    struct kc_copy args = {.n = N, .rank = 1, .dim = {N}, .dst = {1}, .src = {1}};
    args.to = (float *)(uintptr_t)x->b;         // NOLINT: an address in the GPU's memory
    args.from = (const float *)(uintptr_t)x->a; // NOLINT: an address in the GPU's memory
    void *params[] = {&args};
    assert_int_equal(
        d->LaunchKernel(x->copy, 64, 1, 1, KC_THREADS, 1, 1, 0, x->stream, params, NULL), CUDA_OK);
    memset(&args, 0, sizeof args);
    assert_int_equal(d->StreamSynchronize(x->stream), CUDA_OK);
    assert_int_equal(d->MemcpyDtoH(x->out, x->b, BYTES), CUDA_OK);
    assert_out_is_in();
}

/* ---- graphs ---- */

static struct CUgraphExec_st *capture_copies(void)
{
    const struct cuda_driver *d = &x->d;
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    assert_int_equal(d->StreamBeginCapture(x->stream, CUDA_CAPTURE_THREAD_LOCAL), CUDA_OK);
    assert_int_equal(launch_copy(x->b, x->a, N), CUDA_OK);
    assert_int_equal(d->MemcpyDtoDAsync(x->a, x->b, BYTES / 2, x->stream), CUDA_OK);
    assert_int_equal(d->StreamEndCapture(x->stream, &graph), CUDA_OK);
    assert_non_null(graph);
    assert_int_equal(d->GraphInstantiateWithFlags(&exec, graph, 0), CUDA_OK);
    assert_int_equal(d->GraphDestroy(graph), CUDA_OK);
    return exec;
}

/* Captured work does not run before the graph is launched. Each launch reads the current contents
 * of the memory. */
static void captured_work_runs_at_each_launch(void **state)
{
    const struct cuda_driver *d = driver();
    (void)state;
    memset(x->out, 0, sizeof x->out);
    assert_int_equal(d->MemcpyHtoD(x->a, x->in, BYTES), CUDA_OK);
    assert_int_equal(d->MemcpyHtoD(x->b, x->out, BYTES), CUDA_OK);
    struct CUgraphExec_st *exec = capture_copies();
    assert_int_equal(d->StreamSynchronize(x->stream), CUDA_OK);
    assert_int_equal(d->MemcpyDtoH(x->out, x->b, BYTES), CUDA_OK);
    for (int i = 0; i < N; i++)
        assert_true(x->out[i] == 0);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++)
            x->in[i] = (float)(i + k);
        assert_int_equal(d->MemcpyHtoDAsync(x->a, x->in, BYTES, x->stream), CUDA_OK);
        assert_int_equal(d->GraphLaunch(exec, x->stream), CUDA_OK);
        assert_int_equal(d->MemcpyDtoHAsync(x->out, x->b, BYTES, x->stream), CUDA_OK);
        assert_int_equal(d->StreamSynchronize(x->stream), CUDA_OK);
        assert_out_is_in();
    }
    assert_int_equal(d->GraphExecDestroy(exec), CUDA_OK);
}

static void a_forbidden_call_ends_a_capture(void **state)
{
    const struct cuda_driver *d = driver();
    struct CUgraph_st *graph = NULL;
    (void)state;
    assert_int_equal(d->StreamBeginCapture(x->stream, CUDA_CAPTURE_THREAD_LOCAL), CUDA_OK);
    assert_int_equal(launch_copy(x->b, x->a, N), CUDA_OK);
    assert_int_equal(d->StreamSynchronize(x->stream), CAPTURE_UNSUPPORTED);
    assert_int_equal(d->StreamEndCapture(x->stream, &graph), CAPTURE_INVALIDATED);
    assert_null(graph);
    a_stream_works_in_order(state);
}

/* A second thread that uses the GPU while the test's thread captures a stream, and the results of
 * the second thread's calls. */
struct other {
    pthread_t thread;
    int current, alloc, copy, free;
};

static void *use_the_device(void *arg)
{
    struct other *o = arg;
    cuda_address a = 0;
    o->current = x->d.CtxSetCurrent(x->context);
    o->alloc = x->d.MemAlloc(&a, 4096);
    o->copy = x->d.MemcpyHtoD(a, x->in, 4096);
    o->free = x->d.MemFree(a);
    return NULL;
}

static void other_threads_may_do_all_during_a_capture(void **state)
{
    const struct cuda_driver *d = driver();
    struct CUgraph_st *graph = NULL;
    struct other o;
    (void)state;
    assert_int_equal(d->StreamBeginCapture(x->stream, CUDA_CAPTURE_THREAD_LOCAL), CUDA_OK);
    assert_int_equal(pthread_create(&o.thread, NULL, use_the_device, &o), 0);
    pthread_join(o.thread, NULL);
    assert_int_equal(launch_copy(x->b, x->a, N), CUDA_OK);
    assert_int_equal(d->StreamEndCapture(x->stream, &graph), CUDA_OK);
    assert_int_equal(d->GraphDestroy(graph), CUDA_OK);
    assert_int_equal(o.current, CUDA_OK);
    assert_int_equal(o.alloc, CUDA_OK);
    assert_int_equal(o.copy, CUDA_OK);
    assert_int_equal(o.free, CUDA_OK);
}

/* ---- errors ---- */

static void *alloc_without_context(void *arg)
{
    cuda_address a = 0;
    *(int *)arg = x->d.MemAlloc(&a, 16);
    return NULL;
}

static void a_thread_without_a_context_is_refused(void **state)
{
    pthread_t thread;
    int result = CUDA_OK;
    (void)state;
    driver();
    assert_int_equal(pthread_create(&thread, NULL, alloc_without_context, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, INVALID_CONTEXT);
}

static void an_unknown_kernel_is_not_found(void **state)
{
    const struct cuda_driver *d = driver();
    struct CUfunc_st *function = NULL;
    (void)state;
    assert_int_equal(d->ModuleGetFunction(&function, x->module, "kc_no_such_kernel"), NOT_FOUND);
}

static void a_launch_of_too_many_threads_is_refused(void **state)
{
    const struct cuda_driver *d = driver();
    struct kc_copy args = {0};
    void *params[] = {&args};
    (void)state;
    assert_int_equal(d->LaunchKernel(x->copy, 1, 1, 1, 2048, 1, 1, 0, x->stream, params, NULL),
                     INVALID_VALUE);
    assert_int_equal(d->LaunchKernel(x->copy, 0, 1, 1, 32, 1, 1, 0, x->stream, params, NULL),
                     INVALID_VALUE);
    a_stream_works_in_order(state);
}

static void results_have_names_and_texts(void **state)
{
    const struct cuda_driver *d = driver();
    const char *text = NULL;
    (void)state;
    assert_int_equal(d->GetErrorName(CUDA_NO_MEMORY, &text), CUDA_OK);
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_int_equal(d->GetErrorString(CUDA_NO_MEMORY, &text), CUDA_OK);
    assert_true(*text);
    assert_int_equal(d->GetErrorName(123456, &text), INVALID_VALUE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(memory_is_aligned_and_freed_once),
        TEST(too_much_memory_is_refused),
        TEST(a_copy_beyond_the_end_of_memory_is_refused),
        TEST(a_copy_is_complete_when_the_call_returns),
        TEST(a_stream_works_in_order),
        TEST(a_stream_says_when_its_work_is_done),
        TEST(the_parameter_of_a_launch_is_copied),
        TEST(captured_work_runs_at_each_launch),
        TEST(a_forbidden_call_ends_a_capture),
        TEST(other_threads_may_do_all_during_a_capture),
        TEST(a_thread_without_a_context_is_refused),
        TEST(an_unknown_kernel_is_not_found),
        TEST(a_launch_of_too_many_threads_is_refused),
        TEST(results_have_names_and_texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
