/*
 * Discrete Fourier transforms of real sequences, and their inverses. If the length n is even, the
 * sequence is transformed as n / 2 complex numbers, whose transform is then separated. If n is odd,
 * it is transformed as n complex numbers.
 *
 * Owner: a plan is memory of the caller. Threads: a plan does not change after it has been made.
 */
#ifndef KN_SIGNAL_REAL_FFT_H
#define KN_SIGNAL_REAL_FFT_H

#include "kernels/signal/fft.h"

struct kn_real_fft {
    int64_t n;
    struct kn_fft plan; /* a transform of n / 2 points, or of n points if n is odd */
    /* The roots of order n in the form of kn_fft_job.halves. NULL if n is odd or n / 2 is above
     * KN_FFT_KEPT. */
    void *halves;
    struct kn_roots roots; /* the roots of order n, if n is even and `halves` is NULL */
};

/* These functions are the counterparts of the functions of kn_fft (fft.h). */
int64_t kn_real_fft_size(struct kn_real_fft *f, int64_t n, int64_t count, bool wide);
void kn_real_fft_make(struct kn_real_fft *f, void *memory);
int64_t kn_real_fft_scratch(const struct kn_real_fft *f);
/*
 * Transforms sequences of n real numbers into n / 2 + 1 complex numbers, or back if job->inverse is
 * set. The numbers of a sequence are contiguous, so job->src_step and job->dst_step are not used.
 * An inverse transform ignores the imaginary part of the first number. If n is even, it also
 * ignores that of the last number.
 */
enum rt_status kn_real_fft_run(const struct kn_real_fft *f, const struct kn_fft_job *job,
                               void *scratch, struct rt_run *r);

#endif
