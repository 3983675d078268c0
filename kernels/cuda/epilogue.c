#include "kernels/cuda/epilogue.h"

#include "kernels/cuda/device/finish.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/vector.h"
#include "kernels/fused/epilogue.h"

bool kc_epilogue_can(const struct rt_prep *p)
{
    struct kn_epilogue e;
    size_t broadcast_bytes;
    return kn_epilogue_prepare(&e, p, &broadcast_bytes) == RT_OK && !e.broadcast_residual;
}

static const float *operand(const struct rt_epilogue *e, const struct rt_run *r, int which)
{
    return e->in[which] ? r->in[e->in[which]].data : NULL;
}

struct kc_epilogue kc_epilogue_bind(const struct rt_epilogue *e, const struct rt_run *r)
{
    return (struct kc_epilogue){.mul = operand(e, r, RT_EPILOGUE_MUL),
                                .add = operand(e, r, RT_EPILOGUE_ADD),
                                .residual = operand(e, r, RT_EPILOGUE_RESIDUAL),
                                .act = (int32_t)e->act,
                                .alpha = e->alpha};
}

int kc_epilogue_width(const struct kc_epilogue *e, const void *out, int64_t columns)
{
    const bool is_aligned = kc_is_aligned(e->mul) && kc_is_aligned(e->add) &&
                            kc_is_aligned(e->residual) && kc_is_aligned(out);
    return columns % 4 == 0 && is_aligned ? 4 : 1;
}

bool kc_epilogue_is_left(const struct rt_epilogue *e, const struct kc_epilogue_part *done)
{
    return (e->in[RT_EPILOGUE_MUL] && !done->has_mul) ||
           (e->in[RT_EPILOGUE_ADD] && !done->has_add) ||
           (e->in[RT_EPILOGUE_RESIDUAL] && !done->has_residual) ||
           (e->act != RT_ACT_NONE && !done->has_act);
}

enum rt_status kc_epilogue_residual(const struct rt_epilogue *e, const struct rt_run *r, void *copy,
                                    const void **residual)
{
    const struct cuda_stream *stream = r->stream;
    const struct cuda_driver *d = stream->gpu->driver;
    *residual = operand(e, r, RT_EPILOGUE_RESIDUAL);
    if (!*residual || *residual != r->out[0].data)
        return RT_OK;
    const int result =
        d->MemcpyDtoDAsync((cuda_address)(uintptr_t)copy, (cuda_address)(uintptr_t)*residual,
                           rt_tensor_bytes(&r->out[0]), stream->handle);
    *residual = copy;
    return result ? cuda_fail(d, result, "a copy of a residual", r->err) : RT_OK;
}

enum rt_status kc_epilogue_finish(const struct rt_epilogue *e, const struct kc_epilogue_part *done,
                                  const struct rt_run *r, const void *residual)
{
    const struct rt_tensor *out = &r->out[0];
    struct kc_finish f = {.data = out->data,
                          .n = rt_tensor_count(out),
                          .columns = out->dim[out->rank - 1],
                          .epilogue = kc_epilogue_bind(e, r)};
    f.epilogue.residual = done->has_residual ? NULL : residual;
    if (done->has_mul)
        f.epilogue.mul = NULL;
    if (done->has_add)
        f.epilogue.add = NULL;
    if (done->has_act)
        f.epilogue.act = RT_ACT_NONE;
    f.width = kc_epilogue_width(&f.epilogue, f.data, f.columns);
    return cuda_launch(r->stream, kc_finish_module, cuda_blocks(f.n / f.width), &f, r->err);
}
