#include "kernels/cuda/device/gather.h"
#include "kernels/cuda/device/device_code.h"

enum { THREADS = 256 };

KC_DEVICE int64_t index_at(const struct kc_gather *a, int64_t i)
{
    return a->is_long ? ((const int64_t *)KC_ADDRESS(a->index))[i]
                      : ((const int32_t *)KC_ADDRESS(a->index))[i];
}

/* Reports the first index that is out of range, unless an earlier step has reported a fault. */
KC_DEVICE void check(const struct kc_gather *a)
{
    KC_SHARED(int64_t, first, THREADS);
    const int64_t n = a->n_batch * a->n_index;
    struct kc_fault *fault = KC_ADDRESS(a->fault);
    int64_t at = n;
    for (int64_t i = KC_THREAD; i < n && at == n; i += KC_BLOCK_THREADS)
        if (index_at(a, i) < 0 || index_at(a, i) >= a->limit)
            at = i;
    first[KC_THREAD] = at;
    KC_BARRIER();
    if (KC_THREAD != 0)
        return;
    for (int t = 1; t < KC_BLOCK_THREADS; t++)
        at = first[t] < at ? first[t] : at;
    if (at < n && fault->step == 0) {
        fault->position = at;
        fault->value = index_at(a, at);
        fault->step = a->step;
    }
}

KC_KERNEL(kc_gather, kc_gather, args)
{
    if (args.step) {
        if (KC_BLOCK == 0)
            check(&args);
        return;
    }
    const int64_t n = args.n_batch * args.outer * args.n_index * args.inner;
    for (int64_t i = KC_INDEX; i < n; i += KC_TOTAL) {
        const int64_t slice = i / args.inner, row = slice / args.n_index;
        const int64_t at = index_at(&args, row / args.outer * args.n_index + slice % args.n_index);
        KC_ADDRESS(args.out)
        [i] = at < 0 || at >= args.limit
                  ? 0
                  : KC_ADDRESS(args.params)[(row * args.limit + at) * args.inner + i % args.inner];
    }
}
