/* AudioSpectrogram computes the magnitudes of windowed Fourier transforms. Mfcc computes
 * mel-frequency cepstral coefficients, by triangular filters on the mel scale (as in HTK) and a
 * cosine transform. As in TensorFlow, both compute in double precision. */
#include <limits.h>
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/signal/real_fft.h"
#include "runtime/base/checked.h"

/* ---- AudioSpectrogram ---- */

enum {
    LINES = 16, /* maximum number of windows that are transformed together */
    /* maximum number of points in several windows that are transformed together */
    MOST_POINTS = 1 << 20,
    POINT_WORK = 16,       /* work per point of a window, in units of rt_run_spend */
    MOST_WINDOW = 1 << 22, /* maximum length of a window */
};

struct spectrogram {
    struct kn_real_fft plan;
    double *window;
    int64_t lines;  /* number of windows that are transformed together */
    size_t scratch; /* bytes of the plan's scratch memory */
};

struct extent {
    int64_t window, stride, length, slices, bins;
};

static enum rt_status extent_of(const struct rt_node *n, int64_t samples, struct extent *e,
                                struct rt_error *err)
{
    e->window = rt_attr_int(n, "window_size");
    e->stride = rt_attr_int(n, "stride");
    if (e->window < 2 || e->stride < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Spectrogram initialization failed for window size %lld and stride %lld",
                       (long long)e->window, (long long)e->stride);
    if (e->window > MOST_WINDOW)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "A window of %lld samples is too long: at most %d are possible.",
                       (long long)e->window, MOST_WINDOW);
    for (e->length = 2; e->length < e->window;)
        e->length *= 2;
    e->bins = e->length / 2 + 1;
    e->slices = samples < e->window ? 0 : 1 + (samples - e->window) / e->stride;
    return RT_OK;
}

static enum rt_status infer_spectrogram(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;
    struct extent e;

    if (!kn_shape_known(s))
        return RT_OK;
    if (s->rank != 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be 2-dimensional%s", KN_TEXT(s));
    if (extent_of(x->node, s->dim[0], &e, x->err))
        return x->err->code;
    kn_set_shape(&x->out[0], 3, (int64_t[]){s->dim[1], e.slices, e.bins});
    return RT_OK;
}

static enum rt_status spectrogram_prepare(struct rt_prep *p, void **state)
{
    const double turn = 2 * 3.14159265358979323846;
    struct spectrogram *s = rt_prep_alloc(p, sizeof *s);
    int64_t bytes, scratch;
    struct extent e;
    char *memory;

    *state = s;
    if (!s || !kn_shape_known(&p->in[0].shape) || !rt_shape_elements(&p->out[0].shape))
        return s ? RT_OK : p->err->code;
    if (extent_of(p->node, p->in[0].shape.dim[0], &e, p->err))
        return p->err->code;
    s->lines = e.slices < LINES ? e.slices : LINES;
    if (s->lines > MOST_POINTS / e.length)
        s->lines = e.length < MOST_POINTS ? MOST_POINTS / e.length : 1;
    bytes = kn_real_fft_size(&s->plan, e.length, s->lines, true);
    if (bytes < 0)
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "A window of %lld samples is too long",
                       (long long)e.window);
    memory = rt_prep_alloc(p, (size_t)bytes + 64);
    s->window = memory ? rt_prep_alloc(p, (size_t)e.window * sizeof *s->window) : NULL;
    if (!s->window)
        return p->err->code;
    kn_real_fft_make(&s->plan, memory + (64 - (uintptr_t)memory % 64) % 64);
    for (int64_t i = 0; i < e.window; i++)
        s->window[i] = 0.5 - 0.5 * cos(turn * (double)i / (double)e.window);
    scratch = kn_real_fft_scratch(&s->plan);
    s->scratch = (size_t)(scratch + 63) / 64 * 64;
    p->scratch_bytes =
        s->scratch + (size_t)(e.length + 2 * e.bins) * (size_t)s->lines * sizeof(double);
    return RT_OK;
}

