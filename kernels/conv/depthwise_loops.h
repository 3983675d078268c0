/* The loops of depthwise.c, compiled for one instruction set (see vector_sets.h). */

/* ---- activations: NaN stays NaN ---- */

INLINE VEC LOOPS(relu)(VEC x)
{
    return (VEC)((BITS)x & ~(BITS)(x < 0.0f));
}

INLINE VEC LOOPS(relu6)(VEC x)
{
    const VEC v = LOOPS(relu)(x), six = (VEC){0} + 6.0f;
    return LOOPS(select)((BITS)(v > six), six, v);
}

/* Returns x * sigmoid(alpha * x), with the arithmetic of kn_sigmoid_f32. */
INLINE VEC LOOPS(swish)(VEC x, float alpha)
{
    const VEC z = x * -alpha, t = z * KN_LOG2_E + KN_ROUNDER, k = t - KN_ROUNDER;
    const VEC r = (z - k * KN_LN2_HIGH) - k * KN_LN2_LOW;
    VEC p;
    KN_EXP_POLYNOMIAL(p, r);
    const VEC e = (r + r * r * p) + 1.0f;
    const VEC y = (VEC)((BITS)e + ((BITS)t << 23));
    const VEC not_tiny = (VEC)((BITS)y & ~(BITS)(z < KN_EXP_LEAST));
    return x / (LOOPS(select)((BITS)(z < KN_EXP_MOST), not_tiny, z + INFINITY) + 1.0f);
}

/* ---- one vector of channels ---- */

/*
 * Computes PIXELS neighbouring outputs from `rows` rows of the window, and writes the first `n` of
 * them. `x` points to the start of the first window in the first row. If `edge` is set, only
 * columns [from, to), counted from x, lie in the image. Otherwise all columns of the windows do.
 */
INLINE void LOOPS(block)(const struct kn_depthwise *d, const float *x, const float *w, float *y,
                         VEC shift, int64_t rows, int64_t from, int64_t to, int64_t n,
                         const int size, const int stride, const bool edge)
{
    const int64_t pixel = d->channels, row = d->x.in * pixel * d->y.dilation;
    VEC sum[PIXELS];

    KN_UNROLL
    for (int i = 0; i < PIXELS; i++)
        sum[i] = shift;
    for (int64_t j = 0; j < rows; j++, x += row, w += size * pixel) {
        VEC tap[5];
        KN_UNROLL
        for (int k = 0; k < size; k++)
            tap[k] = VLOAD(w + k * pixel);
        KN_UNROLL
        for (int i = 0; i < (PIXELS - 1) * stride + size; i++) {
            if (edge && (i < from || i >= to))
                continue;
            const VEC v = VLOAD(x + i * pixel);
            KN_UNROLL
            for (int k = 0; k < size; k++)
                if (i >= k && (i - k) % stride == 0 && (i - k) / stride < PIXELS)
                    sum[(i - k) / stride] += v * tap[k];
        }
    }
    if (d->act == RT_ACT_RELU) {
        KN_UNROLL
        for (int i = 0; i < PIXELS; i++)
            sum[i] = LOOPS(relu)(sum[i]);
    } else if (d->act == RT_ACT_RELU6) {
        KN_UNROLL
        for (int i = 0; i < PIXELS; i++)
            sum[i] = LOOPS(relu6)(sum[i]);
    }
    KN_UNROLL
    for (int i = 0; i < PIXELS; i++)
        if (!edge || i < n)
            VSTORE(y + i * pixel, sum[i]);
    if (d->act == RT_ACT_SWISH)
        for (int64_t i = 0; i < n; i++)
            VSTORE(y + i * pixel, LOOPS(swish)(VLOAD(y + i * pixel), d->alpha));
}

/* ---- channels [first, last) of a row of outputs ---- */

/* Implements kn_depthwise_row_fn for windows of `size` columns and a stride of `stride`. */
INLINE void LOOPS(row)(const struct kn_depthwise *d, const float *x, const float *w,
                       const float *shift, float *y, int64_t rows, int64_t first, int64_t last,
                       const int size, const int stride)
{
    const int wide = (PIXELS - 1) * stride + size;
    const int64_t pixel = d->channels, out = d->x.out;

    for (int64_t i = 0; i < out; i += PIXELS) {
        /* In a row of more than PIXELS outputs, the last block begins early enough to have full
         * width. Some outputs are then computed twice. */
        const int64_t at = out - i < PIXELS && out > PIXELS ? out - PIXELS : i;
        const int64_t n = out - at < PIXELS ? out - at : PIXELS;
        const int64_t start = at * stride - d->x.lo, from = start < 0 ? -start : 0;
        const int64_t to = d->x.in - start;
        const bool edge = from > 0 || to < wide || n < PIXELS;
        for (int64_t c = first; c < last; c += LANES) {
            /* the last vector overlaps the previous one */
            const int64_t k = last - c < LANES ? last - LANES : c;
            const VEC zero = shift ? VLOAD(shift + k) : (VEC){0};
            const float *xk = x + start * pixel + k, *wk = w + k;
            float *yk = y + at * pixel + k;
            if (edge)
                LOOPS(block)(d, xk, wk, yk, zero, rows, from, to, n, size, stride, true);
            else
                LOOPS(block)(d, xk, wk, yk, zero, rows, 0, wide, PIXELS, size, stride, false);
        }
    }
}

#define ROW(size, stride)                                                                          \
    TARGET static void LOOPS(row_##size##_##stride)(const struct kn_depthwise *d, const float *x,  \
                                                    const float *w, const float *shift, float *y,  \
                                                    int64_t rows, int64_t first, int64_t last)     \
    {                                                                                              \
        LOOPS(row)(d, x, w, shift, y, rows, first, last, size, stride);                            \
    }
ROW(3, 1)
ROW(3, 2)
ROW(5, 1)
ROW(5, 2)

static const struct kn_depthwise_loops LOOPS(loops) = {
    LANES, {{LOOPS(row_3_1), LOOPS(row_3_2)}, {LOOPS(row_5_1), LOOPS(row_5_2)}}};

#undef ROW
