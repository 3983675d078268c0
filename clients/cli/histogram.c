#include "clients/cli/histogram.h"

#include <math.h>

/* Returns the bucket of a duration. Each value from 0 to 127 has its own bucket. Above 127, each
 * range [2^k, 2^(k+1)) has 64 buckets of equal width. */
static int bucket_of(uint64_t v)
{
    int shift = 0;
    while (v >> shift >= CL_HISTOGRAM_STEPS)
        shift++;
    int i = shift * (CL_HISTOGRAM_STEPS / 2) + (int)(v >> shift);
    return i < CL_HISTOGRAM_BUCKETS ? i : CL_HISTOGRAM_BUCKETS - 1;
}

static uint64_t last_of(int i)
{
    int half = CL_HISTOGRAM_STEPS / 2;
    if (i < CL_HISTOGRAM_STEPS)
        return (uint64_t)i;
    int shift = i / half - 1;
    return ((uint64_t)(i - shift * half + 1) << shift) - 1;
}

static uint64_t get(const _Atomic uint64_t *p)
{
    return atomic_load_explicit(p, memory_order_relaxed);
}

static void put(_Atomic uint64_t *p, uint64_t v)
{
    atomic_store_explicit(p, v, memory_order_relaxed);
}

void cl_histogram_add(struct cl_histogram *h, int64_t ns)
{
    uint64_t v = ns < 0 ? 0 : (uint64_t)ns;
    _Atomic uint64_t *b = &h->bucket[bucket_of(v)];
    put(b, get(b) + 1);
    put(&h->n, get(&h->n) + 1);
    put(&h->sum_ns, get(&h->sum_ns) + v);
    if (v > get(&h->max_ns))
        put(&h->max_ns, v);
}

void cl_histogram_merge(struct cl_histogram *dst, const struct cl_histogram *src)
{
    for (int i = 0; i < CL_HISTOGRAM_BUCKETS; i++)
        put(&dst->bucket[i], get(&dst->bucket[i]) + get(&src->bucket[i]));
    put(&dst->n, get(&dst->n) + get(&src->n));
    put(&dst->sum_ns, get(&dst->sum_ns) + get(&src->sum_ns));
    if (get(&src->max_ns) > get(&dst->max_ns))
        put(&dst->max_ns, get(&src->max_ns));
}

int64_t cl_histogram_quantile(const struct cl_histogram *h, double q)
{
    uint64_t n = 0, seen = 0;
    for (int i = 0; i < CL_HISTOGRAM_BUCKETS; i++)
        n += get(&h->bucket[i]);
    if (!n)
        return 0;
    uint64_t want = (uint64_t)ceil(q * (double)n);
    if (want < 1)
        want = 1;
    for (int i = 0; i < CL_HISTOGRAM_BUCKETS; i++)
        if ((seen += get(&h->bucket[i])) >= want) {
            uint64_t last = last_of(i), max = get(&h->max_ns);
            return (int64_t)(last < max ? last : max);
        }
    return (int64_t)get(&h->max_ns);
}

double cl_histogram_mean(const struct cl_histogram *h)
{
    uint64_t n = get(&h->n);
    return n ? (double)get(&h->sum_ns) / (double)n : 0;
}
