/*
 * The passes of fft.c, for one floating-point type. T is the type, and NAME(x) is the name of a
 * function for it. The file is included once for each type.
 *
 * A pass of radix r over m * r points reads point p + m * j and writes point r * p + k, for p < m
 * and j, k < r. A point has s numbers, of which KN_FFT_LANES are processed at a time.
 */

typedef T NAME(lanes)[KN_FFT_LANES];

#define EACH_LANE KN_IVDEP for (int l = 0; l < KN_FFT_LANES; l++)

/* Computes out = (re + i im) * (wr + i wi). */
static inline __attribute__((always_inline)) void
NAME(put)(T *restrict yr, T *restrict yi, const T *restrict re, const T *restrict im, T wr, T wi)
{
    EACH_LANE
    {
        yr[l] = re[l] * wr - im[l] * wi;
        yi[l] = re[l] * wi + im[l] * wr;
    }
}

KN_CLONES
static void NAME(pass2)(const T *restrict xr, const T *restrict xi, T *restrict yr, T *restrict yi,
                        int64_t m, int64_t s, const T *restrict w)
{
    for (int64_t p = 0; p < m; p++) {
        const T wr = w[p], wi = w[m + p];
        for (int64_t q = 0; q < s; q += KN_FFT_LANES) {
            const T *ar = xr + s * p + q, *ai = xi + s * p + q;
            const T *br = ar + s * m, *bi = ai + s * m;
            T *cr = yr + 2 * s * p + q, *ci = yi + 2 * s * p + q;
            EACH_LANE
            {
                const T dr = ar[l] - br[l], di = ai[l] - bi[l];
                cr[l] = ar[l] + br[l];
                ci[l] = ai[l] + bi[l];
                cr[s + l] = dr * wr - di * wi;
                ci[s + l] = dr * wi + di * wr;
            }
        }
    }
}

KN_CLONES
static void NAME(pass4)(const T *restrict xr, const T *restrict xi, T *restrict yr, T *restrict yi,
                        int64_t m, int64_t s, const T *restrict w)
{
    const T *const wi = w + 3 * m;
    for (int64_t p = 0; p < m; p++) {
        const T w1r = w[p], w2r = w[m + p], w3r = w[2 * m + p];
        const T w1i = wi[p], w2i = wi[m + p], w3i = wi[2 * m + p];
        for (int64_t q = 0; q < s; q += KN_FFT_LANES) {
            const T *ar = xr + s * p + q, *ai = xi + s * p + q;
            const T *br = ar + s * m, *bi = ai + s * m;
            const T *cr = br + s * m, *ci = bi + s * m;
            const T *dr = cr + s * m, *di = ci + s * m;
            T *er = yr + 4 * s * p + q, *ei = yi + 4 * s * p + q;
            EACH_LANE
            {
                const T pr = ar[l] + cr[l], pi = ai[l] + ci[l];
                const T mr = ar[l] - cr[l], mi = ai[l] - ci[l];
                const T qr = br[l] + dr[l], qi = bi[l] + di[l];
                const T nr = br[l] - dr[l], ni = bi[l] - di[l];
                const T t1r = mr + ni, t1i = mi - nr;
                const T t2r = pr - qr, t2i = pi - qi;
                const T t3r = mr - ni, t3i = mi + nr;
                er[l] = pr + qr;
                ei[l] = pi + qi;
                er[s + l] = t1r * w1r - t1i * w1i;
                ei[s + l] = t1r * w1i + t1i * w1r;
                er[2 * s + l] = t2r * w2r - t2i * w2i;
                ei[2 * s + l] = t2r * w2i + t2i * w2r;
                er[3 * s + l] = t3r * w3r - t3i * w3i;
                ei[3 * s + l] = t3r * w3i + t3i * w3r;
            }
        }
    }
}

/* A pass of an odd radix r. Points j and r - j are added and subtracted first, because their roots
 * are conjugate. c and d hold the cosines and sines of 2 pi k / r. */
