/* Device code of strided copies. Each thread copies elements one at a time. */
#include "kernels/cuda/device/copy.h"
#include "kernels/cuda/device/device_code.h"

KC_KERNEL(kc_copy, kc_copy, args)
{
    for (int64_t i = KC_INDEX; i < args.n; i += KC_TOTAL) {
        int64_t left = i, to = 0, from = 0;
        for (int k = args.rank - 1; k >= 0; k--) {
            const int64_t at = left % args.dim[k];
            left /= args.dim[k];
            to += at * args.dst[k];
            from += at * args.src[k];
        }
        KC_ADDRESS(args.to)[to] = args.from ? KC_ADDRESS(args.from)[from] : 0;
    }
}
