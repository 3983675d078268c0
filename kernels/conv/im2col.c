#include "kernels/conv/im2col.h"

#include <string.h>

#include "kernels/cpu/parallel.h"

void kn_im2col_row(const struct kn_im2col *s, const void *image, int64_t y, int64_t x, int64_t from,
                   int64_t to, void *dst)
{
    const struct kn_axis *ay = &s->y, *ax = &s->x;
    const int64_t ci = s->ci, run = s->taps * ci, first = from / run * s->taps;
    int64_t i = first / ax->size, j = first % ax->size, at = from % run, left = to - from;
    char *d = dst;

    while (left > 0) {
        const int64_t n = kn_min_i64(run - at, left);
        const int64_t sy = y + i * ay->dilation, sx = x + j * ax->dilation;
        int64_t lo = n, hi = n; /* the range of terms that lie inside the image */
        if (sy >= 0 && sy < ay->in && sx > -s->taps && sx < ax->in) {
            lo = sx < 0 ? -sx * ci - at : 0;
            lo = lo < 0 ? 0 : kn_min_i64(lo, n);
            hi = ax->in - sx < s->taps ? (ax->in - sx) * ci - at : n;
            hi = hi < lo ? lo : kn_min_i64(hi, n);
        }
        if (lo)
            memset(d, 0, (size_t)lo * s->size);
        if (hi > lo)
            memcpy(d + (size_t)lo * s->size,
                   (const char *)image + ((sy * ax->in + sx) * ci + at + lo) * (int64_t)s->size,
                   (size_t)(hi - lo) * s->size);
        if (n > hi)
            memset(d + (size_t)hi * s->size, 0, (size_t)(n - hi) * s->size);
        d += (size_t)n * s->size;
        left -= n;
        at = 0;
        j += s->taps;
        if (j >= ax->size) {
            j = 0;
            i++;
        }
    }
}
