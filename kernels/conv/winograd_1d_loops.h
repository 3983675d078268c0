/* The loops of winograd_1d.c, compiled for one instruction set (see vector_sets.h). */

/*
 * Transforms the inputs of one tile, which are `pixel` floats apart. Only inputs [from, to) lie in
 * the image; the others are zero. `v` receives one vector of ci channels per position of the
 * transform domain, `step` floats apart.
 */
INLINE void LOOPS(tile_in)(const float *src, int64_t pixel, int64_t from, int64_t to, int64_t ci,
                           float *v, int64_t step, const int pairs)
{
    const struct points *t = &points[pairs - 2];
    const int n = 2 * pairs + 2;

    for (int64_t c = 0; c < ci; c += LANES) {
        VEC d[10];
        KN_UNROLL
        for (int i = 0; i < n; i++)
            d[i] = i >= from && i < to ? VLOAD(src + i * pixel + c) : (VEC){0};
        VEC first = d[0] * t->all[0], last = d[1] * t->all[0];
        KN_UNROLL
        for (int i = 1; i <= pairs; i++) {
            first += d[2 * i] * t->all[i];
            last += d[2 * i + 1] * t->all[i];
        }
        VSTORE(v + c, first);
        VSTORE(v + (n - 1) * step + c, last);
        KN_UNROLL
        for (int k = 0; k < pairs; k++) {
            VEC even = d[2] * t->but[k][0], odd = d[1] * t->but[k][0];
            KN_UNROLL
            for (int i = 1; i < pairs; i++) {
                even += d[2 * i + 2] * t->but[k][i];
                odd += d[2 * i + 1] * t->but[k][i];
            }
            odd *= point[k];
            VSTORE(v + (2 * k + 1) * step + c, even + odd);
            VSTORE(v + (2 * k + 2) * step + c, even - odd);
        }
    }
}

INLINE VEC LOOPS(clip)(VEC x, float least, float most)
{
    const VEC low = (VEC){0} + least, high = (VEC){0} + most;
    const BITS below = x<low, above = x> high;
    return (VEC)(((BITS)x & ~below & ~above) | ((BITS)low & below) | ((BITS)high & above));
}

/* Transforms one tile's values in the transform domain, which are `step` floats apart, back to the
 * first `count` outputs of the tile. */
INLINE void LOOPS(tile_out)(const float *p, int64_t step, int64_t co, float *y, int64_t pixel,
                            int64_t count, const struct kn_winograd_1d_post_ops *post_ops,
                            const int pairs)
{
    for (int64_t c = 0; c < co; c += LANES) {
        const VEC shift = post_ops->shift ? VLOAD(post_ops->shift + c) : (VEC){0};
        VEC out[KN_WINOGRAD_1D_TILE];
        out[0] = VLOAD(p + c) + shift;
        out[1] = out[2] = shift;
        out[3] = VLOAD(p + (2 * pairs + 1) * step + c) + shift;
        KN_UNROLL
        for (int k = 0; k < pairs; k++) {
            const VEC a = VLOAD(p + (2 * k + 1) * step + c);
            const VEC b = VLOAD(p + (2 * k + 2) * step + c), sum = a + b, apart = a - b;
            const float z = point[k];
            out[0] += sum;
            out[1] += apart * z;
            out[2] += sum * (z * z);
            out[3] += apart * (z * z * z);
        }
        KN_UNROLL
        for (int i = 0; i < KN_WINOGRAD_1D_TILE; i++)
            if (i < count)
                VSTORE(y + i * pixel + c, post_ops->clips
                                              ? LOOPS(clip)(out[i], post_ops->least, post_ops->most)
                                              : out[i]);
    }
}

TARGET static void LOOPS(input)(int taps, const float *src, int64_t pixel, int64_t from, int64_t to,
                                int64_t ci, float *v, int64_t step)
{
    if (taps == 7)
        LOOPS(tile_in)(src, pixel, from, to, ci, v, step, 4);
    else if (taps == 5)
        LOOPS(tile_in)(src, pixel, from, to, ci, v, step, 3);
    else
        LOOPS(tile_in)(src, pixel, from, to, ci, v, step, 2);
}

TARGET static void LOOPS(output)(int taps, const float *p, int64_t step, int64_t co, float *y,
                                 int64_t pixel, int64_t count,
                                 const struct kn_winograd_1d_post_ops *post_ops)
{
    if (taps == 7)
        LOOPS(tile_out)(p, step, co, y, pixel, count, post_ops, 4);
    else if (taps == 5)
        LOOPS(tile_out)(p, step, co, y, pixel, count, post_ops, 3);
    else
        LOOPS(tile_out)(p, step, co, y, pixel, count, post_ops, 2);
}

static const struct kn_winograd_1d_loops LOOPS(loops) = {LOOPS(input), LOOPS(output)};
