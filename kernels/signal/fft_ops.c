/*
 * FFT, IFFT, RFFT and IRFFT over the last one, two or three axes. As in TensorFlow, inverse
 * transforms are divided by the number of points, and forward transforms are not scaled.
 */
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/signal/fft.h"
#include "kernels/signal/real_fft.h"

enum { AXES = 3, LENGTH = 1 /* input */ };

static int axes_of(const struct rt_node *n)
{
    const char *const name = n->op->name;
    return strstr(name, "3D") ? 3 : strstr(name, "2D") ? 2 : 1;
}
static bool is_inverse(const struct rt_node *n)
{
    return n->op->name[0] == 'I';
}
static bool is_real(const struct rt_node *n)
{
    return n->op->name[is_inverse(n)] == 'R';
}

/* ---- shapes ---- */

static enum rt_status check_rank(struct rt_infer *x, int axes)
{
    const struct rt_shape *s = &x->in[0].shape;
    char text[160];

    if (s->rank < 0 || s->rank >= axes)
        return RT_OK;
    return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input must have rank of at least %d but got: %s",
                   axes, rt_shape_text(text, sizeof text, s->rank, s->dim));
}

static enum rt_status complex_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return check_rank(x, axes_of(x->node));
}

/* Checks that the input's dimension `axis` is not below the length of a transform. As in
 * TensorFlow, a dimension of 0 passes. */
static enum rt_status check_length(struct rt_infer *x, int axis, int64_t need)
{
    const struct rt_shape *s = &x->in[0].shape;

    if (s->dim[axis] <= 0 || s->dim[axis] >= need)
        return RT_OK;
    return rt_fail(x->err, RT_INVALID_ARGUMENT,
                   "Input dimension %d must have length of at least %lld but got: %lld", axis,
                   (long long)need, (long long)s->dim[axis]);
}

static enum rt_status real_infer(struct rt_infer *x)
{
    const int axes = axes_of(x->node);
    const bool inverse = is_inverse(x->node);
    const struct rt_shape *s = &x->in[0].shape, *l = &x->in[LENGTH].shape;
    const bool wide_in = x->in[0].dtype == RT_F64 || x->in[0].dtype == RT_C128;
    const bool wide_out = x->out[0].dtype == RT_F64 || x->out[0].dtype == RT_C128;
    int64_t length[AXES];

    if (wide_in != wide_out)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Wrong types for %s real FFT: in=%d out=%d",
                       inverse ? "backward" : "forward", (int)x->in[0].dtype, (int)x->out[0].dtype);
    const enum rt_status st = check_rank(x, axes);
    if (st)
        return st;
    if (l->rank >= 0 && (l->rank != 1 || (l->dim[0] >= 0 && l->dim[0] != axes)))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "fft_length must have shape [%d]", axes);
    if (s->rank < 0)
        return RT_OK;
    x->out[0].shape = *s;
    for (int i = 0; i < axes; i++)
        x->out[0].shape.dim[s->rank - axes + i] = -1;
    const struct rt_tensor *value = x->in[LENGTH].value;
    if (!value || kn_ints(value, length, axes) != axes)
        return RT_OK;
    for (int i = 0; i < axes; i++) {
        const bool last = i == axes - 1;
        const int axis = s->rank - axes + i;
        if (length[i] < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "fft_length[%d] must >= 0, but got: %lld",
                           i, (long long)length[i]);
        /* As in TensorFlow, a spectrum of length 0 is empty. */
        x->out[0].shape.dim[axis] = last && !inverse && length[i] ? length[i] / 2 + 1 : length[i];
        const int64_t need = last && inverse ? length[i] / 2 + 1 : length[i];
        const enum rt_status bad = check_length(x, axis, need);
        if (bad)
            return bad;
    }
    return RT_OK;
}