/* Transforms n windows of a channel, from window `first` on. */
static enum rt_status lines_run(struct rt_run *r, const struct extent *e, int64_t channel,
                                int64_t first, int64_t n)
{
    const struct spectrogram *s = r->state;
    const int64_t channels = r->in[0].dim[1];
    const bool is_squared = rt_attr_bool(r->node, "magnitude_squared");
    double *x = (double *)((char *)r->scratch + s->scratch), *z = x + s->lines * e->length;
    float *y = kn_at_mut(&r->out[0], (channel * e->slices + first) * e->bins);
    const struct kn_fft_job job = {
        .src = x, .dst = z, .count = n, .src_next = e->length, .dst_next = 2 * e->bins, .scale = 1};

    for (int64_t k = 0; k < n; k++) {
        const float *from = kn_at(&r->in[0], (first + k) * e->stride * channels + channel);
        double *to = x + k * e->length;
        for (int64_t i = 0; i < e->window; i++)
            to[i] = from[i * channels] * s->window[i];
        memset(to + e->window, 0, (size_t)(e->length - e->window) * sizeof *to);
    }
    if (kn_real_fft_run(&s->plan, &job, r->scratch, r))
        return r->err->code;
    for (int64_t i = 0; i < n * e->bins; i++) {
        const float power = (float)(z[2 * i] * z[2 * i] + z[2 * i + 1] * z[2 * i + 1]);
        y[i] = is_squared ? power : sqrtf(power);
    }
    return rt_run_spend(r, &r->left, n * e->length * POINT_WORK);
}

static enum rt_status spectrogram_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    const struct spectrogram *s = r->state;
    struct extent e = {0};

    if (x->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input must be 2-dimensional%s", KN_TEXT(x));
    if (extent_of(r->node, x->dim[0], &e, r->err) ||
        !kn_out(r, 0, 3, (int64_t[]){x->dim[1], e.slices, e.bins}))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    for (int64_t c = 0; c < x->dim[1]; c++)
        for (int64_t i = 0; i < e.slices; i += s->lines) {
            const int64_t n = e.slices - i < s->lines ? e.slices - i : s->lines;
            if (lines_run(r, &e, c, i, n))
                return r->err->code;
        }
    return RT_OK;
}

const struct kn_entry kn_audio_spectrogram = {
    .op = {.name = "AudioSpectrogram", .infer = infer_spectrogram},
    .kernels = KN_KERNELS({.op = "AudioSpectrogram",
                           .device = "CPU",
                           .name = "audio_spectrogram",
                           .prepare = spectrogram_prepare,
                           .run = spectrogram_run}),
};

/* ---- Mfcc ---- */

enum { FUNCTION_WORK = 32 }; /* work of a logarithm or cosine, in units of rt_run_spend */

struct mfcc {
    int64_t bins, filters, coefficients;
    int64_t first, last; /* the first and the last bin between the frequency limits */
    /* For each bin, the weight with which it contributes to filter band[bin]. The bin contributes
     * to the next filter with 1 minus this weight. */
    double *weight;
    int *band; /* filter of each bin, or -1 below the centre of the first filter */
    double *cosine, *energy;
};

static double mel(double hertz)
{
    return 1127.0 * log1p(hertz / 700.0);
}

static enum rt_status infer_mfcc(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;
    const int64_t n = rt_attr_int(x->node, "dct_coefficient_count");

    if (s->rank >= 0 && s->rank != 3)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "spectrogram must be 3-dimensional%s",
                       KN_TEXT(s));
    if (s->rank == 3 && n > 0)
        kn_set_shape(&x->out[0], 3, (int64_t[]){s->dim[0], s->dim[1], n});
    return RT_OK;
}

static bool mfcc_is_valid(const struct mfcc *m, double rate, double low, double high)
{
    return m->filters > 0 && m->coefficients > 0 && m->coefficients <= m->filters && rate > 0 &&
           m->bins > 1 && low >= 0 && high > low && m->filters <= INT_MAX && m->bins <= INT_MAX;
}

/* Assigns each bin to the filters in whose triangles it lies. */
static enum rt_status filters_make(struct rt_run *r, struct mfcc *m, double rate, double low,
                                   double high)
{
    const double hertz = 0.5 * rate / (double)(m->bins - 1), mel_low = mel(low);
    const double step = (mel(high) - mel_low) / (double)(m->filters + 1);
    int channel = 0;

    m->first = (int64_t)(1.5 + low / hertz);
    m->last = high / hertz < (double)INT_MAX ? (int64_t)(high / hertz) : INT_MAX;
    for (int64_t i = 0; i < m->bins; i++) {
        const double at = mel((double)i * hertz);
        if (rt_run_spend(r, &r->left, FUNCTION_WORK))
            return r->err->code;
        if (i < m->first || i > m->last)
            continue;
        /* the centre of filter k is mel_low + step * (k + 1) */
        while (channel < m->filters && mel_low + step * (channel + 1) < at)
            channel++;
        m->band[i] = channel - 1;
        m->weight[i] = (mel_low + step * (channel + 1) - at) / step;
    }
    return RT_OK;
}

