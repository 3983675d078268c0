#include "tests/support/draw.h"

#include "tests/support/test.h"

static uint32_t seed = 7;

static uint32_t next(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

float draw(void)
{
    return (float)next() / (1 << 23) - 1;
}

int64_t draw_below(int64_t n)
{
    return (int64_t)next() % n;
}

float *draw_floats(int64_t n)
{
    void *p = NULL;

    assert_int_equal(posix_memalign(&p, 64, (size_t)(n + !n) * sizeof(float)), 0);
    for (int64_t i = 0; i < n; i++)
        ((float *)p)[i] = draw();
    return p;
}