static void fft_rows(struct rt_rows *r)
{
    const struct rt_dep in = r->in_dep[0];
    const int outer = r->in[0].shape.rank - axes_of(r->node);

    if (r->n_in > 1 && r->in_dep[LENGTH].kind != RT_DEP_NONE)
        return;
    if (in.kind == RT_DEP_NONE || (in.kind == RT_DEP_ROWS && in.axis < outer))
        r->out_dep[0] = in;
}

/* ---- plans ---- */

struct state {
    int axes;
    bool inverse, real, wide;
    int64_t batch;
    int64_t in[AXES], out[AXES]; /* lengths of the axes */
    int64_t n[AXES];             /* number of points of the transforms along each axis */
    struct kn_fft plan[AXES];    /* the last plan is not used if the transform is real */
    struct kn_real_fft last;
    double scale;
    /* Size, in bytes, of the scratch memory of the transforms. An inverse transform also stores its
     * spectrum, after this memory. */
    size_t scratch;
};

/* Plans one axis. In a real transform, the last axis has a plan of its own. The other axes are
 * transformed as complex numbers, after the last axis in a forward transform and before it in an
 * inverse one. */
static int64_t plan_axis(struct state *s, int axis, int64_t spectrum)
{
    const bool last = axis == s->axes - 1;
    int64_t inner = 1, rows = s->batch;

    for (int i = axis + 1; i < s->axes; i++)
        inner *= s->real && i == s->axes - 1 ? spectrum : s->n[i];
    for (int i = 0; i < axis; i++)
        rows *= s->n[i];
    if (last && s->real)
        return kn_real_fft_size(&s->last, s->n[axis], rows, s->wide);
    return kn_fft_size(&s->plan[axis], s->n[axis], last ? rows : inner, s->wide);
}

static enum rt_status fft_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *in = &p->in[0].shape, *out = &p->out[0].shape;
    struct state *s = rt_prep_alloc(p, sizeof *s);
    int64_t bytes[AXES], scratch = 0, count = 1;

    *state = s;
    if (!s || !kn_shape_known(out) || !rt_shape_elements(out) || !rt_shape_elements(in))
        return s ? RT_OK : p->err->code;
    s->axes = axes_of(p->node);
    s->inverse = is_inverse(p->node);
    s->real = is_real(p->node);
    s->wide = p->in[0].dtype == RT_F64 || p->in[0].dtype == RT_C128;
    s->batch = s->scale = 1;
    for (int i = 0; i < in->rank - s->axes; i++)
        s->batch *= in->dim[i];
    for (int i = 0; i < s->axes; i++) {
        s->in[i] = in->dim[in->rank - s->axes + i];
        s->out[i] = out->dim[in->rank - s->axes + i];
        s->n[i] = s->out[i];
    }
    if (s->real && !s->inverse && kn_int_at(p->in[LENGTH].value, s->axes - 1))
        s->n[s->axes - 1] = kn_int_at(p->in[LENGTH].value, s->axes - 1);
    const int64_t spectrum = s->n[s->axes - 1] / 2 + 1;
    for (int i = 0; i < s->axes; i++) {
        bytes[i] = plan_axis(s, i, spectrum);
        if (bytes[i] < 0)
            return rt_fail(p->err, RT_RESOURCE_EXHAUSTED,
                           "A Fourier transform of %lld points is too long: at most %lld are "
                           "possible.",
                           (long long)s->n[i], (long long)KN_FFT_MOST);
        char *const memory = rt_prep_alloc(p, (size_t)bytes[i] + 64);
        if (!memory)
            return p->err->code;
        void *const aligned = memory + (64 - (uintptr_t)memory % 64) % 64;
        const bool last = s->real && i == s->axes - 1;
        if (last)
            kn_real_fft_make(&s->last, aligned);
        else
            kn_fft_make(&s->plan[i], aligned);
        const int64_t need = last ? kn_real_fft_scratch(&s->last) : kn_fft_scratch(&s->plan[i]);
        scratch = need > scratch ? need : scratch;
        if (s->inverse)
            s->scale /= (double)s->n[i];
        count *= s->real && i == s->axes - 1 ? spectrum : s->n[i];
    }
    s->scratch = (size_t)((scratch + 63) / 64 * 64);
    p->scratch_bytes = s->scratch;
    if (s->real && s->inverse && s->axes > 1)
        p->scratch_bytes += (size_t)count * (s->wide ? 16 : 8);
    return RT_OK;
}

