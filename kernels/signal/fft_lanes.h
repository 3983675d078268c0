/*
 * Loops over the lanes of a block, for one floating-point type. T is the type, and NAME(x) is the
 * name of a function for it. The loops read and write sequences, and convert between the transform
 * of a real sequence and the complex transform of half its length. The file is included once for
 * each type, after fft_passes.h.
 */

/* Reads `lanes` sequences of n points into the lanes of re and im. The other lanes become 0.
 * Sequences whose distance is a power of 2 compete for the same cache lines, so all numbers in a
 * cache line are read together. Complex numbers are loaded whole and separated in vectors. */
KN_CLONES
static void NAME(load)(const T *src, int64_t next, int64_t step, int lanes, int64_t n,
                       T *restrict re, T *restrict im)
{
    T line[KN_FFT_LINE][2 * KN_FFT_LANES] = {{0}};

    for (int64_t from = 0; from < n; from += KN_FFT_LINE) {
        const int some = (int)(n - from < KN_FFT_LINE ? n - from : KN_FFT_LINE);
        for (int l = 0; l < lanes; l++) {
            const T *const row = src + l * next + from * step;
            for (int j = 0; j < some; j++)
                memcpy(&line[j][2 * l], row + j * step, 2 * sizeof(T));
        }
        for (int j = 0; j < some; j++) {
            T *const x = re + (from + j) * KN_FFT_LANES, *const y = im + (from + j) * KN_FFT_LANES;
            EACH_LANE
            {
                x[l] = line[j][2 * l];
                y[l] = line[j][2 * l + 1];
            }
        }
    }
}

/* Writes the lanes of re and im to sequences. Numbers are stored one at a time, which is faster
 * than joining them in vectors first. */
KN_CLONES
static void NAME(store)(T *dst, int64_t next, int64_t step, int lanes, int64_t n,
                        const T *restrict re, const T *restrict im, T scale)
{
    for (int64_t from = 0; from < n; from += KN_FFT_LINE)
        for (int l = 0; l < lanes; l++) {
            const int64_t to = from + KN_FFT_LINE < n ? from + KN_FFT_LINE : n;
            T *const row = dst + l * next;
            for (int64_t j = from; j < to; j++) {
                row[j * step] = re[j * KN_FFT_LANES + l] * scale;
                row[j * step + 1] = im[j * KN_FFT_LANES + l] * scale;
            }
        }
}

/*
 * Computes the transform X of a real sequence. Z is the transform of n points whose real parts are
 * the even elements of the sequence, and whose imaginary parts are the odd elements. Replaces Z by
 * the first n + 1 points of X: X[k] = (Z[k] + Z*[n-k]) / 2 - i w^k (Z[k] - Z*[n-k]) / 2.
 */
KN_CLONES
static void NAME(separate_lanes)(T *restrict re, T *restrict im, int64_t n, const T *restrict w)
{
    const T *const sines = w + n / 2 + 1;
    for (int64_t k = 1; 2 * k <= n; k++) {
        T *const xr = re + k * KN_FFT_LANES, *const xi = im + k * KN_FFT_LANES;
        T *const yr = re + (n - k) * KN_FFT_LANES, *const yi = im + (n - k) * KN_FFT_LANES;
        const T wr = w[k] * (T)0.5, wi = sines[k] * (T)0.5;
        EACH_LANE
        {
            const T sr = (xr[l] + yr[l]) * (T)0.5, si = (xi[l] - yi[l]) * (T)0.5;
            const T dr = xi[l] + yi[l], di = yr[l] - xr[l]; /* the difference multiplied by -i */
            const T pr = dr * wr - di * wi, pi = dr * wi + di * wr;
            xr[l] = sr + pr;
            xi[l] = si + pi;
            yr[l] = sr - pr;
            yi[l] = pi - si;
        }
    }
    EACH_LANE
    {
        const T first = re[l], second = im[l];
        re[l] = first + second;
        re[n * KN_FFT_LANES + l] = first - second;
        im[l] = im[n * KN_FFT_LANES + l] = 0;
    }
}

/* Inverts the function above: Z[k] = (X[k] + X*[n-k]) + i w^-k (X[k] - X*[n-k]). */
KN_CLONES
static void NAME(join_lanes)(T *restrict re, T *restrict im, int64_t n, const T *restrict w)
{
    const T *const sines = w + n / 2 + 1;
    for (int64_t k = 1; 2 * k <= n; k++) {
        T *const xr = re + k * KN_FFT_LANES, *const xi = im + k * KN_FFT_LANES;
        T *const yr = re + (n - k) * KN_FFT_LANES, *const yi = im + (n - k) * KN_FFT_LANES;
        const T wr = w[k], wi = -sines[k];
        EACH_LANE
        {
            const T sr = xr[l] + yr[l], si = xi[l] - yi[l];
            const T dr = xr[l] - yr[l], di = xi[l] + yi[l];
            /* the factor i is applied below */
            const T pr = dr * wr - di * wi, pi = dr * wi + di * wr;
            xr[l] = sr - pi;
            xi[l] = si + pr;
            yr[l] = sr + pi;
            yi[l] = pr - si;
        }
    }
    EACH_LANE
    {
        const T first = re[l], last = re[n * KN_FFT_LANES + l];
        re[l] = first + last;
        im[l] = first - last;
    }
}
