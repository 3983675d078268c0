#include "kernels/signal/fft.h"

#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"

/* ---- roots of unity ---- */

/* Integer arithmetic reduces the angle to an eighth of the circle, so that sin and cos get a small
 * argument. */
double _Complex kn_fft_root(int64_t k, int64_t n)
{
    const int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n;
    const bool odd = eighth & 1;
    const double angle = (double)(odd ? n - rest : rest) / (double)n * M_PI_4;
    const double c = cos(angle), s = sin(angle);
    const double x = eighth % 4 == 1 || eighth % 4 == 2 ? s : c;
    const double y = eighth % 4 == 1 || eighth % 4 == 2 ? c : s;
    const bool left = eighth >= 2 && eighth < 6, up = eighth < 4;
    return CMPLX(left ? -x : x, up ? -y : y);
}

static int64_t kn_fft_aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Returns the number of floating-point numbers in one array of a block. The array is slightly
 * longer than needed, because arrays at multiples of 4096 bytes would compete for the same cache
 * lines. */
static int64_t kn_fft_array(int64_t n)
{
    enum { PAD = 5 };
    return (n + PAD) * KN_FFT_LANES;
}

static int64_t fine_of(int64_t n)
{
    return (int64_t)sqrt((double)n) + 1;
}
int64_t kn_roots_size(int64_t n)
{
    const int64_t fine = fine_of(n), points = fine + n / fine + 1;
    return kn_fft_aligned(points * (int64_t)sizeof(double _Complex));
}
void kn_roots_make(struct kn_roots *t, int64_t n, void *memory)
{
    *t = (struct kn_roots){.n = n, .n_fine = fine_of(n), .fine = memory};
    t->coarse = t->fine + t->n_fine;
    for (int64_t k = 0; k < t->n_fine; k++)
        t->fine[k] = kn_fft_root(k % n, n);
    for (int64_t k = 0; k <= n / t->n_fine; k++)
        t->coarse[k] = kn_fft_root(k * t->n_fine % n, n);
}

/* ---- lengths ---- */

/* Appends the factors of n to `radix`, with 4 before 2, and returns their number, or -1 if a prime
 * factor is too large. */
static int factors(int64_t n, int *radix)
{
    int count = 0;

    for (; n % 4 == 0; n /= 4)
        radix[count++] = 4;
    for (int p = 2; p <= KN_FFT_PRIME; p++)
        for (; n % p == 0; n /= p)
            radix[count++] = p;
    return n == 1 ? count : -1;
}

/* Returns the smallest product of at most two small primes and a power of 2 that is not below n. */
static int64_t smooth_from(int64_t n)
{
    static const int odd[] = {1, 3, 5, 9, 15};
    int64_t best = INT64_MAX;

    for (int i = 0; i < (int)(sizeof odd / sizeof *odd); i++) {
        int64_t m = odd[i];
        while (m < n)
            m *= 2;
        best = m < best ? m : best;
    }
    return best;
}

static int64_t table_size(const struct kn_fft_direct *d, int64_t number)
{
    int64_t bytes = 0, m = d->n;
    for (int i = 0; i < d->n_passes; i++) {
        m /= d->radix[i];
        bytes += kn_fft_aligned(2 * (d->radix[i] - 1) * m * number);
    }
    return bytes;
}

static int64_t number_bytes(const struct kn_fft *f)
{
    return f->wide ? sizeof(double) : sizeof(float);
}

static int64_t twists_size(const struct kn_fft *f)
{
    const int64_t blocks = (f->rows.n + KN_FFT_LANES - 1) / KN_FFT_LANES;

    return f->columns.n > 1 && f->smooth <= KN_FFT_KEPT
               ? 2 * blocks * f->columns.n * KN_FFT_LANES * number_bytes(f)
               : 0;
}

/* Returns the size of n complex numbers in bytes. */
static int64_t complex_size(const struct kn_fft *f, int64_t n)
{
    return kn_fft_aligned(2 * n * number_bytes(f));
}

static int64_t kept_size(const struct kn_fft *f)
{
    return f->convolves && f->smooth <= KN_FFT_KEPT
               ? kn_fft_aligned(sizeof(struct kn_fft_kept)) + complex_size(f, f->n) +
                     complex_size(f, f->smooth)
               : 0;
}

