#include "kernels/signal/real_fft.h"

#include "kernels/cpu/types.h"

/* Returns the number of sequences that are transformed together. */
static int64_t group_of(const struct kn_real_fft *f)
{
    return f->plan.n > KN_FFT_DIRECT ? 1 : KN_FFT_LANES;
}

static int64_t halves_bytes(const struct kn_real_fft *f)
{
    const int64_t number = f->plan.wide ? sizeof(double) : sizeof(float);
    return (2 * (f->n / 4 + 1) * number + 63) / 64 * 64;
}

/* Returns whether the plan of an even length has the table of roots. */
static bool has_halves(const struct kn_real_fft *f)
{
    return kn_fft_halves(&f->plan) || f->n / 2 <= KN_FFT_KEPT;
}

int64_t kn_real_fft_size(struct kn_real_fft *f, int64_t n, int64_t count, bool wide)
{
    f->n = n;
    f->halves = NULL;
    const int64_t bytes = kn_fft_size(&f->plan, n % 2 ? n : n / 2, count, wide);
    if (bytes < 0 || n % 2)
        return bytes;
    return bytes + (has_halves(f) ? halves_bytes(f) : kn_roots_size(n));
}

void kn_real_fft_make(struct kn_real_fft *f, void *memory)
{
    char *at = memory;

    if (f->n % 2 == 0 && has_halves(f)) {
        const int64_t count = f->n / 4 + 1;
        f->halves = at;
        for (int64_t k = 0; k < count; k++) {
            const double _Complex v = kn_fft_root(k, f->n);
            if (f->plan.wide) {
                ((double *)f->halves)[k] = creal(v);
                ((double *)f->halves)[count + k] = cimag(v);
            } else {
                ((float *)f->halves)[k] = (float)creal(v);
                ((float *)f->halves)[count + k] = (float)cimag(v);
            }
        }
        at += halves_bytes(f);
    } else if (f->n % 2 == 0) {
        kn_roots_make(&f->roots, f->n, at);
        at += kn_roots_size(f->n);
    }
    kn_fft_make(&f->plan, at);
}

/* Returns the size, in bytes, of the complex sequences of one group, rounded up to 64. */
static int64_t work_bytes(const struct kn_real_fft *f)
{
    const int64_t number = f->plan.wide ? sizeof(double) : sizeof(float);
    return (2 * f->plan.n * group_of(f) * number + 63) / 64 * 64;
}
int64_t kn_real_fft_scratch(const struct kn_real_fft *f)
{
    return work_bytes(f) + kn_fft_scratch(&f->plan);
}

#define T       float
#define NAME(x) x##_f32
#include "kernels/signal/real_fft_loops.h"
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#include "kernels/signal/real_fft_loops.h"
#undef T
#undef NAME

enum rt_status kn_real_fft_run(const struct kn_real_fft *f, const struct kn_fft_job *job,
                               void *scratch, struct rt_run *r)
{
    const int64_t group = group_of(f);
    void *const rest = (char *)scratch + work_bytes(f);

    if (f->halves && kn_fft_halves(&f->plan)) {
        struct kn_fft_job whole = *job;
        whole.halves = f->halves;
        whole.src_step = whole.dst_step = 2;
        return kn_fft_run(&f->plan, &whole, scratch, r);
    }
    for (int64_t i = 0; i < job->count; i += group) {
        const int64_t some = job->count - i < group ? job->count - i : group;
        enum rt_status st;
        if (f->plan.wide)
            st = job->inverse ? backward_f64(f, job, i, some, scratch, rest, r)
                              : forward_f64(f, job, i, some, scratch, rest, r);
        else
            st = job->inverse ? backward_f32(f, job, i, some, scratch, rest, r)
                              : forward_f32(f, job, i, some, scratch, rest, r);
        if (st)
            return st;
    }
    return RT_OK;
}