static enum rt_status cosines_make(struct rt_run *r, struct mfcc *m)
{
    const double norm = sqrt(2.0 / (double)m->filters);
    const double step = 3.14159265358979323846 / (double)m->filters;

    for (int64_t i = 0; i < m->coefficients; i++)
        for (int64_t j = 0; j < m->filters; j++) {
            m->cosine[i * m->filters + j] = norm * cos((double)i * step * ((double)j + 0.5));
            if (rt_run_spend(r, &r->left, FUNCTION_WORK))
                return r->err->code;
        }
    return RT_OK;
}

/* Computes the logarithms of the filters' energies. */
static void energies(const struct mfcc *m, const float *x)
{
    const double floor = 1e-12;

    for (int64_t k = 0; k < m->filters; k++)
        m->energy[k] = 0;
    for (int64_t i = m->first; i <= m->last; i++) {
        const double value = sqrt((double)x[i]), part = value * m->weight[i];
        const int64_t k = m->band[i];
        if (k >= 0)
            m->energy[k] += part;
        if (k + 1 < m->filters)
            m->energy[k + 1] += value - part;
    }
    for (int64_t k = 0; k < m->filters; k++)
        m->energy[k] = log(m->energy[k] < floor ? floor : m->energy[k]);
}

static enum rt_status slices_run(struct rt_run *r, const struct mfcc *m)
{
    const int64_t slices = r->in[0].dim[0] * r->in[0].dim[1];
    float *y = r->out[0].data;

    /* As in TensorFlow, the output is 0 if the upper frequency limit lies beyond the
     * spectrogram. */
    if (m->last >= m->bins)
        return kn_zero_chunks(r, y, rt_tensor_bytes(&r->out[0]));
    for (int64_t i = 0; i < slices; i++, y += m->coefficients) {
        energies(m, kn_at(&r->in[0], i * m->bins));
        for (int64_t c = 0; c < m->coefficients; c++) {
            double sum = 0;
            for (int64_t k = 0; k < m->filters; k++)
                sum += m->cosine[c * m->filters + k] * m->energy[k];
            y[c] = (float)sum;
            if (rt_run_spend(r, &r->left, m->filters))
                return r->err->code;
        }
        if (rt_run_spend(r, &r->left, m->bins * 4 + m->filters * 16))
            return r->err->code;
    }
    return RT_OK;
}

static bool tables_alloc(struct rt_run *r, struct mfcc *m)
{
    int64_t cosines, bytes;
    char *memory;

    if (!rt_mul(m->filters, m->coefficients, &cosines) || cosines > INT32_MAX) {
        (void)rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "Mfcc has too many coefficients");
        return false;
    }
    bytes =
        (cosines + m->filters + m->bins) * (int64_t)sizeof(double) + m->bins * (int64_t)sizeof(int);
    memory = rt_scratch(r, (size_t)bytes);
    if (!memory)
        return false;
    m->cosine = (double *)memory;
    m->energy = m->cosine + cosines;
    m->weight = m->energy + m->filters;
    m->band = (int *)(m->weight + m->bins);
    return true;
}

static enum rt_status mfcc_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    const double low = rt_attr_float(r->node, "lower_frequency_limit");
    const double high = rt_attr_float(r->node, "upper_frequency_limit");
    struct mfcc m = {.filters = rt_attr_int(r->node, "filterbank_channel_count"),
                     .coefficients = rt_attr_int(r->node, "dct_coefficient_count")};
    int64_t rate;

    if (x->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "spectrogram must be 3-dimensional%s",
                       KN_TEXT(x));
    if (r->in[1].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input sample_rate should be a scalar tensor, got %s instead.",
                       KN_TEXT(&r->in[1]));
    rate = kn_int_at(&r->in[1], 0);
    m.bins = x->dim[2];
    if (!mfcc_is_valid(&m, (double)rate, low, high))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Mfcc initialization failed for channel count %lld, sample rate %lld and "
                       "filterbank_channel_count %lld",
                       (long long)m.bins, (long long)rate, (long long)m.filters);
    if (!kn_out(r, 0, 3, (int64_t[]){x->dim[0], x->dim[1], m.coefficients}) || !tables_alloc(r, &m))
        return r->err->code;
    if (filters_make(r, &m, (double)rate, low, high) || cosines_make(r, &m))
        return r->err->code;
    return slices_run(r, &m);
}

const struct kn_entry kn_mfcc = {
    .op = {.name = "Mfcc", .infer = infer_mfcc, .rows = rt_rows_first},
    .kernels = KN_KERNELS({.op = "Mfcc", .device = "CPU", .name = "mfcc", .run = mfcc_run}),
};
