/* Reads the header of a WAV file. All samples that it finds must lie within the file. */
#include <stdlib.h>

#include "kernels/signal/wav.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct kn_wav wav;

    if (kn_wav_read(rt_span_of(data, size), &wav, &err)) {
        if (!err.code)
            abort();
        return;
    }
    if (wav.channels < 1 || wav.frames < 0 || wav.samples < data ||
        wav.frames * wav.channels > (data + size - wav.samples) / 2)
        abort();
}
