#include "kernels/cuda/driver/pacing.h"

#include <stddef.h>

enum {
    /* After the time for which the thread asks all the time, it sleeps for 1/PARTS of the time that
     * it has waited. */
    PARTS = 64,
    LONGEST_NS = 10000000,
    /* Linux wakes a thread up to about this much later than the thread asked for. A shorter sleep
     * gains nothing. */
    LATENESS_NS = 60000,
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void cuda_pacing_add(struct cuda_pacing *p, int64_t busy_ns)
{
    p->busy_ns[p->next] = busy_ns;
    p->next = (p->next + 1) % PACING_RUNS;
}

/* Returns how long the work is expected to take at least. A thread that finds the work done when it
 * wakes knows only when the work was still busy, so each run counts with the time before the thread
 * slept for the last time. If the expectation is too long, it thus becomes shorter at once. */
static int64_t expected_ns(const struct cuda_pacing *p)
{
    int64_t ns = p->busy_ns[0];
    for (int k = 1; k < PACING_RUNS; k++)
        ns = least(ns, p->busy_ns[k]);
    return ns;
}

int64_t cuda_pacing_sleep(const struct cuda_pacing *p, int64_t waited_ns)
{
    const int64_t expected = p ? expected_ns(p) : 0;
    const int64_t spin_from = expected - least(expected / 4, PACING_SPIN_NS);
    const int64_t sleep = spin_from - LATENESS_NS - waited_ns;
    if (sleep >= LATENESS_NS)
        return least(sleep, LONGEST_NS);
    if (waited_ns < expected + PACING_SPIN_NS)
        return 0;
    return least(waited_ns / PARTS, LONGEST_NS);
}
