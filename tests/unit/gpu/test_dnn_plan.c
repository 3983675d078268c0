/*
 * Tests that cuDNN has a precompiled plan for every convolution of the models in
 * tests/gpu/convolutions.txt, in each precision. cuDNN makes the plans from the description of a
 * GPU (tests/gpu/h200.json), so no GPU is needed. The tests are skipped where cuDNN is not found.
 */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <inttypes.h>

#include "kernels/cuda/library/dnn_plan.h"
#include "runtime/base/clock.h"
#include "runtime/base/sanitizer.h"

enum { MOST_CONVOLUTIONS = 256, TEXT_BYTES = 1 << 16, LINE_BYTES = 256, N_SPATIAL = 2 };

static struct dnn_library library;
static struct dnn_conv convolutions[MOST_CONVOLUTIONS];
static int n_convolutions;
static char description[TEXT_BYTES]; /* the H200's */

static const char *const precision_name[KC_N_PRECISIONS] = {"tf32", "float32", "fp16", "bf16"};

/* ---- reading ---- */

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be read", path);
    return file;
}

/* Sets the steps of the epilogue. The letter r means a residual, b a bias, and R a ReLU. */
static void set_epilogue(struct dnn_conv *c, const char *letters)
{
    c->has_residual = strchr(letters, 'r') != NULL;
    c->has_bias = strchr(letters, 'b') != NULL;
    c->has_relu = strchr(letters, 'R') != NULL;
}

static bool read_convolution(const char *line, struct dnn_conv *c)
{
    struct kn_axis *h = &c->axis[0], *w = &c->axis[1];
    char epilogue[8];
    *c = (struct dnn_conv){.n_spatial = N_SPATIAL, .groups = 1};
    h->dilation = w->dilation = 1;
    if (sscanf(line,
               "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %7s",
               &c->ci, &c->co, &h->in, &h->out, &h->size, &h->stride, &h->lo, &h->hi, &w->in,
               &w->out, &w->size, &w->stride, &w->lo, &w->hi, epilogue) != 15)
        return false;
    set_epilogue(c, epilogue);
    return true;
}

