/*
 * Measures the core's peak arithmetic speed in float32, in GFLOP/s, using independent fused
 * multiply-adds on the widest vectors that the core supports. `peak [MS]` runs short rounds for MS
 * milliseconds of the thread's CPU time and prints the result of the best round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CHAINS must exceed the latency of an FMA in cycles times the number of FMA units, so that no unit
 * waits. CHAINS must also be less than the number of vector registers. */
enum { CHAINS = 12, STEPS = 100000 };

static volatile float sink;

#if defined(__x86_64__)
#include <immintrin.h>

#define ROUND(name, isa, vector, width, set, fma, store)                                           \
    __attribute__((target(isa))) static int name(void)                                             \
    {                                                                                              \
        vector a[CHAINS], x = set(0.999f), y = set(0.001f);                                        \
        float out[width];                                                                          \
        for (int c = 0; c < CHAINS; c++)                                                           \
            a[c] = set((float)c);                                                                  \
        for (int i = 0; i < STEPS; i++)                                                            \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) a[c] = fma(a[c], x, y);      \
        for (int c = 0; c < CHAINS; c++) {                                                         \
            store(out, a[c]);                                                                      \
            sink = out[0];                                                                         \
        }                                                                                          \
        return width;                                                                              \
    }
ROUND(round_512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
ROUND(round_256, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
#endif

typedef float four __attribute__((vector_size(16)));

static int round_128(void)
{
    four a[CHAINS];
    const four x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f, 0.001f, 0.001f, 0.001f};
    for (int c = 0; c < CHAINS; c++)
        a[c] = x * (float)c;
    for (int i = 0; i < STEPS; i++)
        for (int c = 0; c < CHAINS; c++)
            a[c] = a[c] * x + y;
    for (int c = 0; c < CHAINS; c++)
        sink = a[c][0];
    return 4;
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const double until = cpu_s() + (argc > 1 ? strtod(argv[1], NULL) : 200) / 1e3;
    int (*measured)(void) = round_128;
    double best = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        measured = round_512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        measured = round_256;
#endif
    do {
        const double start = cpu_s();
        const int lanes = measured();
        const double gflops = 2.0 * CHAINS * STEPS * lanes / (cpu_s() - start) / 1e9;
        if (gflops > best)
            best = gflops;
    } while (cpu_s() < until);
    printf("%.1f\n", best);
    return 0;
}
