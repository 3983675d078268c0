/* Tests copies outside regions (kernels/cuda/driver/copier.h) on the fake driver. */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "kernels/cuda/driver/gpus.h"
#include "kernels/cuda/driver/image.h"

enum { BYTES = (9 << 20) + 5, N_THREADS = 6 };

static struct rt_accelerators gpus;

static bool has_device_code(void)
{
    return kc_image((enum kc_module)0) != NULL;
}

/* Loads the fake driver, to which the name libcuda.so.1 then refers, and opens its GPU. */
static struct rt_device *open_gpu(int64_t hang_ns)
{
    const struct rt_accelerator_options options = {
        .which = "all", .n_streams = 1, .hang_ns = hang_ns};
    struct rt_error err = {0};
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    snprintf(strrchr(path, '/'), 64, "/../fake_cuda/libcuda.so.1");
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        fail_msg("%s", dlerror());
    assert_ok(cuda_gpus_open(&gpus, &options, &err), &err);
    return gpus.device[0];
}

struct copying {
    pthread_t thread;
    struct rt_device *device;
    unsigned char first; /* first byte of the thread's data */
    bool is_equal;
};

/* Copies bytes to the GPU, within it and back. */
static void *copy_bytes(void *arg)
{
    struct copying *c = arg;
    struct rt_device *d = c->device;
    struct rt_error err = {0};
    unsigned char *in = malloc(BYTES), *out = calloc(1, BYTES);
    void *a = d->alloc(d, BYTES), *b = d->alloc(d, BYTES);
    for (int i = 0; in && i < BYTES; i++)
        in[i] = (unsigned char)(c->first + i % 251);
    c->is_equal = in && out && a && b && !d->copy(d, RT_COPY_IN, a, in, BYTES, &err) &&
                  !d->copy(d, RT_COPY_WITHIN, b, a, BYTES, &err) &&
                  !d->copy(d, RT_COPY_OUT, out, b, BYTES, &err) && memcmp(in, out, BYTES) == 0;
    d->free(d, a);
    d->free(d, b);
    free(in);
    free(out);
    return NULL;
}

static void threads_copy_at_the_same_time(void **state)
{
    (void)state;
    struct copying c[N_THREADS];
    if (!has_device_code())
        skip();
    struct rt_device *d = open_gpu(0);
    for (int k = 0; k < N_THREADS; k++) {
        c[k] = (struct copying){.device = d, .first = (unsigned char)k};
        assert_int_equal(pthread_create(&c[k].thread, NULL, copy_bytes, &c[k]), 0);
    }
    for (int k = 0; k < N_THREADS; k++) {
        pthread_join(c[k].thread, NULL);
        assert_true(c[k].is_equal);
    }
    gpus.close(&gpus);
}

/* The first copy never ends. The thread that waits for it, and later ones, give up. */
static void a_copy_on_a_gpu_that_hangs_fails(void **state)
{
    static float in[8], out[8];
    (void)state;
    if (!has_device_code())
        skip();
    setenv("FAKE_CUDA_HANG", "1", 1);
    struct rt_device *d = open_gpu(1);
    struct rt_error err = {0};
    void *a = d->alloc(d, sizeof in);
    assert_non_null(a);
    assert_int_equal(d->copy(d, RT_COPY_IN, a, in, sizeof in, &err), RT_UNAVAILABLE);
    assert_non_null(strstr(rt_error_text(&err), "it hangs"));
    assert_true(atomic_load(&d->has_failed));
    assert_int_equal(d->copy(d, RT_COPY_OUT, out, a, sizeof out, &err), RT_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_copy_at_the_same_time),
        cmocka_unit_test(a_copy_on_a_gpu_that_hangs_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