static int open_all(void **state)
{
    (void)state;
    struct rt_error err = {0};
    char line[LINE_BYTES];
    /* Loads the libraries by path, because they may be outside the library path. cuDNN then finds
     * them by name and does not load and unload libnvrtc for each device. */
    dlopen("/usr/local/cuda/lib64/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    dlopen("/usr/local/cuda/lib64/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (dnn_library_open(&library, &err)) {
        printf("SKIPPED: the plans of cuDNN: %s\n", rt_error_text(&err));
        return 0;
    }
    printf("cuDNN %zu, %s\n", library.version, library.path);
    FILE *file = open_file("tests/gpu/convolutions.txt");
    while (fgets(line, sizeof line, file)) {
        if (*line == '#')
            continue;
        assert_true(n_convolutions < MOST_CONVOLUTIONS);
        if (!read_convolution(line, &convolutions[n_convolutions++]))
            fail_msg("tests/gpu/convolutions.txt: %s", line);
    }
    fclose(file);
    file = open_file("tests/gpu/h200.json");
    description[fread(description, 1, sizeof description - 1, file)] = '\0';
    fclose(file);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    dnn_library_close(&library);
    return 0;
}

/* ---- GPUs ---- */

/* Properties that differ between GPUs, in the description that cuDNN reads. */
struct gpu {
    int version; /* 100 times the major plus 10 times the minor compute capability */
    int n_multiprocessors, most_shared_bytes, most_threads, most_blocks;
    const char *name;
};

static const struct gpu h200 = {900, 132, 232448, 2048, 32, "NVIDIA H200"};
static const struct gpu gpus[] = {
    {750, 40, 65536, 1024, 16, "Tesla T4"},
    {800, 108, 166912, 2048, 32, "NVIDIA A100-SXM4-80GB"},
    {860, 84, 101376, 1536, 16, "NVIDIA A10"},
    {890, 58, 101376, 1536, 24, "NVIDIA L4"},
    {900, 132, 232448, 2048, 32, "NVIDIA H200"},
    {1000, 148, 232448, 2048, 32, "NVIDIA B200"},
    {1200, 170, 101376, 1536, 24, "NVIDIA GeForce RTX 5090"},
};

static void replace(char *text, const char *key, const char *value)
{
    char quoted[LINE_BYTES], rest[TEXT_BYTES];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    char *at = strstr(text, quoted);
    assert_non_null(at);
    at += strlen(quoted);
    const char *end = strstr(at, ",\n");
    assert_non_null(end);
    snprintf(rest, sizeof rest, "%s", end);
    snprintf(at, TEXT_BYTES - (size_t)(at - text), "%s%s", value, rest);
}

static void replace_number(char *text, const char *key, int value)
{
    char number[16];
    snprintf(number, sizeof number, "%d", value);
    replace(text, key, number);
}

static void *describe(const struct gpu *gpu)
{
    static char text[TEXT_BYTES];
    char name[LINE_BYTES];
    struct rt_error err = {0};
    void *device = NULL;
    snprintf(text, sizeof text, "%s", description);
    snprintf(name, sizeof name, "\"%s\"", gpu->name);
    replace(text, "deviceName", name);
    replace_number(text, "deviceVer", gpu->version);
    replace_number(text, "multiProcessorCount", gpu->n_multiprocessors);
    replace_number(text, "maxSharedMemoryPerBlockOptin", gpu->most_shared_bytes);
    replace_number(text, "maxThreadsPerSM", gpu->most_threads);
    replace_number(text, "maxCtasPerSM", gpu->most_blocks);
    assert_ok(dnn_device_read(&library, text, strlen(text), &device, &err), &err);
    return device;
}

/* ---- plans ---- */

struct counts {
    int n, n_missing;
    int n_tensor_cores;
    size_t most_workspace;
};

static void ask(void *device, const struct dnn_conv *c, struct counts *counts)
{
    struct rt_error err = {0};
    struct dnn_plan *plan = NULL;
    counts->n++;
    if (dnn_plan_new(&library, device, c, &plan, &err)) {
        counts->n_missing++;
        printf("no plan: batch %d, %d to %d channels, input %dx%d, filter %dx%d, %s%s%s%s: %s\n",
               (int)c->batch, (int)c->ci, (int)c->co, (int)c->axis[0].in, (int)c->axis[1].in,
               (int)c->axis[0].size, (int)c->axis[1].size, precision_name[c->precision],
               c->has_residual ? " residual" : "", c->has_bias ? " bias" : "",
               c->has_relu ? " relu" : "", rt_error_text(&err));
        return;
    }
    assert_false(plan->is_compiled);
    const bool has_tensor_cores = plan->notes >> DNN_NOTE_TENSOR_CORE & 1;
    assert_false(has_tensor_cores && c->precision == KC_FLOAT32);
    counts->n_tensor_cores += has_tensor_cores;
    assert_true(plan->workspace_bytes <= DNN_MOST_WORKSPACE);
    if (plan->workspace_bytes > counts->most_workspace)
        counts->most_workspace = plan->workspace_bytes;
    dnn_plan_free(plan);
}

/* Asks for the plans of all convolutions. Also asks for the plan of each convolution without its
 * ReLU, because a kernel of Slipway computes the ReLU if cuDNN's ReLU loses NaN. Returns the number
 * of plans that cuDNN lacks. */
static int ask_for_models(const struct gpu *gpu, enum kc_precision precision, int64_t batch)
{
    void *device = describe(gpu);
    struct counts counts = {0};
    const int64_t start_ns = rt_now_ns();
    for (int k = 0; k < n_convolutions; k++) {
        struct dnn_conv c = convolutions[k];
        c.batch = batch;
        c.precision = precision;
        ask(device, &c, &counts);
        if (c.has_relu) {
            c.has_relu = false;
            ask(device, &c, &counts);
        }
    }
    dnn_device_free(&library, device);
    printf("%-24s sm_%-3d %-7s batch %3d: %d plans, %d missing, %d with tensor cores, "
           "workspace up to %zu bytes, %.0f ms\n",
           gpu->name, gpu->version / 10, precision_name[precision], (int)batch, counts.n,
           counts.n_missing, counts.n_tensor_cores, counts.most_workspace,
           (double)(rt_now_ns() - start_ns) / 1e6);
    return counts.n_missing;
}

static void skip_without_library(void)
{
    if (!library.library)
        skip();
}

static void convolutions_of_every_kind_have_plans(void **state)
{
    const struct kn_axis same = {.in = 28, .out = 28, .size = 3, .stride = 1, .dilation = 1, 1, 1};
    const struct kn_axis padded_after = {
        .in = 28, .out = 14, .size = 3, .stride = 2, .dilation = 1, .lo = 0, .hi = 1};
    const struct kn_axis dilated = {
        .in = 28, .out = 28, .size = 3, .stride = 1, .dilation = 2, .lo = 2, .hi = 2};
    const struct kn_axis depth = {.in = 8, .out = 8, .size = 3, .stride = 1, .dilation = 1, 1, 1};
    const struct dnn_conv kinds[] = {
        {.n_spatial = 2, .ci = 64, .co = 64, .groups = 1, .axis = {padded_after, padded_after}},
        {.n_spatial = 2, .ci = 64, .co = 64, .groups = 1, .axis = {dilated, dilated}},
        {.n_spatial = 2, .ci = 64, .co = 128, .groups = 4, .axis = {same, same}},
        {.n_spatial = 2, .ci = 64, .co = 64, .groups = 64, .axis = {same, same}},
        {.n_spatial = 2, .ci = 3, .co = 10, .groups = 1, .axis = {same, padded_after}},
        {.n_spatial = 3, .ci = 16, .co = 32, .groups = 1, .axis = {depth, same, same}},
    };
    static const char *const epilogues[] = {"", "b", "bR", "rb", "rbR"};
    (void)state;
    skip_without_library();
    void *device = describe(&h200);
    struct counts counts = {0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int p = 0; p < KC_N_PRECISIONS; p++)
            for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++) {
                struct dnn_conv c = kinds[k];
                c.batch = 4;
                c.precision = (enum kc_precision)p;
                set_epilogue(&c, epilogues[e]);
                ask(device, &c, &counts);
            }
    dnn_device_free(&library, device);
    assert_int_equal(counts.n_missing, 0);
}