/* ---- running ---- */

/* Transforms one axis of `outer` arrays in place. The distance of two points is `inner` complex
 * numbers. */
static enum rt_status run_axis(const struct kn_fft *f, void *data, int64_t outer, int64_t inner,
                               bool inverse, struct rt_run *r)
{
    const int64_t step = f->n * inner * (f->wide ? 16 : 8);

    for (int64_t i = 0; i < outer; i++) {
        char *const at = (char *)data + i * step;
        const struct kn_fft_job job = {.src = at,
                                       .dst = at,
                                       .count = inner,
                                       .src_next = 2,
                                       .dst_next = 2,
                                       .src_step = 2 * inner,
                                       .dst_step = 2 * inner,
                                       .inverse = inverse,
                                       .scale = 1};
        const enum rt_status st = kn_fft_run(f, &job, r->scratch, r);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Transforms all axes but the last in place. There are `batch` arrays, whose last axis has `last`
 * numbers. */
static enum rt_status run_outer(const struct state *s, void *data, int64_t batch, int64_t last,
                                struct rt_run *r)
{
    int64_t inner = last;

    for (int i = s->axes - 2; i >= 0; i--) {
        int64_t outer = batch;
        for (int k = 0; k < i; k++)
            outer *= s->n[k];
        const enum rt_status st = run_axis(&s->plan[i], data, outer, inner, s->inverse, r);
        if (st)
            return st;
        inner *= s->n[i];
    }
    return RT_OK;
}

static enum rt_status complex_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const int last = s->axes - 1;

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    const int64_t n = s->n[last];
    const struct kn_fft_job job = {.src = r->in[0].data,
                                   .dst = r->out[0].data,
                                   .count = rt_tensor_count(&r->in[0]) / n,
                                   .src_next = 2 * n,
                                   .dst_next = 2 * n,
                                   .src_step = 2,
                                   .dst_step = 2,
                                   .inverse = s->inverse,
                                   .scale = s->scale};
    const enum rt_status st = kn_fft_run(&s->plan[last], &job, r->scratch, r);
    return st ? st : run_outer(s, r->out[0].data, s->batch, n, r);
}

/* Returns the index of the input row that becomes row `i` of the cropped outer axes of an array. */
static int64_t cropped_row(const struct state *s, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int k = s->axes - 2; k >= 0; k--) {
        at += i % s->n[k] * step;
        i /= s->n[k];
        step *= s->in[k];
    }
    return at;
}

/* Calls kn_real_fft_run for each group of evenly spaced rows. A group consists of the rows along
 * the second-to-last axis. */
static enum rt_status forward_array(const struct state *s, const char *src, char *dst,
                                    struct rt_run *r)
{
    const int last = s->axes - 1;
    const int64_t number = s->wide ? 8 : 4, run = last ? s->n[last - 1] : 1;
    const int64_t runs = s->axes == 3 ? s->n[0] : 1, out = s->out[last];

    for (int64_t i = 0; i < runs; i++) {
        const struct kn_fft_job job = {.src = src + cropped_row(s, i * run) * s->in[last] * number,
                                       .dst = dst + i * run * out * 2 * number,
                                       .count = run,
                                       .src_next = s->in[last],
                                       .dst_next = 2 * out,
                                       .scale = 1};
        const enum rt_status st = kn_real_fft_run(&s->last, &job, r->scratch, r);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status real_forward_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const int last = s->axes - 1;
    const int64_t number = s->wide ? 8 : 4;
    int64_t in = 1, out = 1;

    for (int i = 0; i < s->axes; i++) {
        in *= s->in[i];
        out *= s->out[i];
    }
    if (s->axes == 1) {
        const struct kn_fft_job job = {.src = r->in[0].data,
                                       .dst = r->out[0].data,
                                       .count = s->batch,
                                       .src_next = in,
                                       .dst_next = 2 * out,
                                       .scale = 1};
        return kn_real_fft_run(&s->last, &job, r->scratch, r);
    }
    for (int64_t i = 0; i < s->batch; i++) {
        const enum rt_status st = forward_array(s, (const char *)r->in[0].data + i * in * number,
                                                (char *)r->out[0].data + i * out * 2 * number, r);
        if (st)
            return st;
    }
    return run_outer(s, r->out[0].data, s->batch, s->out[last], r);
}

static enum rt_status real_inverse_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const int last = s->axes - 1;
    const int64_t number = s->wide ? 8 : 4, half = s->n[last] / 2 + 1;
    int64_t in = 1, out = 1, rows = 1;

