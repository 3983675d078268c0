/*
 * The part of fft.c that calls the passes, for one floating-point type. T is the type, and NAME(x)
 * is the name of a function for it. The file is included once for each type, after fft_passes.h.
 */

/* Multiplies point j of lane l by power j * (first + l) of the root, in a split transform. */
static void NAME(twist)(const struct kn_fft *f, int64_t first, int lanes, int64_t n, T *re, T *im)
{
    for (int64_t j = 0; j < n; j++)
        for (int l = 0; l < lanes; l++) {
            const double _Complex w = kn_root(&f->roots, j * (first + l));
            const T wr = (T)creal(w), wi = (T)cimag(w);
            const int64_t at = j * KN_FFT_LANES + l;
            const T x = re[at], y = im[at];
            re[at] = x * wr - y * wi;
            im[at] = x * wi + y * wr;
        }
}

/* Transforms `count` sequences, with one pass for each factor of the length. If `twist` is set, the
 * sequences are the columns of the matrix of a split transform. For an inverse transform, real and
 * imaginary parts are exchanged before and after the passes. */
static enum rt_status NAME(many)(const struct kn_fft *f, const struct kn_fft_direct *d,
                                 const struct kn_fft_job *job, bool twist, T *buffer,
                                 struct rt_run *r)
{
    const int64_t size = kn_fft_array(d->n);
    const int64_t re = job->inverse ? size : 0, im = size - re;
    const int64_t n_in = d->n + (job->halves && job->inverse);
    const int64_t n_out = d->n + (job->halves && !job->inverse);

    for (int64_t i = 0; i < job->count; i += KN_FFT_LANES) {
        const int lanes = (int)(job->count - i < KN_FFT_LANES ? job->count - i : KN_FFT_LANES);
        const T *const src = (const T *)job->src + i * job->src_next;
        T *const dst = (T *)job->dst + i * job->dst_next;
        NAME(load)(src, job->src_next, job->src_step, lanes, n_in, buffer + re, buffer + im);
        if (n_in > d->n)
            NAME(join_lanes)(buffer + re, buffer + im, d->n, job->halves);
        T *const y = buffer + NAME(direct)(d, buffer) * size;
        if (twist)
            NAME(twist)(f, i, lanes, d->n, y, y + size);
        if (n_out > d->n)
            NAME(separate_lanes)(y + re, y + im, d->n, job->halves);
        NAME(store)(dst, job->dst_next, job->dst_step, lanes, n_out, y + re, y + im, (T)job->scale);
        if (rt_run_spend(r, &r->left, size * (d->n_passes + (twist ? 16 : 4))))
            return r->err->code;
    }
    return RT_OK;
}

/* Transforms sequences of f->smooth points by the split method (fft.h): first the columns of a
 * matrix, then its rows. The matrix is in scratch memory. */
static enum rt_status NAME(split)(const struct kn_fft *f, const struct kn_fft_job *job, T *scratch,
                                  struct rt_run *r)
{
    const int64_t a = f->columns.n, b = f->rows.n;
    T *const matrix = scratch, *const buffer = scratch + kn_fft_matrix(f);

