/* The loops of winograd.c, compiled for one instruction set (see vector_sets.h). */

/* ---- transforms along one axis ---- */

INLINE void LOOPS(in4)(VEC *d)
{
    const VEC even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
    const VEC even1 = d[4] - d[2], odd2 = 2.0f * (d[3] - d[1]);
    d[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
    d[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = even1 + odd2;
    d[4] = even1 - odd2;
}

INLINE void LOOPS(in2)(VEC *d)
{
    const VEC d1 = d[1], d2 = d[2];
    d[0] = d[0] - d2;
    d[1] = d1 + d2;
    d[2] = d2 - d1;
    d[3] = d1 - d[3];
}

INLINE void LOOPS(out4)(const VEC *p, VEC *y)
{
    const VEC s1 = p[1] + p[2], d1 = p[1] - p[2], s2 = p[3] + p[4], d2 = p[3] - p[4];
    y[0] = p[0] + s1 + s2;
    y[1] = d1 + 2.0f * d2;
    y[2] = s1 + 4.0f * s2;
    y[3] = d1 + 8.0f * d2 + p[5];
}

INLINE void LOOPS(out2)(const VEC *p, VEC *y)
{
    y[0] = p[0] + p[1] + p[2];
    y[1] = p[1] - p[2] - p[3];
}

/* ---- tiles ---- */

/* Transforms the a x a inputs of one tile, whose rows are `row` floats apart and whose pixels are
 * ci floats apart. `v` receives one vector of ci channels for each of the a * a positions of the
 * transform domain, `step` floats apart. */
INLINE void LOOPS(tile_in)(const float *src, int64_t row, int64_t ci, float *v, int64_t step,
                           const int a)
{
    for (int64_t c = 0; c < ci; c += LANES) {
        VEC t[6][6];
        for (int j = 0; j < a; j++) {
            VEC d[6];
            for (int i = 0; i < a; i++)
                d[i] = VLOAD(src + i * row + j * ci + c);
            if (a == 6)
                LOOPS(in4)(d);
            else
                LOOPS(in2)(d);
            for (int i = 0; i < a; i++)
                t[i][j] = d[i];
        }
        for (int i = 0; i < a; i++) {
            if (a == 6)
                LOOPS(in4)(t[i]);
            else
                LOOPS(in2)(t[i]);
            for (int j = 0; j < a; j++)
                VSTORE(v + (i * a + j) * step + c, t[i][j]);
        }
    }
}

/* Transforms one tile's values in the transform domain, which are `step` floats apart, back to
 * outputs y [m, m, co], whose rows are `row` floats apart. */
INLINE void LOOPS(tile_out)(const float *p, int64_t step, int64_t co, float *y, int64_t row,
                            const int m)
{
    const int a = m + 2;
    for (int64_t c = 0; c < co; c += LANES) {
        VEC t[4][6];
        for (int j = 0; j < a; j++) {
            VEC d[6], e[4];
            for (int i = 0; i < a; i++)
                d[i] = VLOAD(p + (i * a + j) * step + c);
            if (m == 4)
                LOOPS(out4)(d, e);
            else
                LOOPS(out2)(d, e);
            for (int i = 0; i < m; i++)
                t[i][j] = e[i];
        }
        for (int i = 0; i < m; i++) {
            VEC e[4];
            if (m == 4)
                LOOPS(out4)(t[i], e);
            else
                LOOPS(out2)(t[i], e);
            for (int j = 0; j < m; j++)
                VSTORE(y + i * row + j * co + c, e[j]);
        }
    }
}

TARGET static void LOOPS(input)(int m, const float *src, int64_t row, int64_t ci, float *v,
                                int64_t step)
{
    if (m == 4)
        LOOPS(tile_in)(src, row, ci, v, step, 6);
    else
        LOOPS(tile_in)(src, row, ci, v, step, 4);
}

TARGET static void LOOPS(output)(int m, const float *p, int64_t step, int64_t co, float *y,
                                 int64_t row)
{
    if (m == 4)
        LOOPS(tile_out)(p, step, co, y, row, 4);
    else
        LOOPS(tile_out)(p, step, co, y, row, 2);
}

static const struct kn_winograd_loops LOOPS(loops) = {LOOPS(input), LOOPS(output)};
