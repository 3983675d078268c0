/*
 * Discrete Fourier transforms of any length, in float and double.
 *
 * A block of KN_FFT_LANES transforms of one length is computed at a time, one in each lane of a
 * vector. A length whose prime factors are at most KN_FFT_PRIME is a sequence of passes, one for
 * each factor (Stockham's algorithm, which needs no reordering). A long one is split into two
 * factors, whose transforms are the columns and the rows of a matrix (Bailey's method, 1990). Any
 * other length is a convolution by Bluestein's method (1970), that is, transforms of a length that
 * has small factors.
 *
 * Owner: a plan is memory of the caller. Threads: a plan is constant once made.
 */
#ifndef KN_SIGNAL_FFT_H
#define KN_SIGNAL_FFT_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/op.h"

enum {
    KN_FFT_LANES = 16,
    KN_FFT_LINE = 8, /* complex numbers of a line of the cache, in float */
    KN_FFT_PRIME = 31,
    KN_FFT_PASSES = 32,
    KN_FFT_DIRECT = 4096, /* longer transforms are split */
};
/* Longer transforms are refused. */
#define KN_FFT_MOST (INT64_C(1) << 27)

/* A length with small factors that is transformed by passes. */
struct kn_fft_direct {
    int64_t n;
    int n_passes;
    int radix[KN_FFT_PASSES];
    /* For each pass over m * radix points, the (radix - 1) * m powers of the root, real parts
     * first. */
    void *twiddle[KN_FFT_PASSES];
};

/* The powers of a root of unity, as products of one of its first powers and one of every n_fine-th
 * power. */
struct kn_roots {
    int64_t n, n_fine;
    double _Complex *fine, *coarse;
};
static inline double _Complex kn_root(const struct kn_roots *t, int64_t k)
{
    const double _Complex a = t->coarse[k / t->n_fine], b = t->fine[k % t->n_fine];
    const double re = creal(a) * creal(b) - cimag(a) * cimag(b);
    return __builtin_complex(re, creal(a) * cimag(b) + cimag(a) * creal(b));
}
/* Returns the bytes of a table of the powers of exp(-2 pi i / n), or fills it. */
int64_t kn_roots_size(int64_t n);
void kn_roots_make(struct kn_roots *t, int64_t n, void *memory);

struct kn_fft {
    int64_t n;
    bool wide;      /* double instead of float */
    bool convolves; /* whether Bluestein's method is used */
    int64_t smooth; /* the length with small factors: n or the convolution's */
    struct kn_fft_direct columns,
        rows;              /* the factors of `smooth`; columns.n is 1 without a split */
    struct kn_roots roots; /* the roots of order `smooth`, for a split transform */
    struct kn_roots chirp; /* the roots of order 2 n, for Bluestein's method */
};

/* Sets the lengths of a plan to transform `count` sequences of n points. Returns the bytes that
 * kn_fft_make needs, or -1 if n is larger than KN_FFT_MOST. */
int64_t kn_fft_size(struct kn_fft *f, int64_t n, int64_t count, bool wide);
/* Fills the tables in `memory`, which has the size that kn_fft_size returned and is aligned to 64
 * bytes. */
void kn_fft_make(struct kn_fft *f, void *memory);
/* Returns the bytes of scratch memory that kn_fft_run needs. */
int64_t kn_fft_scratch(const struct kn_fft *f);

/*
 * Sequences to transform. The real part of element j of sequence i is src[i * src_next + j *
 * src_step], counted in numbers of the plan's type, and the imaginary part follows it; dst is
 * likewise. All results are multiplied by `scale`. `dst` may be `src` with the same strides.
 */
struct kn_fft_job {
    const void *src;
    void *dst;
    int64_t count, src_next, src_step, dst_next, dst_step;
    bool inverse;
    double scale;
    /* If set, the sequences are halves of real ones: after a forward transform, the n + 1 points of
     * the real sequence are separated and written, and before an inverse one, n + 1 points are read
     * and joined. Holds the cosines and then the sines of -pi k / n for k <= n / 2. Only for plans
     * for which kn_fft_halves is true. */
    const void *halves;
};
static inline bool kn_fft_halves(const struct kn_fft *f)
{
    return !f->convolves && f->columns.n == 1;
}
/* Transforms sequences. `scratch` is aligned to 64 bytes. */
enum rt_status kn_fft_run(const struct kn_fft *f, const struct kn_fft_job *job, void *scratch,
                          struct rt_run *r);

/* Returns exp(-2 pi i k / n) for 0 <= k < n. */
double _Complex kn_fft_root(int64_t k, int64_t n);

#endif