static inline __attribute__((always_inline)) void NAME(odd)(int r, const T *restrict xr,
                                                            const T *restrict xi, T *restrict yr,
                                                            T *restrict yi, int64_t m, int64_t s,
                                                            const T *restrict w)
{
    const int half = r / 2;
    T c[KN_FFT_PRIME], d[KN_FFT_PRIME];
    NAME(lanes) ar[KN_FFT_PRIME / 2 + 1], ai[KN_FFT_PRIME / 2 + 1];
    NAME(lanes) br[KN_FFT_PRIME / 2 + 1], bi[KN_FFT_PRIME / 2 + 1];

    for (int k = 0; k < r; k++) {
        const double _Complex root = kn_fft_root(k, r);
        c[k] = (T)creal(root);
        d[k] = (T)cimag(root);
    }
    for (int64_t p = 0; p < m; p++)
        for (int64_t q = 0; q < s; q += KN_FFT_LANES) {
            const T *const zr = xr + s * p + q, *const zi = xi + s * p + q;
            T *const er = yr + r * s * p + q, *const ei = yi + r * s * p + q;
            NAME(lanes) sr, si;
            EACH_LANE
            {
                sr[l] = zr[l];
                si[l] = zi[l];
            }
            for (int j = 1; j <= half; j++) {
                const int64_t one = s * m * j, two = s * m * (r - j);
                EACH_LANE
                {
                    ar[j][l] = zr[one + l] + zr[two + l];
                    ai[j][l] = zi[one + l] + zi[two + l];
                    br[j][l] = zr[one + l] - zr[two + l];
                    bi[j][l] = zi[one + l] - zi[two + l];
                    sr[l] += ar[j][l];
                    si[l] += ai[j][l];
                }
            }
            EACH_LANE
            {
                er[l] = sr[l];
                ei[l] = si[l];
            }
            for (int k = 1; k <= half; k++) {
                NAME(lanes) ur, ui, vr, vi, gr, gi, hr, hi;
                EACH_LANE
                {
                    ur[l] = zr[l];
                    ui[l] = zi[l];
                    vr[l] = vi[l] = 0;
                }
                for (int j = 1; j <= half; j++) {
                    const T cj = c[j * k % r], dj = d[j * k % r];
                    EACH_LANE
                    {
                        ur[l] += ar[j][l] * cj;
                        ui[l] += ai[j][l] * cj;
                        vr[l] += br[j][l] * dj;
                        vi[l] += bi[j][l] * dj;
                    }
                }
                EACH_LANE /* computes u + i v and u - i v */
                {
                    gr[l] = ur[l] - vi[l];
                    gi[l] = ui[l] + vr[l];
                    hr[l] = ur[l] + vi[l];
                    hi[l] = ui[l] - vr[l];
                }
                const int64_t one = (k - 1) * m + p, two = (r - k - 1) * m + p, imag = (r - 1) * m;
                NAME(put)(er + k * s, ei + k * s, gr, gi, w[one], w[imag + one]);
                NAME(put)(er + (r - k) * s, ei + (r - k) * s, hr, hi, w[two], w[imag + two]);
            }
        }
}

KN_CLONES
static void NAME(pass3)(const T *restrict xr, const T *restrict xi, T *restrict yr, T *restrict yi,
                        int64_t m, int64_t s, const T *restrict w)
{
    NAME(odd)(3, xr, xi, yr, yi, m, s, w);
}
KN_CLONES
static void NAME(pass5)(const T *restrict xr, const T *restrict xi, T *restrict yr, T *restrict yi,
                        int64_t m, int64_t s, const T *restrict w)
{
    NAME(odd)(5, xr, xi, yr, yi, m, s, w);
}
KN_CLONES
static void NAME(pass_odd)(int r, const T *restrict xr, const T *restrict xi, T *restrict yr,
                           T *restrict yi, int64_t m, int64_t s, const T *restrict w)
{
    NAME(odd)(r, xr, xi, yr, yi, m, s, w);
}

/*
 * Transforms KN_FFT_LANES sequences of f->n points. `buffer` holds four arrays of kn_fft_array(n)
 * numbers. The first two hold the real and the imaginary parts of the input. Returns the index of
 * the array in which the result begins: 0 or 2.
 */
static int NAME(direct)(const struct kn_fft_direct *f, T *buffer)
{
    const int64_t size = kn_fft_array(f->n);
    int64_t m = f->n, s = KN_FFT_LANES;
    int at = 0;

    for (int i = 0; i < f->n_passes; i++) {
        const int r = f->radix[i];
        const T *xr = buffer + at * size, *xi = xr + size, *w = f->twiddle[i];
        T *yr = buffer + (2 - at) * size, *yi = yr + size;
        m /= r;
        if (r == 4)
            NAME(pass4)(xr, xi, yr, yi, m, s, w);
        else if (r == 2)
            NAME(pass2)(xr, xi, yr, yi, m, s, w);
        else if (r == 3)
            NAME(pass3)(xr, xi, yr, yi, m, s, w);
        else if (r == 5)
            NAME(pass5)(xr, xi, yr, yi, m, s, w);
        else
            NAME(pass_odd)(r, xr, xi, yr, yi, m, s, w);
        s *= r;
        at = 2 - at;
    }
    return at;
}
