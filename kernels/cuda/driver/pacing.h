/*
 * How a thread paces its questions to the driver while it waits for work on a GPU. The driver has
 * no wait that ends when a GPU hangs, so the thread asks repeatedly. It sleeps until shortly before
 * the work is expected to end, then asks all the time for at most twice PACING_SPIN_NS, and then
 * sleeps for increasing times.
 *
 * Owner: the caller. Threads: the thread that waits. No function reads a clock or sleeps.
 */
#ifndef KC_PACING_H
#define KC_PACING_H

#include <stdint.h>

enum { PACING_RUNS = 4, PACING_SPIN_NS = 100000 };

/* How long the last runs of the same work took. Zero before the first run. */
struct cuda_pacing {
    int64_t busy_ns[PACING_RUNS];
    int next; /* index of the oldest element of busy_ns */
};

/* Adds a run. The work was not done yet `busy_ns` after the beginning of the wait. */
void cuda_pacing_add(struct cuda_pacing *p, int64_t busy_ns);
/* Returns how long a thread that has waited for `waited_ns` sleeps before it asks again, or 0 if it
 * asks at once. `p` is NULL if nothing is known about the work. */
int64_t cuda_pacing_sleep(const struct cuda_pacing *p, int64_t waited_ns);

#endif
