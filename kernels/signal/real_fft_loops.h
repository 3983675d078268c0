/*
 * The loops of real_fft.c for one floating-point type. T is the type, and NAME(x) is the name of a
 * function for it. The file is included once for each type.
 */

/* Sets *re and *im to power k of the root of order f->n, for k <= f->n / 4. */
static inline void NAME(root)(const struct kn_real_fft *f, int64_t k, T *re, T *im)
{
    const T *const table = f->halves;

    if (table) {
        *re = table[k];
        *im = table[f->n / 4 + 1 + k];
        return;
    }
    const double _Complex w = kn_root(&f->roots, k);
    *re = (T)creal(w);
    *im = (T)cimag(w);
}

/*
 * Computes h + 1 points of the transform X of a real sequence. Z is the transform of h points whose
 * real parts are the even elements, and whose imaginary parts are the odd elements. X[k] = (Z[k] +
 * Z*[h-k]) / 2 - i w^k (Z[k] - Z*[h-k]) / 2. x may be z.
 */
static enum rt_status NAME(separate)(const struct kn_real_fft *f, const T *z, T *x, int64_t h,
                                     T scale, struct rt_run *r)
{
    const T first = z[0], second = z[1];
    T wr, wi;

    for (int64_t k = 1; 2 * k <= h; k++) {
        NAME(root)(f, k, &wr, &wi);
        const T ar = z[2 * k], ai = z[2 * k + 1], br = z[2 * (h - k)], bi = z[2 * (h - k) + 1];
        const T sr = (ar + br) * (T)0.5, si = (ai - bi) * (T)0.5;
        /* the difference multiplied by -i */
        const T dr = (ai + bi) * (T)0.5, di = (br - ar) * (T)0.5;
        const T pr = dr * wr - di * wi, pi = dr * wi + di * wr;
        x[2 * k] = (sr + pr) * scale;
        x[2 * k + 1] = (si + pi) * scale;
        x[2 * (h - k)] = (sr - pr) * scale;
        x[2 * (h - k) + 1] = (pi - si) * scale;
        if (rt_run_tick(r, k))
            return r->err->code;
    }
    x[0] = (first + second) * scale;
    x[1] = 0;
    x[2 * h] = (first - second) * scale;
    x[2 * h + 1] = 0;
    return RT_OK;
}

/* Inverts the function above: Z[k] = (X[k] + X*[h-k]) + i w^-k (X[k] - X*[h-k]). */
static enum rt_status NAME(join)(const struct kn_real_fft *f, const T *x, T *z, int64_t h,
                                 struct rt_run *r)
{
    T wr, wi;

    z[0] = x[0] + x[2 * h];
    z[1] = x[0] - x[2 * h];
    for (int64_t k = 1; 2 * k <= h; k++) {
        NAME(root)(f, k, &wr, &wi);
        wi = -wi;
        const T ar = x[2 * k], ai = x[2 * k + 1], br = x[2 * (h - k)], bi = x[2 * (h - k) + 1];
        const T sr = ar + br, si = ai - bi, dr = ar - br, di = ai + bi;
        const T pr = dr * wr - di * wi, pi = dr * wi + di * wr; /* the factor i is applied below */
        z[2 * k] = sr - pi;
        z[2 * k + 1] = si + pr;
        z[2 * (h - k)] = sr + pi;
        z[2 * (h - k) + 1] = pr - si;
        if (rt_run_tick(r, k))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status NAME(forward)(const struct kn_real_fft *f, const struct kn_fft_job *job,
                                    int64_t from, int64_t count, T *work, void *rest,
                                    struct rt_run *r)
{
    const int64_t n = f->n, h = n / 2, points = f->plan.n;
    const T *const src = (const T *)job->src + from * job->src_next;
    T *const dst = (T *)job->dst + from * job->dst_next;
    struct kn_fft_job step = {.src = src,
                              .dst = work,
                              .count = count,
                              .src_next = job->src_next,
                              .src_step = 2,
                              .dst_next = 2 * points,
                              .dst_step = 2,
                              .scale = 1};

    for (int64_t i = 0; n % 2 && i < count; i++)
        for (int64_t k = 0; k < n; k++) {
            work[2 * (i * n + k)] = src[i * job->src_next + k];
            work[2 * (i * n + k) + 1] = 0;
            if (rt_run_tick(r, k))
                return r->err->code;
        }
    if (n % 2) {
        step.src = work;
        step.src_next = 2 * n;
    }
    enum rt_status st = kn_fft_run(&f->plan, &step, rest, r);
    for (int64_t i = 0; i < count && !st; i++) {
        T *const out = dst + i * job->dst_next;
        if (n % 2 == 0)
            st = NAME(separate)(f, work + 2 * i * points, out, h, (T)job->scale, r);
        for (int64_t k = 0; n % 2 && !st && k < 2 * (h + 1); k++) {
            out[k] = work[2 * i * n + k] * (T)job->scale;
            st = rt_run_tick(r, k);
        }
    }
    return st ? st : rt_run_spend(r, &r->left, 8 * n * count);
}

static enum rt_status NAME(backward)(const struct kn_real_fft *f, const struct kn_fft_job *job,
                                     int64_t from, int64_t count, T *work, void *rest,
                                     struct rt_run *r)
{
    const int64_t n = f->n, h = n / 2, points = f->plan.n;
    T *const dst = (T *)job->dst + from * job->dst_next;
    struct kn_fft_job step = {.src = work,
                              .dst = dst,
                              .count = count,
                              .src_next = 2 * points,
                              .src_step = 2,
                              .dst_next = job->dst_next,
                              .dst_step = 2,
                              .inverse = true,
                              .scale = job->scale};

    for (int64_t i = 0; i < count; i++) {
        const T *const x = (const T *)job->src + (from + i) * job->src_next;
        T *const z = work + 2 * i * points;
        if (n % 2 == 0) {
            if (NAME(join)(f, x, z, h, r))
                return r->err->code;
            continue;
        }
        z[0] = x[0];
        z[1] = 0;
        for (int64_t k = 1; k <= h; k++) {
            z[2 * k] = z[2 * (n - k)] = x[2 * k];
            z[2 * k + 1] = x[2 * k + 1];
            z[2 * (n - k) + 1] = -x[2 * k + 1];
            if (rt_run_tick(r, k))
                return r->err->code;
        }
    }
    if (n % 2) {
        step.dst = work;
        step.dst_next = 2 * n;
    }
    enum rt_status st = kn_fft_run(&f->plan, &step, rest, r);
    for (int64_t i = 0; n % 2 && i < count; i++)
        for (int64_t k = 0; k < n && !st; k++) {
            dst[i * job->dst_next + k] = work[2 * (i * n + k)];
            st = rt_run_tick(r, k);
        }
    return st ? st : rt_run_spend(r, &r->left, 8 * n * count);
}
