/*
 * The part of fft.c that transforms by convolution (Bluestein's method), for one floating-point
 * type. T is the type, and NAME(x) is the name of a function for it. The file is included once for
 * each type, after fft_blocks.h.
 */

/* Computes a[i] *= b[i] for complex numbers. */
KN_CLONES
static void NAME(times_part)(T *restrict a, const T *restrict b, int64_t n)
{
    KN_IVDEP for (int64_t i = 0; i < n; i++)
    {
        const T x = a[2 * i], y = a[2 * i + 1], wr = b[2 * i], wi = b[2 * i + 1];
        a[2 * i] = x * wr - y * wi;
        a[2 * i + 1] = x * wi + y * wr;
    }
}

static enum rt_status NAME(times)(T *a, const T *b, int64_t n, struct rt_run *r)
{
    for (int64_t from = 0; from < n; from += KN_FFT_PART) {
        NAME(times_part)
        (a + 2 * from, b + 2 * from, n - from < KN_FFT_PART ? n - from : KN_FFT_PART);
        if (rt_run_spend(r, &r->left, 8 * KN_FFT_PART))
            return r->err->code;
    }
    return RT_OK;
}

/* Copies n complex numbers multiplied by `scale`. With `swap`, exchanges their real and imaginary
 * parts. */
static enum rt_status NAME(copy)(const T *src, int64_t src_step, T *dst, int64_t dst_step,
                                 int64_t n, bool swap, T scale, struct rt_run *r)
{
    for (int64_t from = 0; from < n; from += KN_FFT_PART) {
        const int64_t to = n - from < KN_FFT_PART ? n : from + KN_FFT_PART;
        for (int64_t i = from; i < to; i++) {
            const T re = src[i * src_step] * scale, im = src[i * src_step + 1] * scale;
            dst[i * dst_step] = swap ? im : re;
            dst[i * dst_step + 1] = swap ? re : im;
        }
        if (rt_run_spend(r, &r->left, 16 * KN_FFT_PART))
            return r->err->code;
    }
    return RT_OK;
}

/* Computes the chirp exp(-i pi j^2 / n) and the transform of its conjugate. */
static enum rt_status NAME(chirp)(const struct kn_fft *f, T *chirp, T *spectrum, T *rest,
                                  struct rt_run *r)
{
    const int64_t n = f->n, m = f->smooth;
    const struct kn_fft_job step = {
        .src = spectrum, .dst = spectrum, .count = 1, .src_step = 2, .dst_step = 2, .scale = 1};

    if (kn_zero_chunks(r, spectrum, (size_t)(2 * m) * sizeof(T)))
        return r->err->code;
    for (int64_t k = 0; k < n; k++) {
        const double _Complex w = kn_root(&f->chirp, k * k % (2 * n));
        const int64_t mirror = k ? m - k : 0;
        chirp[2 * k] = spectrum[2 * k] = spectrum[2 * mirror] = (T)creal(w);
        chirp[2 * k + 1] = (T)cimag(w);
        spectrum[2 * k + 1] = spectrum[2 * mirror + 1] = -chirp[2 * k + 1];
        if (rt_run_spend(r, &r->left, 32))
            return r->err->code;
    }
    return NAME(smooth)(f, &step, rest, r);
}

/* Sets *chirp and *spectrum to what the plan keeps, or computes both in scratch memory, of which
 * *rest is the remainder. */
static enum rt_status NAME(find_chirp)(const struct kn_fft *f, T *scratch, const T **chirp,
                                       const T **spectrum, T **rest, struct rt_run *r)
{
    struct kn_fft_kept *const kept = f->kept;
    T *to[2] = {scratch, scratch + 2 * f->n};
    int state = kept ? atomic_load_explicit(&kept->state, memory_order_acquire) : KEPT_BEGUN;
    enum rt_status st = RT_OK;

    *rest = scratch + 2 * (f->n + f->smooth);
    const bool begins = state == KEPT_NOTHING && atomic_compare_exchange_strong_explicit(
                                                     &kept->state, &state, KEPT_BEGUN,
                                                     memory_order_acquire, memory_order_acquire);
    if (begins || state == KEPT_ALL) {
        to[0] = kept->chirp;
        to[1] = kept->spectrum;
    }
    if (begins || state != KEPT_ALL)
        st = NAME(chirp)(f, to[0], to[1], *rest, r);
    if (begins)
        atomic_store_explicit(&kept->state, st ? KEPT_NOTHING : KEPT_ALL, memory_order_release);
    *chirp = to[0];
    *spectrum = to[1];
    return st;
}

/* Multiplies all lanes of point j by w[j], and writes the product's real parts to yr and its
 * imaginary parts to yi, which may be xr and xi, or xi and xr. */
