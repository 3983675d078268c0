#include "kernels/cuda/library/libraries.h"

#include "kernels/cuda/library/blas.h"
#include "kernels/cuda/library/dnn.h"
#include "kernels/cuda/driver/gpu.h"
#include "runtime/base/log.h"

void kc_libraries_init(struct kc_libraries *l)
{
    *l = (struct kc_libraries){0};
    rt_mutex_init(&l->mu);
}

void kc_libraries_clear(struct kc_libraries *l)
{
    if (l->dnn)
        l->dnn->close(l->dnn);
    if (l->blas)
        l->blas->close(l->blas);
    rt_mutex_clear(&l->mu);
}

static void log_missing(const struct cuda_gpu *g, const char *what, const char *library,
                        const struct rt_error *err)
{
    RT_LOG(RT_LOG_WARNING,
           "GPU %d: %s run on plain kernels, which are slower, because %s cannot be used: %s",
           g->device.index, what, library, rt_error_text(err));
}

struct kc_dnn *kc_dnn_of(struct cuda_gpu *g)
{
    struct kc_libraries *l = &g->libraries;
    rt_mutex_lock(&l->mu);
    if (!l->has_tried_dnn) {
        struct rt_error err = {0};
        l->has_tried_dnn = true;
        if (kc_dnn_open(&l->dnn, g, &err))
            log_missing(g, "convolutions", "cuDNN", &err);
    }
    struct kc_dnn *found = l->dnn;
    rt_mutex_unlock(&l->mu);
    return found;
}

struct kc_blas *kc_blas_of(struct cuda_gpu *g)
{
    struct kc_libraries *l = &g->libraries;
    rt_mutex_lock(&l->mu);
    if (!l->has_tried_blas) {
        struct rt_error err = {0};
        l->has_tried_blas = true;
        if (kc_blas_open(&l->blas, g, &err))
            log_missing(g, "matrix multiplications", "cuBLASLt", &err);
    }
    struct kc_blas *found = l->blas;
    rt_mutex_unlock(&l->mu);
    return found;
}
