/*
 * Compares two convolution kernels on the layers of real networks: oneDNN's direct convolution, and
 * Slipway's Winograd convolution with tiles of 2x2 and 4x4 outputs. Prints milliseconds and
 * effective GFLOP/s on one core; the GFLOP/s count the operations of the direct convolution.
 *
 *   conv_speed NETWORK [BATCH [ROUNDS]]     resnet50, vgg19, inceptionv3
 *
 * The kernels run alternately, and the result is that of the round in which the thread used the
 * least CPU time. Between runs, the second-level cache is filled with other data, as other layers
 * would fill it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/dnnl.h"
#include "kernels/conv/winograd.h"

struct layer {
    const char *net;
    int n, side, ci, out, co, kh, kw, stride;
};

static const struct layer layers[] = {
    {"resnet50", 1, 230, 3, 112, 64, 7, 7, 2},      {"resnet50", 1, 56, 64, 56, 64, 1, 1, 1},
    {"resnet50", 3, 56, 64, 56, 64, 3, 3, 1},       {"resnet50", 4, 56, 64, 56, 256, 1, 1, 1},
    {"resnet50", 2, 56, 256, 56, 64, 1, 1, 1},      {"resnet50", 1, 56, 256, 28, 128, 1, 1, 2},
    {"resnet50", 4, 28, 128, 28, 128, 3, 3, 1},     {"resnet50", 1, 56, 256, 28, 512, 1, 1, 2},
    {"resnet50", 4, 28, 128, 28, 512, 1, 1, 1},     {"resnet50", 3, 28, 512, 28, 128, 1, 1, 1},
    {"resnet50", 1, 28, 512, 14, 256, 1, 1, 2},     {"resnet50", 6, 14, 256, 14, 256, 3, 3, 1},
    {"resnet50", 1, 28, 512, 14, 1024, 1, 1, 2},    {"resnet50", 6, 14, 256, 14, 1024, 1, 1, 1},
    {"resnet50", 5, 14, 1024, 14, 256, 1, 1, 1},    {"resnet50", 1, 14, 1024, 7, 512, 1, 1, 2},
    {"resnet50", 3, 7, 512, 7, 512, 3, 3, 1},       {"resnet50", 1, 14, 1024, 7, 2048, 1, 1, 2},
    {"resnet50", 3, 7, 512, 7, 2048, 1, 1, 1},      {"resnet50", 2, 7, 2048, 7, 512, 1, 1, 1},
    {"vgg19", 1, 224, 3, 224, 64, 3, 3, 1},         {"vgg19", 1, 224, 64, 224, 64, 3, 3, 1},
    {"vgg19", 1, 112, 64, 112, 128, 3, 3, 1},       {"vgg19", 1, 112, 128, 112, 128, 3, 3, 1},
    {"vgg19", 1, 56, 128, 56, 256, 3, 3, 1},        {"vgg19", 3, 56, 256, 56, 256, 3, 3, 1},
    {"vgg19", 1, 28, 256, 28, 512, 3, 3, 1},        {"vgg19", 3, 28, 512, 28, 512, 3, 3, 1},
    {"vgg19", 4, 14, 512, 14, 512, 3, 3, 1},        {"inceptionv3", 1, 299, 3, 149, 32, 3, 3, 2},
    {"inceptionv3", 1, 149, 32, 147, 32, 3, 3, 1},  {"inceptionv3", 1, 147, 32, 147, 64, 3, 3, 1},
    {"inceptionv3", 1, 73, 64, 73, 80, 1, 1, 1},    {"inceptionv3", 1, 73, 80, 71, 192, 3, 3, 1},
    {"inceptionv3", 12, 35, 288, 35, 64, 1, 1, 1},  {"inceptionv3", 4, 35, 64, 35, 96, 3, 3, 1},
    {"inceptionv3", 3, 35, 48, 35, 64, 5, 5, 1},    {"inceptionv3", 3, 35, 96, 35, 96, 3, 3, 1},
    {"inceptionv3", 1, 35, 288, 17, 384, 3, 3, 2},  {"inceptionv3", 1, 35, 96, 17, 96, 3, 3, 2},
    {"inceptionv3", 18, 17, 768, 17, 192, 1, 1, 1}, {"inceptionv3", 3, 17, 128, 17, 128, 7, 1, 1},
    {"inceptionv3", 3, 17, 128, 17, 128, 1, 7, 1},  {"inceptionv3", 6, 17, 160, 17, 160, 7, 1, 1},
    {"inceptionv3", 6, 17, 160, 17, 160, 1, 7, 1},  {"inceptionv3", 4, 17, 192, 17, 192, 7, 1, 1},
    {"inceptionv3", 4, 17, 192, 17, 192, 1, 7, 1},  {"inceptionv3", 2, 17, 192, 8, 320, 3, 3, 2},
    {"inceptionv3", 2, 8, 448, 8, 384, 3, 3, 1},    {"inceptionv3", 4, 8, 384, 8, 384, 1, 3, 1},
    {"inceptionv3", 4, 8, 384, 8, 384, 3, 1, 1},    {"inceptionv3", 8, 8, 2048, 8, 320, 1, 1, 1},
};

enum { N_FORMS = 3, EVICT = 8 << 20 };
static const char *const form_name[N_FORMS] = {"direct", "wino2", "wino4"};

struct form {
    bool on;
    struct kn_dnnl dnnl;
    struct kn_winograd w;
    float *filter;
    void *scratch;
    double best_ms;
};

static void give_up(const char *what)
{
    fprintf(stderr, "conv_speed: %s\n", what);
    exit(1);
}

static void *alloc_aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p)
        give_up("out of memory");
    return p;
}

static float *random_floats(size_t n)
{
    static uint32_t x = 1;
    float *p = alloc_aligned(n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (float)(x >> 8) / (1 << 23) - 1;
    }
    return p;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int64_t pad_before(const struct layer *l, int size)
{
    const int64_t all = (int64_t)(l->out - 1) * l->stride + size - l->side;
    return all > 0 ? all / 2 : 0;
}

static void make_direct(struct form *f, const struct layer *l, int64_t batch)
{
    dnnl_memory_desc_t src, filter, dst;
    dnnl_convolution_desc_t d;
    dnnl_dims_t sd = {batch, l->ci, l->side, l->side}, dd = {batch, l->co, l->out, l->out};
    dnnl_dims_t fd = {l->co, l->ci, l->kh, l->kw}, stride = {l->stride, l->stride};
    dnnl_dims_t no = {0, 0}, lo = {pad_before(l, l->kh), pad_before(l, l->kw)}, hi;
    for (int i = 0; i < 2; i++) {
        const int64_t all = (int64_t)(l->out - 1) * l->stride + (i ? l->kw : l->kh) - l->side;
        hi[i] = all - lo[i];
    }
    dnnl_memory_desc_init_by_tag(&src, 4, sd, dnnl_f32, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&dst, 4, dd, dnnl_f32, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&filter, 4, fd, dnnl_f32, dnnl_format_tag_any);
    if (dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference,
                                                   dnnl_convolution_direct, &src, &filter, NULL,
                                                   &dst, stride, no, lo, hi) ||
        kn_dnnl_make(&f->dnnl, &d, NULL))
        give_up("oneDNN does not make a layer");
    f->dnnl.n = 3;
    f->dnnl.arg[0] = DNNL_ARG_SRC;
    f->dnnl.arg[1] = DNNL_ARG_WEIGHTS;
    f->dnnl.arg[2] = DNNL_ARG_DST;
    f->dnnl.md[0] = src;
    f->dnnl.md[1] = kn_dnnl_md(&f->dnnl, DNNL_ARG_WEIGHTS);
    f->dnnl.md[2] = dst;
    f->filter = random_floats(dnnl_memory_desc_get_size(&f->dnnl.md[1]) / sizeof(float));
    f->scratch = alloc_aligned(f->dnnl.scratch_bytes);
    f->on = true;
}

static void make_winograd(struct form *f, const struct layer *l, int64_t batch, int m)
{
    if (l->kh != 3 || l->kw != 3 || l->stride != 1)
        return;
    f->w = (struct kn_winograd){
        .m = m,
        .in_h = l->side,
        .in_w = l->side,
        .top = pad_before(l, 3),
        .left = pad_before(l, 3),
        .tiles = {.batch = batch, .out_h = l->out, .out_w = l->out, .ci = l->ci, .co = l->co}};
    f->on = kn_winograd_init(&f->w);
    if (!f->on)
        return;
    f->filter = random_floats(kn_winograd_tiles_pack_bytes(&f->w.tiles) / sizeof(float));
    f->scratch = alloc_aligned(kn_winograd_scratch_bytes(&f->w));
}

static void run_form(struct form *f, const float *x, float *y)
{
    static char *other;
    struct rt_error err = {.arena = NULL};
    if (!other)
        other = calloc(1, EVICT);
    for (size_t i = 0; i < EVICT && other; i += 64)
        other[i]++;
    const double from = cpu_ms();
    if (f->w.m) {
        const struct kn_winograd_post_ops none = {.finish = NULL};
        for (int64_t i = 0; i < kn_winograd_tiles_blocks(&f->w.tiles); i++)
            kn_winograd_run_block(&f->w, x, f->filter, y, i, f->scratch, &none);
    } else {
        const void *data[] = {x, f->filter, y};
        if (kn_dnnl_run(&f->dnnl, data, f->scratch, &err, "layer"))
            give_up(rt_error_text(&err));
    }
    const double took = cpu_ms() - from;
    if (took < f->best_ms)
        f->best_ms = took;
}

static double one_layer(const struct layer *l, int64_t batch, int rounds, double *direct)
{
    struct form form[N_FORMS] = {{.best_ms = 1e9}, {.best_ms = 1e9}, {.best_ms = 1e9}};
    float *x = random_floats((size_t)(batch * l->side * l->side * l->ci));
    float *y = random_floats((size_t)(batch * l->out * l->out * l->co));
    const double flops = 2.0 * (double)batch * l->out * l->out * l->co * l->kh * l->kw * l->ci;
    double best = 1e9;

    make_direct(&form[0], l, batch);
    make_winograd(&form[1], l, batch, 2);
    make_winograd(&form[2], l, batch, 4);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N_FORMS; i++)
            if (form[i].on)
                run_form(&form[i], x, y);
    printf("%3d x %4dx%-4d %4d -> %4d %dx%d/%d ", l->n, l->side, l->side, l->ci, l->co, l->kh,
           l->kw, l->stride);
    for (int i = 0; i < N_FORMS; i++) {
        if (!form[i].on)
            continue;
        printf("  %s %8.3f ms %4.0f", form_name[i], form[i].best_ms, flops / form[i].best_ms / 1e6);
        if (form[i].best_ms < best)
            best = form[i].best_ms;
        free(form[i].filter);
        free(form[i].scratch);
    }
    putchar('\n');
    kn_dnnl_clear(&form[0].dnnl);
    free(x);
    free(y);
    *direct += l->n * form[0].best_ms;
    return l->n * best;
}

int main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "resnet50";
    const int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 1;
    const int rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 20;
    double direct = 0, best = 0;

    if (batch < 1 || rounds < 1 || !kn_dnnl_engine())
        give_up("usage: conv_speed NETWORK [BATCH [ROUNDS]]");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (strcmp(layers[i].net, net) == 0)
            best += one_layer(&layers[i], batch, rounds, &direct);
    printf("%s, batch %d: all direct %.2f ms, the best of each %.2f ms\n", net, (int)batch, direct,
           best);
    return 0;
}
