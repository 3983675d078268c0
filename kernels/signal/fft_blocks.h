/*
 * The part of fft.c that calls the passes, for one floating-point type. T is the type, and NAME(x)
 * is the name of a function for it. The file is included once for each type, after fft_passes.h.
 */

/* Fills the table of factors of a split transform: power j * c of the root for point j of column c.
 */
static void NAME(make_twists)(struct kn_fft *f)
{
    T *to = f->twists;

    for (int64_t first = 0; first < f->rows.n; first += KN_FFT_LANES)
        for (int64_t j = 0; j < f->columns.n; j++, to += 2 * KN_FFT_LANES)
            for (int l = 0; l < KN_FFT_LANES; l++) {
                const int64_t column = first + l < f->rows.n ? first + l : 0;
                const double _Complex w = kn_root(&f->roots, j * column);
                to[l] = (T)creal(w);
                to[KN_FFT_LANES + l] = (T)cimag(w);
            }
}

/* Multiplies each number of n points by its own factor. */
KN_CLONES
static void NAME(multiply_each)(const T *restrict w, int64_t n, T *restrict re, T *restrict im)
{
    for (int64_t j = 0; j < n; j++, w += 2 * KN_FFT_LANES) {
        T *const xr = re + j * KN_FFT_LANES, *const xi = im + j * KN_FFT_LANES;
        EACH_LANE
        {
            const T x = xr[l], y = xi[l], wr = w[l], wi = w[KN_FFT_LANES + l];
            xr[l] = x * wr - y * wi;
            xi[l] = x * wi + y * wr;
        }
    }
}

/* Multiplies point j of lane l by power j * (first + l) of the root, in a split transform. */
static void NAME(twist)(const struct kn_fft *f, int64_t first, int lanes, int64_t n, T *re, T *im)
{
    if (f->twists) {
        NAME(multiply_each)((const T *)f->twists + 2 * first * n, n, re, im);
        return;
    }
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