int64_t kn_fft_size(struct kn_fft *f, int64_t n, int64_t count, bool wide)
{
    /* with at most FEW sequences, most lanes would be unused, so transforms of at least WORTH
     * points are split */
    enum { FEW = 4, WORTH = 256 };
    int radix[64];
    int n_factors;

    *f = (struct kn_fft){.n = n, .wide = wide, .smooth = n, .columns.n = 1, .rows.n = 1};
    if (n < 1 || n > KN_FFT_MOST)
        return -1;
    n_factors = factors(n, radix);
    if (n_factors < 0) {
        f->convolves = true;
        f->smooth = smooth_from(2 * n - 1);
        n_factors = factors(f->smooth, radix);
    }
    const bool split = f->smooth > KN_FFT_DIRECT || (count <= FEW && f->smooth >= WORTH);
    for (int i = n_factors - 1; i >= 0; i--) { /* the largest factors come first, except 4 */
        struct kn_fft_direct *const d = split && f->columns.n <= f->rows.n ? &f->columns : &f->rows;
        d->radix[d->n_passes++] = radix[i];
        d->n *= radix[i];
    }
    const int64_t number = number_bytes(f);
    return table_size(&f->columns, number) + table_size(&f->rows, number) +
           (f->columns.n > 1 ? kn_roots_size(f->smooth) : 0) + twists_size(f) + kept_size(f) +
           (f->convolves ? kn_roots_size(2 * n) : 0);
}

/* Returns the number of floating-point numbers in the matrix of a split transform. */
static int64_t kn_fft_matrix(const struct kn_fft *f)
{
    return f->columns.n > 1 ? (2 * f->smooth + 15) / 16 * 16 : 0;
}
int64_t kn_fft_scratch(const struct kn_fft *f)
{
    const int64_t longest = f->columns.n > f->rows.n ? f->columns.n : f->rows.n;
    int64_t numbers = 4 * kn_fft_array(longest) + kn_fft_matrix(f);

    if (f->convolves)
        numbers += 2 * (f->n + 2 * f->smooth) + 16;
    return numbers * number_bytes(f);
}

/* ---- transforms ---- */

/* number of complex numbers that are processed between two checks of the run */
enum { KN_FFT_PART = 1 << 14 };
/* States of what a plan keeps: nothing yet, a transform is computing it, or complete. */
enum { KEPT_NOTHING, KEPT_BEGUN, KEPT_ALL };

#define T       float
#define NAME(x) x##_f32
#include "kernels/signal/fft_passes.h"
#include "kernels/signal/fft_lanes.h"
#include "kernels/signal/fft_blocks.h"
#include "kernels/signal/fft_convolution.h"
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#include "kernels/signal/fft_passes.h"
#include "kernels/signal/fft_lanes.h"
#include "kernels/signal/fft_blocks.h"
#include "kernels/signal/fft_convolution.h"
#undef T
#undef NAME

void kn_fft_make(struct kn_fft *f, void *memory)
{
    char *at = memory;

    if (f->wide) {
        tables_f64(&f->columns, &at);
        tables_f64(&f->rows, &at);
    } else {
        tables_f32(&f->columns, &at);
        tables_f32(&f->rows, &at);
    }
    if (f->columns.n > 1) {
        kn_roots_make(&f->roots, f->smooth, at);
        at += kn_roots_size(f->smooth);
    }
    if (twists_size(f)) {
        f->twists = at;
        at += twists_size(f);
        if (f->wide)
            make_twists_f64(f);
        else
            make_twists_f32(f);
    }
    if (kept_size(f)) {
        f->kept = (struct kn_fft_kept *)(void *)at;
        at += kn_fft_aligned(sizeof *f->kept);
        atomic_init(&f->kept->state, KEPT_NOTHING);
        f->kept->chirp = at;
        f->kept->spectrum = at + complex_size(f, f->n);
        at += complex_size(f, f->n) + complex_size(f, f->smooth);
    }
    if (f->convolves)
        kn_roots_make(&f->chirp, 2 * f->n, at);
}

enum rt_status kn_fft_run(const struct kn_fft *f, const struct kn_fft_job *job, void *scratch,
                          struct rt_run *r)
{
    if (f->convolves)
        return f->wide ? bluestein_f64(f, job, scratch, r) : bluestein_f32(f, job, scratch, r);
    return f->wide ? smooth_f64(f, job, scratch, r) : smooth_f32(f, job, scratch, r);
}