static void a_convolution_that_cudnn_refuses_is_no_internal_error(void **state)
{
    const struct kn_axis wrong = {.in = 28, .out = 7, .size = 3, .stride = 1, .dilation = 1, 1, 1};
    const struct dnn_conv c = {
        .n_spatial = 2, .batch = 1, .ci = 8, .co = 8, .groups = 1, .axis = {wrong, wrong}};
    struct rt_error err = {0};
    struct dnn_plan *plan;
    (void)state;
    skip_without_library();
    void *device = describe(&h200);
    assert_fails(dnn_plan_new(&library, device, &c, &plan, &err), RT_FAILED_PRECONDITION, &err,
                 "cuDNN");
    assert_null(plan);
    dnn_device_free(&library, device);
}

/* In sanitizer builds, the tests below take several times as long, so they request fewer plans. */
static void every_convolution_of_the_models_has_a_precompiled_plan_on_an_h200(void **state)
{
    static const int64_t batches[] = {8, 1, 128};
    (void)state;
    skip_without_library();
    assert_true(n_convolutions > 150);
    for (int p = 0; p < KC_N_PRECISIONS; p++)
        for (size_t k = 0; k < (RT_HAS_SANITIZER ? 1 : 3); k++)
            assert_int_equal(ask_for_models(&h200, (enum kc_precision)p, batches[k]), 0);
}

static void every_architecture_has_precompiled_plans(void **state)
{
    (void)state;
    skip_without_library();
    for (size_t k = 0; !RT_HAS_SANITIZER && k < sizeof gpus / sizeof *gpus; k++)
        for (int p = 0; p < KC_N_PRECISIONS; p++) {
            const bool has_no_such_numbers =
                gpus[k].version < 800 && (p == KC_TF32 || p == KC_BF16);
            if (!has_no_such_numbers)
                assert_int_equal(ask_for_models(&gpus[k], (enum kc_precision)p, 8), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_every_kind_have_plans),
        cmocka_unit_test(a_convolution_that_cudnn_refuses_is_no_internal_error),
        cmocka_unit_test(every_convolution_of_the_models_has_a_precompiled_plan_on_an_h200),
        cmocka_unit_test(every_architecture_has_precompiled_plans),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