KN_CLONES
static void NAME(multiply_points)(const T *w, int64_t n, const T *xr, const T *xi, T *yr, T *yi)
{
    for (int64_t j = 0; j < n; j++) {
        const T wr = w[2 * j], wi = w[2 * j + 1];
        const int64_t at = j * KN_FFT_LANES;
        EACH_LANE
        {
            const T x = xr[at + l], y = xi[at + l];
            yr[at + l] = x * wr - y * wi;
            yi[at + l] = x * wi + y * wr;
        }
    }
}

/* Bluestein's method for a length whose convolution is not split. All steps work on the lanes of a
 * block, whose sequences need not be stored in between. */
static enum rt_status NAME(convolve_lanes)(const struct kn_fft *f, const struct kn_fft_job *job,
                                           const T *chirp, const T *spectrum, T *buffer,
                                           struct rt_run *r)
{
    const int64_t n = f->n, m = f->smooth, size = kn_fft_array(m);
    const int64_t re = job->inverse ? size : 0, im = size - re;
    const size_t rest = (size_t)((m - n) * KN_FFT_LANES) * sizeof(T);

    for (int64_t i = 0; i < job->count; i += KN_FFT_LANES) {
        const int lanes = (int)(job->count - i < KN_FFT_LANES ? job->count - i : KN_FFT_LANES);
        NAME(load)
        ((const T *)job->src + i * job->src_next, job->src_next, job->src_step, lanes, n,
         buffer + re, buffer + im);
        memset(buffer + n * KN_FFT_LANES, 0, rest);
        memset(buffer + size + n * KN_FFT_LANES, 0, rest);
        NAME(multiply_points)(chirp, n, buffer, buffer + size, buffer, buffer + size);
        T *x = buffer + NAME(direct)(&f->rows, buffer) * size;
        /* Exchanged real and imaginary parts make the second transform an inverse one. */
        NAME(multiply_points)(spectrum, m, x, x + size, buffer + size, buffer);
        x = buffer + NAME(direct)(&f->rows, buffer) * size;
        NAME(multiply_points)(chirp, n, x + size, x, x + size, x);
        NAME(store)
        ((T *)job->dst + i * job->dst_next, job->dst_next, job->dst_step, lanes, n, x + im, x + re,
         (T)(job->scale / (double)m));
        if (rt_run_spend(r, &r->left, size * (2 * f->rows.n_passes + 10)))
            return r->err->code;
    }
    return RT_OK;
}

/* Bluestein's method for a length whose convolution is split. */
static enum rt_status NAME(convolve)(const struct kn_fft *f, const struct kn_fft_job *job,
                                     const T *chirp, const T *spectrum, T *work, struct rt_run *r)
{
    const int64_t n = f->n, m = f->smooth;
    struct kn_fft_job step = {
        .src = work, .dst = work, .count = 1, .src_step = 2, .dst_step = 2, .scale = 1};
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < job->count && !st; i++) {
        const T *const src = (const T *)job->src + i * job->src_next;
        T *const dst = (T *)job->dst + i * job->dst_next;
        st = kn_zero_chunks(r, work + 2 * n, (size_t)(2 * (m - n)) * sizeof(T));
        if (!st)
            st = NAME(copy)(src, job->src_step, work, 2, n, job->inverse, 1, r);
        if (!st)
            st = NAME(times)(work, chirp, n, r);
        step.inverse = false;
        if (!st)
            st = NAME(split)(f, &step, work + 2 * m, r);
        if (!st)
            st = NAME(times)(work, spectrum, m, r);
        step.inverse = true;
        if (!st)
            st = NAME(split)(f, &step, work + 2 * m, r);
        if (!st)
            st = NAME(times)(work, chirp, n, r);
        if (!st)
            st = NAME(copy)(work, 2, dst, job->dst_step, n, job->inverse,
                            (T)(job->scale / (double)m), r);
    }
    return st;
}

/*
 * Bluestein's method. Since j k = (j^2 + k^2 - (k - j)^2) / 2, a transform is a convolution with
 * the chirp exp(i pi j^2 / n). The convolution is computed by transforms of f->smooth points.
 */
static enum rt_status NAME(bluestein)(const struct kn_fft *f, const struct kn_fft_job *job,
                                      T *scratch, struct rt_run *r)
{
    const T *chirp, *spectrum;
    T *rest;
    const enum rt_status st = NAME(find_chirp)(f, scratch, &chirp, &spectrum, &rest, r);

    if (st)
        return st;
    return f->columns.n > 1 ? NAME(convolve)(f, job, chirp, spectrum, rest, r)
                            : NAME(convolve_lanes)(f, job, chirp, spectrum, rest, r);
}

#undef EACH_LANE
