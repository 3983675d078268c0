/*
 * Discrete Fourier transforms of any length, in float and double.
 *
 * KN_FFT_LANES transforms of the same length form a block, in which each transform has one lane of
 * a vector. There are three methods:
 *
 * - If all prime factors of the length are at most KN_FFT_PRIME, there is one pass for each factor
 *   (Stockham's algorithm, which needs no reordering).
 * - A long length of this kind is split into two factors. The sequence is arranged as a matrix
 *   whose dimensions are these factors, and its columns and rows are transformed (Bailey's method,
 *   1990).
 * - For any other length, Bluestein's method (1970) computes the transform as a convolution, by
 *   transforms of a length with small factors.
 *
 * Owner: a plan is memory of the caller. Threads: any number of threads may use a plan after it has
 * been made. The first transform by Bluestein's method completes it (struct kn_fft_kept).
 */
#ifndef KN_SIGNAL_FFT_H
#define KN_SIGNAL_FFT_H

#include <complex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/op.h"

enum {
    KN_FFT_LANES = 16,
    KN_FFT_LINE = 8, /* number of complex floats in a cache line */
    KN_FFT_PRIME = 31,
    KN_FFT_PASSES = 32,
    KN_FFT_DIRECT = 4096, /* a transform with more points is split into two factors */
    /* A plan for more points keeps fewer tables, and computes their elements during a transform. */
    KN_FFT_KEPT = 1 << 19,
};
/* maximum length of a transform; longer transforms are refused */
#define KN_FFT_MOST (INT64_C(1) << 27)

/* A transform with one pass for each factor of its length. All factors are small. */
struct kn_fft_direct {
    int64_t n;
    int n_passes;
    int radix[KN_FFT_PASSES];
    /* The twiddle factors of each pass over m * radix points: (radix - 1) * m powers of the root.
     * All real parts precede all imaginary parts. */
    void *twiddle[KN_FFT_PASSES];
};

/* The powers of a root of unity. Each power is the product of an element of `coarse`, which has
 * every n_fine-th power, and an element of `fine`, which has the first n_fine powers. */
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
/* kn_roots_size returns the size, in bytes, of a table of the powers of exp(-2 pi i / n).
 * kn_roots_make fills the table. */
int64_t kn_roots_size(int64_t n);
void kn_roots_make(struct kn_roots *t, int64_t n, void *memory);

/* The chirp of Bluestein's method and its spectrum, which do not depend on the sequences. The first
 * transform computes them, because this takes as long as a transform and must check the deadline.
 */
struct kn_fft_kept {
    atomic_int state;
    void *chirp, *spectrum;
};

struct kn_fft {
    int64_t n;
    bool wide;      /* whether numbers are double instead of float */
    bool convolves; /* whether Bluestein's method is used */
    int64_t smooth; /* a length with small factors: n itself, or the length of the convolution */
    struct kn_fft_direct columns,
        rows;              /* the two factors of `smooth`; columns.n is 1 if there is no split */
    struct kn_roots roots; /* the roots of order `smooth`, for a split transform */
    struct kn_roots chirp; /* the roots of order 2 n, for Bluestein's method */
    /* For a split transform, the factors between its two steps: for each block of columns and each
     * of their points, the real parts of all lanes and then the imaginary parts. NULL if `smooth`
     * is above KN_FFT_KEPT. */
    void *twists;
    struct kn_fft_kept *kept; /* NULL if `smooth` is above KN_FFT_KEPT */
};

/* Sets the lengths of a plan that transforms `count` sequences of n points. Returns the number
 * of bytes that kn_fft_make needs, or -1 if n is larger than KN_FFT_MOST. */
int64_t kn_fft_size(struct kn_fft *f, int64_t n, int64_t count, bool wide);
/* Fills the tables in `memory`, which has the size that kn_fft_size returned and is aligned to 64
 * bytes. */
void kn_fft_make(struct kn_fft *f, void *memory);
/* Returns the number of bytes of scratch memory that kn_fft_run needs. */
int64_t kn_fft_scratch(const struct kn_fft *f);

/*
 * Sequences to transform. The real part of element j of sequence i is src[i * src_next + j *
 * src_step], counted in numbers of the plan's type. The imaginary part follows it. `dst` has the
 * same layout with its own strides. All results are multiplied by `scale`. `dst` may be `src` if
 * the strides are equal.
 */
struct kn_fft_job {
    const void *src;
    void *dst;
    int64_t count, src_next, src_step, dst_next, dst_step;
    bool inverse;
    double scale;
    /*
     * If not NULL, each sequence of n complex numbers represents a real sequence of 2 n numbers.
     * A forward transform then writes the first n + 1 points of the real sequence's transform, and
     * an inverse transform reads n + 1 points. `halves` is an array of the cosines, followed by the
     * sines, of -pi k / n for 0 <= k <= n / 2. Must be NULL unless kn_fft_halves returns true for
     * the plan.
     */
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