    for (int64_t i = 0; i < job->count; i++) {
        const struct kn_fft_job columns = {
            .src = (const T *)job->src + i * job->src_next,
            .dst = matrix,
            .count = b,
            .src_next = job->src_step,
            .src_step = b * job->src_step,
            .dst_next = 2,
            .dst_step = 2 * b,
            .inverse = job->inverse,
            .scale = 1,
        };
        const struct kn_fft_job rows = {
            .src = matrix,
            .dst = (T *)job->dst + i * job->dst_next,
            .count = a,
            .src_next = 2 * b,
            .src_step = 2,
            .dst_next = job->dst_step,
            .dst_step = a * job->dst_step,
            .inverse = job->inverse,
            .scale = job->scale,
        };
        enum rt_status st = NAME(many)(f, &f->columns, &columns, true, buffer, r);
        if (!st)
            st = NAME(many)(f, &f->rows, &rows, false, buffer, r);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status NAME(smooth)(const struct kn_fft *f, const struct kn_fft_job *job, T *scratch,
                                   struct rt_run *r)
{
    if (f->columns.n > 1)
        return NAME(split)(f, job, scratch, r);
    return NAME(many)(f, &f->rows, job, false, scratch, r);
}

/* Computes out[i] = a[i] * b[i] for complex numbers. `out` may be `a`. */
static enum rt_status NAME(times)(const T *a, const T *b, T *out, int64_t n, struct rt_run *r)
{
    for (int64_t from = 0; from < n; from += KN_FFT_PART) {
        const int64_t to = n - from < KN_FFT_PART ? n : from + KN_FFT_PART;
        for (int64_t i = from; i < to; i++) {
            const T x = a[2 * i], y = a[2 * i + 1], wr = b[2 * i], wi = b[2 * i + 1];
            out[2 * i] = x * wr - y * wi;
            out[2 * i + 1] = x * wi + y * wr;
        }
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

/*
 * Bluestein's method. Since j k = (j^2 + k^2 - (k - j)^2) / 2, a transform is a convolution with
 * the chirp exp(i pi j^2 / n). The convolution is computed by transforms of f->smooth points.
 */
static enum rt_status NAME(bluestein)(const struct kn_fft *f, const struct kn_fft_job *job,
                                      T *scratch, struct rt_run *r)
{
    const int64_t n = f->n, m = f->smooth, group = kn_fft_group(f);
    T *const chirp = scratch, *const spectrum = chirp + 2 * n, *const work = spectrum + 2 * m;
    T *const rest = work + 2 * m * group;
    struct kn_fft_job step = {.src = work,
                              .dst = work,
                              .src_next = 2 * m,
                              .dst_next = 2 * m,
                              .src_step = 2,
                              .dst_step = 2,
                              .scale = 1};
    enum rt_status st = NAME(chirp)(f, chirp, spectrum, rest, r);

    for (int64_t i = 0; i < job->count && !st; i += group) {
        step.count = job->count - i < group ? job->count - i : group;
        st = kn_zero_chunks(r, work, (size_t)(2 * m * step.count) * sizeof(T));
        for (int64_t l = 0; l < step.count && !st; l++) {
            const T *const src = (const T *)job->src + (i + l) * job->src_next;
            T *const x = work + 2 * m * l;
            st = NAME(copy)(src, job->src_step, x, 2, n, job->inverse, 1, r);
            if (!st)
                st = NAME(times)(x, chirp, x, n, r);
        }
        step.inverse = false;
        if (!st)
            st = NAME(smooth)(f, &step, rest, r);
        for (int64_t l = 0; l < step.count && !st; l++)
            st = NAME(times)(work + 2 * m * l, spectrum, work + 2 * m * l, m, r);
        step.inverse = true;
        if (!st)
            st = NAME(smooth)(f, &step, rest, r);
        for (int64_t l = 0; l < step.count && !st; l++) {
            T *const dst = (T *)job->dst + (i + l) * job->dst_next, *const x = work + 2 * m * l;
            st = NAME(times)(x, chirp, x, n, r);
            if (!st)
                st = NAME(copy)(x, 2, dst, job->dst_step, n, job->inverse,
                                (T)(job->scale / (double)m), r);
        }
    }
    return st;
}

static void NAME(tables)(struct kn_fft_direct *d, char **memory)
{
    int64_t m = d->n;

    for (int i = 0; i < d->n_passes; i++) {
        const int r = d->radix[i];
        const int64_t points = m;
        T *const w = (T *)(void *)*memory;
        m /= r;
        d->twiddle[i] = w;
        *memory += kn_fft_aligned(2 * (r - 1) * m * (int64_t)sizeof(T));
        for (int k = 1; k < r; k++)
            for (int64_t p = 0; p < m; p++) {
                const double _Complex v = kn_fft_root(p * k, points);
                w[(k - 1) * m + p] = (T)creal(v);
                w[(r - 1) * m + (k - 1) * m + p] = (T)cimag(v);
            }
    }
}

#undef EACH_LANE