    for (int i = 0; i < s->axes; i++) {
        in *= s->in[i];
        out *= s->out[i];
        rows *= i < last ? s->n[i] : 1;
    }
    struct kn_fft_job job = {.src = r->in[0].data,
                             .dst = r->out[0].data,
                             .count = s->batch,
                             .src_next = 2 * in,
                             .dst_next = out,
                             .inverse = true,
                             .scale = s->scale};
    if (s->axes == 1)
        return kn_real_fft_run(&s->last, &job, r->scratch, r);
    char *const spectrum = (char *)r->scratch + s->scratch;
    job.src = spectrum;
    job.count = rows;
    job.src_next = 2 * half;
    job.dst_next = s->n[last];
    for (int64_t i = 0; i < s->batch; i++) {
        const char *const src = (const char *)r->in[0].data + i * in * 2 * number;
        for (int64_t k = 0; k < rows; k++) {
            memcpy(spectrum + k * half * 2 * number,
                   src + cropped_row(s, k) * s->in[last] * 2 * number, (size_t)(half * 2 * number));
            if (rt_run_spend(r, &r->left, half))
                return r->err->code;
        }
        job.dst = (char *)r->out[0].data + i * out * number;
        enum rt_status st = run_outer(s, spectrum, 1, half, r);
        if (!st)
            st = kn_real_fft_run(&s->last, &job, r->scratch, r);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status real_run(struct rt_run *r)
{
    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    if (!rt_tensor_count(&r->in[0]))
        return kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
    return is_inverse(r->node) ? real_inverse_run(r) : real_forward_run(r);
}

#define FFT(NAME, TF)                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = complex_infer, .rows = fft_rows},                              \
        .kernels = KN_KERNELS({.op = TF,                                                           \
                               .device = "CPU",                                                    \
                               .name = #NAME,                                                      \
                               .type_attr = "Tcomplex",                                            \
                               .types = KN_SET(KN_COMPLEX),                                        \
                               .prepare = fft_prepare,                                             \
                               .run = complex_run}),                                               \
    };
FFT(fft, "FFT")
FFT(fft2_d, "FFT2D")
FFT(fft3_d, "FFT3D")
FFT(ifft, "IFFT")
FFT(ifft2_d, "IFFT2D")
FFT(ifft3_d, "IFFT3D")

#define REAL_FFT(NAME, TF)                                                                         \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF,                                                                         \
               .shape_in = UINT64_C(1) << LENGTH,                                                  \
               .infer = real_infer,                                                                \
               .rows = fft_rows},                                                                  \
        .kernels = KN_KERNELS({.op = TF,                                                           \
                               .device = "CPU",                                                    \
                               .name = #NAME,                                                      \
                               .type_attr = "Treal",                                               \
                               .types = KN_SET(KN_FLOATS),                                         \
                               .prepare = fft_prepare,                                             \
                               .run = real_run}),                                                  \
    };
REAL_FFT(rfft, "RFFT")
REAL_FFT(rfft2_d, "RFFT2D")
REAL_FFT(rfft3_d, "RFFT3D")
REAL_FFT(irfft, "IRFFT")
REAL_FFT(irfft2_d, "IRFFT2D")
REAL_FFT(irfft3_d, "IRFFT3D")
